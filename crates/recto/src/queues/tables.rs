//! The tables of message bodies on Cassandra, which are filled and emptied in turn.

use recto_jobs::{RingView, TableView};
use recto_protocol::queues::{Phase, StoreOptions};

/// The tables of message bodies, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTables {
    /// Whether bodies lie in such tables. An embedded store has none: bodies go with their messages there.
    pub is_needed: bool,
    /// How often slices end, and the like.
    pub options: StoreOptions,
    /// The tables, by number.
    pub tables: Vec<QueueTable>,
    /// What stands still and why, if something does: nothing is lost, and sending goes on.
    pub obstacle: Option<String>,
}

/// A table of message bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTable {
    /// Its number: no other table ever has it.
    pub number: u32,
    /// What it is called in the store.
    pub name: String,
    /// How it stands.
    pub phase: TablePhase,
    /// Since when, in microseconds since 1970, by the clock of who said so; not of one that is free or retired.
    pub since: Option<i64>,
    /// Of which work unit it is, as `QUEUE/UNIT`, if it is of one that has not ended.
    pub unit: Option<String>,
    /// How many segments, of 4,096 messages at most, have bodies there that may still be needed.
    pub segments: usize,
    /// How many messages were sent to those segments, done with or not.
    pub messages: u64,
    /// How many bytes they have: bodies and attributes, as they were sent. Not what the store's files take: there lies what was done with, too, until the table is emptied, and each copy counts.
    pub bytes: u64,
    /// Whether all of those segments were looked at: a look asks 1,024 of them at most, and remembers what sealed ones have. Else there are
    /// so many messages and bytes at least.
    pub is_exact: bool,
}

/// How a table stands. It goes from one to the next, and from being emptied to being free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TablePhase {
    /// It is empty, and waits for its slice.
    Free,
    /// What is sent goes there.
    Open,
    /// Its slice is over, and not all queues know that yet.
    Closing,
    /// Nothing new comes there; it is emptied when nothing in it is needed any more.
    Closed,
    /// Somebody is emptying it.
    Emptying,
    /// A work unit has it to itself.
    Unit,
    /// Nobody knows what became of emptying it: it is never used again, and dropped.
    Retired,
}

impl TablePhase {
    /// All that there are, in the order in which a table goes through them.
    pub const ALL: [Self; 7] = [
        Self::Free,
        Self::Open,
        Self::Closing,
        Self::Closed,
        Self::Emptying,
        Self::Unit,
        Self::Retired,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Open => "open",
            Self::Closing => "closing",
            Self::Closed => "closed",
            Self::Emptying => "emptying",
            Self::Unit => "unit",
            Self::Retired => "retired",
        }
    }
}

impl From<RingView> for QueueTables {
    fn from(view: RingView) -> Self {
        Self {
            is_needed: view.is_needed,
            options: view.options,
            tables: view.tables.into_iter().map(QueueTable::from).collect(),
            obstacle: view.obstacle,
        }
    }
}

impl From<TableView> for QueueTable {
    fn from(view: TableView) -> Self {
        Self {
            number: view.number.0,
            phase: TablePhase::from(view.phase),
            since: view.since(),
            name: view.name,
            unit: view.unit,
            segments: view.segments,
            messages: view.messages,
            bytes: view.bytes,
            is_exact: view.is_exact,
        }
    }
}

impl From<Phase> for TablePhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Free => Self::Free,
            Phase::Open { .. } => Self::Open,
            Phase::Closing { .. } => Self::Closing,
            Phase::Closed { .. } => Self::Closed,
            Phase::Emptying { .. } => Self::Emptying,
            Phase::Unit { .. } => Self::Unit,
            Phase::Retired => Self::Retired,
        }
    }
}
