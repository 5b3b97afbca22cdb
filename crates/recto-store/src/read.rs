//! Reading.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowSet, Slice, Table};

use crate::{StoreError, StoreErrorKind, check};

/// How many replicas must agree. The embedded store has one copy and treats all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConsistencyLevel {
    /// One replica.
    One,
    /// One replica of the local data centre.
    LocalOne,
    /// A majority.
    Quorum,
    /// A majority of the local data centre.
    #[default]
    LocalQuorum,
    /// Every replica.
    All,
    /// A read that sees every decided conditional write; reads of one partition only.
    Serial,
    /// The same within the local data centre.
    LocalSerial,
}

/// Columns of a table behind its key, or of the key, by their places there.
///
/// Those beyond the 64th are in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnSet(u64);

impl ColumnSet {
    /// No columns.
    pub const fn new() -> Self {
        Self(0)
    }

    /// The static columns of a table, which stand first behind its key.
    pub fn statics(table: &Table) -> Self {
        (0..table.statics().len()).fold(Self::new(), Self::with)
    }

    /// The same with another one.
    #[must_use]
    pub fn with(self, column: usize) -> Self {
        Self(self.0 | Self::bit(column))
    }

    /// Returns whether it has no column.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a column is one of them.
    pub fn contains(self, column: usize) -> bool {
        self.0 & Self::bit(column) != 0
    }

    /// Whether the static columns of a table are.
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

/// How to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// `None`: the store's configured level.
    pub consistency: Option<ConsistencyLevel>,
    /// How long the call may take.
    pub timeout: Duration,
    /// Whether to return when each row was written, and for how long it lives.
    pub stamps: bool,
    /// A slice or a scan stops after the row that takes it to this many bytes (it returns at least
    /// one row), so that memory is bounded whatever rows hold. Cassandra may overshoot by the rows
    /// of one protocol page.
    pub max_bytes: u64,
    /// Columns whose cells may be told as null: nobody looks at them, which may save the store a look for them, and sending them.
    pub unseen: ColumnSet,
    /// Columns of the key, by their places in it. A scan leaves out a row whose cell there has no bytes although the type has
    /// no such value. Elsewhere such a row is an error. Only another program can write such a row.
    pub leaves_out_empty: ColumnSet,
}

/// The most rows that are read side by side, each by a request of its own.
pub const MAX_GETS: usize = 64;

/// The bytes a read returns unless told otherwise.
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

/// What a read returned.
#[derive(Debug, Default)]
pub struct RowsRead {
    /// The rows, in the order of the read; cells in the table's column order, statics included.
    pub rows: RowSet,
    /// Whether the slice has no further row in the direction of the read. A read that stopped at
    /// its row limit or at [`ReadOptions::max_bytes`] says false, even if nothing is left.
    pub exhausted: bool,
    /// Bytes of the rows as stored or sent.
    pub bytes: u64,
    /// Sequential round trips the read took; 0 on the embedded store.
    pub round_trips: u32,
    /// Requests sent; 0 on the embedded store.
    pub statements: u32,
    /// Tombstones crossed, where the store says.
    pub tombstones: u64,
    /// Of a table that is kept in buckets: where the rows were looked for.
    pub buckets: BucketsRead,
    /// If asked for: for each row, the newest stamp of its regular cells that are not null,
    /// microseconds; 0 if all are null (Cassandra does not tell the stamp of such a row).
    pub stamps: Vec<i64>,
    /// If stamps are asked for: for each row, for how many more seconds its regular cells live that are not null, rounded
    /// up; none: for ever, or all are null.
    pub ends_in_seconds: Vec<Option<u32>>,
}

/// Where rows of a table that is kept in buckets were looked for, and what it took to know where they lie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketsRead {
    /// The buckets of the partition that were asked for rows, by their numbers, in this order; each as often as it was.
    pub asked: Vec<u64>,
    /// How often the directory was read, which says which bucket has which rows. What is known of it takes nothing.
    pub directory_reads: u32,
}

impl BucketsRead {
    /// Adds what another read of the partition took.
    pub fn add(&mut self, more: Self) {
        self.asked.extend(more.asked);
        self.directory_reads += more.directory_reads;
    }
}

/// A row addressed by its full key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointRead {
    /// The table.
    pub table: Arc<Table>,
    /// The cells of all partition columns.
    pub partition: Cells,
    /// The cells of all clustering columns.
    pub clustering: Cells,
}

/// A contiguous piece of a table in its store's token order. Opaque: each store has its own
/// order, and only the set of rows agrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRange {
    /// Where it begins, in the store's own form; empty for the beginning.
    pub start: Vec<u8>,
    /// Where it ends (exclusive), in the store's own form; empty for the end.
    pub end: Vec<u8>,
}

impl TokenRange {
    /// The whole table, on every store.
    pub const fn whole() -> Self {
        Self {
            start: Vec::new(),
            end: Vec::new(),
        }
    }
}

/// Where a token scan stopped, to go on from; in the store's own form, safe to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanPosition(pub Vec<u8>);

