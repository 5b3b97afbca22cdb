//! Ring of a keyspace: tables for message bodies, which are used in rotation. Each is emptied as a
//! whole.
//!
//! ```text
//!  free ► open ► closing ► closed ► emptying ─┬─ emptied, and still its owner's ► free
//!                             ▲               ├─ certainly nothing done ───────► closed
//!                             └───────────────┘
//!                                             └─ anything else ► retired: never written again, and dropped
//! ```
//!
//! A temporary queue gets a free table for itself. When the queue has ended, its table is closed at
//! once. No other queue has segments there, so no shard manifest has to learn of it.

use std::collections::BTreeMap;

use crate::queues::cas_loop::Register;
use crate::queues::limits::{MAX_TABLES, Protocol};
use crate::queues::names::{BodyTable, Life, Micros, QueueId, Version};
use crate::queues::rules::Rule;

/// Ring of a keyspace: its tables for message bodies, and the phase of each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ring {
    pub(crate) version: Version,
    /// Highest id that any body table ever had.
    pub(crate) last: BodyTable,
    pub(crate) tables: BTreeMap<BodyTable, Phase>,
}

/// Phase of a table for message bodies, in its cycle of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The table is empty, and no late request can empty it.
    Free,
    /// New segments (message batches) put their message bodies into the table.
    Open {
        /// Time when the table was opened, in microseconds since 1970. The rotation interval counts
        /// from it.
        since: Micros,
        /// Lifetime of the table, which began when it was opened.
        life: Life,
    },
    /// Another table is open. Once all shard manifests know this, no new segment uses the table.
    Closing {
        /// Time when the phase began, in microseconds since 1970.
        since: Micros,
        /// Lifetime of the table, from opening to emptying.
        life: Life,
    },
    /// No new segment (message batch) can use the table.
    Closed {
        /// Time when the phase began, in microseconds since 1970.
        since: Micros,
        /// Lifetime of the table, from opening to emptying.
        life: Life,
    },
    /// A process may be emptying the table.
    Emptying {
        /// Random id of the attempt to empty the table.
        owner: Owner,
        /// Time when the phase began, in microseconds since 1970.
        since: Micros,
        /// Lifetime of the table, which ends when it is empty.
        life: Life,
    },
    /// The table belongs to a temporary queue.
    Unit {
        /// Id of the temporary queue.
        unit: QueueId,
        /// Time when the phase began, in microseconds since 1970.
        since: Micros,
        /// Lifetime of the table, from opening to emptying.
        life: Life,
    },
    /// A late request may empty the table at any time, so it is never used again, and will be
    /// dropped.
    Retired,
}

/// Random id of one attempt to empty a table for message bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u128);

/// Outcome of an attempt to empty a table for message bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Emptied {
    /// The table was emptied.
    Done,
    /// The table is not empty, and the request will not empty it any more.
    NotDone,
    /// The outcome is unknown: the table may be empty, or become empty later.
    Unknown,
}

/// Command to the ring (list of body tables).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingCommand {
    /// Add this table, which was just created, and whose id is [`Ring::next`].
    Add(BodyTable),
    /// Open a free table in place of this one, unless this table is no longer open in this
    /// lifetime.
    Roll(BodyTable, Life),
    /// Give this temporary queue its own table for message bodies. The registry must list the queue
    /// already.
    Begin(QueueId),
    /// Close the table of a temporary queue that has ended: a registry that was read after the ring
    /// does not list the queue.
    Ended(BodyTable, QueueId),
    /// Record that all shard manifests know that the table is closing in this lifetime, and that
    /// all segments with bodies there are sealed.
    Fenced(BodyTable, Life),
    /// Reserve the table for emptying. The caller found that no segment has bodies in the table,
    /// which was closed in this lifetime.
    Take(BodyTable, Life, Owner),
    /// Record the outcome of the attempt to empty the table.
    Emptied(BodyTable, Owner, Emptied),
    /// Retire the table: its emptying was begun long ago, and the outcome is unknown.
    Retire(BodyTable, Owner),
    /// Record that a retired table was dropped.
    Dropped(BodyTable),
}

