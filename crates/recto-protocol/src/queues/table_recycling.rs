//! Maintenance tasks of a table with message bodies: fencing, copying of bodies, and emptying. Any
//! process that finds a task due starts it from the beginning. Two processes that run the same task
//! do no harm.

use crate::queues::limits::Protocol;
use crate::queues::names::{BodyTable, Life, Segment, Seq, Version};
use crate::queues::ring::{Emptied, Owner, Phase, Ring, RingCommand, RingResponse};
use crate::queues::rules::Rule;
use crate::queues::shard_manifest::{Head, HeadCommand, HeadResponse, Live};

/// Event that the caller reports to a maintenance task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeepEvent {
    /// Start the maintenance task.
    Begin,
    /// The caller has read the ring (list of body tables), with serial consistency.
    Ring(Ring),
    /// Response of the ring (list of body tables) to a command.
    RingResponse(RingResponse),
    /// Response of the shard's manifest (list of live segments), and the newest known manifest.
    Head(HeadResponse, Head),
    /// Number of live segments (message batches) whose bodies are in the table.
    References(usize),
    /// The log is sealed, with this number of messages; `None`: the segment (message batch) was
    /// released.
    Sealed(Option<Seq>),
    /// The bodies of all unresolved messages are copied.
    Copied,
    /// Some bodies are not copied, because the segment (message batch) is gone: another segment
    /// uses its log.
    SegmentGone,
    /// Some bodies are not copied, because this table was dropped.
    TableGone(BodyTable),
    /// Entry of the segment in the shard's manifest (list of live segments); `None`: the segment
    /// was released.
    Found(Option<Live>),
    /// Outcome of the request to empty the table.
    Emptied(Emptied),
}

/// Action that the caller of a maintenance task executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepAction {
    /// Read the ring (list of body tables) with serial consistency.
    ReadRing,
    /// Send a command to the ring (list of body tables).
    Ring(RingCommand),
    /// Send a command to the shard's manifest (list of live segments), with a ring at least as new
    /// as the one that was read.
    Head(HeadCommand),
    /// Read the manifests of all shards of all queues with serial consistency, and count the live
    /// segments whose bodies are in the table.
    CountReferences(BodyTable),
    /// Seal the segment's log, so that it gets no more messages.
    Seal(Segment, Live),
    /// Copy the bodies of the segment's unresolved messages with plain writes, until all are
    /// copied.
    Copy {
        /// Segment whose bodies to copy.
        segment: Segment,
        /// Location of the segment (message batch): its versioned cells, and its table for bodies.
        live: Live,
        /// Body table that gets the copies.
        to: BodyTable,
    },
    /// Read the segment's entry in the shard's manifest (list of live segments), with serial
    /// consistency.
    Find(Segment),
    /// Delete all rows of the table. Send the request only once, because a late repetition could
    /// delete newer bodies.
    Empty(BodyTable),
    /// The task has ended. Whether it is still needed is checked later.
    Over,
    /// The shard's manifest lists a segment whose log belongs to another segment, or whose body
    /// table was dropped. The two are from different times, as after a partial restore. The task
    /// ends without effect on the body table.
    Damaged(Segment),
}

/// Task that tells one shard that a body table is closing. When all shards know it, the caller
/// reports the table as [fenced](RingCommand::Fenced), in the lifetime that the ring showed before the
/// first shard learned of it.
///
/// After the fence, no process can open a segment in the table, because its ring would be older
/// than the version in the manifest. So the manifest lists all segments that use the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fencing {
    table: BodyTable,
    ring: Version,
    open: Vec<(Segment, Live)>,
    /// Segment (message batch) whose log was reported as gone. If a manifest that is read later
    /// still lists it, the manifest is damaged.
    gone: Option<Segment>,
    protocol: Protocol,
}

impl Fencing {
    /// Creates the task for one shard and a body table that is closing in this version of the ring
    /// (list of body tables).
    pub fn new(table: BodyTable, ring: Version, protocol: Protocol) -> Self {
        Self {
            table,
            ring,
            open: Vec::new(),
            gone: None,
            protocol,
        }
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: KeepEvent) -> KeepAction {
        match event {
            KeepEvent::Begin if self.protocol.rules.keeps(Rule::HeadsFenced) => {
                KeepAction::Head(HeadCommand::Fence(self.ring))
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
                KeepAction::Head(HeadCommand::Sealed { segment, count })
            }
            KeepEvent::Sealed(_) => {
                self.gone = self.open.first().map(|(segment, _)| *segment);
                KeepAction::Head(HeadCommand::Fence(self.ring))
            }
            _ => KeepAction::Over,
        }
    }
}

