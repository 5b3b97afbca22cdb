//! Write timestamps that always increase, even if the clock is set back.

use std::sync::atomic::{AtomicI64, Ordering};

use recto_model::Environment;
use recto_store::Stamp;

/// Source of increasing write timestamps.
#[derive(Debug)]
pub(crate) struct Stamps {
    environment: Environment,
    last: AtomicI64,
}

impl Stamps {
    /// Creates a source whose timestamps are greater than `newest`, the newest timestamp that the
    /// store reports, if any.
    pub(crate) fn after(newest: Option<Stamp>, environment: Environment) -> Self {
        Self {
            environment,
            last: AtomicI64::new(newest.map_or(0, |stamp| stamp.0)),
        }
    }

    /// Returns the current time as a timestamp in microseconds. The timestamp is greater than every timestamp
    /// that this process returned before, and than the newest timestamp that the store reported. A write is
    /// therefore never older than the data that it replaces, even if the clock was set back.
    pub(crate) fn next(&self) -> Stamp {
        let now = self.environment.now_micros();
        let previous = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(now.max(last.saturating_add(1)))
            })
            .expect("the update always gives a value");
        Stamp(now.max(previous.saturating_add(1)))
    }

    /// Reserves all timestamps up to `used`, for a caller that assigned a range of timestamps itself.
    pub(crate) fn skip_to(&self, used: Stamp) {
        self.last.fetch_max(used.0, Ordering::Relaxed);
    }
}
