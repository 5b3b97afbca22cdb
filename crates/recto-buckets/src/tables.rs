//! The tables of range maps, samples and sums, and the description of a table whose partitions are
//! kept in buckets.

use std::sync::Arc;
use std::time::Duration;

use recto_model::table::{ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::width::Width;
use recto_model::{Bound, Cells, Column, RowRef, Slice, Table, Type, key};
use recto_protocol::buckets::sizing::{MAX_SAMPLED_EACH, ROW_BYTES, RowSizing, Sizing, counted_bytes};
use recto_protocol::buckets::{Bucket, Floor, Key, Sampling, Shard, Shards, Span};
use recto_store::{ColumnSet, Mutation, Operation, PartitionWrite, ReadOptions, Stamp};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::keys::{self, direction_of};
use crate::times::{Keep, Times};

const DIRECTORIES: &str = "recto_buckets";
const SAMPLES: &str = "recto_samples";
const SUMS: &str = "recto_sums";
const TIMES: &str = "recto_times";
/// Column that holds the bucket: the last column of the partition key, or the last but one if
/// buckets have shards.
pub const BUCKET_COLUMN: &str = "recto_bucket";
/// Last column of the partition key of a table whose buckets have shards.
pub const SHARD_COLUMN: &str = "recto_shard";
/// Column that holds the size of a row that counts for its bucket. The column is never null, so its
/// write timestamp is the row's, even if all other columns are null.
pub const ROW_COLUMN: &str = "recto_row";
/// Static column of bucket 0, which marks that the partition exists, even if bucket 0 has no rows.
pub const ROOT_COLUMN: &str = "recto_root";
/// Version of the encoding of [`ROW_COLUMN`].
pub const ROW_FORMAT_VERSION: u8 = 1;

/// Maximum size of a time bucket, in bytes. No bucket reaches it, because a time and not a size
/// bounds such a bucket.
const UNBOUNDED_BYTES: u64 = 1 << 60;
/// Value of [`ROOT_COLUMN`], which says that the partition exists.
const MARK: &[u8] = &[1];

/// Tables of the engine itself, in addition to the tables of rows.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) directories: Arc<Table>,
    pub(crate) samples: Arc<Table>,
    pub(crate) sums: Arc<Table>,
    /// Registry of the time buckets that exist.
    pub(crate) times: Arc<Table>,
}

impl Tables {
    /// Defines the tables. Their columns are in the order of their names, as Cassandra lists them.
    pub(crate) fn new() -> Self {
        let of_all = ColumnKind::Static(WriteKind::Cas);
        let decided = ColumnKind::Regular(WriteKind::Cas);
        let plain = ColumnKind::Regular(WriteKind::Plain);
        let directories = vec![
            column("table_name", Type::Text, ColumnKind::Partition),
            column("partition", Type::Blob, ColumnKind::Partition),
            column("start", Type::Blob, ASCENDING),
            column("floor", Type::Blob, of_all),
            column("life_ms", Type::BigInt, of_all),
            column("longest_ms", Type::BigInt, of_all),
            column("next_bucket", Type::BigInt, of_all),
            column("version", Type::BigInt, of_all),
            column("bucket", Type::BigInt, decided),
            column("bytes", Type::BigInt, decided),
            column("bytes_variance", Type::BigInt, decided),
            column("further", Type::Blob, decided),
            column("mean", Type::BigInt, decided),
            column("next_mean", Type::BigInt, decided),
            column("next_unit", Type::BigInt, decided),
            column("rows", Type::BigInt, decided),
            column("rows_variance", Type::BigInt, decided),
            column("unit", Type::BigInt, decided),
        ];
        let samples = vec![
            column("table_name", Type::Text, ColumnKind::Partition),
            column("partition", Type::Blob, ColumnKind::Partition),
            column("bucket", Type::BigInt, ColumnKind::Partition),
            column("key", Type::Blob, ASCENDING),
            column("bytes", Type::Int, plain),
            column("gone", Type::Boolean, plain),
        ];
        let sums = vec![
            column("table_name", Type::Text, ColumnKind::Partition),
            column("partition", Type::Blob, ColumnKind::Partition),
            column("start", Type::Blob, ASCENDING),
            column("pieces", Type::BigInt, plain),
            column("rows", Type::BigInt, plain),
            column("rows_variance", Type::BigInt, plain),
        ];
        let times = vec![
            column("table_name", Type::Text, ColumnKind::Partition),
            column("partition", Type::Blob, ColumnKind::Partition),
            column("start", Type::Blob, ASCENDING),
            column("bucket", Type::BigInt, plain),
        ];
        Self {
            directories: Arc::new(made(DIRECTORIES, directories)),
            samples: Arc::new(made(SAMPLES, samples)),
            sums: Arc::new(made(SUMS, sums)),
            times: Arc::new(made(TIMES, times)),
        }
    }
}

