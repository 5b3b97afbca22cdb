//! What a keeper does with a body table, each from its beginning, by whoever finds that it is to be done: two do no harm.

use crate::queues::head::{Head, HeadAnswer, HeadWish, Live};
use crate::queues::limits::Protocol;
use crate::queues::names::{BodyTable, Life, Segment, Seq, Version};
use crate::queues::ring::{Emptied, Owner, Phase, Ring, RingAnswer, RingWish};
use crate::queues::rules::Rule;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeepEvent {
    /// It can begin.
    Begin,
    /// The ring as it was read, serially.
    Ring(Ring),
    /// The ring answered.
    RingAnswer(RingAnswer),
    /// The head answered, and this is what is known of it since.
    Head(HeadAnswer, Head),
    /// How many live segments refer to the table.
    References(usize),
    /// A log is sealed, with so many messages; none: its segment was released.
    Sealed(Option<Seq>),
    /// All bodies are copied that are not resolved.
    Copied,
    /// Not all are: the segment's log is another one's.
    SegmentGone,
    /// Not all are: this table was dropped.
    TableGone(BodyTable),
    /// What the head says of the segment; none: it was released.
    Found(Option<Live>),
    /// What became of emptying.
    Emptied(Emptied),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepAction {
    /// Read the ring, serially.
    ReadRing,
    /// Ask the ring.
    Ring(RingWish),
    /// Ask the shard's head, by a ring no older than what was read.
    Head(HeadWish),
    /// Read all heads of all queues, serially, and count what refers to the table.
    CountReferences(BodyTable),
    /// Have the segment's log sealed.
    Seal(Segment, Live),
    /// Copy the bodies of messages that are not resolved, plainly, until all are copied.
    Copy {
        /// Of which segment.
        segment: Segment,
        /// Where it lies.
        live: Live,
        /// Where to.
        to: BodyTable,
    },
    /// Read what the head says of a segment, serially.
    Find(Segment),
    /// Empty the table. Sent once, and never again.
    Empty(BodyTable),
    /// It is over, or to be begun anew later.
    Over,
    /// The head names a segment that its register has no more, or whose table was dropped: they are not of one time. The
    /// table is not fenced.
    Damaged(Segment),
}

/// One shard learns that a table is closing: when all of them have, it is [fenced](RingWish::Fenced)
/// in the life that the ring said before the first of them was asked.
///
/// After the fence no segment is opened there, since who would knows an older ring than the head. So what the head has then
/// is all there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fencing {
    table: BodyTable,
    ring: Version,
    open: Vec<(Segment, Live)>,
    /// What the log said is gone: a head that was read since does not have it.
    gone: Option<Segment>,
    protocol: Protocol,
}

impl Fencing {
    /// For a table that the ring of this version has as closing.
    pub fn new(table: BodyTable, ring: Version, protocol: Protocol) -> Self {
        Self {
            table,
            ring,
            open: Vec::new(),
            gone: None,
            protocol,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: KeepEvent) -> KeepAction {
        match event {
            KeepEvent::Begin if self.protocol.rules.keeps(Rule::HeadsFenced) => {
                KeepAction::Head(HeadWish::Fence(self.ring))
            }
            KeepEvent::Head(_, head) => {
                let open = head.references(self.table);
                self.open = open.filter(|(_, live)| live.count.is_none()).collect();
                match self.open.first() {
                    Some((segment, _)) if self.gone == Some(*segment) => KeepAction::Damaged(*segment),
                    Some((segment, live)) => KeepAction::Seal(*segment, *live),
                    None => KeepAction::Over,
                }
            }
            KeepEvent::Sealed(Some(count)) if !self.open.is_empty() => {
                let (segment, _) = self.open[0];
                KeepAction::Head(HeadWish::Sealed { segment, count })
            }
            KeepEvent::Sealed(_) => {
                self.gone = self.open.first().map(|(segment, _)| *segment);
                KeepAction::Head(HeadWish::Fence(self.ring))
            }
            _ => KeepAction::Over,
        }
    }
}

/// The bodies of a sealed segment are copied to the open table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rehoming {
    segment: Segment,
    live: Live,
    to: Option<(BodyTable, Version)>,
    /// What was dropped: a ring that was read since does not have it open.
    gone: Option<BodyTable>,
    protocol: Protocol,
}