/// What a piece of a token scan returned.
#[derive(Debug, Default)]
pub struct ScanRead {
    /// Rows, cells in the table's column order; or partitions, each its key and its static cells.
    pub rows: RowSet,
    /// Where to go on, from any snapshot; `None` at the end of the range.
    pub next: Option<ScanPosition>,
    /// Bytes of the rows as stored or sent.
    pub bytes: u64,
    /// If asked for, and of scans of rows only: as [`RowsRead::stamps`]; of a partition that is returned as one row, 0.
    pub stamps: Vec<i64>,
    /// Likewise, as [`RowsRead::ends_in_seconds`].
    pub ends_in_seconds: Vec<Option<u32>>,
}

/// What a row counts for beside its cells.
pub const ROW_OVERHEAD_BYTES: u64 = 64;

/// The most partitions whose counts are read at once.
pub const MAX_COUNTED_PARTITIONS: usize = 1_024;

/// How many rows a partition has, and their bytes: of each its clustering and regular cells, and
/// [`ROW_OVERHEAD_BYTES`]. Static cells count for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionCount {
    /// Rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// About how many rows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RowEstimate {
    /// So many.
    pub rows: u64,
    /// The variance of that; 0: it is exact.
    pub variance: u64,
}

/// That nobody counts the rows of a table.
#[cold]
fn not_counted(table: &Table) -> StoreError {
    let message = format!(
        "the rows of table {} are not counted: it has no buckets",
        table.name()
    );
    StoreError::new(StoreErrorKind::Invalid, message).with_hint("say `bucket` in the schema")
}

/// What reads go through: a store as it was at one moment, or, where it is remote, as its replicas have it at
/// each read.
#[async_trait]
pub trait Snapshot: Send + Sync {
    /// The rows of one slice: at most its limit, in its direction.
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError>;

    /// The rows of a slice, if that can be had at once without waiting (the embedded store): what
    /// [`slice`](Self::slice) would return. `None`: ask `slice`.
    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        let _ = (slice, options);
        None
    }

    /// One row by its full key: a set of one row or none.
    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError>;

    /// Rows by their full keys, side by side: for each key what [`get`](Self::get) returns. What one request for several
    /// costs is told with one of them.
    async fn get_many(
        &self,
        reads: &[PointRead],
        options: &ReadOptions,
    ) -> Result<Vec<RowsRead>, StoreError> {
        get_each(self, reads, options).await
    }

    /// The static cells of a partition: one row of `table.statics().len()` cells, or none if all
    /// of them are null.
    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError>;

    /// Splits a table into about `pieces` ranges (at least one) that together hold every row once.
    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError>;

    /// At most `limit` rows of a range, from its start or from where an earlier call stopped. There
    /// may be fewer, or none, with more to come: only `next` says where the range ends. A partition
    /// with static cells and no rows is one row, its clustering and regular cells null.
    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError>;

    /// At most `limit` partitions of a range, in the store's own order, from its start or from where an earlier
    /// call of this stopped: each once, as its key and then its static cells. One is listed if it has a row, or a
    /// static cell that is not null; what was deleted or has ended counts for neither. Which of the
    /// [`token_ranges`](Self::token_ranges) it lies in depends on its key alone. As in scans only `next` says where the
    /// range ends, and [`ReadOptions::max_bytes`] ends a call. What it costs grows with the partitions, and
    /// with rows that were deleted or have ended, but not with the rows there are.
    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError>;

    /// The counts of partitions, in their order, at most [`MAX_COUNTED_PARTITIONS`]; nothing of one that is not there.
    /// They are exact while no row and no cell ends: what has ended is counted until it is written over, deleted, or
    /// compacted away.
    ///
    /// # Errors
    /// `Invalid`: the table does not [count its partitions](recto_model::table::TableOptions::counts_partitions), as none
    /// does where the store [does not](crate::Limits::counts_partitions); or there are too many.
    async fn count_partitions(
        &self,
        table: &Arc<Table>,
        partitions: &[Cells],
        options: &ReadOptions,
    ) -> Result<Vec<PartitionCount>, StoreError> {
        let _ = (partitions, options);
        Err(check::does_not_count(table))
    }

    /// How many rows a slice has, whatever its limit, of a table that is kept in buckets. Where the store counts partitions that is
    /// exact while no row ends, and the count of each bucket is read; else it is an estimate, which costs the same however many
    /// buckets there are.
    ///
    /// # Errors
    /// `Invalid`: the table is not kept in buckets here, or the slice lies in too many.
    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        let _ = options;
        Err(not_counted(&slice.table))
    }

    /// The clustering key of the row of a slice that so many stand before in its direction: exactly, or about, as
    /// [`estimate`](Self::estimate) says how many there are. None: there are not so many.
    ///
    /// # Errors
    /// As [`estimate`](Self::estimate).
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

/// Rows by their full keys, side by side, each by a request of its own: what [`Snapshot::get_many`] is unless a store says
/// otherwise.
///
/// # Errors
/// One of them cannot be read.
pub async fn get_each<'r, S: Snapshot + ?Sized>(
    snapshot: &S,
    reads: impl IntoIterator<Item = &'r PointRead>,
    options: &ReadOptions,
) -> Result<Vec<RowsRead>, StoreError> {
    let each = reads.into_iter().map(|read| snapshot.get(read, options));
    let each: Vec<_> = each.collect();
    stream::iter(each).buffered(MAX_GETS).try_collect().await
}