const ASCENDING: ColumnKind = ColumnKind::Clustering(Direction::Ascending);

fn column(name: &str, ty: Type, kind: ColumnKind) -> Column {
    Column {
        name: name.into(),
        ty,
        kind,
    }
}

fn made(name: &str, columns: Vec<Column>) -> Table {
    Table::new(name, columns, TableOptions::default()).expect("these columns are a table")
}

/// Maximum size of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketSize {
    /// Maximum number of bytes. A store without transactions sums the sizes that the rows store in
    /// [`ROW_COLUMN`]. A store with transactions sums the sizes of the stored rows.
    Bytes(u64),
    /// Maximum number of rows of a bucket.
    Rows(u64),
}

/// A table whose partitions are kept in buckets. The last column of its partition key is
/// [`BUCKET_COLUMN`], a bigint. If buckets have shards, [`SHARD_COLUMN`], an int, follows it.
/// [`ROW_COLUMN`], a blob, is a regular column, and [`ROOT_COLUMN`], a boolean, a static column.
#[derive(Debug, Clone)]
pub struct PiecedTable {
    pub(crate) table: Arc<Table>,
    /// Index of [`ROW_COLUMN`] among the regular columns.
    row_column: usize,
    root_column: u16,
    /// Number of samples (sampled rows) at which a bucket is full and is split.
    pub(crate) samples: u32,
    /// Sampling (chance that a row is sampled, by its size) before the first split of a partition.
    pub(crate) sampling: Sampling,
    /// Maximum size of a bucket, in bytes or rows.
    pub(crate) size: BucketSize,
    /// Number of store partitions in which each bucket is kept.
    pub(crate) shards: Shards,
    /// Time width of the buckets. `None` means that sizes decide the splits.
    pub(crate) times: Option<Arc<Times>>,
    /// Retention of rows. `None` means that rows are kept forever.
    pub(crate) keep: Option<Arc<Keep>>,
    /// True if a put skips rows below the retention bound. False if the store rejects such a put.
    pub(crate) leaves_out_late: bool,
}

impl PiecedTable {
    /// Describes a table with buckets of the size `sizing`, for stores without transactions.
    ///
    /// # Errors
    /// A column is missing, or has another type or kind than required.
    pub fn new(table: Arc<Table>, sizing: Sizing) -> Result<Self> {
        Self::sharded(table, sizing, Shards::ONE)
    }

    /// Describes a table whose buckets have `shards` shards each. The size applies to all shards of
    /// a bucket together.
    ///
    /// # Errors
    /// A column is missing, or has another type or kind than required.
    pub fn sharded(table: Arc<Table>, sizing: Sizing, shards: Shards) -> Result<Self> {
        let unit = whole(sizing.bytes_per_sample()).max(1);
        let size = BucketSize::Bytes(unit.saturating_mul(sizing.samples().into()));
        Self::with(table, (sizing.samples(), unit, size), shards)
    }

    /// Returns this table with a maximum bucket size of `bytes`. The maximum only decides which
    /// buckets are reported as too large. Samples still decide the splits.
    #[must_use]
    pub fn of_bytes(self, bytes: u64) -> Self {
        let size = BucketSize::Bytes(bytes);
        Self { size, ..self }
    }