/// Response of the ring (list of body tables) to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingResponse {
    /// The ring has the requested state, now or since an earlier command.
    Done,
    /// The change is not possible now: the table is in another phase or another lifetime, or has
    /// not been unused for long enough.
    NotYet,
    /// Too few tables are free. A rotation needs one, and a temporary queue needs two, because the
    /// last one is kept for rotation.
    Short,
    /// The ring has the maximum number of tables.
    Full,
}

/// Inputs for the evaluation of commands to the ring (list of body tables).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingContext {
    /// Time of the wall clock, in microseconds since 1970.
    pub now: Micros,
    /// Limits and rules of the protocol.
    pub protocol: Protocol,
}

impl Ring {
    /// Returns the ring (list of body tables) of a keyspace that never had a queue.
    pub fn absent() -> Self {
        Self {
            version: 0,
            last: BodyTable(0),
            tables: BTreeMap::new(),
        }
    }

    /// Returns the tables for message bodies, each with its phase.
    pub fn tables(&self) -> &BTreeMap<BodyTable, Phase> {
        &self.tables
    }

    /// Returns the id of the next table to create; `None`: the ids are used up.
    pub fn next(&self) -> Option<BodyTable> {
        self.last.0.checked_add(1).map(BodyTable)
    }

    /// Returns the table into which new segments put their bodies; `None`: the ring has no tables.
    pub fn open(&self) -> Option<BodyTable> {
        self.opened().map(|(table, _)| table)
    }

    /// Returns the table for message bodies of a temporary queue; `None`: it has none.
    pub fn unit(&self, unit: QueueId) -> Option<BodyTable> {
        let mut units = self.units();
        units.find_map(|(table, whose)| (whose == unit).then_some(table))
    }

    /// Returns the tables for message bodies of temporary queues, each with the id of its queue.
    pub fn units(&self) -> impl Iterator<Item = (BodyTable, QueueId)> {
        self.tables.iter().filter_map(|(table, stands)| match stands {
            Phase::Unit { unit, .. } => Some((*table, *unit)),
            _ => None,
        })
    }

    /// Returns the table into which new segments (message batches) put their bodies, with its
    /// lifetime.
    fn opened(&self) -> Option<(BodyTable, Life)> {
        self.tables.iter().find_map(|(table, stands)| match stands {
            Phase::Open { life, .. } => Some((*table, *life)),
            _ => None,
        })
    }

    /// Returns the phase of a table that the present command opens. Its lifetime is the next
    /// version of the ring.
    fn begins(&self, context: &RingContext) -> Phase {
        Phase::Open {
            since: context.now,
            life: Life(self.version + 1),
        }
    }

    /// Returns whether a fact about a table in the lifetime `found` still applies in the lifetime
    /// `life`.
    fn is_of(found: Life, life: Life, context: &RingContext) -> bool {
        found == life || !context.protocol.rules.keeps(Rule::BelievedInItsLife)
    }

    fn add(&mut self, table: BodyTable, context: &RingContext) -> RingResponse {
        if table <= self.last {
            return RingResponse::Done;
        }
        if self.tables.len() == MAX_TABLES {
            return RingResponse::Full;
        }
        let phase = if self.open().is_none() {
            self.begins(context)
        } else {
            Phase::Free
        };
        self.last = table;
        self.tables.insert(table, phase);
        RingResponse::Done
    }

    fn roll(&mut self, table: BodyTable, found: Life, context: &RingContext) -> RingResponse {
        let is_found = |open: &(BodyTable, Life)| open.0 == table && Self::is_of(found, open.1, context);
        let Some((_, life)) = self.opened().filter(is_found) else {
            return RingResponse::Done;
        };
        let mut tables = self.tables.iter();
        let Some((next, _)) = tables.find(|(_, stands)| **stands == Phase::Free) else {
            return RingResponse::Short;
        };
        let (next, since) = (*next, context.now);
        self.tables.insert(table, Phase::Closing { since, life });
        self.tables.insert(next, self.begins(context));
        RingResponse::Done
    }

