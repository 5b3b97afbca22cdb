//! Reads: snapshots, options and results.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowSet, Slice, Table};

use crate::{StoreError, StoreErrorKind};

/// Number of replicas that must answer a request. The embedded store has one copy and treats all levels
/// alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConsistencyLevel {
    /// One replica must answer.
    One,
    /// One replica in the local data center must answer.
    LocalOne,
    /// A majority of the replicas must answer.
    Quorum,
    /// A majority of the replicas in the local data center must answer.
    #[default]
    LocalQuorum,
    /// Every replica must answer.
    All,
    /// Linearizable read, which sees all decided conditional writes. It is only for reads of one partition.
    Serial,
    /// [`Serial`](Self::Serial) among the replicas of the local data center.
    LocalSerial,
}

/// Set of columns of a table, by index: either of the columns after the key, or of the columns of the key.
///
/// The set ignores indexes from 64 on: it never contains such a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnSet(u64);

impl ColumnSet {
    /// Returns the empty set of columns.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Returns the static columns of a table, which are the first columns after its key.
    pub fn statics(table: &Table) -> Self {
        (0..table.statics().len()).fold(Self::new(), Self::with)
    }

    /// Returns this set with `column` added.
    #[must_use]
    pub fn with(self, column: usize) -> Self {
        Self(self.0 | Self::bit(column))
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the set contains a column.
    pub fn contains(self, column: usize) -> bool {
        self.0 & Self::bit(column) != 0
    }

    /// Returns whether the set contains all static columns of a table, numbered as columns after the key.
    pub fn contains_statics(self, table: &Table) -> bool {
        (0..table.statics().len()).all(|column| self.contains(column))
    }

    fn bit(column: usize) -> u64 {
        u32::try_from(column)
            .ok()
            .and_then(|column| 1_u64.checked_shl(column))
            .unwrap_or(0)
    }
}

/// Options of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Consistency level. `None`: the configured level of the store.
    pub consistency: Option<ConsistencyLevel>,
    /// Maximum duration of the call.
    pub timeout: Duration,
    /// True if the read must return the stamp and the remaining lifetime of each row.
    pub stamps: bool,
    /// Maximum bytes of the result. A slice or a scan stops after the row that reaches this number, and
    /// returns at least one row. The limit bounds memory, even if the rows are large. Cassandra may exceed the
    /// limit by the rows of one protocol page.
    pub max_bytes: u64,
    /// Columns whose cells the store may return as null, because the caller does not use them. The store can
    /// save a lookup and the transfer of these cells.
    pub unseen: ColumnSet,
    /// Columns of the key, by index in the key, whose cells another program may have left empty although the
    /// type has no empty value. A scan skips a row with such a cell. In other columns such a cell is an
    /// error.
    pub leaves_out_empty: ColumnSet,
}

/// Maximum number of rows that [`get_each`] reads concurrently, each by its own request.
pub const MAX_GETS: usize = 64;

/// Default maximum bytes of a read.
pub const DEFAULT_MAX_READ_BYTES: u64 = 4 << 20;

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            consistency: None,
            timeout: Duration::from_secs(5),
            stamps: false,
            max_bytes: DEFAULT_MAX_READ_BYTES,
            unseen: ColumnSet::new(),
            leaves_out_empty: ColumnSet::new(),
        }
    }
}

/// Result of a read of a slice, or of rows by their keys.
#[derive(Debug, Default)]
pub struct RowsRead {
    /// Rows, in the order of the read. Cells have the order of the table's columns, static columns included.
    pub rows: RowSet,
    /// True if the slice has no further row in the direction of the read. False for a read that
    /// stopped at its row limit or at [`ReadOptions::max_bytes`], even if no rows remain.
    pub exhausted: bool,
    /// Number of bytes of the rows, as they are stored or sent.
    pub bytes: u64,
    /// Number of sequential round trips of the read; 0 on the embedded store.
    pub round_trips: u32,
    /// Number of requests that the read sent; 0 on the embedded store.
    pub statements: u32,
    /// Number of tombstones that the read crossed, if the store reports them.
    pub tombstones: u64,
    /// Buckets (parts of a large partition) that the read queried. Empty for a table without buckets.
    pub buckets: BucketsRead,
    /// For each row, the newest stamp of its regular cells that are not null, in microseconds. If all are
    /// null, it is 0, because Cassandra does not report the stamp of such a row. Empty unless
    /// [`ReadOptions::stamps`] requested stamps.
    pub stamps: Vec<i64>,
    /// For each row, the remaining lifetime of its regular cells that are not null, in seconds, rounded up.
    /// `None`: the lifetime is unlimited, or all cells are null. Empty unless stamps are requested.
    pub ends_in_seconds: Vec<Option<u32>>,
}