    /// Describes a table with buckets of at most `rows` rows, for stores without transactions. The number
    /// of samples of a bucket shows when its keys must be counted to decide about a split.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_rows(table: Arc<Table>, rows: u64, sizing: RowSizing, shards: Shards) -> Result<Self> {
        let sampling = sizing.sampling();
        let size = BucketSize::Rows(rows);
        let made = Self::with(table, (sizing.samples(), sampling.unit, size), shards)?;
        Ok(Self { sampling, ..made })
    }

    /// Returns the sampling of the rows of new buckets. A bucket that is bounded by bytes is sampled by
    /// the mean size `mean` of a row, in bytes. A bucket that is bounded by rows is sampled as the table
    /// defines it.
    pub(crate) fn next_sampling(&self, mean: u64) -> Sampling {
        match self.size {
            BucketSize::Rows(_) => self.sampling,
            BucketSize::Bytes(_) => Sampling {
                unit: self.sampling.unit,
                mean: mean.max(1),
            },
        }
    }

    /// Returns the maximum number of rows of a bucket, if its keys must be counted before a split.
    /// Keys must be counted if buckets are bounded by rows, and the maximum is too large to sample
    /// every row.
    pub(crate) fn counted_rows(&self) -> Option<u64> {
        match self.size {
            BucketSize::Rows(rows) if rows > MAX_SAMPLED_EACH => Some(rows),
            BucketSize::Rows(_) | BucketSize::Bytes(_) => None,
        }
    }

    /// Returns the number of bytes that a row of `bytes` bytes adds to the sum of the data written
    /// to a bucket: at least the mean size of a row.
    pub(crate) fn weight(&self, bytes: u64) -> u64 {
        bytes.max(self.sampling.mean)
    }

    /// Returns this table with one bucket for each `width` of time, regardless of its size. The first
    /// order column holds the time.
    ///
    /// # Errors
    /// The rows are not ordered by a time first.
    pub fn by_time(self, width: Width) -> Result<Self> {
        let times = Times::of(&self.table, width)?;
        Ok(Self {
            size: BucketSize::Bytes(UNBOUNDED_BYTES),
            times: Some(Arc::new(times)),
            ..self
        })
    }

    /// Returns this table with a retention of `length`. The first order column holds the time of a
    /// row.
    ///
    /// # Errors
    /// The rows are not ordered by a time first.
    pub fn kept_for(self, length: Width) -> Result<Self> {
        let keep = Keep::of(&self.table, length, self.times.as_deref())?;
        Ok(Self {
            keep: Some(Arc::new(keep)),
            ..self
        })
    }

    /// Returns this table with puts that skip rows below the retention bound. Without this option,
    /// such puts fail.
    #[must_use]
    pub fn leaving_out_late(self) -> Self {
        Self {
            leaves_out_late: true,
            ..self
        }
    }

    /// Returns the interval between two searches for expired data. 0: rows are kept forever.
    pub(crate) fn retain_every(&self) -> Duration {
        let keep = self.keep.as_ref();
        keep.map_or(Duration::ZERO, |keep| keep.retain_every())
    }

    /// Returns the retention bound (edge beyond which rows are not kept) at a time, or `None` if
    /// rows are kept forever.
    ///
    /// # Errors
    /// The table has no key for this bound.
    pub(crate) fn floor(&self, now_micros: i64) -> Result<Option<Floor>> {
        let keep = self.keep.as_ref();
        keep.map(|keep| keep.floor(now_micros.div_euclid(1_000)))
            .transpose()
    }

    fn with(
        table: Arc<Table>,
        (samples, unit, size): (u32, u64, BucketSize),
        shards: Shards,
    ) -> Result<Self> {
        let missing = |name, what| {
            let message = format!("table {} has no column {name}: {what}", table.name());
            PiecesError::new(PiecesErrorKind::InvalidArgument, message)
        };
        let is = |column: &Column, name: &str, ty: &Type| column.name == name && column.ty == *ty;
        let mut keys = table.partition().iter().rev();
        if shards.are_several()
            && !keys
                .next()
                .is_some_and(|column| is(column, SHARD_COLUMN, &Type::Int))
        {
            return Err(missing(
                SHARD_COLUMN,
                "it must be an int, the last column of the partition key",
            ));
        }
        let is_bucket = |column: &Column| is(column, BUCKET_COLUMN, &Type::BigInt);
        if !keys.next().is_some_and(is_bucket) {
            return Err(missing(
                BUCKET_COLUMN,
                "it must be a bigint after the other columns of the partition key",
            ));
        }
        let is_plain = |column: &Column| {
            let kind = column.kind;
            kind == ColumnKind::Regular(WriteKind::Plain) || kind == ColumnKind::Static(WriteKind::Plain)
        };
        let find = |columns: &[Column], name, ty| {
            let found = |column: &Column| is(column, name, &ty) && is_plain(column);
            columns.iter().position(found)
        };
        let row_column = find(table.regular(), ROW_COLUMN, Type::Blob)
            .ok_or_else(|| missing(ROW_COLUMN, "it must be a blob outside the key, with plain writes"))?;
        let root_column = find(table.statics(), ROOT_COLUMN, Type::Boolean)
            .ok_or_else(|| missing(ROOT_COLUMN, "it must be a static boolean, with plain writes"))?;
        let sampling = Sampling {
            unit,
            mean: ROW_BYTES,
        };
        Ok(Self {
            row_column,
            root_column: u16::try_from(root_column).unwrap_or(u16::MAX),
            samples,
            sampling,
            size,
            shards,
            table,
            times: None,
            keep: None,
            leaves_out_late: false,
        })
    }

    /// Returns this table with the stored regular columns that this process does not know, appended
    /// to its own.
    ///
    /// # Errors
    /// The resulting columns do not form a valid table.
    pub(crate) fn with_columns_of(&self, stored: &Table) -> Result<Self> {
        let is_known = |column: &&Column| self.table.columns().iter().any(|own| own.name == column.name);
        let added = stored.regular().iter().filter(|column| !is_known(column));
        let columns: Vec<Column> = self.table.columns().iter().chain(added).cloned().collect();
        if columns.len() == self.table.columns().len() {
            return Ok(self.clone());
        }
        let table = Table::new(self.table.name(), columns, self.table.options()).map_err(|error| {
            let message = format!("table {} has invalid columns: {error}", self.table.name());
            PiecesError::new(PiecesErrorKind::Store, message)
        })?;
        Ok(Self {
            table: Arc::new(table),
            ..self.clone()
        })
    }

    /// Returns the table as the store has it, with the hidden columns.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the encoded key of a partition that a query names.
    pub(crate) fn partition_key(&self, partition: &Cells) -> Result<Vec<u8>> {
        let columns = &self.table.partition()[..self.key_columns()];
        if partition.len() != columns.len() {
            let (expected, found) = (columns.len(), partition.len());
            return Err(key::KeyError::WrongLength { expected, found }.into());
        }
        let mut encoded = Vec::new();
        for (column, cell) in columns.iter().zip(partition.iter()) {
            let cell = cell.ok_or(key::KeyError::Null)?;
            key::encode(&column.ty, Direction::Ascending, cell, &mut encoded)?;
        }
        Ok(encoded)
    }

    /// Returns the encoded form of the first cells of a clustering key.
    pub(crate) fn key(&self, clustering: RowRef<'_>) -> Result<Key> {
        keys::key_of(&self.table, clustering)
    }

    /// Appends the encoded form of a complete clustering key to `out`.
    ///
    /// # Errors
    /// The cells are not a clustering key of the table.
    pub(crate) fn push_key(&self, clustering: &Cells, out: &mut Vec<u8>) -> Result<()> {
        if clustering.len() != self.table.clustering().len() {
            let (expected, found) = (self.table.clustering().len(), clustering.len());
            return Err(key::KeyError::WrongLength { expected, found }.into());
        }
        Ok(key::encode_clustering(&self.table, clustering.as_row(), out)?)
    }

    /// Decodes the key of a partition, without the column of the bucket.
    ///
    /// # Errors
    /// The bytes are not an encoded partition key of the table.
    pub(crate) fn partition_of(&self, mut encoded: &[u8]) -> Result<Cells> {
        let mut cells = Cells::new();
        for column in &self.table.partition()[..self.key_columns()] {
            cells.try_push_with(|out| key::decode(&column.ty, Direction::Ascending, &mut encoded, out))?;
        }
        if encoded.is_empty() {
            return Ok(cells);
        }
        let (expected, found) = (cells.len(), cells.len() + 1);
        Err(key::KeyError::WrongLength { expected, found }.into())
    }

    /// Returns the clustering cells of a key, or no cells if the key does not belong to the table.
    pub(crate) fn clustering_of_key(&self, key: &[u8]) -> Cells {
        let cells = self.bound(key).map(|bound| bound.cells().clone());
        let is_whole = |cells: &Cells| cells.len() == self.table.clustering().len();
        cells.ok().filter(is_whole).unwrap_or_default()
    }

    /// Returns the edge before all keys that begin with the cells that `edge` encodes.
    pub(crate) fn bound(&self, edge: &[u8]) -> Result<Bound> {
        keys::bound_of(&self.table, edge).map_err(|error| {
            error.with_hint(
                "run `recto repair`, which rebuilds the range map from its readable parts and the \
                 existing buckets: another program wrote to recto_buckets",
            )
        })
    }

    /// Returns the keys between two edges, or `None` if the range is empty.
    pub(crate) fn span(&self, from: &Bound, to: &Bound) -> Result<Option<Span>> {
        keys::span_of(&self.table, from, to)
    }

    /// Returns the encoded form of an edge between rows, or `None` for the edge behind all keys.
    fn edge(&self, bound: &Bound) -> Result<Option<Key>> {
        keys::edge_of(&self.table, bound)
    }

    /// Returns the part of a slice that is in one key range. `whole` names the partition as a query
    /// does. `piece` names the bucket, without its shards. If the slice begins or ends within the key
    /// range, the result has the edge of the slice.
    pub(crate) fn slice_of(
        &self,
        whole: &Slice,
        piece: &recto_protocol::buckets::Slice,
        limit: u32,
    ) -> Result<Slice> {
        let from = match self.edge(&whole.from)? {
            Some(edge) if edge == piece.span.start => whole.from.clone(),
            _ => self.bound(&piece.span.start)?,
        };
        let to = match &piece.span.end {
            end if *end == self.edge(&whole.to)? => whole.to.clone(),
            Some(end) => self.bound(end)?,
            None => Bound::end(),
        };
        Ok(Slice {
            table: Arc::clone(&self.table),
            partition: bucket_partition(&whole.partition, piece.bucket),
            from,
            to,
            direction: whole.direction,
            limit,
        })
    }

    /// Returns one slice for each shard of a bucket. Together they hold all rows of the bucket
    /// within a span (range of keys).
    ///
    /// # Errors
    /// The edges of the span are not keys of the table.
    #[cfg(feature = "testing")]
    pub fn slices_in(&self, partition: &crate::Partition, span: &Span, bucket: u64) -> Result<Vec<Slice>> {
        let (from, to) = self.bounds(span)?;
        let of_shard = |shard| {
            let partition = partition.place.shard_partition(Bucket(bucket), shard);
            Slice {
                from: from.clone(),
                to: to.clone(),
                ..Slice::from_start(&self.table, partition, 1)
            }
        };
        Ok(self.shards.all().map(of_shard).collect())
    }

    /// Returns the edges of a span (a range of encoded keys) as bounds of a slice.
    pub(crate) fn bounds(&self, span: &Span) -> Result<(Bound, Bound)> {
        keys::bounds_of(&self.table, span)
    }

    /// Returns read options that leave out the columns of the engine, which a query does not know.
    pub(crate) fn read_by(&self, options: &ReadOptions) -> ReadOptions {
        let row_column = self.table.statics().len() + self.row_column;
        ReadOptions {
            unseen: ColumnSet::statics(&self.table).with(row_column),
            ..*options
        }
    }

    /// Returns the index of [`ROW_COLUMN`] among the regular columns.
    pub(crate) fn row_column(&self) -> usize {
        self.row_column
    }

    /// Returns the size of a row that was read, as the row stores it in [`ROW_COLUMN`]. Returns
    /// `None` if it stores none.
    pub(crate) fn counted_of(&self, row: RowRef<'_>) -> Option<u64> {
        let cell = row.get(self.table.columns().len() - self.table.regular().len() + self.row_column)?;
        read_row_cell(cell)
    }

    /// Returns a write that marks in bucket 0 that the partition exists.
    pub(crate) fn mark_root(&self, partition: &Cells, stamp: Stamp) -> PartitionWrite {
        let mark = Operation::PatchStatic {
            columns: vec![self.root_column],
            cells: std::iter::once(Some(MARK)).collect(),
        };
        PartitionWrite {
            table: Arc::clone(&self.table),
            partition: self.shard_partition(bucket_partition(partition, Bucket(0)), Shard(0)),
            mutations: vec![mutation(mark, stamp, None)],
        }
    }

    /// Returns whether the static cells of bucket 0 mark the partition as existing.
    pub(crate) fn is_mark(&self, statics: RowRef<'_>) -> bool {
        statics.get(usize::from(self.root_column)) == Some(MARK)
    }

    /// Returns the first column of a key as a number, if that column is an integer or a time.
    pub(crate) fn position(&self, key: &[u8]) -> Option<i64> {
        let column = &self.table.clustering()[0];
        let (mut rest, mut cell) = (key, Vec::new());
        key::decode(&column.ty, direction_of(column), &mut rest, &mut cell).ok()?;
        match column.ty {
            Type::TinyInt => cell.try_into().ok().map(i8::from_be_bytes).map(i64::from),
            Type::SmallInt => cell.try_into().ok().map(i16::from_be_bytes).map(i64::from),
            Type::Int => cell.try_into().ok().map(i32::from_be_bytes).map(i64::from),
            Type::BigInt | Type::Timestamp | Type::Time => cell.try_into().ok().map(i64::from_be_bytes),
            _ => None,
        }
    }

    /// Returns the edge before all keys whose first column is `position`, or `None` if no key can have
    /// this value.
    pub(crate) fn edge_at(&self, position: i64) -> Option<Key> {
        let column = &self.table.clustering()[0];
        let cell = match column.ty {
            Type::TinyInt => i8::try_from(position).ok()?.to_be_bytes().to_vec(),
            Type::SmallInt => i16::try_from(position).ok()?.to_be_bytes().to_vec(),
            Type::Int => i32::try_from(position).ok()?.to_be_bytes().to_vec(),
            _ => position.to_be_bytes().to_vec(),
        };
        let mut edge = Key::new();
        key::encode(&column.ty, direction_of(column), &cell, &mut edge).ok()?;
        Some(edge)
    }
}

