//! Wide-column tables, positions in them and slices of them: the shape both stores share.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::width::Width;
use crate::{Cells, Type, order};

/// Ascending or descending.
///
/// ```
/// use recto_model::Direction;
///
/// assert_eq!(Direction::Ascending.reversed(), Direction::Descending);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

impl Direction {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Ascending => Self::Descending,
            Self::Descending => Self::Ascending,
        }
    }

    /// `ordering` as this direction sees it.
    #[must_use]
    pub fn apply(self, ordering: Ordering) -> Ordering {
        match self {
            Self::Ascending => ordering,
            Self::Descending => ordering.reverse(),
        }
    }
}

/// How a column that is not in the key may be written.
///
/// Cassandra's conditional writes take no client timestamp, so one column is written by one kind
/// only; the store refuses the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// By plain, stamped writes.
    Plain,
    /// By compare-and-set.
    Cas,
}

/// What a column is to its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Part of the partition key.
    Partition,
    /// Part of the clustering order, in a direction.
    Clustering(Direction),
    /// One value per partition.
    Static(WriteKind),
    /// One value per row.
    Regular(WriteKind),
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name, `[a-z][a-z0-9_]{0,47}`.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// What it is to the table.
    pub kind: ColumnKind,
}

/// How Cassandra should compact a table; the embedded store needs no such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compaction {
    /// Cassandra's own default.
    #[default]
    Default,
    /// Unified compaction with unchecked tombstone compaction, for tables that collect tombstones.
    Tombstones,
}

/// What a table asks of a store beside its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// How to compact it.
    pub compaction: Compaction,
    /// How long a tombstone must be kept, in seconds. Cassandra's default is ten days.
    pub gc_grace_seconds: u32,
    /// Whether the store may keep a snapshot of all that is in it when it is emptied or dropped, as
    /// Cassandra does unless told otherwise. A table that is emptied again and again must not; if it is written plainly, those
    /// who make it at once, or late, all make the same one.
    pub automatic_snapshots: bool,
    /// Whether the store counts the rows of each partition and their bytes, exactly, where it can. What a table is made with
    /// holds as long as it is there.
    pub counts_partitions: bool,
    /// In what its partitions are kept; none: each in one partition of the store. Such a table has no static columns, and it
    /// may have no partition column: then it is one partition.
    pub buckets: Option<Buckets>,
    /// True if the value of the only partition column, a text or blob, may be empty. A store that takes no empty
    /// partition key keeps the values of such a table in another form.
    pub allows_empty_partition: bool,
}

/// In which partitions of the store one of a table is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buckets {
    /// What bounds a bucket.
    pub bound: BucketBound,
    /// In how many partitions of the store each bucket is kept, at least 1.
    pub shards: u8,
    /// For how long what it holds is kept, by the time that its rows are ordered by first; none: for good. Another length
    /// holds from when it is said.
    pub keep: Option<Width>,
    /// Whether rows that are too old to be kept are left out where they are put, instead of refused with all that is written with
    /// them: entries of records that are kept elsewhere.
    pub leaves_out_late: bool,
}

/// What bounds a bucket. Another bound in bytes or rows holds from the next cut on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketBound {
    /// About as many bytes at most, each row counted as its cells and 64 bytes more.
    Bytes(u64),
    /// As many rows at most.
    Rows(u64),
    /// Time: so much of what its rows are ordered by first.
    Time(Width),
}

/// With one shard, for good.
impl From<BucketBound> for Buckets {
    fn from(bound: BucketBound) -> Self {
        Self {
            bound,
            shards: 1,
            keep: None,
            leaves_out_late: false,
        }
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            compaction: Compaction::Default,
            gc_grace_seconds: 864_000,
            automatic_snapshots: true,
            counts_partitions: false,
            buckets: None,
            allows_empty_partition: false,
        }
    }
}

