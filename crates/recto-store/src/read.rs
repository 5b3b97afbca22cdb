//! Reads: snapshots, options and results.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowSet, Slice, Table};

use crate::{StoreError, StoreErrorKind, check};

/// Number of replicas that must agree. The embedded store has one copy and treats all levels alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConsistencyLevel {
    /// One replica.
    One,
    /// One replica of the local data center.
    LocalOne,
    /// A majority.
    Quorum,
    /// A majority of the local data center.
    #[default]
    LocalQuorum,
    /// Every replica.
    All,
    /// All decided conditional writes are visible. Only for reads of one partition.
    Serial,
    /// [`Serial`](Self::Serial) within the local data center.
    LocalSerial,
}

/// Set of columns of a table, by index: either of the columns after the key, or of the columns of the key.
///
/// The set ignores indexes from 64 on: it never contains such a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnSet(u64);

impl ColumnSet {
    /// Returns the empty set.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Returns the static columns of a table, which are the first columns after its key.
    pub fn statics(table: &Table) -> Self {
        (0..table.statics().len()).fold(Self::new(), Self::with)
    }

    /// Returns the set with `column` added.
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

    /// Returns whether the set contains all static columns of a table.
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
    /// True if the read returns the stamp and the remaining lifetime of each row.
    pub stamps: bool,
    /// Maximum bytes: a slice or a scan stops after the row that reaches this number, and returns at least
    /// one row. This bounds memory for any content of rows. Cassandra may exceed the limit by the rows of one
    /// protocol page.
    pub max_bytes: u64,
    /// Columns whose cells the store may return as null, because the caller does not use them. The store may
    /// then save a lookup and the transfer of these cells.
    pub unseen: ColumnSet,
    /// Columns of the key, by index in the key. A scan skips a row whose cell in such a column is empty
    /// although the type has no empty value. In other columns such a cell is an error. Only another program
    /// can write such a row.
    pub leaves_out_empty: ColumnSet,
}

/// Maximum number of rows read concurrently, each by its own request.
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

/// Result of a read.
#[derive(Debug, Default)]
pub struct RowsRead {
    /// The rows, in the order of the read; cells in the table's column order, statics included.
    pub rows: RowSet,
    /// True if the slice has no further row in the direction of the read. False for a read that
    /// stopped at its row limit or at [`ReadOptions::max_bytes`], even if no rows remain.
    pub exhausted: bool,
    /// Bytes of the rows as stored or sent.
    pub bytes: u64,
    /// Sequential round trips of the read; 0 on the embedded store.
    pub round_trips: u32,
    /// Requests sent; 0 on the embedded store.
    pub statements: u32,
    /// Tombstones crossed, if the store reports them.
    pub tombstones: u64,
    /// Buckets read, for a table that is kept in buckets.
    pub buckets: BucketsRead,
    /// For each row, the newest stamp of its regular cells that are not null, in microseconds. If
    /// all are null, it is 0, because Cassandra does not report the stamp of such a row. Empty
    /// unless requested.
    pub stamps: Vec<i64>,
    /// If stamps are requested: for each row, the remaining lifetime in seconds, rounded up, of its regular
    /// cells that are not null. `None`: unlimited, or all cells are null.
    pub ends_in_seconds: Vec<Option<u32>>,
}

/// Buckets in which a read looked for rows, and the cost of finding them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketsRead {
    /// Numbers of the buckets of the partition that the read queried, in the order of the queries. A bucket
    /// that was queried repeatedly appears repeatedly.
    pub asked: Vec<u64>,
    /// Number of reads of the range map, which assigns rows to buckets. Using the cached range map counts as
    /// no read.
    pub directory_reads: u32,
}

impl BucketsRead {
    /// Adds the cost of another read of the partition.
    pub fn add(&mut self, more: Self) {
        self.asked.extend(more.asked);
        self.directory_reads += more.directory_reads;
    }
}

/// Row addressed by its full key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointRead {
    /// The table.
    pub table: Arc<Table>,
    /// Cells of all partition columns.
    pub partition: Cells,
    /// Cells of all clustering columns.
    pub clustering: Cells,
}

/// Contiguous part of a table in its store's token order. Opaque: each store has its own order. Stores agree
/// only on the set of rows.
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

/// Position from which to continue a token scan, in the store's own form. Callers may keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanPosition(pub Vec<u8>);

