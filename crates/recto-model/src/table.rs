//! Tables, positions in tables, and ranges of rows: the wide-column data model of every store.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::width::Width;
use crate::{Cells, Type, order};

/// Sort direction: ascending or descending.
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
    /// Returns the opposite direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Ascending => Self::Descending,
            Self::Descending => Self::Ascending,
        }
    }

    /// Returns `ordering` for ascending directions, and its reverse for descending ones.
    #[must_use]
    pub fn apply(self, ordering: Ordering) -> Ordering {
        match self {
            Self::Ascending => ordering,
            Self::Descending => ordering.reverse(),
        }
    }
}

/// The kind of write that a non-key column accepts: plain or conditional.
///
/// Cassandra orders plain writes by the client's write timestamps, but conditional writes take no
/// client timestamp. Therefore each column accepts only one kind of write, and the store rejects
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// Plain writes, ordered by their write timestamps.
    Plain,
    /// Compare-and-set (conditional) writes.
    Cas,
}

/// Role of a column in its table: part of the key, one value per partition, or one value per row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Part of the partition key.
    Partition,
    /// Part of the clustering order (the order of rows in a partition), in the given direction.
    Clustering(Direction),
    /// One value per partition.
    Static(WriteKind),
    /// One value per row.
    Regular(WriteKind),
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Name of the column, `[a-z][a-z0-9_]{0,47}`.
    pub name: String,
    /// Type of the column.
    pub ty: Type,
    /// Role of the column in the table.
    pub kind: ColumnKind,
}

/// Compaction strategy of a table in Cassandra. The embedded store ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compaction {
    /// Cassandra's default strategy.
    #[default]
    Default,
    /// Unified compaction with unchecked tombstone compaction, for tables that accumulate
    /// tombstones.
    Tombstones,
}

/// Settings of a table in a store, in addition to its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// Compaction strategy.
    pub compaction: Compaction,
    /// Minimum time that the store must keep a tombstone (deletion marker), in seconds. Cassandra's
    /// default is ten days.
    pub gc_grace_seconds: u32,
    /// True if the store may keep a snapshot of the table's whole content when the table is emptied
    /// or dropped, as Cassandra does by default. Set it to false for a table that is emptied
    /// repeatedly. If such a table has only plain writes, all sessions that create it, at any time,
    /// create the identical table.
    pub automatic_snapshots: bool,
    /// True if the store should be able to count the rows of a slice without reading them. The
    /// setting is fixed when the table is created.
    pub counts_rows: bool,
    /// Rules for dividing partitions into buckets. `None` if each partition is one partition of the
    /// store. A table with buckets has no static columns. It can have no partition column; all its
    /// rows are then in one partition.
    pub buckets: Option<Buckets>,
    /// True if the only partition column, a text or blob, may be empty. A store without empty
    /// partition keys then encodes the column in another form.
    pub allows_empty_partition: bool,
}

/// Rules for dividing a large partition into buckets, which are partitions of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buckets {
    /// Maximum size of a bucket, or the interval of time that it covers.
    pub bound: BucketBound,
    /// Number of shards: partitions of the store that together contain one bucket, at least 1.
    pub shards: u8,
    /// Retention time of the rows, measured on the first clustering column, which is a time. `None`
    /// keeps the rows forever. A changed retention time applies immediately.
    pub keep: Option<Width>,
    /// True if the store silently skips a new row that is older than the retention time. If false, the
    /// store rejects the whole write that contains such a row. Views use
    /// true, because their records are stored in the base table.
    pub leaves_out_late: bool,
}

/// Limit at which a bucket is split. A changed limit applies from the next split on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketBound {
    /// Approximate maximum number of bytes of a bucket. Each row counts as the bytes of its cells plus 64.
    Bytes(u64),
    /// Maximum number of rows of a bucket.
    Rows(u64),
    /// Interval of time that a bucket covers, measured on the first clustering column.
    Time(Width),
}

/// Returns rules with one shard and no retention time.
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
            counts_rows: false,
            buckets: None,
            allows_empty_partition: false,
        }
    }
}

/// Wide-column table: its name, columns and options. The columns are in the order partition,
/// clustering, static, regular, and so are the cells of each row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    name: String,
    columns: Vec<Column>,
    partition_len: usize,
    clustering_len: usize,
    static_len: usize,
    options: TableOptions,
}

/// Reason why columns cannot form a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The table has no partition column.
    #[error("table {table} has no partition column")]
    NoPartition {
        /// Name of the table.
        table: String,
    },
    /// The type of a key column has no order.
    #[error("column {column} of table {table} cannot be in a key: {type_name} has no order")]
    NotOrderable {
        /// Name of the table.
        table: String,
        /// Name of the key column.
        column: String,
        /// Type of the column, as text.
        type_name: String,
    },
    /// Two columns have the same name.
    #[error("table {table} has two columns named {column}")]
    Duplicate {
        /// Name of the table.
        table: String,
        /// Name that two columns have.
        column: String,
    },
    /// The table has buckets (divided partitions), which require a clustering column and no static
    /// columns.
    #[error("table {table} has buckets: it needs a clustering column, and cannot have static columns")]
    NotBucketed {
        /// Name of the table.
        table: String,
    },
    /// The table has static columns but no clustering column.
    #[error("table {table} has static columns, but no clustering column")]
    StaticWithoutClustering {
        /// Name of the table.
        table: String,
    },
}

