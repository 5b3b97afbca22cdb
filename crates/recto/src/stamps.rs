//! The stamps of writes: a clock that never goes back.

use std::sync::atomic::{AtomicI64, Ordering};

use recto_model::Environment;
use recto_store::Stamp;

/// Gives stamps that rise.
#[derive(Debug)]
pub(crate) struct Stamps {
    environment: Environment,
    last: AtomicI64,
}

impl Stamps {
    /// Stamps after `newest`, if the store knows what it was given last.
    pub(crate) fn after(newest: Option<Stamp>, environment: Environment) -> Self {
        Self {
            environment,
            last: AtomicI64::new(newest.map_or(0, |stamp| stamp.0)),
        }
    }

    /// A stamp that is now, and greater than any this process has given before and any the store says it
    /// was given: a clock that was set back makes no write older than what it is to replace.
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

    /// Gives none up to `used` any more: who has a run of stamps gave them itself.
    pub(crate) fn skip_to(&self, used: Stamp) {
        self.last.fetch_max(used.0, Ordering::Relaxed);
    }
}
