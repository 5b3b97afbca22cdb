//! Where a process keeps its intents: in segments that are filled one after the other, never opened again, and deleted
//! whole, so that a deletion is paid for thousands of writes and not for each.

use std::collections::BTreeMap;

use crate::rules::{Rule, Rules};

/// How many intents a segment holds.
pub const MAX_SEGMENT_INTENTS: u32 = 4_096;
/// How long the intents of a dead process stay when they have been resolved, until they are resolved once more and go:
/// a day.
pub const DEAD_SEGMENT_SECONDS: u64 = 24 * 3600;

/// Where an intent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IntentPlace {
    /// The segment of its process.
    pub segment: u64,
    /// Its row.
    pub row: u32,
}

/// The segments of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Segments {
    /// Those that are not deleted, the open one last.
    living: BTreeMap<u64, Segment>,
    open: u64,
    rules: Rules,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Segment {
    intents: u32,
    unsettled: u32,
    /// Whether the registration names it: only then would it be found.
    is_named: bool,
    /// Whether all of it was settled when the last renewal was sent.
    was_settled: bool,
    /// Whether a renewal succeeded since.
    may_go: bool,
}

impl Default for Segments {
    fn default() -> Self {
        Self::new(Rules::default())
    }
}

impl Segments {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            living: BTreeMap::from([(0, Segment::default())]),
            open: 0,
            rules,
        }
    }

    /// A place for an intent; none if there is no room in a segment that the registration names: the process has to
    /// renew first.
    pub fn note(&mut self) -> Option<IntentPlace> {
        let segment = self.living.get_mut(&self.open)?;
        if !segment.is_named || segment.intents == MAX_SEGMENT_INTENTS {
            return None;
        }
        let row = segment.intents;
        segment.intents += 1;
        segment.unsettled += 1;
        Some(IntentPlace {
            segment: self.open,
            row,
        })
    }

    /// An intent is settled.
    pub fn settle(&mut self, place: IntentPlace) {
        if let Some(segment) = self.living.get_mut(&place.segment) {
            segment.unsettled = segment.unsettled.saturating_sub(1);
        }
    }

    /// A renewal is about to be sent: a segment in use is closed, and another opened. The registration names these.
    pub fn renewing(&mut self) -> Vec<u64> {
        let open = self.living.get(&self.open);
        if open.is_none_or(|segment| segment.intents > 0) {
            self.open += 1;
            self.living.insert(self.open, Segment::default());
        }
        for (number, segment) in &mut self.living {
            segment.was_settled = *number != self.open && segment.unsettled == 0;
        }
        self.living.keys().copied().collect()
    }

    /// The renewal succeeded, so that the process was not taken for dead when it was sent.
    pub fn renewed(&mut self) {
        for segment in self.living.values_mut() {
            segment.is_named = true;
            segment.may_go |= segment.was_settled;
        }
    }

    /// The segments that may be deleted, each whole and at the stamp of its newest intent: all of them is settled, and
    /// a renewal succeeded since. Those of a process that was taken for dead stay for whoever resolves them.
    pub fn deletable(&self) -> Vec<u64> {
        let may_go = |segment: &Segment| {
            let is_settled = segment.intents > 0 && segment.unsettled == 0;
            segment.may_go || (is_settled && !self.rules.keeps(Rule::SegmentAfterRenewal))
        };
        let segments = self.living.iter().filter(|(_, segment)| may_go(segment));
        segments.map(|(number, _)| *number).collect()
    }

    /// A segment is deleted.
    pub fn deleted(&mut self, segment: u64) {
        self.living.remove(&segment);
    }
}

/// What is to be done with a segment of a process that was found dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadSegment {
    /// Each of its intents is to be resolved.
    Resolve,
    /// Nothing, for now.
    Wait,
    /// It is to be deleted.
    Delete,
}

/// What is to be done with a dead process' segment that was wholly resolved `resolved` times, the first time
/// `waited_seconds` ago.
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
        let named = segments.renewing();
        segments.renewed();
        named
    }

    #[test]
    fn intents_stand_in_segments_that_are_named_and_have_room() {
        let mut segments = Segments::default();
        assert_eq!(segments.note(), None);
        assert_eq!(renew(&mut segments), [0]);
        for row in 0..MAX_SEGMENT_INTENTS {
            assert_eq!(segments.note(), Some(IntentPlace { segment: 0, row }));
        }
        assert_eq!(segments.note(), None);
        assert_eq!(renew(&mut segments), [0, 1]);
        assert_eq!(segments.note(), Some(IntentPlace { segment: 1, row: 0 }));
    }

    #[test]
    fn a_segment_goes_when_it_was_settled_before_a_renewal_that_succeeded() {
        let mut segments = Segments::default();
        renew(&mut segments);
        let places = [segments.note(), segments.note()].map(Option::unwrap_or_default);
        segments.settle(places[0]);
        renew(&mut segments);
        segments.renewing();
        segments.settle(places[1]);
        segments.renewed();
        // It was not settled yet when that renewal was sent.
        assert!(segments.deletable().is_empty());
        renew(&mut segments);
        assert_eq!(segments.deletable(), [0]);
        segments.deleted(0);
        assert_eq!(renew(&mut segments), [1]);
    }

    #[test]
    fn what_the_dead_left_is_resolved_twice() {
        assert_eq!(dead_segment(0, 0), DeadSegment::Resolve);
        assert_eq!(dead_segment(1, DEAD_SEGMENT_SECONDS - 1), DeadSegment::Wait);
        assert_eq!(dead_segment(1, DEAD_SEGMENT_SECONDS), DeadSegment::Resolve);
        assert_eq!(dead_segment(2, DEAD_SEGMENT_SECONDS), DeadSegment::Delete);
    }
}
