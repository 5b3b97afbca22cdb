//! Writes: mutations, conditions and their outcomes.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Bound, Cells, Table};

use crate::{ConsistencyLevel, StoreError};

/// Timestamp of a write, in microseconds since 1970: of two writes to a cell, the later one wins. At equal
/// stamps a deletion wins, then the larger value, cell by cell, as in Cassandra.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub i64);

/// Change made by a mutation. The cells of rows have the order of the table's regular columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Puts a row, which exists afterwards even if all its cells are null.
    Put {
        /// All clustering columns.
        clustering: Cells,
        /// All regular columns.
        cells: Cells,
        /// True if the put replaces an existing row. Otherwise, a plain put is an *insert*, for
        /// rows that never change. An existing row with other values is a conflict, if the store
        /// [sees conflicts](crate::Limits::sees_conflicts). If the store does not, and in a
        /// [`Cas`], columns that the put leaves null stay unchanged, so that Cassandra keeps no
        /// tombstone per null.
        replace: bool,
    },
    /// Sets some columns of a row, which exists afterwards. `columns` are indexes into the table's regular
    /// columns.
    Patch {
        /// All clustering columns.
        clustering: Cells,
        /// Indexes of the regular columns.
        columns: Vec<u16>,
        /// Cells of these columns, in the same order.
        cells: Cells,
    },
    /// Sets some static columns of the partition. `columns` are indexes into the table's statics.
    PatchStatic {
        /// Indexes of the static columns.
        columns: Vec<u16>,
        /// Cells of these columns, in the same order.
        cells: Cells,
    },
    /// Deletes a row.
    DeleteRow {
        /// All clustering columns.
        clustering: Cells,
    },
    /// Deletes the rows between two edges; static cells stay. Not allowed in a [`Cas`].
    DeleteRange {
        /// Start, in clustering order.
        from: Bound,
        /// End, in clustering order.
        to: Bound,
    },
    /// Deletes the partition, statics included. Not allowed in a [`Cas`].
    DeletePartition,
}

/// One change to one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// Change to make.
    pub operation: Operation,
    /// Write timestamp. Required for plain writes. Must be absent in a [`Cas`], which gets a newer stamp than
    /// the data that it changes. In a transaction each mutation follows the rule of its own kind of write.
    pub stamp: Option<Stamp>,
    /// Lifetime of the written data in whole seconds, from 1 to
    /// [`MAX_TTL_SECONDS`](crate::check::MAX_TTL_SECONDS); `None`: unlimited. Ignored for deletions.
    pub ttl_seconds: Option<u32>,
}

/// Mutations of one partition, applied together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWrite {
    /// The table.
    pub table: Arc<Table>,
    /// Cells of all partition columns.
    pub partition: Cells,
    /// Changes to make, in any order: stamps decide.
    pub mutations: Vec<Mutation>,
}

/// Atomicity of a write of several partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Atomicity {
    /// All or none, eventually, even after crashes.
    Logged,
    /// Each partition for itself.
    Each,
}

/// Options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Consistency level. `None`: the configured level of the store.
    pub consistency: Option<ConsistencyLevel>,
    /// Maximum duration of the call.
    pub timeout: Duration,
    /// True if the call may return before the write is durable. Only for bulk loads, which end with
    /// a durable write before they report rows as durable. Cassandra ignores it.
    pub relaxed: bool,
    /// If true, skips conflicting inserts and writes the rest. The outcome is then
    /// [`Counted`](WriteOutcome::Counted). Only for bulk loads. A store that does not
    /// [see conflicts](crate::Limits::sees_conflicts) ignores it.
    pub row_by_row: bool,
    /// Time at which the caller began to read, by
    /// [`Environment::monotonic_nanos`](recto_model::Environment::monotonic_nanos). For callers that write
    /// with older stamps, on the basis of rows that they read. It matters for tables that are kept in buckets. Without it, the store
    /// rejects such writes as [`Moved`](crate::StoreErrorKind::Moved) if their stamps are older than its
    /// knowledge of the buckets. It never rejects relaxed writes without it for this reason.
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