/// Task that copies the bodies of a sealed segment to the open table.
///
/// It reads the ring, and then the manifest. If the segment leaves the table that this manifest names, and
/// returns to it, then it returns by a later ring. The manifest then rejects the older ring of this task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rehoming {
    segment: Segment,
    live: Live,
    to: Option<(BodyTable, Version)>,
    /// Table that was found to be dropped. If a ring that is read later still lists it as open, the
    /// task ends.
    gone: Option<BodyTable>,
    /// True if the log or the body table was missing where the manifest said.
    is_missing: bool,
    protocol: Protocol,
}

impl Rehoming {
    /// Creates the task for a sealed segment. `live` is its entry in the shard's manifest, which may be stale.
    pub fn new(segment: Segment, live: Live, protocol: Protocol) -> Self {
        Self {
            segment,
            live,
            to: None,
            gone: None,
            is_missing: false,
            protocol,
        }
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: KeepEvent) -> KeepAction {
        let is_copied_first = self.is_copied_first();
        match (event, self.to) {
            (KeepEvent::Begin | KeepEvent::Head(HeadResponse::OldRing, _), _) => KeepAction::ReadRing,
            (KeepEvent::Ring(ring), _) => {
                let to = ring.open().filter(|to| Some(*to) != self.gone);
                self.to = to.map(|table| (table, ring.version));
                match self.to {
                    Some(_) if self.protocol.rules.keeps(Rule::CopiedByLaterHead) => {
                        KeepAction::Find(self.segment)
                    }
                    Some(to) => self.begin_copy(to),
                    None => KeepAction::Over,
                }
            }
            (KeepEvent::Found(Some(live)), Some(to)) if !self.is_missing => {
                self.live = live;
                self.begin_copy(to)
            }
            (KeepEvent::Copied, Some(to)) if is_copied_first => self.point(to),
            (KeepEvent::Head(HeadResponse::Done, _), Some((to, _))) if !is_copied_first => self.copy(to),
            (KeepEvent::TableGone(table), _) if table != self.live.table => {
                self.gone = Some(table);
                KeepAction::ReadRing
            }
            (KeepEvent::TableGone(_) | KeepEvent::SegmentGone, _) => {
                self.is_missing = true;
                KeepAction::Find(self.segment)
            }
            (KeepEvent::Found(Some(live)), _) if live.table == self.live.table => {
                KeepAction::Damaged(self.segment)
            }
            _ => KeepAction::Over,
        }
    }

    fn is_copied_first(&self) -> bool {
        self.protocol.rules.keeps(Rule::CopiedBeforePointing)
    }

    /// Begins to copy the bodies to this table, unless they are there.
    fn begin_copy(&self, to: (BodyTable, Version)) -> KeepAction {
        if to.0 == self.live.table {
            KeepAction::Over
        } else if self.is_copied_first() {
            self.copy(to.0)
        } else {
            self.point(to)
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
        KeepAction::Head(HeadCommand::Rehome {
            segment: self.segment,
            from: self.live.table,
            to,
            ring,
        })
    }
}

/// Task that empties a table for message bodies in which no segment (message batch) has bodies, so
/// that the table can be reused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Emptying {
    table: BodyTable,
    owner: Owner,
    /// Lifetime of the table, from opening to emptying, for which the references were counted.
    life: Option<Life>,
    outcome: Option<Emptied>,
    protocol: Protocol,
}

impl Emptying {
    /// Creates the task. `owner` is a new random id of this attempt to empty the table.
    pub fn new(table: BodyTable, owner: Owner, protocol: Protocol) -> Self {
        Self {
            table,
            owner,
            life: None,
            outcome: None,
            protocol,
        }
    }

    /// Handles an event, and returns the next action of the caller.
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
                KeepAction::Ring(RingCommand::Take(self.table, life, self.owner))
            }
            (KeepEvent::RingResponse(RingResponse::Done), _) if self.outcome.is_none() => {
                KeepAction::Empty(self.table)
            }
            (KeepEvent::Emptied(Emptied::Unknown), _) if !rules.keeps(Rule::EmptiedOnce) => {
                KeepAction::Empty(self.table)
            }
            (KeepEvent::Emptied(outcome), _) => {
                self.outcome = Some(outcome);
                KeepAction::Ring(RingCommand::Emptied(self.table, self.owner, outcome))
            }
            _ => KeepAction::Over,
        }
    }
}
