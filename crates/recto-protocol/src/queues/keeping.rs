//! Maintenance tasks of a body table: fencing, copying bodies, and emptying. Each task starts over, in
//! whichever process finds that it is due. Two processes that run the same task do no harm.

use crate::queues::head::{Head, HeadAnswer, HeadWish, Live};
use crate::queues::limits::Protocol;
use crate::queues::names::{BodyTable, Life, Segment, Seq, Version};
use crate::queues::ring::{Emptied, Owner, Phase, Ring, RingAnswer, RingWish};
use crate::queues::rules::Rule;

/// Input of a maintenance task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeepEvent {
    /// Start the maintenance task.
    Begin,
    /// Ring, read with serial consistency.
    Ring(Ring),
    /// Response of the ring to a command.
    RingAnswer(RingAnswer),
    /// Response of the shard's manifest, and the manifest as it is known after the response.
    Head(HeadAnswer, Head),
    /// Number of live segments that refer to the table.
    References(usize),
    /// The log is sealed, with this number of messages; `None`: its segment was released.
    Sealed(Option<Seq>),
    /// The bodies of all unresolved messages are copied.
    Copied,
    /// Some bodies are not copied, because the log now belongs to another segment.
    SegmentGone,
    /// Some bodies are not copied, because this table was dropped.
    TableGone(BodyTable),
    /// Entry of the segment in the shard's manifest; `None`: the segment was released.
    Found(Option<Live>),
    /// Outcome of emptying the table.
    Emptied(Emptied),
}

/// Action of a maintenance task that the caller must execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepAction {
    /// Read the ring with serial consistency.
    ReadRing,
    /// Send a command to the ring.
    Ring(RingWish),
    /// Send a command to the shard's manifest, with a ring that is not older than the ring that was read.
    Head(HeadWish),
    /// Read the manifests of all shards of all queues with serial consistency, and count the live segments
    /// that refer to the table.
    CountReferences(BodyTable),
    /// Seal the segment's log.
    Seal(Segment, Live),
    /// Copy the bodies of unresolved messages with plain writes, until all are copied.
    Copy {
        /// Segment whose bodies to copy.
        segment: Segment,
        /// Versioned cells and body table of the segment.
        live: Live,
        /// Body table to which the bodies are copied.
        to: BodyTable,
    },
    /// Read the entry of a segment in the shard's manifest, with serial consistency.
    Find(Segment),
    /// Empty the table. The request is sent once and never repeated.
    Empty(BodyTable),
    /// The task is finished, or has to start over later.
    Over,
    /// The shard's manifest refers to a segment whose versioned cell now has another segment, or whose table
    /// was dropped. The manifest and the segment are from different points in time. The table is not fenced.
    Damaged(Segment),
}

/// Task that tells one shard that a body table is closing. When all shards know it, the table is
/// [fenced](RingWish::Fenced) in the lifetime that the ring showed before the first shard learned of it.
///
/// After the fence, no process can open a segment in the table, because its ring would be older than the ring
/// in the shard's manifest. The segments that the manifest then has in the table are therefore all segments
/// in the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fencing {
    table: BodyTable,
    ring: Version,
    open: Vec<(Segment, Live)>,
    /// Segment that the log reported as gone. A manifest that is read later and still lists it is damaged.
    gone: Option<Segment>,
    protocol: Protocol,
}

impl Fencing {
    /// Creates the task for a table that is closing in this version of the ring.
    pub fn new(table: BodyTable, ring: Version, protocol: Protocol) -> Self {
        Self {
            table,
            ring,
            open: Vec::new(),
            gone: None,
            protocol,
        }
    }

    /// Handles an event and returns the next action.
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

/// Task that copies the bodies of a sealed segment to the open table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rehoming {
    segment: Segment,
    live: Live,
    to: Option<(BodyTable, Version)>,
    /// Table that was dropped. It is not the open table of a ring that is read later.
    gone: Option<BodyTable>,
    protocol: Protocol,
}

impl Rehoming {
    /// Creates the task for a sealed segment. `live` is its entry in the shard's manifest.
    pub fn new(segment: Segment, live: Live, protocol: Protocol) -> Self {
        Self {
            segment,
            live,
            to: None,
            gone: None,
            protocol,
        }
    }

    /// Handles an event and returns the next action.
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

/// Task that empties a table to which no segment refers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Emptying {
    table: BodyTable,
    owner: Owner,
    /// Lifetime of the table for which its references are counted.
    life: Option<Life>,
    outcome: Option<Emptied>,
    protocol: Protocol,
}

impl Emptying {
    /// Creates the task. `owner` must be unique to this attempt to empty the table.
    pub fn new(table: BodyTable, owner: Owner, protocol: Protocol) -> Self {
        Self {
            table,
            owner,
            life: None,
            outcome: None,
            protocol,
        }
    }

    /// Handles an event and returns the next action.
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