/// A wide-column table. Columns stand in the order partition, clustering, static, regular; a row's
/// cells stand in that order too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    name: String,
    columns: Vec<Column>,
    partition_len: usize,
    clustering_len: usize,
    static_len: usize,
    options: TableOptions,
}

/// Why columns do not make a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There is no partition column.
    #[error("table {table} has no partition column")]
    NoPartition {
        /// The table.
        table: String,
    },
    /// A key column's type has no order.
    #[error("column {column} of table {table} cannot be in a key: {type_name} has no order")]
    NotOrderable {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
    },
    /// Two columns have one name.
    #[error("table {table} has two columns named {column}")]
    Duplicate {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// Its partitions are kept in buckets, and it has static columns, or none that rows are ordered by.
    #[error("table {table} is kept in buckets: it needs a clustering column, and can have no static ones")]
    NotBucketed {
        /// The table.
        table: String,
    },
    /// Static columns need clustering columns.
    #[error("table {table} has static columns and no clustering column")]
    StaticWithoutClustering {
        /// The table.
        table: String,
    },
}

impl Table {
    /// A table of `columns`, which are put into order by kind (stable within a kind).
    pub fn new(
        name: impl Into<String>,
        columns: Vec<Column>,
        options: TableOptions,
    ) -> Result<Self, TableError> {
        let table = name.into();
        let mut columns = columns;
        columns.sort_by_key(|column| match column.kind {
            ColumnKind::Partition => 0,
            ColumnKind::Clustering(_) => 1,
            ColumnKind::Static(_) => 2,
            ColumnKind::Regular(_) => 3,
        });
        let count =
            |matches: fn(&ColumnKind) -> bool| columns.iter().filter(|column| matches(&column.kind)).count();
        let partition_len = count(|kind| matches!(kind, ColumnKind::Partition));
        let clustering_len = count(|kind| matches!(kind, ColumnKind::Clustering(_)));
        let static_len = count(|kind| matches!(kind, ColumnKind::Static(_)));
        if options.buckets.is_some() && (clustering_len == 0 || static_len > 0) {
            return Err(TableError::NotBucketed { table });
        }
        if partition_len == 0 && options.buckets.is_none() {
            return Err(TableError::NoPartition { table });
        }
        if static_len > 0 && clustering_len == 0 {
            return Err(TableError::StaticWithoutClustering { table });
        }
        for (index, column) in columns.iter().enumerate() {
            if index < partition_len + clustering_len && !column.ty.is_orderable() {
                return Err(TableError::NotOrderable {
                    table,
                    column: column.name.clone(),
                    type_name: column.ty.to_string(),
                });
            }
            if columns[..index].iter().any(|earlier| earlier.name == column.name) {
                return Err(TableError::Duplicate {
                    table,
                    column: column.name.clone(),
                });
            }
        }
        Ok(Self {
            name: table,
            columns,
            partition_len,
            clustering_len,
            static_len,
            options,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All columns: partition, clustering, static, regular.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The partition columns.
    pub fn partition(&self) -> &[Column] {
        &self.columns[..self.partition_len]
    }

    /// The clustering columns, in order.
    pub fn clustering(&self) -> &[Column] {
        &self.columns[self.partition_len..self.partition_len + self.clustering_len]
    }

    /// The static columns.
    pub fn statics(&self) -> &[Column] {
        let start = self.partition_len + self.clustering_len;
        &self.columns[start..start + self.static_len]
    }

    /// The regular columns.
    pub fn regular(&self) -> &[Column] {
        &self.columns[self.partition_len + self.clustering_len + self.static_len..]
    }

    /// How many columns the full key has: partition and clustering.
    pub fn key_len(&self) -> usize {
        self.partition_len + self.clustering_len
    }

    /// Where a column of this name stands in [`columns`](Self::columns).
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The direction of the clustering column at `index`.
    ///
    /// # Panics
    /// If there is no such clustering column.
    pub fn clustering_direction(&self, index: usize) -> Direction {
        match self.clustering()[index].kind {
            ColumnKind::Clustering(direction) => direction,
            _ => unreachable!("clustering columns are of the clustering kind"),
        }
    }

    /// What it asks of a store.
    pub fn options(&self) -> TableOptions {
        self.options
    }

    /// Returns whether the value of the first partition column may be empty. It may be if there are several columns, or if the
    /// table's options allow it.
    pub fn allows_empty_partition(&self) -> bool {
        self.partition_len != 1 || self.options.allows_empty_partition
    }

    /// Compares two prefixes of clustering keys in this table's clustering order, as far as both
    /// reach.
    pub fn compare_clustering(&self, left: &Cells, right: &Cells) -> Ordering {
        for (index, (left, right)) in left.iter().zip(right.iter()).enumerate() {
            let (Some(left), Some(right)) = (left, right) else {
                continue;
            };
            let ordering = self.clustering_direction(index).apply(order::compare(
                &self.clustering()[index].ty,
                left,
                right,
            ));
            if ordering.is_ne() {
                return ordering;
            }
        }
        Ordering::Equal
    }
}

/// An edge between rows of one partition, in clustering order (the table's, with its directions).
///
/// The cells are values of a *prefix* of the clustering columns; the edge lies before, or after,
/// all rows that begin with them. With no cells, it lies at the partition's start or end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Before all rows that begin with these cells.
    Before(Cells),
    /// After all rows that begin with these cells.
    After(Cells),
}

impl Bound {
    /// Before every row of the partition.
    pub fn start() -> Self {
        Self::Before(Cells::new())
    }

    /// After every row of the partition.
    pub fn end() -> Self {
        Self::After(Cells::new())
    }

    /// The cells it is drawn by.
    pub fn cells(&self) -> &Cells {
        match self {
            Self::Before(cells) | Self::After(cells) => cells,
        }
    }

    /// Compares two edges of a partition of `table` in clustering order.
    pub fn compare(&self, other: &Self, table: &Table) -> Ordering {
        let ordering = table.compare_clustering(self.cells(), other.cells());
        if ordering.is_ne() {
            return ordering;
        }
        // One is drawn by a prefix of the other's cells (or both by the same): the shorter lies
        // outside everything that begins with it.
        let (left, right) = (self.cells().len(), other.cells().len());
        match (self, other) {
            (Self::Before(_), Self::Before(_)) => left.cmp(&right),
            (Self::After(_), Self::After(_)) => right.cmp(&left),
            (Self::Before(_), Self::After(_)) => Ordering::Less,
            (Self::After(_), Self::Before(_)) => Ordering::Greater,
        }
    }
}

/// Which way a slice is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadDirection {
    /// In clustering order, from [`Slice::from`].
    Forward,
    /// Against clustering order, from [`Slice::to`].
    Backward,
}

/// A contiguous piece of one partition of one table, in clustering order: the rows between two
/// edges, read from one end, at most `limit` of them.
///
/// The embedded store makes one byte range of it. Cassandra compares tuples by value and not by
/// clustering order, so there it is one statement where directions do not mix and one per run of
/// same-direction columns where they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The table.
    pub table: Arc<Table>,
    /// The cells of all partition columns.
    pub partition: Cells,
    /// Where the piece begins, in clustering order.
    pub from: Bound,
    /// Where it ends, in clustering order. A piece that ends before it begins is empty.
    pub to: Bound,
    /// From which end it is read.
    pub direction: ReadDirection,
    /// The most rows to return, at least 1.
    pub limit: u32,
}

impl Slice {
    /// The first rows of a partition, in clustering order.
    pub fn from_start(table: &Arc<Table>, partition: Cells, limit: u32) -> Self {
        Self {
            table: Arc::clone(table),
            partition,
            from: Bound::start(),
            to: Bound::end(),
            direction: ReadDirection::Forward,
            limit,
        }
    }
}
