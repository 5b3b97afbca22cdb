//! The body tables that slices take in turn, and that are emptied whole.
//!
//! ```text
//!  free ► open ► closing ► closed ► emptying ─┬─ emptied, and still its owner's ► free
//!                             ▲               ├─ certainly nothing done ───────► closed
//!                             └───────────────┘
//!                                             └─ anything else ► retired: never written again, and dropped
//! ```
//!
//! A work unit takes a free table to itself, and when it has ended that is closed: nobody else ever opened anything there, so
//! no head has to be told.

use std::collections::BTreeMap;

use crate::queues::limits::{MAX_TABLES, Protocol};
use crate::queues::names::{BodyTable, Life, Micros, QueueId, Version};
use crate::queues::round::Register;
use crate::queues::rules::Rule;

/// The ring of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ring {
    pub(crate) version: Version,
    /// The greatest number that a table ever had.
    pub(crate) last: BodyTable,
    pub(crate) tables: BTreeMap<BodyTable, Phase>,
}

/// How a table stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It is empty, and nothing is on its way that could empty it.
    Free,
    /// Segments are opened in it.
    Open {
        /// Since when: a slice ends so long after.
        since: Micros,
        /// Which of its lives began then.
        life: Life,
    },
    /// No more are, as soon as every head knows that.
    Closing {
        /// Since when.
        since: Micros,
        /// Which of its lives it is in.
        life: Life,
    },
    /// No more are.
    Closed {
        /// Since when.
        since: Micros,
        /// Which of its lives it is in.
        life: Life,
    },
    /// Somebody may be emptying it.
    Emptying {
        /// Who.
        owner: Owner,
        /// Since when.
        since: Micros,
        /// Which of its lives ends.
        life: Life,
    },
    /// A work unit has it to itself.
    Unit {
        /// Which one.
        unit: QueueId,
        /// Since when.
        since: Micros,
        /// Which of its lives it is in.
        life: Life,
    },
    /// It may be emptied at any time: it is never written again, and dropped.
    Retired,
}

/// One attempt at emptying a table: random, another one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u128);

/// What became of emptying a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Emptied {
    /// It is empty.
    Done,
    /// It is not, nor will be by what was sent.
    NotDone,
    /// It may be, now or later.
    Unknown,
}

/// What a ring is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingWish {
    /// That this table, which was just made and is of the next number, is among its tables.
    Add(BodyTable),
    /// This life of this table ends, and another one is open.
    Roll(BodyTable, Life),
    /// That this unit has a table to itself. It has its place in the registry before.
    Begin(QueueId),
    /// The unit that has this table is none any more, by a registry that was read since the ring said so.
    Ended(BodyTable, QueueId),
    /// Every head knows that this table is closing in this life, and what is in it is sealed.
    Fenced(BodyTable, Life),
    /// Nothing refers to this table, counted when it was closed in this life: it is to be emptied.
    Take(BodyTable, Life, Owner),
    /// That is over.
    Emptied(BodyTable, Owner, Emptied),
    /// This owner was gone for long: nobody knows what became of it.
    Retire(BodyTable, Owner),
    /// A retired table is dropped.
    Dropped(BodyTable),
}

/// What is said of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingAnswer {
    /// It is so.
    Done,
    /// Not now: it is not in the phase for that, or not for long enough, or in another life.
    NotYet,
    /// No table is free: the one that is open stays so. A unit takes no table that is the only free one.
    Short,
    /// There are as many tables as there may be.
    Full,
}

/// What changes are worked out by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingContext {
    /// The wall clock.
    pub now: Micros,
    /// Limits and rules.
    pub protocol: Protocol,
}

impl Ring {
    /// The one of a keyspace that never had a queue.
    pub fn absent() -> Self {
        Self {
            version: 0,
            last: BodyTable(0),
            tables: BTreeMap::new(),
        }
    }

    /// Its tables and how they stand.
    pub fn tables(&self) -> &BTreeMap<BodyTable, Phase> {
        &self.tables
    }

    /// The number of the next table that is made; none: there is no greater one.
    pub fn next(&self) -> Option<BodyTable> {
        self.last.0.checked_add(1).map(BodyTable)
    }

    /// Where segments are opened.
    pub fn open(&self) -> Option<BodyTable> {
        self.opened().map(|(table, _)| table)
    }

    /// Where the bodies of a work unit lie.
    pub fn unit(&self, unit: QueueId) -> Option<BodyTable> {
        let mut units = self.units();
        units.find_map(|(table, whose)| (whose == unit).then_some(table))
    }

    /// The tables that work units have, and which has each.
    pub fn units(&self) -> impl Iterator<Item = (BodyTable, QueueId)> {
        self.tables.iter().filter_map(|(table, stands)| match stands {
            Phase::Unit { unit, .. } => Some((*table, *unit)),
            _ => None,
        })
    }

    /// The open table, and its life.
    fn opened(&self) -> Option<(BodyTable, Life)> {
        self.tables.iter().find_map(|(table, stands)| match stands {
            Phase::Open { life, .. } => Some((*table, *life)),
            _ => None,
        })
    }

    /// What a table becomes that is opened by the write that is worked out: it has the next version.
    fn begins(&self, context: &RingContext) -> Phase {
        Phase::Open {
            since: context.now,
            life: Life(self.version + 1),
        }
    }

    /// Whether what was found out in one life of a table is believed in another.
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
        // The other is for the next slice.
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

    /// From emptying by this owner to what follows in that life, and from no other phase.
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
