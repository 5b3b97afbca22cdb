//! Segments that need no work until some time. If no other process makes changes, polls and
//! maintenance skip and do not read such segments.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recto_protocol::queues::{Head, Micros, Segment};

/// Segments of a shard that polls or maintenance skip. An entry takes few bytes, so each live segment can
/// have one, even if its other cached data was dropped.
#[derive(Default)]
pub(crate) struct IdleSegments(Mutex<IdleRecords>);

#[derive(Default)]
struct IdleRecords {
    /// Sealed segments, each with the time until which no message is due. Polls skip these segments
    /// until then.
    not_due_until: BTreeMap<Segment, Micros>,
    /// Segments, each with a number of attempts that none of its messages has reached. The
    /// maintenance skips these segments.
    without_moves: BTreeMap<Segment, u16>,
}

impl IdleSegments {
    fn lock(&self) -> MutexGuard<'_, IdleRecords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that no message of the segment is due until the time `until`. The record is valid
    /// until the segment's state changes.
    pub(crate) fn record_not_due(&self, segment: Segment, until: Micros) {
        self.lock().not_due_until.insert(segment, until);
    }

    /// Records that no message of the segment was received `attempts` times, and none is being
    /// moved. The record is valid until the state of the segment changes.
    pub(crate) fn record_without_moves(&self, segment: Segment, attempts: u16) {
        self.lock().without_moves.insert(segment, attempts);
    }

    /// Removes the record that the segment needs no work, because its state changes or may change.
    pub(crate) fn forget(&self, segment: Segment) {
        let mut records = self.lock();
        records.not_due_until.remove(&segment);
        records.without_moves.remove(&segment);
    }

    /// Returns the time until which no message of the segment is due, if it is recorded and later than `now`.
    pub(crate) fn not_due_until(&self, segment: Segment, now: Micros) -> Option<Micros> {
        let until = self.lock().not_due_until.get(&segment).copied();
        until.filter(|until| *until > now)
    }

    /// Returns whether it is recorded that the maintenance has no message to move in the segment: none was
    /// received `attempts` times, and none is being moved.
    pub(crate) fn is_without_moves(&self, segment: Segment, attempts: u16) -> bool {
        let records = self.lock();
        let without_moves = records.without_moves.get(&segment);
        without_moves.is_some_and(|looked_for| *looked_for <= attempts)
    }

    /// Removes the records of segments that are no longer live.
    pub(crate) fn prune(&self, head: &Head) {
        let mut records = self.lock();
        records
            .not_due_until
            .retain(|segment, _| head.live().contains_key(segment));
        records
            .without_moves
            .retain(|segment, _| head.live().contains_key(segment));
    }
}
