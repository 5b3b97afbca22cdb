//! What a shard consists of: its live segments, where each of them lies, and what may be used next.

use std::collections::BTreeMap;

use crate::queues::limits::{Protocol, REST_MICROS};
use crate::queues::names::{BodyTable, Micros, RegisterNumber, Segment, Seq, Tenure, Version};
use crate::queues::round::Register;
use crate::queues::rules::Rule;

/// When a register was released that needs no rest.
const LONG_AGO: Micros = Micros::MIN;

/// The head of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Head {
    pub(crate) version: Version,
    /// The newest version of the ring that it was changed by: what knows an older one opens nothing here.
    pub(crate) ring: Version,
    /// The newest use of the place that it was changed by: what knows an older one opens nothing here.
    pub(crate) tenure: Tenure,
    /// The greatest number that a segment here ever had.
    pub(crate) last: Segment,
    /// How many registers there are.
    pub(crate) registers: u32,
    pub(crate) live: BTreeMap<Segment, Live>,
    /// In the order in which they were released.
    pub(crate) resting: Vec<Resting>,
}

/// A segment that is not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Live {
    /// Where its log and state lie.
    pub register: RegisterNumber,
    /// Where its bodies lie.
    pub table: BodyTable,
    /// Which messages it takes, as long as it is open.
    pub reach: Reach,
    /// How many messages it has; none while it is open.
    pub count: Option<Seq>,
}

/// For when the messages of a segment are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Soon.
    Near,
    /// Much later: kept apart, lest one holds a thousand others.
    Far,
}

/// A register whose segment was released. Its log is read for deduplication ids as long as it rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resting {
    /// Which one.
    pub register: RegisterNumber,
    /// Which segment it was of.
    pub segment: Segment,
    /// When that was released.
    pub since: Micros,
}

/// What a head is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadWish {
    /// That a segment is open.
    Open {
        /// For such messages.
        reach: Reach,
        /// By which use of the place.
        tenure: Tenure,
        /// In the table that a work unit has to itself; none: where the ring is open.
        table: Option<BodyTable>,
    },
    /// The segment's log is sealed.
    Sealed {
        /// Which one.
        segment: Segment,
        /// How many messages it has.
        count: Seq,
    },
    /// The segment leaves the list, if all of it is done with.
    Release(Settled),
    /// The segment's bodies that are needed were copied.
    Rehome {
        /// Which one.
        segment: Segment,
        /// Where from.
        from: BodyTable,
        /// Where to: the table that was open before anything was copied.
        to: BodyTable,
        /// The ring that said so. A later one may have the table open for the second time.
        ring: Version,
    },
    /// Who knows an older ring than this version is refused from now on. Makes the head, if there is none.
    Fence(Version),
    /// Who knows an older use of the place is refused from now on: the queue is deleted.
    Close(Tenure),
}

/// A segment of which all that was moved there is resolved where it was: otherwise that would come again. Only
/// [`Releasing`](crate::queues::Releasing) says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settled {
    pub(crate) segment: Segment,
    /// How many of its messages its state has as resolved.
    pub(crate) resolved: u32,
    /// Whether a message of it has a deduplication id.
    pub(crate) has_ids: bool,
}

/// What is said of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadAnswer {
    /// This segment is open.
    Open(Segment, Live),
    /// It is so; or was, and the segment has left the list since.
    Done,
    /// Not yet: the segment is open, or not all of it is done with.
    NotYet,
    /// The ring that is known is older than the head's: read it, and ask again.
    OldRing,
    /// The use of the place that is known is older than the head's: the queue was deleted.
    NoQueue,
    /// Nobody made the head yet, so no fence went over it: read the ring, serially, now that the queue has its place, and
    /// ask for a [fence](HeadWish::Fence) first.
    Absent,
    /// The bodies are elsewhere by now: begin again.
    Moved,
    /// There are as many live segments, or registers, as a shard may have; or there is no greater number for a segment.
    Full,
}

/// What changes are worked out by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadContext {
    /// The version of the ring, as it was read at any time.
    pub ring: Version,
    /// Its open table.
    pub table: BodyTable,
    /// The wall clock.
    pub now: Micros,
    /// Limits and rules.
    pub protocol: Protocol,
}

impl Head {
    /// The one of a shard that never had a segment.
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

    /// The segments that are not released, oldest first.
    pub fn live(&self) -> &BTreeMap<Segment, Live> {
        &self.live
    }

    /// Whether a segment of this number was ever here.
    pub fn ever_had(&self, segment: Segment) -> bool {
        (Segment(1)..=self.last).contains(&segment)
    }

    /// Whether what is live here is of this use of the place: who knows an older one receives nothing.
    pub fn serves(&self, tenure: Tenure) -> bool {
        self.tenure <= tenure
    }

    /// The segment that takes such messages of who knows this use of the place.
    pub fn open(&self, reach: Reach, tenure: Tenure) -> Option<(Segment, Live)> {
        self.opened(reach).filter(|_| self.serves(tenure))
    }

    /// The segment that takes such messages.
    pub(crate) fn opened(&self, reach: Reach) -> Option<(Segment, Live)> {
        let mut open = self.live.iter();
        let open = open.find(|(_, live)| live.count.is_none() && live.reach == reach);
        open.map(|(segment, live)| (*segment, *live))
    }

    /// Where the logs before a segment's lie that may have deduplication ids of the window, newest first. All of them are
    /// read: one that has none of it says nothing of those before. In what is for much later there are none.
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

    /// Live segments whose bodies lie in a table.
    pub fn references(&self, table: BodyTable) -> impl Iterator<Item = (Segment, Live)> {
        let here = self.live.iter().filter(move |(_, live)| live.table == table);
        here.map(|(segment, live)| (*segment, *live))
    }

    /// Whether a ring of this version is as new as any that the head was changed by.
    fn takes_ring(&mut self, ring: Version, context: &HeadContext) -> bool {
        if ring < self.ring && context.protocol.rules.keeps(Rule::RingNoOlderThanFence) {
            return false;
        }
        self.ring = self.ring.max(ring);
        true
    }

    /// Whether no ring ever changed it, and there is one: any version would be new enough.
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

    /// A register that may be used: one that has rested, or one more.
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
    /// Whether its log has no deduplication id of the window any more, whoever's clock it was sent by.
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
