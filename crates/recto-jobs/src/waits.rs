//! Sealed segments of which nothing is due yet: where this process alone makes changes a look passes them over, and does not
//! read them again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recto_queue::{Head, Micros, Segment};

/// Until when there is nothing to do in segments, of those of a shard that are known to be so. Few bytes of each: it is known of
/// all that are live, whatever else is forgotten.
#[derive(Default)]
pub(crate) struct Waits(Mutex<BTreeMap<Segment, Micros>>);

impl Waits {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Segment, Micros>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is to be done there until then, unless its state changes.
    pub(crate) fn learn(&self, segment: Segment, until: Micros) {
        self.lock().insert(segment, until);
    }

    /// Its state changes, or may.
    pub(crate) fn forget(&self, segment: Segment) {
        self.lock().remove(&segment);
    }

    /// Until when nothing is to be done there, if that is later than `now`.
    pub(crate) fn after(&self, segment: Segment, now: Micros) -> Option<Micros> {
        self.lock().get(&segment).copied().filter(|until| *until > now)
    }

    /// Forgets what is not live any more.
    pub(crate) fn prune(&self, head: &Head) {
        self.lock().retain(|segment, _| head.live().contains_key(segment));
    }
}