impl Rehoming {
    /// Of a segment that the head has there, sealed.
    pub fn new(segment: Segment, live: Live, protocol: Protocol) -> Self {
        Self {
            segment,
            live,
            to: None,
            gone: None,
            protocol,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: KeepEvent) -> KeepAction {
        let is_copied_first = self.protocol.rules.keeps(Rule::CopiedBeforePointing);
        match (event, self.to) {
            (KeepEvent::Begin | KeepEvent::Head(HeadAnswer::OldRing, _), _) => KeepAction::ReadRing,
            (KeepEvent::Ring(ring), _) => {
                self.to = ring.open().map(|table| (table, ring.version));
                match self.to {
                    Some((to, _)) if to == self.live.table || Some(to) == self.gone => KeepAction::Over,
                    Some((to, _)) if is_copied_first => self.copy(to),
                    Some(to) => self.point(to),
                    None => KeepAction::Over,
                }
            }
            (KeepEvent::Copied, Some(to)) if is_copied_first => self.point(to),
            (KeepEvent::Head(HeadAnswer::Done, _), Some((to, _))) if !is_copied_first => self.copy(to),
            (KeepEvent::TableGone(table), _) if table != self.live.table => {
                self.gone = Some(table);
                KeepAction::ReadRing
            }
            (KeepEvent::TableGone(_) | KeepEvent::SegmentGone, _) => KeepAction::Find(self.segment),
            (KeepEvent::Found(Some(live)), _) if live.table == self.live.table => {
                KeepAction::Damaged(self.segment)
            }
            _ => KeepAction::Over,
        }
    }

    fn copy(&self, to: BodyTable) -> KeepAction {
        KeepAction::Copy {
            segment: self.segment,
            live: self.live,
            to,
        }
    }

    fn point(&self, to: (BodyTable, Version)) -> KeepAction {
        let (to, ring) = to;
        KeepAction::Head(HeadWish::Rehome {
            segment: self.segment,
            from: self.live.table,
            to,
            ring,
        })
    }
}

/// A table is emptied that nothing refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Emptying {
    table: BodyTable,
    owner: Owner,
    /// In which life of the table its references are counted.
    life: Option<Life>,
    outcome: Option<Emptied>,
    protocol: Protocol,
}

impl Emptying {
    /// By an owner that nothing else is.
    pub fn new(table: BodyTable, owner: Owner, protocol: Protocol) -> Self {
        Self {
            table,
            owner,
            life: None,
            outcome: None,
            protocol,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: KeepEvent) -> KeepAction {
        let rules = self.protocol.rules;
        match (event, self.life) {
            (KeepEvent::Begin, _) => KeepAction::ReadRing,
            (KeepEvent::Ring(ring), _) => {
                self.life = match ring.tables().get(&self.table) {
                    Some(Phase::Closed { life, .. }) => Some(*life),
                    Some(Phase::Emptying { life, .. }) if !rules.keeps(Rule::NoTakeOver) => Some(*life),
                    _ => None,
                };
                let counting = KeepAction::CountReferences(self.table);
                self.life.map_or(KeepAction::Over, |_| counting)
            }
            (KeepEvent::References(count), Some(life))
                if count == 0 || !rules.keeps(Rule::EmptiedUnreferenced) =>
            {
                KeepAction::Ring(RingWish::Take(self.table, life, self.owner))
            }
            (KeepEvent::RingAnswer(RingAnswer::Done), _) if self.outcome.is_none() => {
                KeepAction::Empty(self.table)
            }
            (KeepEvent::Emptied(Emptied::Unknown), _) if !rules.keeps(Rule::EmptiedOnce) => {
                KeepAction::Empty(self.table)
            }
            (KeepEvent::Emptied(outcome), _) => {
                self.outcome = Some(outcome);
                KeepAction::Ring(RingWish::Emptied(self.table, self.owner, outcome))
            }
            _ => KeepAction::Over,
        }
    }
}
