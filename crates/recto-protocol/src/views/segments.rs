//! Where a process keeps its intents: in segments that are filled one after the other, never opened again, and deleted
//! whole, so that a deletion is paid for thousands of writes and not for each.

use std::collections::BTreeMap;

use crate::views::rules::{Rule, Rules};

/// How many intents a segment holds.
pub const MAX_SEGMENT_INTENTS: u32 = 4_096;
/// How many segments a process has, whose intents are not settled yet or which are not deleted yet. At that many no other is
/// opened, so that at last its writes wait.
pub const MAX_SEGMENTS: usize = 1_024;
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
    /// Those that are not deleted, the open one last. The registration names all of them: only so would they be found.
    living: BTreeMap<u64, Segment>,
    open: Option<u64>,
    rules: Rules,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Segment {
    intents: u32,
    unsettled: u32,
    /// Whether all of it was settled when a renewal was sent that succeeded.
    may_go: bool,
}

/// What a renewal says of segments. It goes with the renewal: sent again with it, and told when that one succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Naming {
    /// The segments that the registration names, ascending.
    pub names: Vec<u64>,
    /// Those in which all was settled, with how many intents they had.
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

    /// A place for an intent; none if there is no room in a segment that the registration names: the process has to
    /// renew first.
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

    /// Whether a renewal is wanted before its time, since there may soon be no place for an intent.
    pub fn is_half_full(&self) -> bool {
        let open = self.open.and_then(|open| self.living.get(&open));
        open.is_none_or(|segment| segment.intents >= MAX_SEGMENT_INTENTS / 2)
    }

    /// An intent is settled.
    pub fn settle(&mut self, place: IntentPlace) {
        if let Some(segment) = self.living.get_mut(&place.segment) {
            segment.unsettled = segment.unsettled.saturating_sub(1);
        }
    }

    /// How many intents are not settled.
    pub fn unsettled(&self) -> u64 {
        self.living
            .values()
            .map(|segment| u64::from(segment.unsettled))
            .sum()
    }

    /// Whether all intents are deleted that there were.
    pub fn is_clear(&self) -> bool {
        self.living.values().all(|segment| segment.intents == 0)
    }

    /// A renewal is about to be sent: this is what it says. It names the next segment, too, if there are intents in the
    /// open one, in which intents have their place until it succeeded.
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

    /// The renewal succeeded that says this, so that the process was not taken for dead when it was sent.
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

    /// What an earlier renewal did not name is not opened by its success, nor may what was settled since go.
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
    fn a_segment_goes_when_it_was_settled_before_a_renewal_that_succeeded() {
        let mut segments = Segments::default();
        renew(&mut segments);
        let places = [segments.note(), segments.note()].map(Option::unwrap_or_default);
        segments.settle(places[0]);
        renew(&mut segments);
        let naming = segments.renewing();
        segments.settle(places[1]);
        segments.renewed(&naming);
        // It was not settled yet when that renewal was sent.
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
    fn what_the_dead_left_is_resolved_twice() {
        assert_eq!(dead_segment(0, 0), DeadSegment::Resolve);
        assert_eq!(dead_segment(1, DEAD_SEGMENT_SECONDS - 1), DeadSegment::Wait);
        assert_eq!(dead_segment(1, DEAD_SEGMENT_SECONDS), DeadSegment::Resolve);
        assert_eq!(dead_segment(2, DEAD_SEGMENT_SECONDS), DeadSegment::Delete);
    }
}