/// Outcome of a plain write.
#[derive(Debug)]
pub enum WriteOutcome {
    /// Applied, and durable unless relaxed.
    Done,
    /// Applied [row by row](WriteOptions::row_by_row), and durable unless relaxed.
    Counted(RowsMet),
    /// Nothing is applied: this mutation of the call inserts a row that exists with other values. The number
    /// counts the mutations of all writes of the call, from 0. There may be further conflicts.
    Conflict(usize),
    /// May or may not be applied, now or later. Repeating the identical write resolves the outcome.
    Unknown(StoreError),
    /// Nothing was sent: the write exceeds a limit or is not allowed. Sending it again changes nothing.
    Refused(StoreError),
}

/// Existing rows that the puts of a call found. Rows that an earlier attempt of the same call (with the same
/// stamps) put do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowsMet {
    /// Mutations that were skipped because another row exists. The numbers count the mutations of all writes
    /// of the call, from 0, and are in no order.
    pub conflicts: Vec<usize>,
    /// Number of puts that replaced another row.
    pub replaced: u64,
    /// Number of puts that found the same row.
    pub repeated: u64,
}

/// Row of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowAddress {
    /// Static columns; `column` is an index into the table's statics.
    Static,
    /// Row with these clustering cells; `column` is an index into the table's regular columns.
    Row(Cells),
}

/// Column that must have a value (or null) for a [`Cas`] to apply. The columns of an absent row are null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CasCondition {
    /// Row of the column.
    pub row: RowAddress,
    /// Index of the column.
    pub column: u16,
    /// Value that the column must have; `None`: null.
    pub expected: Option<Vec<u8>>,
}

/// Conditional change of one partition. If all conditions hold, all mutations are applied; otherwise none.
///
/// A condition on a row needs a mutation of that row, and a condition on static columns needs any mutation
/// (both are rules of CQL). Each row is written at most once, a patch names at least one column, and neither
/// ranges nor the partition are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cas {
    /// The table.
    pub table: Arc<Table>,
    /// Cells of all partition columns.
    pub partition: Cells,
    /// Conditions, at least one.
    pub conditions: Vec<CasCondition>,
    /// Changes to make, without stamps.
    pub mutations: Vec<Mutation>,
}

/// Outcome of a conditional write.
#[derive(Debug)]
pub enum CasOutcome {
    /// The conditions held and the mutations are applied.
    Applied,
    /// A condition did not hold; nothing was applied.
    NotApplied {
        /// Current content of each condition's column, in the order of the conditions.
        current: Vec<Option<Vec<u8>>>,
    },
    /// May be applied, now or at any later time.
    Unknown(StoreError),
    /// Nothing was sent: the write exceeds a limit or is not allowed.
    Refused(StoreError),
}

impl Cas {
    /// Returns whether its conditions hold, given the content of their columns in `current`, in the order of
    /// the conditions.
    pub fn holds(&self, current: &[Option<Vec<u8>>]) -> bool {
        let expected = self.conditions.iter().map(|condition| &condition.expected);
        expected.eq(current)
    }
}

/// Outcome of a [transaction](crate::Store::transact).
#[derive(Debug)]
pub enum TransactionOutcome {
    /// All conditions held, and all is applied.
    Applied,
    /// A condition did not hold; nothing was applied.
    NotApplied {
        /// For each conditional write, the current content of each condition's column. [`Cas::holds`] tells
        /// from it whether the conditions hold.
        current: Vec<Vec<Option<Vec<u8>>>>,
    },
    /// Nothing is applied: this mutation inserts a row that exists with other values. The number counts the
    /// mutations of all plain writes of the call, from 0. There may be further conflicts.
    Conflict(usize),
    /// The whole transaction may be applied, now or at any later time.
    Unknown(StoreError),
    /// Nothing was sent: the transaction exceeds a limit or is not allowed, or the store has no transactions.
    Refused(StoreError),
}