/// Buckets in which a read searched rows, and the cost of finding these buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketsRead {
    /// Ids of the buckets that the read queried, in the order of the queries. A bucket that was queried
    /// repeatedly appears repeatedly.
    pub asked: Vec<u64>,
    /// Number of reads of the range map, which assigns rows to buckets. A use of the cached range map does
    /// not count.
    pub directory_reads: u32,
}

impl BucketsRead {
    /// Adds the buckets and the cost of `more`, another read of the same partition.
    pub fn add(&mut self, more: Self) {
        self.asked.extend(more.asked);
        self.directory_reads += more.directory_reads;
    }
}

/// Read of one row by its full key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointRead {
    /// Table of the row.
    pub table: Arc<Table>,
    /// Cells of all partition columns.
    pub partition: Cells,
    /// Cells of all clustering columns.
    pub clustering: Cells,
}

/// Contiguous part of a table in the token order of its store. Opaque, because each store has its own order.
/// Stores agree only on the set of rows of the whole table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRange {
    /// Start, in the store's own form; empty for the start of the table.
    pub start: Vec<u8>,
    /// End (exclusive), in the store's own form; empty for the end of the table.
    pub end: Vec<u8>,
}

impl TokenRange {
    /// Returns the range of the whole table, on every store.
    pub const fn whole() -> Self {
        Self {
            start: Vec::new(),
            end: Vec::new(),
        }
    }
}

/// Position from which to continue a token scan, in the store's own form. Callers may store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanPosition(pub Vec<u8>);

/// Result of one call of a token scan.
#[derive(Debug, Default)]
pub struct ScanRead {
    /// Rows, with cells in the order of the table's columns. A scan of partitions returns partitions instead,
    /// each with its key and its static cells.
    pub rows: RowSet,
    /// Position from which to continue, on any snapshot. `None` at the end of the range.
    pub next: Option<ScanPosition>,
    /// Number of bytes of the rows, as they are stored or sent.
    pub bytes: u64,
    /// Write timestamps of the rows, in microseconds, if [`ReadOptions::stamps`] requests them: see
    /// [`RowsRead::stamps`]. 0 for a partition that is returned as one row. Empty for a scan of partitions.
    pub stamps: Vec<i64>,
    /// Remaining lifetimes of the rows, in seconds, if [`ReadOptions::stamps`] requests them: see
    /// [`RowsRead::ends_in_seconds`]. Empty for a scan of partitions.
    pub ends_in_seconds: Vec<Option<u32>>,
}

/// Number and size of some consecutive rows of a slice. [`Snapshot::blocks`] returns one value for each part
/// of the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RowBlock {
    /// Number of rows of the block.
    pub rows: u64,
    /// Number of bytes of the rows as they are stored, with their keys.
    pub bytes: u64,
}

/// Estimate of the number of rows of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RowEstimate {
    /// Estimated number of rows.
    pub rows: u64,
    /// Variance of the estimate; 0 if the number is exact.
    pub variance: u64,
}

#[cold]
fn not_counted(table: &Table) -> StoreError {
    let message = format!(
        "the rows of table {} have no counts, because it has no buckets",
        table.name()
    );
    StoreError::new(StoreErrorKind::Invalid, message).with_hint("declare `bucket` in the schema")
}

/// Source of reads: the state of a store at one moment. On a remote store, each read sees the state of the
/// replicas at the time of the read.
#[async_trait]
pub trait Snapshot: Send + Sync {
    /// Returns the rows of one slice, at most its limit, in its direction.
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError>;

