//! Ring of body tables. The tables are used in rotation, and each table is emptied as a whole.
//!
//! ```text
//!  free ► open ► closing ► closed ► emptying ─┬─ emptied, and still its owner's ► free
//!                             ▲               ├─ certainly nothing done ───────► closed
//!                             └───────────────┘
//!                                             └─ anything else ► retired: never written again, and dropped
//! ```
//!
//! A temporary queue takes a free table for itself. When the queue has ended, its table is closed. No other
//! queue ever opened a segment there, so no shard manifest has to be fenced.

use std::collections::BTreeMap;

use crate::queues::limits::{MAX_TABLES, Protocol};
use crate::queues::names::{BodyTable, Life, Micros, QueueId, Version};
use crate::queues::round::Register;
use crate::queues::rules::Rule;

/// Ring of a keyspace: its body tables and the phase of each table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ring {
    pub(crate) version: Version,
    /// Highest number that a table ever had.
    pub(crate) last: BodyTable,
    pub(crate) tables: BTreeMap<BodyTable, Phase>,
}

/// Phase of a body table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The table is empty, and no request that could empty it is on its way.
    Free,
    /// New segments are opened in the table.
    Open {
        /// Time at which the table was opened; the rotation interval counts from it.
        since: Micros,
        /// Lifetime of the table that began when it was opened.
        life: Life,
    },
    /// The table is closing. No segment will be opened in it once every shard manifest knows that it is
    /// closing.
    Closing {
        /// Time at which the table entered this phase.
        since: Micros,
        /// Current lifetime of the table.
        life: Life,
    },
    /// No segment is opened in the table anymore.
    Closed {
        /// Time at which the table entered this phase.
        since: Micros,
        /// Current lifetime of the table.
        life: Life,
    },
    /// A process may be emptying the table.
    Emptying {
        /// Identifier of the attempt to empty the table.
        owner: Owner,
        /// Time at which the table entered this phase.
        since: Micros,
        /// Lifetime of the table that ends with the attempt.
        life: Life,
    },
    /// The table belongs to a temporary queue.
    Unit {
        /// Identifier of the temporary queue.
        unit: QueueId,
        /// Time at which the table entered this phase.
        since: Micros,
        /// Current lifetime of the table.
        life: Life,
    },
    /// A late request may empty the table at any time. It is never written again, and is dropped.
    Retired,
}

/// Random identifier of one attempt to empty a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u128);

/// Outcome of an attempt to empty a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Emptied {
    /// The table was emptied.
    Done,
    /// The table is not empty, and the request that was sent will not empty it.
    NotDone,
    /// The table may be empty, now or later.
    Unknown,
}

/// Command to the ring of body tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingWish {
    /// Add this table, which was just created and has the next number.
    Add(BodyTable),
    /// Close the table in this lifetime, and open another table.
    Roll(BodyTable, Life),
    /// Give the temporary queue a table of its own. The registry lists the queue already.
    Begin(QueueId),
    /// Close the table of a temporary queue that has ended. A registry that was read after the ring no longer
    /// lists the queue.
    Ended(BodyTable, QueueId),
    /// Record that every shard manifest knows that the table is closing in this lifetime, and that all its
    /// segments are sealed.
    Fenced(BodyTable, Life),
    /// Reserve the table for emptying. The caller counted that nothing refers to it while it was closed in
    /// this lifetime.
    Take(BodyTable, Life, Owner),
    /// Record the outcome of emptying.
    Emptied(BodyTable, Owner, Emptied),
    /// Retire the table. The owner of the attempt to empty it was gone for long, so the outcome is unknown.
    Retire(BodyTable, Owner),
    /// Record that a retired table was dropped.
    Dropped(BodyTable),
}

/// Response of the ring of body tables to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingAnswer {
    /// The requested change of the ring is in place.
    Done,
    /// The change is not possible now: the table is not in the required phase, not for long enough, or in
    /// another lifetime.
    NotYet,
    /// No table is free. The open table stays open. A temporary queue does not take the last free table.
    Short,
    /// The ring has the maximum number of tables.
    Full,
}

