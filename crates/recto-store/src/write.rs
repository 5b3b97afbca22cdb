//! Writes: mutations, conditions and their outcomes.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Bound, Cells, Table};

use crate::{ConsistencyLevel, StoreError};

/// Timestamp of a write, in microseconds since 1970. The later of two writes to a cell wins. At equal
/// timestamps a deletion wins, then the larger value, cell by cell, as in Cassandra.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub i64);

/// Change that a mutation makes to its partition. The cells of a row are in the order of the table's regular
/// columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Puts a row, which exists afterwards even if all its cells are null.
    Put {
        /// Cells of all clustering columns, which identify the row.
        clustering: Cells,
        /// Cells of all regular columns.
        cells: Cells,
        /// True if the put replaces an existing row. Otherwise, a plain put is an *insert*, for rows that
        /// never change. An insert conflicts with an existing row that has other values, if the store [sees
        /// conflicts](crate::Limits::sees_conflicts). If the store does not, and in a [`Cas`], columns that
        /// the put leaves null stay unchanged. Cassandra then keeps no tombstone for each null.
        replace: bool,
    },
    /// Sets some columns of a row, which exists afterwards. `columns` are indexes into the table's regular
    /// columns.
    Patch {
        /// Cells of all clustering columns, which identify the row.
        clustering: Cells,
        /// Indexes of the columns to set, among the table's regular columns.
        columns: Vec<u16>,
        /// New cells, one for each index in `columns`.
        cells: Cells,
    },
    /// Sets some static columns of the partition. `columns` are indexes into the table's statics.
    PatchStatic {
        /// Indexes of the columns to set, among the table's static columns.
        columns: Vec<u16>,
        /// New cells, one for each index in `columns`.
        cells: Cells,
    },
    /// Deletes a row.
    DeleteRow {
        /// Cells of all clustering columns, which identify the row.
        clustering: Cells,
    },
    /// Deletes the rows between two edges, and keeps static cells. Not allowed in a [`Cas`].
    DeleteRange {
        /// Start of the range, in clustering order.
        from: Bound,
        /// End of the range, in clustering order.
        to: Bound,
    },
    /// Deletes all rows and static cells of the partition. Not allowed in a [`Cas`].
    DeletePartition,
}

/// One change to one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// Kind of the change, and its keys and cells.
    pub operation: Operation,
    /// Write timestamp. Required for plain writes. A [`Cas`] must not have one, because the store gives it a
    /// newer stamp than that of the data that it changes. In a transaction each mutation follows the rule of
    /// its own kind of write.
    pub stamp: Option<Stamp>,
    /// Lifetime of the written data in whole seconds, from 1 to
    /// [`MAX_TTL_SECONDS`](crate::check::MAX_TTL_SECONDS); `None`: unlimited. Ignored for deletions.
    pub ttl_seconds: Option<u32>,
}

/// Mutations of one partition, which are applied together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWrite {
    /// Table that is written.
    pub table: Arc<Table>,
    /// Cells of all partition columns.
    pub partition: Cells,
    /// Changes to make, in any order. They take effect in the order of their stamps.
    pub mutations: Vec<Mutation>,
}

/// Atomicity of a write of several partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Atomicity {
    /// All partitions are eventually written, or none, even after crashes.
    Logged,
    /// Each partition is written as a whole or not at all, independently of the others.
    Each,
}

/// Options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Consistency level. `None`: the configured level of the store.
    pub consistency: Option<ConsistencyLevel>,
    /// Maximum duration of the call.
    pub timeout: Duration,
    /// True if the call may return before the write is durable. Only for bulk loads, which end with a durable
    /// write before they report their rows as durable. Cassandra ignores this option.
    pub relaxed: bool,
    /// True if conflicting inserts are skipped and the other mutations are applied. The outcome is then
    /// [`Counted`](WriteOutcome::Counted). Only for bulk loads. A store that does not [see
    /// conflicts](crate::Limits::sees_conflicts) ignores this option.
    pub row_by_row: bool,
    /// Time at which the caller began to read the rows on which this write depends, in nanoseconds of
    /// [`Environment::monotonic_nanos`](recto_model::Environment::monotonic_nanos). It matters only for
    /// tables that are kept in buckets, and for stamps that are older than the store's knowledge of the
    /// buckets. Without this time, the store rejects such writes as [`Moved`](crate::StoreErrorKind::Moved).
    /// Relaxed writes are never rejected for this reason.
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
    /// The write is applied, and durable unless it is relaxed.
    Done,
    /// The write is applied [row by row](WriteOptions::row_by_row), and durable unless it is relaxed.
    Counted(RowsMet),
    /// Nothing is applied, because the mutation with this index inserts a row that exists with other values.
    /// The index counts the mutations of all writes of the call, from 0. There may be further conflicts.
    Conflict(usize),
    /// The write may or may not be applied, now or later. To resolve the outcome, repeat the identical write.
    Unknown(StoreError),
    /// Nothing was sent, because the write exceeds a limit or is not allowed. Sending the write again has the
    /// same result.
    Refused(StoreError),
}

