//! Segments: groups of intents (notes of pending changes) of one process. A process fills one
//! segment after the other, and deletes each segment as a whole. So one tombstone deletes the
//! intents of thousands of writes.

use std::collections::BTreeMap;

use crate::views::rules::{Rule, Rules};

/// Maximum number of intents (notes of pending changes) in a segment.
pub const MAX_SEGMENT_INTENTS: u32 = 4_096;
/// Maximum number of segments (groups of intents) of a process that are not deleted. At the limit,
/// the process opens no new segment. When its open segment is full, its writes wait.
pub const MAX_SEGMENTS: usize = 1_024;
/// Time between the first and the second resolution of a dead process's pending changes, in
/// seconds: a day.
pub const DEAD_SEGMENT_SECONDS: u64 = 24 * 3600;

/// Position of an intent (note of a pending change) in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IntentPlace {
    /// Id of the segment: a group of intents (pending changes) that are deleted together.
    pub segment: u64,
    /// Index (from 0) of the intent in the segment.
    pub row: u32,
}

/// Segments (groups of intents) of one process, and the number of unsettled intents in each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Segments {
    /// Segments that are not deleted, by id. The open segment is the last one. The stored
    /// registration lists all of them, because other processes find them only through it.
    living: BTreeMap<u64, Segment>,
    open: Option<u64>,
    rules: Rules,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Segment {
    intents: u32,
    unsettled: u32,
    /// True if a renewal succeeded that was sent after all intents (pending changes) of the segment
    /// were settled.
    may_go: bool,
}

/// Segments that a renewal of the registration lists. The caller repeats the renewal with the same
/// list, and passes the list to [`Segments::renewed`] when the renewal succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Naming {
    /// Ids of the listed segments (groups of intents), ascending.
    pub names: Vec<u64>,
    /// Ids of the segments whose intents (pending changes) were all settled, each with its number
    /// of intents.
    settled: Vec<(u64, u32)>,
}

impl Default for Segments {
    fn default() -> Self {
        Self::new(Rules::default())
    }
}

impl Segments {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            living: BTreeMap::new(),
            open: None,
            rules,
        }
    }

    /// Assigns the position of a new intent (note of a pending change); `None` if the open segment
    /// is full. Then the process must first renew its registration, which opens a segment.
    pub fn note(&mut self) -> Option<IntentPlace> {
        let open = self.open?;
        let segment = self.living.get_mut(&open)?;
        if segment.intents == MAX_SEGMENT_INTENTS {
            return None;
        }
        let row = segment.intents;
        segment.intents += 1;
        segment.unsettled += 1;
        Some(IntentPlace { segment: open, row })
    }

    /// Returns whether the open segment is at least half full, so that the process should renew its
    /// registration early.
    pub fn is_half_full(&self) -> bool {
        let open = self.open.and_then(|open| self.living.get(&open));
        open.is_none_or(|segment| segment.intents >= MAX_SEGMENT_INTENTS / 2)
    }

    /// Records that an intent (pending change) is completed.
    pub fn settle(&mut self, place: IntentPlace) {
        if let Some(segment) = self.living.get_mut(&place.segment) {
            segment.unsettled = segment.unsettled.saturating_sub(1);
        }
    }

    /// Returns the number of intents (pending changes) that are not completed.
    pub fn unsettled(&self) -> u64 {
        self.living
            .values()
            .map(|segment| u64::from(segment.unsettled))
            .sum()
    }

    /// Returns whether no segment contains intents (pending changes).
    pub fn is_clear(&self) -> bool {
        self.living.values().all(|segment| segment.intents == 0)
    }

    /// Returns the segments that the next renewal of the registration lists. If the open segment
    /// has intents, the list contains a new segment. Until the renewal succeeds, new intents still
    /// get positions in the open segment.
    pub fn renewing(&self) -> Naming {
        let open = self.open.and_then(|open| self.living.get(&open));
        let is_used = open.is_none_or(|segment| segment.intents > 0);
        let next = self.open.map_or(0, |open| open + 1);
        let next = (is_used && self.living.len() < MAX_SEGMENTS).then_some(next);
        let settled = self.living.iter().filter(|(_, segment)| segment.unsettled == 0);
        Naming {
            names: self.living.keys().copied().chain(next).collect(),
            settled: settled
                .map(|(number, segment)| (*number, segment.intents))
                .collect(),
        }
    }

    /// Records that the renewal with the segments in `naming` succeeded. So no other process had
    /// declared this process dead when the renewal was sent.
    pub fn renewed(&mut self, naming: &Naming) {
        let next = naming.names.last().copied();
        if let Some(next) = next.filter(|next| self.open.is_none_or(|open| *next > open)) {
            self.living.insert(next, Segment::default());
            self.open = Some(next);
        }
        for (number, intents) in &naming.settled {
            let closed = self.living.get_mut(number).filter(|_| self.open != Some(*number));
            if let Some(segment) = closed {
                segment.may_go |= segment.intents == *intents;
            }
        }
    }

    /// Returns the ids of the segments that may be deleted: all of their intents are settled, and a
    /// later renewal of the registration succeeded. The caller deletes each segment as a whole, at
    /// the timestamp of its newest intent. After another process declared this process dead, no
    /// renewal succeeds, so the segments stay for the processes that resolve its changes.
    pub fn deletable(&self) -> Vec<u64> {
        let may_go = |segment: &Segment| {
            let is_settled = segment.intents > 0 && segment.unsettled == 0;
            segment.may_go || (is_settled && !self.rules.keeps(Rule::SegmentAfterRenewal))
        };
        let segments = self.living.iter().filter(|(_, segment)| may_go(segment));
        segments.map(|(number, _)| *number).collect()
    }

    /// Records that the caller has deleted a segment (group of intents).
    pub fn deleted(&mut self, segment: u64) {
        self.living.remove(&segment);
    }
}

