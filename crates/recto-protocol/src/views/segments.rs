//! Segments, in which a process stores its intents. A process fills one segment after the other, never opens
//! a segment again, and deletes each segment as a whole. One deletion therefore removes the intents of
//! thousands of writes.

use std::collections::BTreeMap;

use crate::views::rules::{Rule, Rules};

/// Maximum number of intents in a segment.
pub const MAX_SEGMENT_INTENTS: u32 = 4_096;
/// Maximum number of segments of a process that are not deleted yet. A process with this number of segments
/// opens no new segment. When its open segment is full, its writes wait.
pub const MAX_SEGMENTS: usize = 1_024;
/// Time from the first resolution of a dead process's intents until they are resolved again and deleted, in seconds: a
/// day.
pub const DEAD_SEGMENT_SECONDS: u64 = 24 * 3600;

/// Position of an intent: its segment, and its row in the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IntentPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Number of the row in the segment.
    pub row: u32,
}

/// Segments in which one process stores its intents.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Segments {
    /// Segments that are not deleted; the open segment is the last one. The registration names all of them, because
    /// other processes find them only through it.
    living: BTreeMap<u64, Segment>,
    open: Option<u64>,
    rules: Rules,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Segment {
    intents: u32,
    unsettled: u32,
    /// True if all intents of the segment were settled when a renewal was sent that succeeded.
    may_go: bool,
}

/// Segments that a renewal names. The value belongs to the renewal: it is sent again with the renewal, and is passed to
/// [`Segments::renewed`] when the renewal succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Naming {
    /// Segments that the registration names, ascending.
    pub names: Vec<u64>,
    /// Segments whose intents were all settled, each with its number of intents.
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

    /// Returns the position of a new intent; `None` if no segment that the registration names has room. Then the
    /// process has to renew its registration first.
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

    /// Returns whether the process should renew its registration early, because the open segment is at least
    /// half full.
    pub fn is_half_full(&self) -> bool {
        let open = self.open.and_then(|open| self.living.get(&open));
        open.is_none_or(|segment| segment.intents >= MAX_SEGMENT_INTENTS / 2)
    }

    /// Records that an intent is settled.
    pub fn settle(&mut self, place: IntentPlace) {
        if let Some(segment) = self.living.get_mut(&place.segment) {
            segment.unsettled = segment.unsettled.saturating_sub(1);
        }
    }

    /// Returns the number of intents that are not settled.
    pub fn unsettled(&self) -> u64 {
        self.living
            .values()
            .map(|segment| u64::from(segment.unsettled))
            .sum()
    }

    /// Returns whether no segment contains intents.
    pub fn is_clear(&self) -> bool {
        self.living.values().all(|segment| segment.intents == 0)
    }

    /// Returns the segments that the next renewal of the registration names. If the open segment has intents,
    /// the renewal also names a new segment. Until the renewal succeeds, intents get their position in the
    /// open segment.
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

    /// Records that the renewal with these segments succeeded. Its success proves that no other process had
    /// found this process dead when the renewal was sent.
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

    /// Returns the segments of intents that may be deleted. A segment may be deleted if all its
    /// intents are settled, and this process has renewed its registration since. The caller deletes
    /// each segment as a whole, at the timestamp of its newest intent. Segments of a process that
    /// was found dead are not returned, because the processes that resolve its changes need them.
    pub fn deletable(&self) -> Vec<u64> {
        let may_go = |segment: &Segment| {
            let is_settled = segment.intents > 0 && segment.unsettled == 0;
            segment.may_go || (is_settled && !self.rules.keeps(Rule::SegmentAfterRenewal))
        };
        let segments = self.living.iter().filter(|(_, segment)| may_go(segment));
        segments.map(|(number, _)| *number).collect()
    }

    /// Records that a segment is deleted.
    pub fn deleted(&mut self, segment: u64) {
        self.living.remove(&segment);
    }
}

/// Next step for a segment of a process that was found dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadSegment {
    /// Resolve each intent of the segment.
    Resolve,
    /// Wait until [`DEAD_SEGMENT_SECONDS`] have passed since the first resolution.
    Wait,
    /// Delete the segment with its intents.
    Delete,
}

/// Returns the next step for a segment of a dead process. All intents of the segment were resolved `resolved` times,
/// the first time `waited_seconds` ago.
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

    /// An earlier renewal that succeeds does not open a segment that it did not name. It also does not permit the
    /// deletion of a segment that was settled later.
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
        // Segment 0 was settled only after the renewal in `naming` was sent, so that renewal does
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
