//! Manifest of a shard: its live segments, the location of each, and the next free versioned cells.

use std::collections::BTreeMap;

use crate::queues::limits::{Protocol, REST_MICROS};
use crate::queues::names::{BodyTable, Micros, RegisterNumber, Segment, Seq, Tenure, Version};
use crate::queues::round::Register;
use crate::queues::rules::Rule;

/// Release time that is recorded for a versioned cell that needs no rest.
const LONG_AGO: Micros = Micros::MIN;

/// Manifest of a shard: its live segments, and the versioned cells that they use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Head {
    pub(crate) version: Version,
    /// Newest version of the ring that changed this manifest. A process that knows only an older version
    /// cannot open a segment.
    pub(crate) ring: Version,
    /// Newest epoch of the slot that changed this manifest. A process that knows only an older epoch cannot
    /// open a segment.
    pub(crate) tenure: Tenure,
    /// Highest number that a segment of this shard ever had.
    pub(crate) last: Segment,
    /// Number of versioned cells that exist.
    pub(crate) registers: u32,
    pub(crate) live: BTreeMap<Segment, Live>,
    /// Cells at rest, in the order of their release.
    pub(crate) resting: Vec<Resting>,
}

/// Live segment: a segment that is not released, with the location of its log, state and bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Live {
    /// Versioned cells that hold its log and state.
    pub register: RegisterNumber,
    /// Body table that contains the bodies of the segment's messages.
    pub table: BodyTable,
    /// Kind of messages that the segment takes while it is open.
    pub reach: Reach,
    /// Number of messages; `None` while the segment is open.
    pub count: Option<Seq>,
}

/// Time range in which the messages of a segment are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// The messages are due soon, or have a deduplication id.
    Near,
    /// The messages are due much later. They have segments of their own, because one unresolved message keeps
    /// its whole segment alive.
    Far,
}

/// Versioned cell whose segment was released. While the cell rests, its log is still read for deduplication
/// ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resting {
    /// Number of the versioned cell that rests.
    pub register: RegisterNumber,
    /// Released segment that had the cell.
    pub segment: Segment,
    /// Time at which the segment was released.
    pub since: Micros,
}

/// Command to a shard's manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadWish {
    /// Open a segment, unless one is open.
    Open {
        /// Kind of messages that the segment takes.
        reach: Reach,
        /// Epoch of the slot, as the caller knows it.
        tenure: Tenure,
        /// Table that belongs to a temporary queue alone; `None`: the open table of the ring.
        table: Option<BodyTable>,
    },
    /// Record that the segment's log is sealed.
    Sealed {
        /// Sealed segment.
        segment: Segment,
        /// Number of messages in the log.
        count: Seq,
    },
    /// Remove the segment from the live segments, if all its messages are resolved.
    Release(Settled),
    /// Record that the needed bodies of a segment were copied to another table.
    Rehome {
        /// Segment whose bodies were copied.
        segment: Segment,
        /// Table from which the bodies were copied.
        from: BodyTable,
        /// Table to which the bodies were copied. It was open before the copy began.
        to: BodyTable,
        /// Version of the ring in which the target table was open. In a later version, the table may have
        /// been emptied and opened again.
        ring: Version,
    },
    /// From now on, reject callers that know only a ring older than this version. Creates the
    /// manifest if it does not exist.
    Fence(Version),
    /// From now on, reject callers that know only an older epoch of the slot: the queue is deleted.
    Close(Tenure),
}

/// Proof that a segment can be released: all messages that were moved into it are resolved in their source
/// segments. An unresolved message in a source segment would be moved again. Only
/// [`Releasing`](crate::queues::Releasing) creates this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settled {
    pub(crate) segment: Segment,
    /// Number of messages that the segment's state shows as resolved.
    pub(crate) resolved: u32,
    /// True if a message of the segment has a deduplication id.
    pub(crate) has_ids: bool,
}

/// Response of a shard's manifest to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadAnswer {
    /// This segment is open for new messages.
    Open(Segment, Live),
    /// The change is in place, or was in place before the segment was released.
    Done,
    /// The change is not possible yet: the segment is open, or some of its messages are not resolved.
    NotYet,
    /// The caller's version of the ring is older than the manifest's: read the ring and ask again.
    OldRing,
    /// The caller's epoch is older than the manifest's: the queue was deleted.
    NoQueue,
    /// The manifest does not exist yet, so no fence has reached it. Now that the queue has its slot, read the
    /// ring with serial consistency, and send a [fence](HeadWish::Fence) first.
    Absent,
    /// The bodies are now in another table: start over.
    Moved,
    /// The shard has the maximum number of live segments or of cells, or no higher segment number exists.
    Full,
}

/// Data for the evaluation of commands to a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadContext {
    /// Version of the ring as the process knows it, which may be stale.
    pub ring: Version,
    /// Body table that is open in that version of the ring.
    pub table: BodyTable,
    /// Time of the wall clock.
    pub now: Micros,
    /// Limits and rules of the protocol.
    pub protocol: Protocol,
}

impl Head {
    /// Returns the manifest of a shard that never had a segment.
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

    /// Returns the segments that are not released, oldest first.
    pub fn live(&self) -> &BTreeMap<Segment, Live> {
        &self.live
    }

    /// Returns whether a segment of this number ever existed in this shard.
    pub fn ever_had(&self, segment: Segment) -> bool {
        (Segment(1)..=self.last).contains(&segment)
    }

    /// Returns whether a caller that knows this epoch may use the live segments. A caller that knows only an
    /// older epoch receives nothing.
    pub fn serves(&self, tenure: Tenure) -> bool {
        self.tenure <= tenure
    }

