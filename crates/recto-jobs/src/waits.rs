//! Segments without work to do yet. A process that alone makes changes skips these segments and does not read them
//! again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recto_protocol::queues::{Head, Micros, Segment};

/// Segments of a shard without work to do yet. An entry takes few bytes, so there may be one for each live segment,
/// even if the process forgets other data of the segment.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Sealed segments, each with the time until which no message is due. Polls skip them.
    until: BTreeMap<Segment, Micros>,
    /// Segments, each with a number of attempts that no message has reached. The maintenance skips them.
    keeping: BTreeMap<Segment, u16>,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the segment has no work until a time, unless its state changes.
    pub(crate) fn learn(&self, segment: Segment, until: Micros) {
        self.lock().until.insert(segment, until);
    }

    /// Records that no message of the segment was received `attempts` times, unless the state of the segment changes.
    pub(crate) fn learn_keeps_all(&self, segment: Segment, attempts: u16) {
        self.lock().keeping.insert(segment, attempts);
    }

    /// Forgets the segment, because its state changes or may change.
    pub(crate) fn forget(&self, segment: Segment) {
        let mut known = self.lock();
        known.until.remove(&segment);
        known.keeping.remove(&segment);
    }

    /// Returns the time until which the segment has no work, if that is later than `now`.
    pub(crate) fn after(&self, segment: Segment, now: Micros) -> Option<Micros> {
        let until = self.lock().until.get(&segment).copied();
        until.filter(|until| *until > now)
    }

    /// Returns whether no message of the segment was received `attempts` times, and none is leaving.
    pub(crate) fn keeps_all(&self, segment: Segment, attempts: u16) -> bool {
        let known = self.lock();
        let keeping = known.keeping.get(&segment);
        keeping.is_some_and(|looked_for| *looked_for <= attempts)
    }

    /// Forgets segments that are no longer live.
    pub(crate) fn prune(&self, head: &Head) {
        let mut known = self.lock();
        known.until.retain(|segment, _| head.live().contains_key(segment));
        known
            .keeping
            .retain(|segment, _| head.live().contains_key(segment));
    }
}