/// Returns the size of a row that counts for its bucket, and the cell of [`ROW_COLUMN`] that stores
/// the size.
pub(crate) fn counted<'c>(
    clustering: &Cells,
    cells: impl Iterator<Item = Option<&'c [u8]>>,
) -> (u64, Vec<u8>) {
    let bytes: usize = cells.flatten().map(<[u8]>::len).sum();
    let counted = counted_bytes((clustering.byte_len() + bytes) as u64);
    (counted, row_cell(counted))
}

pub(crate) fn row_cell(counted: u64) -> Vec<u8> {
    let mut cell = vec![ROW_FORMAT_VERSION];
    cell.extend(counted.to_be_bytes());
    cell
}

/// Returns the size of a row that a cell of [`ROW_COLUMN`] stores. Returns `None` if the cell is
/// empty or has another version.
pub(crate) fn read_row_cell(cell: &[u8]) -> Option<u64> {
    let (version, rest) = cell.split_first()?;
    let bytes: [u8; 8] = rest.try_into().ok()?;
    (*version == ROW_FORMAT_VERSION).then(|| u64::from_be_bytes(bytes))
}

/// Returns the partition key of a bucket in the store, without the shard.
pub(crate) fn bucket_partition(partition: &Cells, bucket: Bucket) -> Cells {
    let number = bucket.0.to_be_bytes();
    let hidden = std::iter::once(Some(&number[..]));
    partition.iter().chain(hidden).collect()
}

pub(crate) fn mutation(operation: Operation, stamp: Stamp, ttl_seconds: Option<u32>) -> Mutation {
    Mutation {
        operation,
        stamp: Some(stamp),
        ttl_seconds,
    }
}

#[expect(clippy::cast_sign_loss, reason = "numbers of bytes are not negative")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