    /// Returns the open segment for messages of this kind, if the caller knows the current epoch of the slot.
    pub fn open(&self, reach: Reach, tenure: Tenure) -> Option<(Segment, Live)> {
        self.opened(reach).filter(|_| self.serves(tenure))
    }

    /// Returns the open segment for messages of this kind.
    pub(crate) fn opened(&self, reach: Reach) -> Option<(Segment, Live)> {
        let mut open = self.live.iter();
        let open = open.find(|(_, live)| live.count.is_none() && live.reach == reach);
        open.map(|(segment, live)| (*segment, *live))
    }

    /// Returns the earlier segments whose logs may have deduplication ids of the deduplication window, newest
    /// first.
    /// Callers must read all of these logs, since a log without such ids says nothing about earlier logs.
    /// Segments for much later messages are left out because they have no such ids.
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

    /// Returns the live segments whose bodies are in this body table.
    pub fn references(&self, table: BodyTable) -> impl Iterator<Item = (Segment, Live)> {
        let here = self.live.iter().filter(move |(_, live)| live.table == table);
        here.map(|(segment, live)| (*segment, *live))
    }

    /// Records a version of the ring and returns true, unless a newer version has already changed the
    /// manifest.
    fn takes_ring(&mut self, ring: Version, context: &HeadContext) -> bool {
        if ring < self.ring && context.protocol.rules.keeps(Rule::RingNoOlderThanFence) {
            return false;
        }
        self.ring = self.ring.max(ring);
        true
    }

    /// Returns whether the store has a ring, but no version of the ring has changed this manifest. In that
    /// case, even an outdated version of the ring would pass as new enough.
    fn is_unfenced(&self, context: &HeadContext) -> bool {
        self.ring == 0 && context.table != BodyTable(0)
    }

    fn open_next(
        &mut self,
        reach: Reach,
        tenure: Tenure,
        table: Option<BodyTable>,
        context: &HeadContext,
    ) -> HeadAnswer {
        if !self.serves(tenure) && context.protocol.rules.keeps(Rule::TenureNoOlderThanHead) {
            return HeadAnswer::NoQueue;
        }
        if let Some((segment, live)) = self.opened(reach) {
            return HeadAnswer::Open(segment, live);
        }
        if self.is_unfenced(context) && context.protocol.rules.keeps(Rule::HeadMadeByFence) {
            return HeadAnswer::Absent;
        }
        if self.live.len() == context.protocol.live_segments {
            return HeadAnswer::Full;
        }
        let next = self.last.0.checked_add(1).map(Segment);
        let (Some(register), Some(next)) = (self.rested(context), next) else {
            return HeadAnswer::Full;
        };
        if !self.takes_ring(context.ring, context) {
            return HeadAnswer::OldRing;
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
        HeadAnswer::Open(self.last, live)
    }

    /// Returns a cell for a new segment: one that has rested, or an additional one.
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

    fn sealed(&mut self, segment: Segment, count: Seq) -> HeadAnswer {
        if let Some(live) = self.live.get_mut(&segment) {
            live.count = Some(count);
        }
        HeadAnswer::Done
    }

    fn release(&mut self, settled: Settled, context: &HeadContext) -> HeadAnswer {
        let Settled {
            segment,
            resolved,
            has_ids,
        } = settled;
        let rules = context.protocol.rules;
        let Some(live) = self.live.get(&segment) else {
            return HeadAnswer::Done;
        };
        let may = match live.count {
            Some(count) => resolved == u32::from(count) || !rules.keeps(Rule::ReleaseOnlyResolved),
            None => !rules.keeps(Rule::ReleaseOnlySealed),
        };
        if !may {
            return HeadAnswer::NotYet;
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
        HeadAnswer::Done
    }

    fn rehome(
        &mut self,
        segment: Segment,
        from: BodyTable,
        to: BodyTable,
        ring: Version,
        context: &HeadContext,
    ) -> HeadAnswer {
        let Some(live) = self.live.get(&segment).copied() else {
            return HeadAnswer::Done;
        };
        if live.count.is_none() {
            return HeadAnswer::NotYet;
        }
        if live.table == to {
            return HeadAnswer::Done;
        }
        let ring = if context.protocol.rules.keeps(Rule::PointedByRingOfCopy) {
            ring
        } else {
            context.ring
        };
        if !self.takes_ring(ring, context) {
            return HeadAnswer::OldRing;
        }
        if live.table != from {
            return HeadAnswer::Moved;
        }
        self.live.insert(segment, Live { table: to, ..live });
        HeadAnswer::Done
    }
}

impl Resting {
    /// Returns whether the cell's log no longer has deduplication ids of the deduplication window, even if
    /// the clock of a sender was ahead.
    fn has_rested(&self, now: Micros) -> bool {
        now.saturating_sub(self.since) >= REST_MICROS
    }
}

impl Register for Head {
    type Wish = HeadWish;
    type Answer = HeadAnswer;
    type Context<'a> = HeadContext;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, wish: &HeadWish, _: bool, context: &HeadContext) -> HeadAnswer {
        match *wish {
            HeadWish::Open { reach, tenure, table } => self.open_next(reach, tenure, table, context),
            HeadWish::Sealed { segment, count } => self.sealed(segment, count),
            HeadWish::Release(settled) => self.release(settled, context),
            HeadWish::Rehome {
                segment,
                from,
                to,
                ring,
            } => self.rehome(segment, from, to, ring, context),
            HeadWish::Fence(ring) => {
                self.takes_ring(ring, context);
                HeadAnswer::Done
            }
            HeadWish::Close(tenure) => {
                self.tenure = self.tenure.max(tenure);
                HeadAnswer::Done
            }
        }
    }
}