impl Table {
    /// Creates a table. Sorts `columns` by kind (partition, clustering, static, regular), and keeps
    /// their order within a kind.
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

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all columns, in the order partition, clustering, static, regular.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the partition columns.
    pub fn partition(&self) -> &[Column] {
        &self.columns[..self.partition_len]
    }

    /// Returns the clustering columns, in order.
    pub fn clustering(&self) -> &[Column] {
        &self.columns[self.partition_len..self.partition_len + self.clustering_len]
    }

    /// Returns the static columns.
    pub fn statics(&self) -> &[Column] {
        let start = self.partition_len + self.clustering_len;
        &self.columns[start..start + self.static_len]
    }

    /// Returns the regular columns.
    pub fn regular(&self) -> &[Column] {
        &self.columns[self.partition_len + self.clustering_len + self.static_len..]
    }

    /// Returns the number of key columns: partition and clustering columns. They are the first
    /// columns.
    pub fn key_len(&self) -> usize {
        self.partition_len + self.clustering_len
    }

    /// Returns the index in [`columns`](Self::columns) of the column with the given name.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the direction of the clustering column at `index`.
    ///
    /// # Panics
    /// If there is no such clustering column.
    pub fn clustering_direction(&self, index: usize) -> Direction {
        match self.clustering()[index].kind {
            ColumnKind::Clustering(direction) => direction,
            _ => unreachable!("clustering columns have the clustering kind"),
        }
    }

    /// Returns the settings of the table.
    pub fn options(&self) -> TableOptions {
        self.options
    }

    /// Returns whether the value of the first partition column may be empty: if there are several
    /// partition columns, or if the options allow it.
    pub fn allows_empty_partition(&self) -> bool {
        self.partition_len != 1 || self.options.allows_empty_partition
    }

    /// Compares two clustering keys, or prefixes of them, in the table's clustering order, up to
    /// the length of the shorter one.
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

/// Boundary between rows of one partition, in clustering order. Column directions are taken into
/// account.
///
/// The cells are values of the first clustering columns. The bound is before, or after, all rows
/// that begin with these cells. Without cells, it is the start or the end of the partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Bound before all rows that begin with the given cells.
    Before(Cells),
    /// Bound after all rows that begin with the given cells.
    After(Cells),
}

impl Bound {
    /// Returns the bound before every row of the partition.
    pub fn start() -> Self {
        Self::Before(Cells::new())
    }

    /// Returns the bound after every row of the partition.
    pub fn end() -> Self {
        Self::After(Cells::new())
    }

    /// Returns the cells that define the bound: values of the first clustering columns.
    pub fn cells(&self) -> &Cells {
        match self {
            Self::Before(cells) | Self::After(cells) => cells,
        }
    }

    /// Compares two bounds in the clustering order of `table`.
    pub fn compare(&self, other: &Self, table: &Table) -> Ordering {
        let ordering = table.compare_clustering(self.cells(), other.cells());
        if ordering.is_ne() {
            return ordering;
        }
        // The cells of one bound are equal to, or a prefix of, the cells of the other bound. The
        // shorter bound is outside all rows that begin with its cells.
        let (left, right) = (self.cells().len(), other.cells().len());
        match (self, other) {
            (Self::Before(_), Self::Before(_)) => left.cmp(&right),
            (Self::After(_), Self::After(_)) => right.cmp(&left),
            (Self::Before(_), Self::After(_)) => Ordering::Less,
            (Self::After(_), Self::Before(_)) => Ordering::Greater,
        }
    }
}

/// Direction in which the rows of a slice are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadDirection {
    /// In clustering order, from [`Slice::from`].
    Forward,
    /// Against clustering order, from [`Slice::to`].
    Backward,
}

/// Contiguous range of rows in one partition of a table: the rows between two bounds in clustering
/// order. At most `limit` rows are read, from one end.
///
/// The embedded store reads a slice as one range of bytes. The Cassandra store sends CQL
/// statements, and CQL compares tuples by value, not by clustering order. It needs one statement if
/// all clustering columns have the same direction. Otherwise it sends one statement for each run of
/// columns with equal direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Table that contains the rows.
    pub table: Arc<Table>,
    /// Values of all partition columns.
    pub partition: Cells,
    /// Start of the range, in clustering order.
    pub from: Bound,
    /// End of the range, in clustering order. If the end is before the start, the slice is empty.
    pub to: Bound,
    /// Direction of reading.
    pub direction: ReadDirection,
    /// Maximum number of rows to return, at least 1.
    pub limit: u32,
}

impl Slice {
    /// Returns a slice of the first `limit` rows of a partition, in clustering order.
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