/// Next step for a segment (group of intents) of a dead process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadSegment {
    /// Resolve each intent (pending change): decide the outcome of its change, and complete the
    /// change.
    Resolve,
    /// Wait until [`DEAD_SEGMENT_SECONDS`] have passed since the first resolution.
    Wait,
    /// Delete the segment with its intents (pending changes).
    Delete,
}

/// Returns the next step for a segment (group of pending changes) of a dead process. All of these
/// changes have been resolved `resolved` times, the first time `waited_seconds` ago.
pub fn dead_segment(resolved: u32, waited_seconds: u64) -> DeadSegment {
    dead_segment_by(resolved, waited_seconds, Rules::default())
}

pub(crate) fn dead_segment_by(resolved: u32, waited_seconds: u64, rules: Rules) -> DeadSegment {
    let twice = rules.keeps(Rule::DeadResolvedTwice);
    match resolved {
        0 => DeadSegment::Resolve,
        1 if twice => match waited_seconds {
            0..DEAD_SEGMENT_SECONDS => DeadSegment::Wait,
            _ => DeadSegment::Resolve,
        },
        _ => DeadSegment::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renew(segments: &mut Segments) -> Vec<u64> {
        let naming = segments.renewing();
        segments.renewed(&naming);
        naming.names
    }

    const fn place(segment: u64, row: u32) -> IntentPlace {
        IntentPlace { segment, row }
    }

    #[test]
    fn intents_stand_in_segments_that_are_named_and_have_room() {
        let mut segments = Segments::default();
        assert!(segments.note().is_none() && segments.is_half_full());
        assert_eq!(renew(&mut segments), [0]);
        assert!(!segments.is_half_full());
        for row in 0..MAX_SEGMENT_INTENTS {
            assert_eq!(segments.note(), Some(place(0, row)));
        }
        assert!(segments.note().is_none() && segments.is_half_full());
        assert_eq!(renew(&mut segments), [0, 1]);
        assert_eq!(segments.note(), Some(place(1, 0)));
    }

    #[test]
    fn intents_have_a_place_while_a_renewal_is_on_its_way() {
        let mut segments = Segments::default();
        renew(&mut segments);
        segments.note();
        let naming = segments.renewing();
        assert_eq!(
            (naming.names.as_slice(), segments.note()),
            (&[0, 1][..], Some(place(0, 1)))
        );
        segments.renewed(&naming);
        assert_eq!(segments.note(), Some(place(1, 0)));
    }

    /// An earlier renewal that succeeds opens no segment that it did not list, and permits no
    /// deletion of segments that were settled later.
    #[test]
    fn a_renewal_stands_for_what_it_said() {
        let mut segments = Segments::default();
        renew(&mut segments);
        let early = segments.renewing();
        let noted = segments.note().unwrap_or_default();
        segments.settle(noted);
        let late = segments.renewing();
        assert_eq!(
            (early.names.as_slice(), late.names.as_slice()),
            (&[0][..], &[0, 1][..])
        );
        segments.renewed(&early);
        assert_eq!(segments.note(), Some(place(0, 1)));
        segments.renewed(&late);
        assert_eq!(segments.note(), Some(place(1, 0)));
        assert!(segments.deletable().is_empty());
        segments.renewed(&early);
        assert_eq!(segments.note(), Some(place(1, 1)));
    }

    #[test]
    fn deletes_segments_settled_before_a_renewal() {
        let mut segments = Segments::default();
        renew(&mut segments);
        let places = [segments.note(), segments.note()].map(Option::unwrap_or_default);
        segments.settle(places[0]);
        renew(&mut segments);
        let naming = segments.renewing();
        segments.settle(places[1]);
        segments.renewed(&naming);
        // Segment 0 was settled only after the renewal in `naming` was sent, so the renewal does
        // not permit its deletion.
        assert!(segments.deletable().is_empty());
        renew(&mut segments);
        assert_eq!(segments.deletable(), [0]);
        segments.deleted(0);
        assert_eq!(renew(&mut segments), [1]);
    }

    #[test]
    fn segments_have_a_limit() {
        let mut segments = Segments::default();
        for _ in 0..2 * MAX_SEGMENTS {
            renew(&mut segments);
            segments.note();
        }
        assert_eq!(renew(&mut segments).len(), MAX_SEGMENTS);
        while segments.note().is_some() {}
        assert_eq!(renew(&mut segments).len(), MAX_SEGMENTS);
        assert_eq!(segments.note(), None);
    }

    #[test]
    fn resolves_intents_of_dead_processes_twice() {
        assert_eq!(dead_segment(0, 0), DeadSegment::Resolve);
        assert_eq!(dead_segment(1, DEAD_SEGMENT_SECONDS - 1), DeadSegment::Wait);
        assert_eq!(dead_segment(1, DEAD_SEGMENT_SECONDS), DeadSegment::Resolve);
        assert_eq!(dead_segment(2, DEAD_SEGMENT_SECONDS), DeadSegment::Delete);
    }
}