    fn begin(&mut self, unit: QueueId, context: &RingContext) -> RingResponse {
        if self.unit(unit).is_some() {
            return RingResponse::Done;
        }
        let free = self.tables.iter().filter(|(_, stands)| **stands == Phase::Free);
        let free: Vec<_> = free.map(|(table, _)| *table).collect();
        // Give a table to a temporary queue only if two are free, because the next rotation needs
        // one.
        let [table, _, ..] = free[..] else {
            return RingResponse::Short;
        };
        let phase = Phase::Unit {
            unit,
            since: context.now,
            life: Life(self.version + 1),
        };
        self.tables.insert(table, phase);
        RingResponse::Done
    }

    fn ended(&mut self, table: BodyTable, found: QueueId, context: &RingContext) -> RingResponse {
        match self.tables.get(&table) {
            Some(Phase::Unit { unit, life, .. }) if *unit == found => {
                let (since, life) = (context.now, *life);
                self.tables.insert(table, Phase::Closed { since, life });
                RingResponse::Done
            }
            _ => RingResponse::NotYet,
        }
    }

    fn fenced(&mut self, table: BodyTable, found: Life, context: &RingContext) -> RingResponse {
        match self.tables.get(&table) {
            Some(Phase::Closing { life, .. }) if Self::is_of(found, *life, context) => {
                let (since, life) = (context.now, *life);
                self.tables.insert(table, Phase::Closed { since, life });
                RingResponse::Done
            }
            _ => RingResponse::NotYet,
        }
    }

    fn take(&mut self, table: BodyTable, found: Life, owner: Owner, context: &RingContext) -> RingResponse {
        let (may, life) = match self.tables.get(&table) {
            Some(Phase::Closed { since, life }) => {
                let is_unused = context.now.saturating_sub(*since) >= context.protocol.unused;
                (is_unused && Self::is_of(found, *life, context), *life)
            }
            Some(Phase::Emptying { owner: current, .. }) if *current == owner => return RingResponse::Done,
            Some(Phase::Emptying { life, .. }) => (!context.protocol.rules.keeps(Rule::NoTakeOver), *life),
            _ => return RingResponse::NotYet,
        };
        if !may {
            return RingResponse::NotYet;
        }
        let since = context.now;
        self.tables.insert(table, Phase::Emptying { owner, since, life });
        RingResponse::Done
    }

    /// Moves the table to its next phase, if the attempt `owner` is emptying the table. Otherwise
    /// changes nothing.
    fn ends(&mut self, table: BodyTable, owner: Owner, next: impl Fn(Life) -> Phase) -> RingResponse {
        match self.tables.get(&table) {
            Some(Phase::Emptying {
                owner: current, life, ..
            }) if *current == owner => {
                let next = next(*life);
                self.tables.insert(table, next);
                RingResponse::Done
            }
            _ => RingResponse::NotYet,
        }
    }

    fn emptied(
        &mut self,
        table: BodyTable,
        owner: Owner,
        outcome: Emptied,
        context: &RingContext,
    ) -> RingResponse {
        let since = context.now;
        self.ends(table, owner, |life| match outcome {
            Emptied::Done => Phase::Free,
            Emptied::NotDone => Phase::Closed { since, life },
            Emptied::Unknown => Phase::Retired,
        })
    }

    fn dropped(&mut self, table: BodyTable) -> RingResponse {
        if self
            .tables
            .get(&table)
            .is_some_and(|stands| *stands != Phase::Retired)
        {
            return RingResponse::NotYet;
        }
        self.tables.remove(&table);
        RingResponse::Done
    }
}

impl Register for Ring {
    type Command = RingCommand;
    type Response = RingResponse;
    type Context<'a> = RingContext;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, command: &RingCommand, _: bool, context: &RingContext) -> RingResponse {
        match *command {
            RingCommand::Add(table) => self.add(table, context),
            RingCommand::Roll(table, life) => self.roll(table, life, context),
            RingCommand::Begin(unit) => self.begin(unit, context),
            RingCommand::Ended(table, unit) => self.ended(table, unit, context),
            RingCommand::Fenced(table, life) => self.fenced(table, life, context),
            RingCommand::Take(table, life, owner) => self.take(table, life, owner, context),
            RingCommand::Emptied(table, owner, outcome) => self.emptied(table, owner, outcome, context),
            RingCommand::Retire(table, owner) => self.ends(table, owner, |_| Phase::Retired),
            RingCommand::Dropped(table) => self.dropped(table),
        }
    }
}