/// Result of one call of a token scan.
#[derive(Debug, Default)]
pub struct ScanRead {
    /// Rows, with cells in the table's column order; or partitions, each with its key and its static cells.
    pub rows: RowSet,
    /// Position from which to continue, on any snapshot. `None` at the end of the range.
    pub next: Option<ScanPosition>,
    /// Bytes of the rows as stored or sent.
    pub bytes: u64,
    /// Stamps, if requested and only for scans of rows: see [`RowsRead::stamps`]. 0 for a partition that is
    /// returned as one row.
    pub stamps: Vec<i64>,
    /// Remaining lifetimes, under the same conditions: see [`RowsRead::ends_in_seconds`].
    pub ends_in_seconds: Vec<Option<u32>>,
}

/// Bytes that each row counts in addition to its cells.
pub const ROW_OVERHEAD_BYTES: u64 = 64;

/// Maximum number of partitions whose counts one call reads.
pub const MAX_COUNTED_PARTITIONS: usize = 1_024;

/// Number of rows of a partition, and their bytes. Each row counts its clustering and regular cells, and
/// [`ROW_OVERHEAD_BYTES`]. Static cells count as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionCount {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the rows.
    pub bytes: u64,
}

/// Estimated number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RowEstimate {
    /// Estimate.
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

/// Source of reads: the state of a store at one moment. On a remote store, the state of the replicas at each
/// read.
#[async_trait]
pub trait Snapshot: Send + Sync {
    /// Returns the rows of one slice, at most its limit, in its direction.
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError>;

    /// Returns the result of [`slice`](Self::slice) if it is available without waiting (the embedded store).
    /// `None`: call `slice`.
    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        let _ = (slice, options);
        None
    }

    /// Returns one row by its full key, or no row.
    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError>;

    /// Reads rows concurrently by their full keys. Returns for each key the result of [`get`](Self::get). If
    /// one request reads several rows, the result of one of them contains the cost of the request.
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

    /// Splits a table into about `pieces` ranges (at least one) that together contain every row once.
    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError>;

    /// Returns at most `limit` rows of a range, from its start or from the position where an earlier call
    /// stopped. A call may return fewer rows, or none, before the end of the range: only `next` marks the
    /// end. A partition with static cells and no rows is one row with null clustering and regular cells.
    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError>;

    /// Returns at most `limit` partitions of a range, in the store's own order. It starts at the start of the
    /// range or where an earlier call of this function stopped. It returns each partition once, as its key
    /// followed by its static cells. A partition is listed if it has a row, or a static cell that is not
    /// null. Deleted or expired rows and cells do not count. The key alone decides which of the
    /// [`token_ranges`](Self::token_ranges) contains a partition. As in scans, only `next` marks the end of
    /// the range, and [`ReadOptions::max_bytes`] ends a call. The cost grows with the number of partitions
    /// and of deleted or expired rows, but not with the number of existing rows.
    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError>;

    /// Returns the counts of at most [`MAX_COUNTED_PARTITIONS`] partitions, in their order. The counts of a
    /// partition that does not exist are 0. The counts are exact while no row and no cell expires. Expired
    /// rows and cells count until they are overwritten, deleted, or compacted away.
    ///
    /// # Errors
    /// `Invalid` if the table does not [count its
    /// partitions](recto_model::table::TableOptions::counts_partitions), which is so for all tables of a
    /// store that [does not count](crate::Limits::counts_partitions). `Invalid` if there are too many
    /// partitions.
    async fn count_partitions(
        &self,
        table: &Arc<Table>,
        partitions: &[Cells],
        options: &ReadOptions,
    ) -> Result<Vec<PartitionCount>, StoreError> {
        let _ = (partitions, options);
        Err(check::does_not_count(table))
    }

    /// Returns the number of rows of a slice, regardless of its limit. The table must be in
    /// buckets, or [count its rows](recto_model::table::TableOptions::counts_rows) in a store that
    /// can.
    ///
    /// - For a table that counts its rows, the number is exact.
    /// - For buckets in a store that counts partitions, the number is exact while no row expires.
    ///   The call reads the count of each bucket.
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
    /// the slice. The rank is as exact as the number of rows of [`estimate`](Self::estimate). `None`: the
    /// slice has too few rows.
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
}

/// Reads rows concurrently by their full keys, each by its own request. Default implementation of
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
