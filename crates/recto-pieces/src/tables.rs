//! The tables of directories, samples and sums, and what a table is like whose partitions are kept in pieces.

use std::sync::Arc;
use std::time::Duration;

use recto_model::table::{ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::width::Width;
use recto_model::{Bound, Cells, Column, RowRef, Slice, Table, Type, key};
use recto_protocol::buckets::sizing::{MAX_SAMPLED_EACH, ROW_BYTES, RowSizing, Sizing, counted_bytes};
use recto_protocol::buckets::{Bucket, Floor, Key, Sampling, Shard, Shards, Span, Version};
use recto_store::{
    CasCondition, ColumnSet, Mutation, Operation, PartitionWrite, ReadOptions, RowAddress, Stamp,
};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::times::{Keep, Times};

const DIRECTORIES: &str = "recto_buckets";
const SAMPLES: &str = "recto_samples";
const SUMS: &str = "recto_sums";
const TIMES: &str = "recto_times";
/// The last column of the partition key of a table whose partitions are kept in pieces; where its buckets have shards, the one before.
pub const BUCKET_COLUMN: &str = "recto_bucket";
/// The last column of the partition key of a table whose buckets have shards.
pub const SHARD_COLUMN: &str = "recto_shard";
/// What a row counts as: never null, so that the time at which it was written is the row's, whatever its other columns hold.
pub const ROW_COLUMN: &str = "recto_row";
/// In bucket 0: there is the partition, whatever rows are there.
pub const ROOT_COLUMN: &str = "recto_root";
/// The version of the form of [`ROW_COLUMN`].
pub const ROW_FORMAT_VERSION: u8 = 1;

/// How often it is looked in the time in which something becomes due.
const RETAINS_IN_A_STEP: u64 = 4;
/// More than any bucket holds.
const UNBOUNDED_BYTES: u64 = 1 << 60;
/// What [`ROOT_COLUMN`] holds.
const MARK: &[u8] = &[1];

/// The tables beside those of rows.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) directories: Arc<Table>,
    pub(crate) samples: Arc<Table>,
    pub(crate) sums: Arc<Table>,
    /// Which buckets by time there are.
    pub(crate) times: Arc<Table>,
}

impl Tables {
    /// Columns stand in the order of their names, as Cassandra lists them.
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

/// How large buckets become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketSize {
    /// So many bytes at most, as the store [counts](recto_store::PartitionCount) them; or what rows count as, where it does not.
    Bytes(u64),
    /// So many rows at most.
    Rows(u64),
}

/// A table whose partitions are kept in pieces: the last column of its partition key is [`BUCKET_COLUMN`], a bigint, or, where buckets have
/// shards, [`SHARD_COLUMN`] behind that, an int; [`ROW_COLUMN`], a blob, is one of its regular columns, and [`ROOT_COLUMN`], a boolean, a static one.
#[derive(Debug, Clone)]
pub struct PiecedTable {
    pub(crate) table: Arc<Table>,
    /// Where [`ROW_COLUMN`] stands among the regular columns.
    row_column: usize,
    root_column: u16,
    /// How many samples a bucket is to have.
    pub(crate) samples: u32,
    /// By what rows are sampled before the first cut.
    pub(crate) sampling: Sampling,
    /// How large buckets become.
    pub(crate) size: BucketSize,
    /// In how many partitions of the store each bucket is kept.
    pub(crate) shards: Shards,
    /// By which time, where buckets are not cut by what they hold.
    pub(crate) times: Option<Arc<Times>>,
    /// For how long rows are kept; none: for good.
    pub(crate) keep: Option<Arc<Keep>>,
    /// Whether rows that are not kept are left out where they are put, instead of refused.
    pub(crate) leaves_out_late: bool,
}

impl PiecedTable {
    /// A table with buckets of this size, for stores without transactions.
    ///
    /// # Errors
    /// A column is missing, or is another one than it should be.
    pub fn new(table: Arc<Table>, sizing: Sizing) -> Result<Self> {
        Self::sharded(table, sizing, Shards::ONE)
    }

