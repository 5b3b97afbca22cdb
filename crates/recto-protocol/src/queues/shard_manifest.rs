//! Manifest of a shard: its live segments (batches of consecutive messages), their locations, and
//! the reusable cells.

use std::collections::BTreeMap;

use crate::queues::cas_loop::Register;
use crate::queues::limits::{Protocol, REST_MICROS};
use crate::queues::names::{BodyTable, Micros, RegisterNumber, Segment, Seq, Tenure, Version};
use crate::queues::rules::Rule;

/// Release time of a versioned cell that may be reused at once.
const LONG_AGO: Micros = Micros::MIN;

/// Manifest of a shard (part of a queue): its live segments, and the versioned cells that store
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Head {
    pub(crate) version: Version,
    /// Newest version of the ring (list of body tables) that changed this manifest. A process that
    /// knows only an older ring cannot open a segment.
    pub(crate) ring: Version,
    /// Newest epoch (use of the slot by one queue) that changed this manifest. A process that knows
    /// only an older epoch cannot open a segment.
    pub(crate) tenure: Tenure,
    /// Highest id that any segment (message batch) of this shard ever had.
    pub(crate) last: Segment,
    /// Number of pairs of versioned cells that exist in this shard.
    pub(crate) registers: u32,
    pub(crate) live: BTreeMap<Segment, Live>,
    /// Cells of released segments (message batches) that are not reused yet, in the order of their
    /// release.
    pub(crate) resting: Vec<Resting>,
}

/// Location of a live segment: the cells with its log and state, and the table with its message
/// bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Live {
    /// Index (from 0) in the shard of the pair of versioned cells that holds the segment's log and
    /// state.
    pub register: RegisterNumber,
    /// Table that contains the bodies of the segment's messages.
    pub table: BodyTable,
    /// Kind of messages that the segment takes while it is open: due soon or much later.
    pub reach: Reach,
    /// Number of messages, which is known once the segment is sealed; `None`: the segment is open.
    pub count: Option<Seq>,
}

/// Kind of messages that a segment (message batch) takes, by the time when they become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// The messages are due soon, or have a deduplication id.
    Near,
    /// The messages are due much later. They get separate segments, because one unresolved message
    /// keeps its whole segment stored.
    Far,
}

/// Versioned cells of a released segment. While they rest, their log is still read for
/// deduplication ids, so no other segment may use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resting {
    /// Index (from 0) in the shard of the pair of versioned cells that rests.
    pub register: RegisterNumber,
    /// Released segment (message batch) that used the cells.
    pub segment: Segment,
    /// Time when the segment (message batch) was released, in microseconds since 1970.
    pub since: Micros,
}

/// Command to a shard's manifest (list of live segments).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadCommand {
    /// Return the open segment (message batch), or open one if there is none.
    Open {
        /// Kind of messages that the segment (message batch) takes.
        reach: Reach,
        /// Epoch of the queue's slot (one use of the slot), as the caller knows it.
        tenure: Tenure,
        /// Table for message bodies that belongs to a temporary queue alone; `None`: use the open
        /// table of the ring.
        table: Option<BodyTable>,
    },
    /// Record that the segment's log is sealed: it gets no more messages.
    Sealed {
        /// Segment whose log is sealed.
        segment: Segment,
        /// Number of messages in the log.
        count: Seq,
    },
    /// Remove the segment from the manifest (list of live segments), if all of its messages are
    /// resolved.
    Release(Settled),
    /// Record that the bodies of a segment's unresolved messages were copied to another table.
    Rehome {
        /// Segment whose bodies were copied.
        segment: Segment,
        /// Body table from which the bodies were copied.
        from: BodyTable,
        /// Body table to which the bodies were copied. It was open before the copy began.
        to: BodyTable,
        /// Version of the ring (list of body tables) in which the table `to` was open. In a later
        /// version, the table may have been emptied and opened again.
        ring: Version,
    },
    /// Fence: from now on, reject callers that know only a version of the ring (list of body
    /// tables) older than this one. Creates the manifest if it does not exist.
    Fence(Version),
    /// Close the shard: from now on, reject callers that know only an older epoch (use of the slot
    /// by one queue), because their queue is deleted.
    Close(Tenure),
}

/// Proof that a segment can be released: all messages that were moved into it are resolved in their
/// source segments. Otherwise an unresolved source message would be moved, and received, a second
/// time. Only [`Releasing`](crate::queues::Releasing) creates this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settled {
    pub(crate) segment: Segment,
    /// Number of messages that the segment's state shows as resolved.
    pub(crate) resolved: u32,
    /// True if a message of the segment has a deduplication id.
    pub(crate) has_ids: bool,
}

