//! Writing: mutations, conditions and their outcomes.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Bound, Cells, Table};

use crate::{ConsistencyLevel, StoreError};

/// When a write happened, in microseconds since 1970: of two writes to a cell the later stands. At
/// equal stamps a deletion wins, then the larger value, cell by cell, as in Cassandra.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub i64);

/// What a mutation does. Cells of rows stand in the order of the table's regular columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Puts a row, which exists afterwards even if all its cells are null.
    Put {
        /// All clustering columns.
        clustering: Cells,
        /// All regular columns.
        cells: Cells,
        /// Whether it takes the place of a row that is there. If not, a plain put is an *insert*,
        /// for rows that are never changed: another row that is there conflicts, where the store
        /// [sees that](crate::Limits::sees_conflicts); where it does not, and in a [`Cas`], what the
        /// put leaves null stays as it was, so that Cassandra keeps no tombstone per null.
        replace: bool,
    },
    /// Sets some columns of a row, which exists afterwards. Columns are indexes into the table's
    /// regular columns.
    Patch {
        /// All clustering columns.
        clustering: Cells,
        /// Which regular columns.
        columns: Vec<u16>,
        /// Their cells, in the same order.
        cells: Cells,
    },
    /// Sets some static columns of the partition. Columns are indexes into the table's statics.
    PatchStatic {
        /// Which static columns.
        columns: Vec<u16>,
        /// Their cells, in the same order.
        cells: Cells,
    },
    /// Deletes a row.
    DeleteRow {
        /// All clustering columns.
        clustering: Cells,
    },
    /// Deletes the rows between two edges; static cells stay. Not in a [`Cas`].
    DeleteRange {
        /// Where it begins, in clustering order.
        from: Bound,
        /// Where it ends, in clustering order.
        to: Bound,
    },
    /// Deletes the partition, statics included. Not in a [`Cas`].
    DeletePartition,
}

/// One change to one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// What it does.
    pub operation: Operation,
    /// When it happened. Required for plain writes; must be absent in a [`Cas`], where it is newer than
    /// what it meets. In a transaction each mutation keeps to this, whatever stands beside it.
    pub stamp: Option<Stamp>,
    /// How long what it writes lives, whole seconds (1 to
    /// [`MAX_TTL_SECONDS`](crate::check::MAX_TTL_SECONDS)); `None`: for ever. Nothing to deletions.
    pub ttl_seconds: Option<u32>,
}

/// Mutations of one partition, applied together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWrite {
    /// The table.
    pub table: Arc<Table>,
    /// The cells of all partition columns.
    pub partition: Cells,
    /// What to do, in any order: stamps decide.
    pub mutations: Vec<Mutation>,
}

/// Whether writes of several partitions stand or fall together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Atomicity {
    /// All or none, eventually, whatever crashes.
    Logged,
    /// Each for itself.
    Each,
}

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// `None`: the store's configured level.
    pub consistency: Option<ConsistencyLevel>,
    /// How long the call may take.
    pub timeout: Duration,
    /// Whether the call may return before the write is durable. Only for bulk loads, which make
    /// durable what they report by a last durable write. Cassandra ignores it.
    pub relaxed: bool,
    /// Whether inserts that conflict are left out and the rest is written, and the outcome is
    /// [`Counted`](WriteOutcome::Counted). Only for bulk loads. A store that does not
    /// [see conflicts](crate::Limits::sees_conflicts) ignores it.
    pub row_by_row: bool,
    /// For who writes at stamps that are not new, by what they read before: when they began to read, by
    /// [`Environment::monotonic_nanos`](recto_model::Environment::monotonic_nanos). It matters to tables that are kept
    /// in buckets, whose writes are else refused as [`Moved`](crate::StoreErrorKind::Moved) where their stamps are older than what is known
    /// of the buckets. Relaxed writes without it are never refused so.
    pub looked_nanos: Option<u64>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            consistency: None,
            timeout: Duration::from_secs(10),
            relaxed: false,
            row_by_row: false,
            looked_nanos: None,
        }
    }
}