    /// The same, each of whose buckets has so many shards, which together are of this size.
    ///
    /// # Errors
    /// A column is missing, or is another one than it should be.
    pub fn sharded(table: Arc<Table>, sizing: Sizing, shards: Shards) -> Result<Self> {
        let unit = whole(sizing.bytes_per_sample()).max(1);
        let size = BucketSize::Bytes(unit.saturating_mul(sizing.samples().into()));
        Self::with(table, (sizing.samples(), unit, size), shards)
    }

    /// The same, whose buckets should be of so many bytes at most: what is larger is said to be so, and cut by samples all the same.
    #[must_use]
    pub fn of_bytes(self, bytes: u64) -> Self {
        let size = BucketSize::Bytes(bytes);
        Self { size, ..self }
    }

    /// A table with buckets of so many rows at most, for stores without transactions: samples say when keys are to be counted.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_rows(table: Arc<Table>, rows: u64, sizing: RowSizing, shards: Shards) -> Result<Self> {
        let sampling = sizing.sampling();
        let size = BucketSize::Rows(rows);
        let made = Self::with(table, (sizing.samples(), sampling.unit, size), shards)?;
        Ok(Self { sampling, ..made })
    }

    /// By what rows of new buckets are sampled, where the mean row has so many bytes. The unit is the same as long as the table says so.
    pub(crate) fn next_sampling(&self, mean: u64) -> Sampling {
        match self.size {
            BucketSize::Rows(_) => self.sampling,
            BucketSize::Bytes(_) => Sampling {
                unit: self.sampling.unit,
                mean: mean.max(1),
            },
        }
    }

    /// How many rows a bucket may have, where keys are counted before it is cut: not all of them are sampled.
    pub(crate) fn counted_rows(&self) -> Option<u64> {
        match self.size {
            BucketSize::Rows(rows) if rows > MAX_SAMPLED_EACH => Some(rows),
            BucketSize::Rows(_) | BucketSize::Bytes(_) => None,
        }
    }

    /// What a row of so many bytes is taken for, where it is added up how much comes to a bucket.
    pub(crate) fn weight(&self, bytes: u64) -> u64 {
        bytes.max(self.sampling.mean)
    }

    /// The same with a bucket for each width of the time that its rows are ordered by first, however much it holds.
    ///
    /// # Errors
    /// They are not ordered by a time first.
    pub fn by_time(self, width: Width) -> Result<Self> {
        let times = Times::of(&self.table, width)?;
        Ok(Self {
            size: BucketSize::Bytes(UNBOUNDED_BYTES),
            times: Some(Arc::new(times)),
            ..self
        })
    }

    /// A table with buckets of this size, for stores that have transactions and count their partitions: nothing is sampled
    /// there. A bucket has two rows at least before it is cut.
    ///
    /// # Errors
    /// A column is missing, or is another one than it should be.
    pub fn counted(table: Arc<Table>, size: BucketSize) -> Result<Self> {
        let unit = match size {
            BucketSize::Bytes(bytes) => bytes,
            BucketSize::Rows(rows) => rows.saturating_mul(ROW_BYTES),
        };
        Self::with(table, (1, unit.max(1), size), Shards::ONE)
    }

    /// The same whose rows are kept for so long, by the time that they are ordered by first.
    ///
    /// # Errors
    /// They are not ordered by a time first.
    pub fn kept_for(self, length: Width) -> Result<Self> {
        let keep = Keep::of(&self.table, length, self.times.as_deref())?;
        Ok(Self {
            keep: Some(Arc::new(keep)),
            ..self
        })
    }

    /// The same where rows that are not kept are left out when they are put.
    #[must_use]
    pub fn leaving_out_late(self) -> Self {
        Self {
            leaves_out_late: true,
            ..self
        }
    }

    /// How often it is looked whether some is not kept any more.
    pub(crate) fn retain_every(&self) -> Duration {
        let step_ms = self.keep.as_ref().map_or(0, |keep| keep.step_ms());
        Duration::from_millis(step_ms.unsigned_abs() / RETAINS_IN_A_STEP)
    }

    /// What is not kept any more at this time; none: all is kept.
    ///
    /// # Errors
    /// There can be no such floor.
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
            return Err(missing(SHARD_COLUMN, "an int, the last of its partition key"));
        }
        let is_bucket = |column: &Column| is(column, BUCKET_COLUMN, &Type::BigInt);
        if !keys.next().is_some_and(is_bucket) {
            return Err(missing(
                BUCKET_COLUMN,
                "a bigint, behind the others of its partition key",
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
            .ok_or_else(|| missing(ROW_COLUMN, "a blob outside its key, of plain writes"))?;
        let root_column = find(table.statics(), ROOT_COLUMN, Type::Boolean)
            .ok_or_else(|| missing(ROOT_COLUMN, "a static boolean, of plain writes"))?;
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

    /// The same with regular columns that are stored behind those that this process knows.
    ///
    /// # Errors
    /// There can be no such table.
    pub(crate) fn with_columns_of(&self, stored: &Table) -> Result<Self> {
        let is_known = |column: &&Column| self.table.columns().iter().any(|own| own.name == column.name);
        let added = stored.regular().iter().filter(|column| !is_known(column));
        let columns: Vec<Column> = self.table.columns().iter().chain(added).cloned().collect();
        if columns.len() == self.table.columns().len() {
            return Ok(self.clone());
        }
        let table = Table::new(self.table.name(), columns, self.table.options()).map_err(|error| {
            let message = format!(
                "table {} has columns that it cannot have: {error}",
                self.table.name()
            );
            PiecesError::new(PiecesErrorKind::Store, message)
        })?;
        Ok(Self {
            table: Arc::new(table),
            ..self.clone()
        })
    }

    /// As it lies in the store.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The encoded key of the partition that a query names.
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

    /// The encoded form of a prefix of a clustering key.
    pub(crate) fn key(&self, clustering: RowRef<'_>) -> Result<Key> {
        // Most keys are hardly longer than their cells.
        let mut encoded = Key::with_capacity(clustering.byte_len() + 2 * clustering.len());
        key::encode_clustering(&self.table, clustering, &mut encoded)?;
        Ok(encoded)
    }

    /// Appends the encoded form of a clustering key.
    ///
    /// # Errors
    /// It is none of the table's.
    pub(crate) fn push_key(&self, clustering: &Cells, out: &mut Vec<u8>) -> Result<()> {
        if clustering.len() != self.table.clustering().len() {
            let (expected, found) = (self.table.clustering().len(), clustering.len());
            return Err(key::KeyError::WrongLength { expected, found }.into());
        }
        Ok(key::encode_clustering(&self.table, clustering.as_row(), out)?)
    }

    /// The partition of this encoded key.
    ///
    /// # Errors
    /// It is none of the table's.
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

    /// The clustering cells of a key; none if it is none of the table's.
    pub(crate) fn clustering_of_key(&self, key: &[u8]) -> Cells {
        let cells = self.bound(key).map(|bound| bound.cells().clone());
        let is_whole = |cells: &Cells| cells.len() == self.table.clustering().len();
        cells.ok().filter(is_whole).unwrap_or_default()
    }

    /// The edge before all keys that begin with these encoded cells.
    pub(crate) fn bound(&self, edge: &[u8]) -> Result<Bound> {
        let (mut rest, mut cells) = (edge, Cells::new());
        for column in self.table.clustering() {
            if rest.is_empty() {
                break;
            }
            let direction = direction_of(column);
            let decoded = cells.try_push_with(|out| key::decode(&column.ty, direction, &mut rest, out));
            decoded.map_err(|error| self.not_an_edge(&error.to_string()))?;
        }
        if !rest.is_empty() {
            return Err(self.not_an_edge("something follows the key"));
        }
        Ok(Bound::Before(cells))
    }

    fn not_an_edge(&self, reason: &str) -> PiecesError {
        let table = self.table.name();
        let message =
            format!("an edge between pieces of a partition of table {table} is none of its keys: {reason}");
        PiecesError::new(PiecesErrorKind::Corrupt, message).with_hint(
            "something else than Recto wrote to recto_buckets: `recto repair` makes this directory anew, of what can be read of it and of the buckets that there are",
        )
    }

    /// The keys between two edges; none: there are none.
    pub(crate) fn span(&self, from: &Bound, to: &Bound) -> Result<Option<Span>> {
        let end_of_all = |bound: &Bound| matches!(bound, Bound::After(cells) if cells.is_empty());
        if end_of_all(from) {
            return Ok(None);
        }
        let Some(start) = self.edge(from)? else {
            return Ok(None);
        };
        let end = if end_of_all(to) { None } else { self.edge(to)? };
        let is_some = end.as_ref().is_none_or(|end| start < *end);
        Ok(is_some.then_some(Span { start, end }))
    }

    /// An edge between rows as an edge between encoded keys; none: behind all of them.
    fn edge(&self, bound: &Bound) -> Result<Option<Key>> {
        let mut encoded = self.key(bound.cells().as_row())?;
        let is_some = match bound {
            Bound::Before(_) => true,
            Bound::After(_) => key::prefix_successor(&mut encoded),
        };
        Ok(is_some.then_some(encoded))
    }

    /// What of a logical slice lies in a piece of it, in all shards of its bucket (the partition is without them), with the slice's own edges where it begins and ends there.
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

    /// All rows that a bucket has of a span, as they lie in the store, of each of its shards.
    ///
    /// # Errors
    /// Its edges are none of the table's.
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

    /// Both edges of a span.
    pub(crate) fn bounds(&self, span: &Span) -> Result<(Bound, Bound)> {
        let to = match &span.end {
            Some(end) => self.bound(end)?,
            None => Bound::end(),
        };
        Ok((self.bound(&span.start)?, to))
    }

    /// As rows are read by those who see no more of them than a query does: nothing of what is kept beside them.
    pub(crate) fn read_by(&self, options: &ReadOptions) -> ReadOptions {
        let row_column = self.table.statics().len() + self.row_column;
        ReadOptions {
            unseen: ColumnSet::statics(&self.table).with(row_column),
            ..*options
        }
    }

    /// Where what a row counts as stands among its regular columns.
    pub(crate) fn row_column(&self) -> usize {
        self.row_column
    }

    /// What a row that was read counts as; none: it does not say so.
    pub(crate) fn counted_of(&self, row: RowRef<'_>) -> Option<u64> {
        let cell = row.get(self.table.columns().len() - self.table.regular().len() + self.row_column)?;
        read_row_cell(cell)
    }

    /// What marks in bucket 0 that there is the partition.
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

    /// Whether the static cells of bucket 0 say that there is the partition.
    pub(crate) fn is_mark(&self, statics: RowRef<'_>) -> bool {
        statics.get(usize::from(self.root_column)) == Some(MARK)
    }

    /// A condition that holds of each bucket, where the directory is of this version: whether it is marked.
    pub(crate) fn is_root(&self, bucket: Bucket, version: Version) -> CasCondition {
        CasCondition {
            row: RowAddress::Static,
            column: self.root_column,
            expected: (bucket == Bucket(0) && version > 0).then(|| MARK.to_vec()),
        }
    }

    /// Where a key lies among others as a number, if the order's first column is one or a time.
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

    /// The edge before all keys at such a number; none: there can be none.
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

/// What a row counts as that has such a key and these cells, and how that is written.
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

/// None: it is of another version, or none.
pub(crate) fn read_row_cell(cell: &[u8]) -> Option<u64> {
    let (version, rest) = cell.split_first()?;
    let bytes: [u8; 8] = rest.try_into().ok()?;
    (*version == ROW_FORMAT_VERSION).then(|| u64::from_be_bytes(bytes))
}

pub(crate) fn direction_of(column: &Column) -> Direction {
    match column.kind {
        ColumnKind::Clustering(direction) => direction,
        _ => Direction::Ascending,
    }
}

/// The key of the partition of the store that is a bucket of one that a query names, without the shard if it has several.
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

#[expect(clippy::cast_sign_loss, reason = "bytes are not less than none")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
