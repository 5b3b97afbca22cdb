//! The body tables that slices take in turn, and that are emptied whole.
//!
//! ```text
//!  free ► open ► closing ► closed ► emptying ─┬─ emptied, and still its owner's ► free
//!                             ▲               ├─ certainly nothing done ───────► closed
//!                             └───────────────┘
//!                                             └─ anything else ► retired: never written again, and dropped
//! ```

use std::collections::BTreeMap;

use crate::limits::{MAX_TABLES, Protocol};
use crate::names::{BodyTable, Micros, Version};
use crate::round::Register;
use crate::rules::Rule;

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
    Open,
    /// No more are, as soon as every head knows that.
    Closing,
    /// No more are.
    Closed {
        /// Since when.
        since: Micros,
    },
    /// Somebody may be emptying it.
    Emptying {
        /// Who.
        owner: Owner,
        /// Since when.
        since: Micros,
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
    /// Another table than this one is open.
    Roll(BodyTable),
    /// Every head knows that this table is closing, and what is in it is sealed.
    Fenced(BodyTable),
    /// Nothing refers to this table: it is to be emptied.
    Take(BodyTable, Owner),
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
    /// Not now: it is not in the phase for that, or not for long enough.
    NotYet,
    /// No table is free: the one that is open stays so.
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

    /// The number of the next table that is made.
    pub fn next(&self) -> BodyTable {
        BodyTable(self.last.0 + 1)
    }

    /// Where segments are opened.
    pub fn open(&self) -> Option<BodyTable> {
        self.first(Phase::Open)
    }

    fn first(&self, phase: Phase) -> Option<BodyTable> {
        let found = self.tables.iter().find(|(_, stands)| **stands == phase);
        found.map(|(table, _)| *table)
    }

    fn add(&mut self, table: BodyTable) -> RingAnswer {
        if table <= self.last {
            return RingAnswer::Done;
        }
        if self.tables.len() == MAX_TABLES {
            return RingAnswer::Full;
        }
        let phase = if self.open().is_none() {
            Phase::Open
        } else {
            Phase::Free
        };
        self.last = table;
        self.tables.insert(table, phase);
        RingAnswer::Done
    }

    fn roll(&mut self, table: BodyTable) -> RingAnswer {
        if self.open() != Some(table) {
            return RingAnswer::Done;
        }
        let Some(next) = self.first(Phase::Free) else {
            return RingAnswer::Short;
        };
        self.tables.insert(table, Phase::Closing);
        self.tables.insert(next, Phase::Open);
        RingAnswer::Done
    }

    fn take(&mut self, table: BodyTable, owner: Owner, context: &RingContext) -> RingAnswer {
        let rules = context.protocol.rules;
        let may = match self.tables.get(&table) {
            Some(Phase::Closed { since }) => context.now.saturating_sub(*since) >= context.protocol.unused,
            Some(Phase::Emptying { owner: current, .. }) => {
                return if *current == owner {
                    RingAnswer::Done
                } else if rules.keeps(Rule::NoTakeOver) {
                    RingAnswer::NotYet
                } else {
                    self.empties(table, owner, context)
                };
            }
            _ => false,
        };
        if !may {
            return RingAnswer::NotYet;
        }
        self.empties(table, owner, context)
    }

    fn empties(&mut self, table: BodyTable, owner: Owner, context: &RingContext) -> RingAnswer {
        let since = context.now;
        self.tables.insert(table, Phase::Emptying { owner, since });
        RingAnswer::Done
    }

    /// From emptying by this owner to another phase, and from no other.
    fn ends(&mut self, table: BodyTable, owner: Owner, next: Phase) -> RingAnswer {
        match self.tables.get(&table) {
            Some(Phase::Emptying { owner: current, .. }) if *current == owner => {
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
        let next = match outcome {
            Emptied::Done => Phase::Free,
            Emptied::NotDone => Phase::Closed { since: context.now },
            Emptied::Unknown => Phase::Retired,
        };
        self.ends(table, owner, next)
    }

    /// From one phase to another, and from no other; a table that is gone is in any.
    fn goes(&mut self, table: BodyTable, from: Phase, next: Option<Phase>) -> RingAnswer {
        let stands = self.tables.get(&table).copied();
        if stands.is_none() || stands == Some(from) {
            self.tables.remove(&table);
            let is_there = stands.is_some();
            self.tables
                .extend(next.filter(|_| is_there).map(|next| (table, next)));
            return RingAnswer::Done;
        }
        RingAnswer::NotYet
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
            RingWish::Add(table) => self.add(table),
            RingWish::Roll(table) => self.roll(table),
            RingWish::Fenced(table) => {
                let closed = Phase::Closed { since: context.now };
                self.goes(table, Phase::Closing, Some(closed))
            }
            RingWish::Take(table, owner) => self.take(table, owner, context),
            RingWish::Emptied(table, owner, outcome) => self.emptied(table, owner, outcome, context),
            RingWish::Retire(table, owner) => self.ends(table, owner, Phase::Retired),
            RingWish::Dropped(table) => self.goes(table, Phase::Retired, None),
        }
    }
}