/// How a plain write ended.
#[derive(Debug)]
pub enum WriteOutcome {
    /// Applied, and durable unless relaxed.
    Done,
    /// Applied [row by row](WriteOptions::row_by_row), and durable unless relaxed.
    Counted(RowsMet),
    /// Nothing is applied: this mutation of the call inserts a row that is there as another. Its
    /// number is counted through the writes of the call, from 0; there may be more of them.
    Conflict(usize),
    /// May or may not be applied, now or later. Repeating the identical write settles it.
    Unknown(StoreError),
    /// Nothing was sent: it is over a limit or not allowed; sending it again changes nothing.
    Refused(StoreError),
}

/// What rows a call of puts met that were there already. Rows that an earlier attempt of the same
/// call (with the same stamps) put are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowsMet {
    /// The mutations that were left out, because another row is there; counted through the writes
    /// of the call, from 0, in no order.
    pub conflicts: Vec<usize>,
    /// How many puts took the place of another row.
    pub replaced: u64,
    /// How many puts found the same row.
    pub repeated: u64,
}

/// Which row a condition looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowAddress {
    /// The static columns; `column` is an index into the table's statics.
    Static,
    /// The row with these clustering cells; `column` is an index into the table's regular columns.
    Row(Cells),
}

/// A column that must hold a value (or null) for a [`Cas`] to apply. An absent row's columns are null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CasCondition {
    /// Which row.
    pub row: RowAddress,
    /// Which column.
    pub column: u16,
    /// The value it must hold; `None`: null.
    pub expected: Option<Vec<u8>>,
}

/// A conditional change of one partition. All conditions hold: all mutations are applied; else none.
///
/// A condition on a row needs a mutation of that row; a condition on static columns needs any
/// mutation (both are CQL's rules). Each row is written once, a patch names a column, and neither
/// ranges nor the partition are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cas {
    /// The table.
    pub table: Arc<Table>,
    /// The cells of all partition columns.
    pub partition: Cells,
    /// What must hold, at least one.
    pub conditions: Vec<CasCondition>,
    /// What to do, without stamps.
    pub mutations: Vec<Mutation>,
}

/// How a conditional write ended.
#[derive(Debug)]
pub enum CasOutcome {
    /// The conditions held and the mutations are applied.
    Applied,
    /// A condition did not hold; nothing was applied.
    NotApplied {
        /// What each condition's column holds now, in the order of the conditions.
        current: Vec<Option<Vec<u8>>>,
    },
    /// May be applied, now or at any later time.
    Unknown(StoreError),
    /// Nothing was sent: it is over a limit or not allowed.
    Refused(StoreError),
}

impl Cas {
    /// Whether its conditions hold of `current`: what each one's column holds, in their order.
    pub fn holds(&self, current: &[Option<Vec<u8>>]) -> bool {
        let expected = self.conditions.iter().map(|condition| &condition.expected);
        expected.eq(current)
    }
}

/// How a [transaction](crate::Store::transact) ended.
#[derive(Debug)]
pub enum TransactionOutcome {
    /// All conditions held, and all is applied.
    Applied,
    /// A condition did not hold; nothing was applied.
    NotApplied {
        /// For each conditional write, what each condition's column holds now; which of them
        /// [hold](Cas::holds) can be told from that.
        current: Vec<Vec<Option<Vec<u8>>>>,
    },
    /// Nothing is applied: this mutation inserts a row that is there as another. Its number is counted
    /// through the plain writes of the call, from 0; there may be more of them.
    Conflict(usize),
    /// May be applied, whole, now or at any later time.
    Unknown(StoreError),
    /// Nothing was sent: it is over a limit or not allowed, or the store has no transactions.
    Refused(StoreError),
}