/// Response of a shard's manifest (list of live segments) to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadResponse {
    /// This segment (message batch) is open for new messages, at this location.
    Open(Segment, Live),
    /// The change is stored, now or since an earlier attempt.
    Done,
    /// The change is not possible yet: the segment is open, or some of its messages are not
    /// resolved.
    NotYet,
    /// The caller's ring (list of body tables) is older than the manifest's. Read the ring, and ask
    /// again.
    OldRing,
    /// The caller's epoch (use of the slot) is older than the manifest's: the queue was deleted.
    NoQueue,
    /// The manifest does not exist yet, so no [fence](HeadCommand::Fence) has reached it. Read the
    /// ring with serial consistency, now that the queue has its slot, and send a fence with the
    /// ring's version first.
    Absent,
    /// Another process has moved the bodies to another table: start over.
    Moved,
    /// The shard has the maximum number of live segments or of cells, or the segment ids are used
    /// up.
    Full,
}

/// Inputs for the evaluation of commands to a manifest (list of live segments).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadContext {
    /// Newest version of the ring (list of body tables) that the process knows.
    pub ring: Version,
    /// Table for message bodies that is open in the ring version `ring`; 0: the store has no ring.
    pub table: BodyTable,
    /// Time of the wall clock, in microseconds since 1970.
    pub now: Micros,
    /// Limits and rules of the protocol.
    pub protocol: Protocol,
}

impl Head {
    /// Returns the manifest (list of live segments) of a shard that never had a segment.
    pub fn absent() -> Self {
        Self {
            version: 0,
            ring: 0,
            tenure: Tenure::default(),
            last: Segment::default(),
            registers: 0,
            live: BTreeMap::new(),
            resting: Vec::new(),
        }
    }

    /// Returns the live segments (those not released) with their locations, oldest first.
    pub fn live(&self) -> &BTreeMap<Segment, Live> {
        &self.live
    }

    /// Returns the newest version of the ring that changed this manifest. A segment that leaves a body table
    /// and returns to it raises this version.
    pub fn ring(&self) -> Version {
        self.ring
    }

    /// Returns whether a segment of this number ever existed in this shard.
    pub fn ever_had(&self, segment: Segment) -> bool {
        (Segment(1)..=self.last).contains(&segment)
    }

    /// Returns whether a caller that knows this epoch of the slot may use the live segments. With
    /// an older epoch, the caller means a deleted queue, and receives nothing.
    pub fn serves(&self, tenure: Tenure) -> bool {
        self.tenure <= tenure
    }

    /// Returns the open segment (message batch) for messages of this kind, unless the caller's
    /// epoch is outdated.
    pub fn open(&self, reach: Reach, tenure: Tenure) -> Option<(Segment, Live)> {
        self.opened(reach).filter(|_| self.serves(tenure))
    }

    /// Returns the open segment (message batch) for messages of this kind, if there is one.
    pub(crate) fn opened(&self, reach: Reach) -> Option<(Segment, Live)> {
        let mut open = self.live.iter();
        let open = open.find(|(_, live)| live.count.is_none() && live.reach == reach);
        open.map(|(segment, live)| (*segment, *live))
    }

    /// Returns the segments before `segment` whose logs may have deduplication ids of the
    /// deduplication window, newest first. Callers must read all of the logs, because a log without
    /// such ids says nothing about earlier logs. Segments for messages that are due much later have
    /// no such ids, and are left out.
    pub fn before(&self, segment: Segment, now: Micros) -> Vec<(Segment, RegisterNumber)> {
        let live = self.live.iter().filter(|(_, live)| live.reach == Reach::Near);
        let live = live.map(|(number, live)| (*number, live.register));
        let resting = self.resting.iter().filter(|one| !one.has_rested(now));
        let resting = resting.map(|one| (one.segment, one.register));
        let mut before: Vec<_> = live
            .chain(resting)
            .filter(|(number, _)| *number < segment)
            .collect();
        before.sort_unstable_by(|a, b| b.cmp(a));
        before
    }

    /// Returns the live segments (message batches) whose bodies are in this table, with their
    /// locations.
    pub fn references(&self, table: BodyTable) -> impl Iterator<Item = (Segment, Live)> {
        let here = self.live.iter().filter(move |(_, live)| live.table == table);
        here.map(|(segment, live)| (*segment, *live))
    }

    /// Records a version of the ring (list of body tables), and returns true; false if a newer
    /// version has already changed the manifest.
    fn takes_ring(&mut self, ring: Version, context: &HeadContext) -> bool {
        if ring < self.ring && context.protocol.rules.keeps(Rule::RingNoOlderThanFence) {
            return false;
        }
        self.ring = self.ring.max(ring);
        true
    }

    /// Returns whether the store has a ring of body tables, but no fence has recorded a version of
    /// it in this manifest. Such a manifest would accept any outdated version.
    fn is_unfenced(&self, context: &HeadContext) -> bool {
        self.ring == 0 && context.table != BodyTable(0)
    }

