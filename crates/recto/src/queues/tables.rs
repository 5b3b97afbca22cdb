//! State of the rotating tables of message bodies on Cassandra. The tables are filled and emptied
//! in turn.

use recto_protocol::queues::{Phase, StoreOptions};
use recto_queues::{RotationStatus, TableStatus};

/// State of the tables of message bodies at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTables {
    /// True if message bodies are in rotating tables. False if each body is stored with its
    /// message, as on an embedded store.
    pub is_needed: bool,
    /// Options that all queues of the store share, such as the rotation interval.
    pub options: StoreOptions,
    /// Tables of message bodies, in the order of their ids.
    pub tables: Vec<QueueTable>,
    /// Reason why the rotation of the tables is blocked; `None` if it is not blocked. No message is
    /// lost, and sending continues.
    pub obstacle: Option<String>,
}

/// State of one table of message bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTable {
    /// Id of the table in the store. It is never used for another table.
    pub number: u32,
    /// Name of the table in the store.
    pub name: String,
    /// Phase of the table in the rotation.
    pub phase: TablePhase,
    /// Time at which the phase began, in microseconds since 1970, by the clock of the process that
    /// began it. `None` in the phases [`Free`](TablePhase::Free) and
    /// [`Retired`](TablePhase::Retired).
    pub since: Option<i64>,
    /// Name of the work unit to which the table belongs, as `QUEUE/UNIT`. `None` if it belongs to
    /// no work unit.
    pub unit: Option<String>,
    /// Number of segments whose bodies in this table may still be needed. A segment has at most 4,096 messages.
    pub segments: usize,
    /// Number of messages in the segments that `segments` counts, including messages that are
    /// already acknowledged or deleted.
    pub messages: u64,
    /// Size in bytes of the messages that `messages` counts: bodies and attributes, as they were
    /// sent. The files of the store are larger. They contain every replica, and resolved messages
    /// until the table is emptied.
    pub bytes: u64,
    /// True if `segments`, `messages` and `bytes` are exact. False if the actual numbers may be
    /// larger. One call reads at most 1,024 segments, and remembers the sizes of segments that get
    /// no more messages.
    pub is_exact: bool,
}

/// Phase of a table in the rotation. A table passes through the phases in order, and is free again
/// after it was emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TablePhase {
    /// The table is empty and waits for its next rotation interval.
    Free,
    /// The bodies of new messages go to the table.
    Open,
    /// The rotation interval of the table is over, but some queues may not know it yet and still
    /// use the table.
    Closing,
    /// The table gets no new messages. It is emptied when none of its bodies is needed any more.
    Closed,
    /// A process is emptying the table.
    Emptying,
    /// The table belongs to a work unit (a temporary queue).
    Unit,
    /// An attempt to empty the table ended without a known result. The table is never used again,
    /// and is dropped.
    Retired,
}

impl TablePhase {
    /// All phases, in the order in which a table passes through the regular phases.
    pub const ALL: [Self; 7] = [
        Self::Free,
        Self::Open,
        Self::Closing,
        Self::Closed,
        Self::Emptying,
        Self::Unit,
        Self::Retired,
    ];

    /// Returns the name of the phase in the HTTP API.
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

impl From<RotationStatus> for QueueTables {
    fn from(view: RotationStatus) -> Self {
        Self {
            is_needed: view.is_needed,
            options: view.options,
            tables: view.tables.into_iter().map(QueueTable::from).collect(),
            obstacle: view.obstacle,
        }
    }
}

impl From<TableStatus> for QueueTable {
    fn from(view: TableStatus) -> Self {
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
