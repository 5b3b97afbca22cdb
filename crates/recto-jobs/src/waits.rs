//! Segments in which there is nothing to do yet: where this process alone makes changes they are passed over, and not read again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recto_protocol::queues::{Head, Micros, Segment};

/// Segments of a shard that are known to be so. Few bytes of each: it is known of all that are live, whatever else is forgotten.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Sealed ones, and until when nothing of them is due: looks pass them over.
    until: BTreeMap<Segment, Micros>,
    /// Those of which no message was received so often: the upkeep passes them over.
    keeping: BTreeMap<Segment, u16>,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is to be done there until then, unless its state changes.
    pub(crate) fn learn(&self, segment: Segment, until: Micros) {
        self.lock().until.insert(segment, until);
    }

    /// No message of it was received so often, unless its state changes.
    pub(crate) fn learn_keeps_all(&self, segment: Segment, attempts: u16) {
        self.lock().keeping.insert(segment, attempts);
    }

    /// Its state changes, or may.
    pub(crate) fn forget(&self, segment: Segment) {
        let mut known = self.lock();
        known.until.remove(&segment);
        known.keeping.remove(&segment);
    }

    /// Until when nothing is to be done there, if that is later than `now`.
    pub(crate) fn after(&self, segment: Segment, now: Micros) -> Option<Micros> {
        let until = self.lock().until.get(&segment).copied();
        until.filter(|until| *until > now)
    }

    /// Whether no message of it was received so often, and none is on its way elsewhere.
    pub(crate) fn keeps_all(&self, segment: Segment, attempts: u16) -> bool {
        let known = self.lock();
        let keeping = known.keeping.get(&segment);
        keeping.is_some_and(|looked_for| *looked_for <= attempts)
    }

    /// Forgets what is not live any more.
    pub(crate) fn prune(&self, head: &Head) {
        let mut known = self.lock();
        known.until.retain(|segment, _| head.live().contains_key(segment));
        known
            .keeping
            .retain(|segment, _| head.live().contains_key(segment));
    }
}