    fn open_next(
        &mut self,
        reach: Reach,
        tenure: Tenure,
        table: Option<BodyTable>,
        context: &HeadContext,
    ) -> HeadResponse {
        if !self.serves(tenure) && context.protocol.rules.keeps(Rule::TenureNoOlderThanHead) {
            return HeadResponse::NoQueue;
        }
        if let Some((segment, live)) = self.opened(reach) {
            return HeadResponse::Open(segment, live);
        }
        if self.is_unfenced(context) && context.protocol.rules.keeps(Rule::HeadMadeByFence) {
            return HeadResponse::Absent;
        }
        if self.live.len() == context.protocol.live_segments {
            return HeadResponse::Full;
        }
        let next = self.last.0.checked_add(1).map(Segment);
        let (Some(register), Some(next)) = (self.rested(context), next) else {
            return HeadResponse::Full;
        };
        if !self.takes_ring(context.ring, context) {
            return HeadResponse::OldRing;
        }
        self.tenure = self.tenure.max(tenure);
        self.resting.retain(|resting| resting.register != register);
        self.registers = self.registers.max(register.0 + 1);
        self.last = next;
        let live = Live {
            register,
            table: table.unwrap_or(context.table),
            reach,
            count: None,
        };
        self.live.insert(self.last, live);
        HeadResponse::Open(self.last, live)
    }

    /// Returns the index of free cells for a new segment (message batch): rested ones, or
    /// additional ones.
    fn rested(&self, context: &HeadContext) -> Option<RegisterNumber> {
        let has_rested = |resting: &&Resting| {
            resting.has_rested(context.now) || !context.protocol.rules.keeps(Rule::RegistersRest)
        };
        let rested = self.resting.iter().find(has_rested);
        let more = (self.registers as usize) < context.protocol.registers;
        rested
            .map(|resting| resting.register)
            .or(more.then_some(RegisterNumber(self.registers)))
    }

    fn sealed(&mut self, segment: Segment, count: Seq) -> HeadResponse {
        if let Some(live) = self.live.get_mut(&segment) {
            live.count = Some(count);
        }
        HeadResponse::Done
    }

    fn release(&mut self, settled: Settled, context: &HeadContext) -> HeadResponse {
        let Settled {
            segment,
            resolved,
            has_ids,
        } = settled;
        let rules = context.protocol.rules;
        let Some(live) = self.live.get(&segment) else {
            return HeadResponse::Done;
        };
        let may = match live.count {
            Some(count) => resolved == u32::from(count) || !rules.keeps(Rule::ReleaseOnlyResolved),
            None => !rules.keeps(Rule::ReleaseOnlySealed),
        };
        if !may {
            return HeadResponse::NotYet;
        }
        self.resting.push(Resting {
            register: live.register,
            segment,
            since: if has_ids || context.protocol.rests_always {
                context.now
            } else {
                LONG_AGO
            },
        });
        self.live.remove(&segment);
        HeadResponse::Done
    }

    fn rehome(
        &mut self,
        segment: Segment,
        from: BodyTable,
        to: BodyTable,
        ring: Version,
        context: &HeadContext,
    ) -> HeadResponse {
        let Some(live) = self.live.get(&segment).copied() else {
            return HeadResponse::Done;
        };
        if live.count.is_none() {
            return HeadResponse::NotYet;
        }
        if live.table == to {
            return HeadResponse::Done;
        }
        let ring = if context.protocol.rules.keeps(Rule::PointedByRingOfCopy) {
            ring
        } else {
            context.ring
        };
        if !self.takes_ring(ring, context) {
            return HeadResponse::OldRing;
        }
        if live.table != from {
            return HeadResponse::Moved;
        }
        self.live.insert(segment, Live { table: to, ..live });
        HeadResponse::Done
    }
}

impl Resting {
    /// Returns whether the cells may be reused: their log no longer has ids of the deduplication
    /// window, even if the clock of a sender was ahead.
    fn has_rested(&self, now: Micros) -> bool {
        now.saturating_sub(self.since) >= REST_MICROS
    }
}

impl Register for Head {
    type Command = HeadCommand;
    type Response = HeadResponse;
    type Context<'a> = HeadContext;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, command: &HeadCommand, _: bool, context: &HeadContext) -> HeadResponse {
        match *command {
            HeadCommand::Open { reach, tenure, table } => self.open_next(reach, tenure, table, context),
            HeadCommand::Sealed { segment, count } => self.sealed(segment, count),
            HeadCommand::Release(settled) => self.release(settled, context),
            HeadCommand::Rehome {
                segment,
                from,
                to,
                ring,
            } => self.rehome(segment, from, to, ring, context),
            HeadCommand::Fence(ring) => {
                self.takes_ring(ring, context);
                HeadResponse::Done
            }
            HeadCommand::Close(tenure) => {
                self.tenure = self.tenure.max(tenure);
                HeadResponse::Done
            }
        }
    }
}