/// Existing rows that the puts of a call found. Rows that an earlier attempt of the same call wrote, with the
/// same stamps, do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowsMet {
    /// Mutations that were skipped because a row with other values exists. Each is given by its index, which
    /// counts the mutations of all writes of the call from 0. The indexes are in no order.
    pub conflicts: Vec<usize>,
    /// Number of puts that replaced a row with other values.
    pub replaced: u64,
    /// Number of puts that found a row with the same values.
    pub repeated: u64,
}

/// Address, within a partition, of the row that a condition reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowAddress {
    /// Static columns of the partition. The `column` of the condition is an index into the table's static
    /// columns.
    Static,
    /// Row with these clustering cells. The `column` of the condition is an index into the table's regular
    /// columns.
    Row(Cells),
}

/// Condition of a [`Cas`]: a column must have a given value, or be null. The columns of an absent row are
/// null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CasCondition {
    /// Address of the row whose column is compared.
    pub row: RowAddress,
    /// Index of the column among the static or the regular columns.
    pub column: u16,
    /// Value that the column must have; `None`: null.
    pub expected: Option<Vec<u8>>,
}

/// Conditional change (compare-and-set) of one partition. If all conditions hold, all mutations are applied;
/// otherwise none.
///
/// A condition on a row needs a mutation of that row, and a condition on static columns needs any mutation
/// (both are rules of CQL). Each row is written at most once, a patch names at least one column, and neither
/// ranges nor the partition may be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cas {
    /// Table that is changed.
    pub table: Arc<Table>,
    /// Cells of all partition columns.
    pub partition: Cells,
    /// Conditions that must all hold; at least one.
    pub conditions: Vec<CasCondition>,
    /// Changes to make if all conditions hold, without stamps (write timestamps).
    pub mutations: Vec<Mutation>,
}

/// Outcome of a conditional write.
#[derive(Debug)]
pub enum CasOutcome {
    /// The conditions held and the mutations are applied.
    Applied,
    /// A condition did not hold, so nothing was applied.
    NotApplied {
        /// Current value of the column of each condition, in the order of the conditions.
        current: Vec<Option<Vec<u8>>>,
    },
    /// The write may be applied, now or at any later time.
    Unknown(StoreError),
    /// Nothing was sent, because the write exceeds a limit or is not allowed.
    Refused(StoreError),
}

impl Cas {
    /// Returns whether the conditions hold if their columns have the values `current`, in the order of the
    /// conditions.
    pub fn holds(&self, current: &[Option<Vec<u8>>]) -> bool {
        let expected = self.conditions.iter().map(|condition| &condition.expected);
        expected.eq(current)
    }
}

/// Outcome of a [transaction](crate::Store::transact).
#[derive(Debug)]
pub enum TransactionOutcome {
    /// All conditions held, and all writes are applied.
    Applied,
    /// A condition did not hold, so nothing was applied.
    NotApplied {
        /// For each conditional write, the current values of the columns in its conditions. [`Cas::holds`]
        /// decides from them whether the conditions hold.
        current: Vec<Vec<Option<Vec<u8>>>>,
    },
    /// Nothing is applied, because the mutation with this index inserts a row that exists with other values.
    /// The index counts the mutations of all plain writes of the call, from 0. There may be further
    /// conflicts.
    Conflict(usize),
    /// The whole transaction may be applied, now or at any later time.
    Unknown(StoreError),
    /// Nothing was sent, because the transaction exceeds a limit or is not allowed, or the store has no
    /// transactions.
    Refused(StoreError),
}