/// Data for the evaluation of commands to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingContext {
    /// Time of the wall clock.
    pub now: Micros,
    /// Limits and rules of the protocol.
    pub protocol: Protocol,
}

impl Ring {
    /// Returns the ring of a keyspace that never had a queue.
    pub fn absent() -> Self {
        Self {
            version: 0,
            last: BodyTable(0),
            tables: BTreeMap::new(),
        }
    }

    /// Returns the body tables and their phases.
    pub fn tables(&self) -> &BTreeMap<BodyTable, Phase> {
        &self.tables
    }

    /// Returns the number of the next table to create; `None`: no higher number exists.
    pub fn next(&self) -> Option<BodyTable> {
        self.last.0.checked_add(1).map(BodyTable)
    }

    /// Returns the table in which segments are opened.
    pub fn open(&self) -> Option<BodyTable> {
        self.opened().map(|(table, _)| table)
    }

    /// Returns the table with the bodies of a temporary queue.
    pub fn unit(&self, unit: QueueId) -> Option<BodyTable> {
        let mut units = self.units();
        units.find_map(|(table, whose)| (whose == unit).then_some(table))
    }

    /// Returns the tables of temporary queues, with the queue of each.
    pub fn units(&self) -> impl Iterator<Item = (BodyTable, QueueId)> {
        self.tables.iter().filter_map(|(table, stands)| match stands {
            Phase::Unit { unit, .. } => Some((*table, *unit)),
            _ => None,
        })
    }

    /// Returns the open table and its lifetime.
    fn opened(&self) -> Option<(BodyTable, Life)> {
        self.tables.iter().find_map(|(table, stands)| match stands {
            Phase::Open { life, .. } => Some((*table, *life)),
            _ => None,
        })
    }

    /// Returns the phase of a table that the current write opens. The lifetime is the next version, which
    /// that write gets.
    fn begins(&self, context: &RingContext) -> Phase {
        Phase::Open {
            since: context.now,
            life: Life(self.version + 1),
        }
    }

    /// Returns whether a fact that was found in one lifetime of a table applies to another.
    fn is_of(found: Life, life: Life, context: &RingContext) -> bool {
        found == life || !context.protocol.rules.keeps(Rule::BelievedInItsLife)
    }

    fn add(&mut self, table: BodyTable, context: &RingContext) -> RingAnswer {
        if table <= self.last {
            return RingAnswer::Done;
        }
        if self.tables.len() == MAX_TABLES {
            return RingAnswer::Full;
        }
        let phase = if self.open().is_none() {
            self.begins(context)
        } else {
            Phase::Free
        };
        self.last = table;
        self.tables.insert(table, phase);
        RingAnswer::Done
    }

    fn roll(&mut self, table: BodyTable, found: Life, context: &RingContext) -> RingAnswer {
        let is_found = |open: &(BodyTable, Life)| open.0 == table && Self::is_of(found, open.1, context);
        let Some((_, life)) = self.opened().filter(is_found) else {
            return RingAnswer::Done;
        };
        let mut tables = self.tables.iter();
        let Some((next, _)) = tables.find(|(_, stands)| **stands == Phase::Free) else {
            return RingAnswer::Short;
        };
        let (next, since) = (*next, context.now);
        self.tables.insert(table, Phase::Closing { since, life });
        self.tables.insert(next, self.begins(context));
        RingAnswer::Done
    }

    fn begin(&mut self, unit: QueueId, context: &RingContext) -> RingAnswer {
        if self.unit(unit).is_some() {
            return RingAnswer::Done;
        }
        let free = self.tables.iter().filter(|(_, stands)| **stands == Phase::Free);
        let free: Vec<_> = free.map(|(table, _)| *table).collect();
        // A temporary queue gets a table only if two tables are free, because the next rotation
        // needs the second one.
        let [table, _, ..] = free[..] else {
            return RingAnswer::Short;
        };
        let phase = Phase::Unit {
            unit,
            since: context.now,
            life: Life(self.version + 1),
        };
        self.tables.insert(table, phase);
        RingAnswer::Done
    }