    /// Returns the result of [`slice`](Self::slice) if it is available without waiting, as it may be on the
    /// embedded store. `None`: call `slice`.
    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        let _ = (slice, options);
        None
    }

    /// Returns one row by its full key, or no row.
    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError>;

    /// Reads rows concurrently by their full keys. Returns for each key the result of [`get`](Self::get). If
    /// one request reads several rows, the cost of the request is in the result of one of these rows.
    async fn get_many(
        &self,
        reads: &[PointRead],
        options: &ReadOptions,
    ) -> Result<Vec<RowsRead>, StoreError> {
        get_each(self, reads, options).await
    }

    /// Returns the static cells of a partition as one row of `table.statics().len()` cells. Returns no row if
    /// all static cells are null.
    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError>;

    /// Splits a table into about `pieces` ranges, but at least one. Every row is in exactly one range, so
    /// that scans of all ranges read the whole table once.
    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError>;

    /// Returns at most `limit` rows of a range, from its start or from the position where an earlier call
    /// stopped. A call may return fewer rows, or none, before the end of the range. The range is finished
    /// only when `next` is `None`. A partition with static cells and no rows is one row with null clustering
    /// and regular cells.
    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError>;

    /// Returns at most `limit` partitions of a range, in the store's own order. The call starts at the start
    /// of the range or where an earlier call of this function stopped. It returns each partition once, as its
    /// key followed by its static cells.
    ///
    /// - A partition is listed if it has a row, or a static cell that is not null. Deleted or expired rows
    ///   and cells do not count.
    /// - The key alone decides which of the [`token_ranges`](Self::token_ranges) contains a partition.
    /// - As in scans, the range is finished only when `next` is `None`, and [`ReadOptions::max_bytes`] ends a
    ///   call.
    /// - The cost grows with the number of partitions and of deleted or expired rows, but not with the number
    ///   of existing rows.
    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError>;

    /// Returns the number of rows of a slice, regardless of its limit. The table must be kept in buckets, or
    /// must [count its rows](recto_model::table::TableOptions::counts_rows) in a store that supports
    /// counting.
    ///
    /// - For a table that counts its rows, the number is exact.
    /// - Otherwise the number is an estimate, whose cost does not depend on the number of buckets.
    ///
    /// # Errors
    /// `Invalid` if this store does not keep the table in buckets, or if the slice covers too many
    /// buckets.
    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        let _ = options;
        Err(not_counted(&slice.table))
    }

    /// Returns the clustering key of the row that has `rank` rows of the slice before it, in the direction of
    /// the slice. The rank is exact if the number of rows of [`estimate`](Self::estimate) is exact, and
    /// otherwise an estimate. `None`: the slice has too few rows.
    ///
    /// # Errors
    /// The errors of [`estimate`](Self::estimate).
    async fn row_at(
        &self,
        slice: &Slice,
        rank: u64,
        options: &ReadOptions,
    ) -> Result<Option<Cells>, StoreError> {
        let _ = (rank, options);
        Err(not_counted(&slice.table))
    }

    /// Returns the sizes of consecutive parts of a slice, in key order, without reading most rows. A part has
    /// at most some thousands of rows. Expired rows do not count.
    ///
    /// # Errors
    /// `Invalid` if the store does not [count rows](crate::Limits::counts_rows).
    async fn blocks(&self, slice: &Slice, options: &ReadOptions) -> Result<Vec<RowBlock>, StoreError> {
        let _ = options;
        Err(not_counted(&slice.table))
    }
}

/// Reads rows concurrently by their full keys, each by its own request. This is the default implementation of
/// [`Snapshot::get_many`].
///
/// # Errors
/// The first error of a read.
pub async fn get_each<'r, S: Snapshot + ?Sized>(
    snapshot: &S,
    reads: impl IntoIterator<Item = &'r PointRead>,
    options: &ReadOptions,
) -> Result<Vec<RowsRead>, StoreError> {
    let each = reads.into_iter().map(|read| snapshot.get(read, options));
    let each: Vec<_> = each.collect();
    stream::iter(each).buffered(MAX_GETS).try_collect().await
}