    fn ended(&mut self, table: BodyTable, found: QueueId, context: &RingContext) -> RingAnswer {
        match self.tables.get(&table) {
            Some(Phase::Unit { unit, life, .. }) if *unit == found => {
                let (since, life) = (context.now, *life);
                self.tables.insert(table, Phase::Closed { since, life });
                RingAnswer::Done
            }
            _ => RingAnswer::NotYet,
        }
    }

    fn fenced(&mut self, table: BodyTable, found: Life, context: &RingContext) -> RingAnswer {
        match self.tables.get(&table) {
            Some(Phase::Closing { life, .. }) if Self::is_of(found, *life, context) => {
                let (since, life) = (context.now, *life);
                self.tables.insert(table, Phase::Closed { since, life });
                RingAnswer::Done
            }
            _ => RingAnswer::NotYet,
        }
    }

    fn take(&mut self, table: BodyTable, found: Life, owner: Owner, context: &RingContext) -> RingAnswer {
        let (may, life) = match self.tables.get(&table) {
            Some(Phase::Closed { since, life }) => {
                let is_unused = context.now.saturating_sub(*since) >= context.protocol.unused;
                (is_unused && Self::is_of(found, *life, context), *life)
            }
            Some(Phase::Emptying { owner: current, .. }) if *current == owner => return RingAnswer::Done,
            Some(Phase::Emptying { life, .. }) => (!context.protocol.rules.keeps(Rule::NoTakeOver), *life),
            _ => return RingAnswer::NotYet,
        };
        if !may {
            return RingAnswer::NotYet;
        }
        let since = context.now;
        self.tables.insert(table, Phase::Emptying { owner, since, life });
        RingAnswer::Done
    }

    /// If `owner` is emptying the table, moves the table to its next phase. A table in any other phase stays
    /// as it is.
    fn ends(&mut self, table: BodyTable, owner: Owner, next: impl Fn(Life) -> Phase) -> RingAnswer {
        match self.tables.get(&table) {
            Some(Phase::Emptying {
                owner: current, life, ..
            }) if *current == owner => {
                let next = next(*life);
                self.tables.insert(table, next);
                RingAnswer::Done
            }
            _ => RingAnswer::NotYet,
        }
    }

    fn emptied(
        &mut self,
        table: BodyTable,
        owner: Owner,
        outcome: Emptied,
        context: &RingContext,
    ) -> RingAnswer {
        let since = context.now;
        self.ends(table, owner, |life| match outcome {
            Emptied::Done => Phase::Free,
            Emptied::NotDone => Phase::Closed { since, life },
            Emptied::Unknown => Phase::Retired,
        })
    }

    fn dropped(&mut self, table: BodyTable) -> RingAnswer {
        if self
            .tables
            .get(&table)
            .is_some_and(|stands| *stands != Phase::Retired)
        {
            return RingAnswer::NotYet;
        }
        self.tables.remove(&table);
        RingAnswer::Done
    }
}

impl Register for Ring {
    type Wish = RingWish;
    type Answer = RingAnswer;
    type Context<'a> = RingContext;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, wish: &RingWish, _: bool, context: &RingContext) -> RingAnswer {
        match *wish {
            RingWish::Add(table) => self.add(table, context),
            RingWish::Roll(table, life) => self.roll(table, life, context),
            RingWish::Begin(unit) => self.begin(unit, context),
            RingWish::Ended(table, unit) => self.ended(table, unit, context),
            RingWish::Fenced(table, life) => self.fenced(table, life, context),
            RingWish::Take(table, life, owner) => self.take(table, life, owner, context),
            RingWish::Emptied(table, owner, outcome) => self.emptied(table, owner, outcome, context),
            RingWish::Retire(table, owner) => self.ends(table, owner, |_| Phase::Retired),
            RingWish::Dropped(table) => self.dropped(table),
        }
    }
}
