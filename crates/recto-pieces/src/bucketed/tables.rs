//! The two forms of a table that is kept in buckets: the logical table that callers use, and the stored table.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use recto_model::table::{BucketBound, Buckets, ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Column, Table, Type};
use recto_protocol::buckets::Shards;
use recto_protocol::buckets::sizing::{DEFAULT_EPSILON, RowSizing, Sizing};
use recto_store::{Limits, RowsRead, StoreError, StoreErrorKind};

use crate::limits::{MAX_KNOWN_TABLES, MAX_SAMPLED_ROW_BYTES};
use crate::tables::{BUCKET_COLUMN, BucketSize, PiecedTable, ROOT_COLUMN, ROW_COLUMN, SHARD_COLUMN, counted};
use crate::transacted::Transacted;

/// Columns of the stored table that the logical table does not have.
const HIDDEN: [&str; 4] = [BUCKET_COLUMN, SHARD_COLUMN, ROOT_COLUMN, ROW_COLUMN];
/// Minimum ratio of the target size of a bucket to the size of a row, for splits by samples.
const ROW_PART: u64 = 160;

/// Assumed target size of time buckets, in bytes. It determines their sampling, so that their content can be estimated.
const TIME_SAMPLED_BYTES: u64 = 10_000_000;

/// Both forms of a table.
#[derive(Debug)]
pub(crate) struct Bucketed {
    /// Logical table.
    pub(crate) logical: Arc<Table>,
    pub(crate) pieced: Arc<PiecedTable>,
    /// Indexes of the logical columns in the stored table.
    columns: Vec<usize>,
}

/// Cache of tables that were used.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_name: RwLock<HashMap<String, Vec<Arc<Bucketed>>>>,
}

impl Known {
    /// Returns both forms of a table, or `None` if it is not kept in buckets.
    ///
    /// # Errors
    /// The table is not valid with these buckets.
    pub(crate) fn bucketed(
        &self,
        table: &Arc<Table>,
        limits: Limits,
    ) -> Result<Option<Arc<Bucketed>>, StoreError> {
        let Some(buckets) = table.options().buckets else {
            return Ok(None);
        };
        let is_it = |one: &&Arc<Bucketed>| Arc::ptr_eq(&one.logical, table) || one.logical == *table;
        let known = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(table.name());
        if let Some(found) = found.and_then(|found| found.iter().find(is_it)) {
            return Ok(Some(Arc::clone(found)));
        }
        drop(known);
        let made = Arc::new(Bucketed::new(table, buckets, limits)?);
        let mut known = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN_TABLES {
            known.clear();
        }
        let of_name = known.entry(table.name().to_owned()).or_default();
        // One name can have several table definitions, because fields are added. So limit their
        // number.
        if of_name.len() >= MAX_KNOWN_TABLES {
            of_name.clear();
        }
        of_name.push(Arc::clone(&made));
        Ok(Some(made))
    }

    /// Returns the tables whose rows are kept for a limited time.
    pub(crate) fn kept_for_a_time(&self) -> Vec<Arc<Bucketed>> {
        let known = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let newest = known.values().filter_map(|of_name| of_name.last());
        newest.filter(|one| one.pieced.keep.is_some()).cloned().collect()
    }
}

impl Bucketed {
    fn new(logical: &Arc<Table>, buckets: Buckets, limits: Limits) -> Result<Self, StoreError> {
        let table = Arc::new(in_store(logical, buckets, limits)?);
        // Callers do not see the columns for buckets. The bucket and the shard follow the partition
        // key. The root mark and the counted size of the row follow the whole key.
        let hidden = logical.partition().len()..table.partition().len();
        let columns = (0..table.columns().len()).filter(|column| {
            !hidden.contains(column) && !(table.key_len()..table.key_len() + 2).contains(column)
        });
        Ok(Self {
            columns: columns.collect(),
            logical: Arc::clone(logical),
            pieced: Arc::new(pieced(table, buckets, limits)?),
        })
    }

    /// Returns the index of a regular column among the regular columns of the stored table.
    pub(crate) fn regular(column: u16) -> u16 {
        // Saturation has no effect, because the store rejects a table with more columns than the
        // maximum.
        column.saturating_add(1)
    }

    /// Returns the cells of regular columns, preceded by an empty cell for the counted size of the row.
    pub(crate) fn with_row_cell(cells: &Cells) -> Cells {
        std::iter::once(None).chain(cells.iter()).collect()
    }

    /// Returns the cells of regular columns of a row on a store without samples. Only a row without other cells gets
    /// its counted size, so that it has a timestamp.
    pub(crate) fn with_mark(clustering: &Cells, cells: Cells) -> Cells {
        if cells.iter().any(|cell| cell.is_some()) {
            return cells.with_null_first();
        }
        let mark = mark_of(clustering);
        std::iter::once(Some(&mark[..])).chain(cells.iter()).collect()
    }

    /// Returns the columns and cells of a patch by the same rule.
    pub(crate) fn patch_with_mark(clustering: &Cells, columns: &[u16], cells: Cells) -> (Vec<u16>, Cells) {
        let others = columns.iter().map(|column| Self::regular(*column));
        if cells.iter().any(|cell| cell.is_some()) {
            return (others.collect(), cells);
        }
        let columns = std::iter::once(0).chain(others).collect();
        (columns, Self::with_mark(clustering, cells))
    }

    /// Returns the rows that were read, in the form of the logical table.
    pub(crate) fn shown(&self, read: RowsRead) -> RowsRead {
        RowsRead {
            rows: read.rows.with_columns(&self.columns),
            ..read
        }
    }
}

/// Returns the form of a table on a store that does not move rows by transactions. If the table is kept in buckets,
/// this form has the hidden columns.
///
/// # Errors
/// The table has a column with the name of a hidden column.
pub fn table_in_store(table: &Table) -> Result<Table, StoreError> {
    match table.options().buckets {
        Some(buckets) => with_hidden(table, false, shards_of(buckets)),
        None => Ok(table.clone()),
    }
}

/// Returns the form of a logical table with these buckets on a store with these limits.
pub(crate) fn in_store(logical: &Table, buckets: Buckets, limits: Limits) -> Result<Table, StoreError> {
    with_hidden(logical, limits.counts_partitions, shards_in(buckets, limits))
}

fn with_hidden(logical: &Table, counts: bool, shards: Shards) -> Result<Table, StoreError> {
    let hidden = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let plain = WriteKind::Plain;
    let (keys, others) = logical.columns().split_at(logical.partition().len());
    let mut columns = keys.to_vec();
    columns.push(hidden(BUCKET_COLUMN, Type::BigInt, ColumnKind::Partition));
    if shards.are_several() {
        columns.push(hidden(SHARD_COLUMN, Type::Int, ColumnKind::Partition));
    }
    columns.push(hidden(ROOT_COLUMN, Type::Boolean, ColumnKind::Static(plain)));
    // The column for the row's counted size precedes the table's own regular columns, so that
    // fields can be added at the end.
    columns.push(hidden(ROW_COLUMN, Type::Blob, ColumnKind::Regular(plain)));
    columns.extend(others.iter().cloned());
    let options = TableOptions {
        buckets: None,
        counts_partitions: counts,
        counts_rows: false,
        ..logical.options()
    };
    Table::new(logical.name(), columns, options).map_err(not_one)
}

/// Returns the logical form of a stored table, or `None` if it is not kept in buckets. The stored table does not
/// contain the maximum size of its buckets.
pub(crate) fn logical_of(table: &Table) -> Option<Table> {
    let is = |column: &Column, name: &str| column.name == name;
    let is_hidden = |column: &Column| HIDDEN.iter().any(|name| is(column, name));
    let mut keys = table.partition().iter().rev();
    let last = keys.find(|column| !is(column, SHARD_COLUMN))?;
    if !is(last, BUCKET_COLUMN) || table.statics().len() != 1 {
        return None;
    }
    let shown = table.columns().iter().filter(|column| !is_hidden(column));
    let options = TableOptions {
        buckets: Some(BucketBound::Bytes(recto_protocol::buckets::sizing::MAX_TARGET_BYTES).into()),
        counts_partitions: false,
        ..table.options()
    };
    Table::new(table.name(), shown.cloned().collect(), options).ok()
}

/// Returns the table with its buckets for a store with these limits.
fn pieced(table: Arc<Table>, buckets: Buckets, limits: Limits) -> Result<PiecedTable, StoreError> {
    let (is_counted, shards) = (Transacted::suits(limits), shards_in(buckets, limits));
    let of_bytes = |table, bytes| -> Result<PiecedTable, StoreError> {
        Ok(if is_counted {
            PiecedTable::counted(table, BucketSize::Bytes(bytes))?
        } else {
            PiecedTable::sharded(table, sizing_of(bytes)?, shards)?.of_bytes(bytes)
        })
    };
    let pieced = match buckets.bound {
        BucketBound::Bytes(bytes) => of_bytes(table, bytes)?,
        BucketBound::Rows(rows) if is_counted => PiecedTable::counted(table, BucketSize::Rows(rows))?,
        BucketBound::Rows(rows) => {
            let sizing = RowSizing::new(rows, DEFAULT_EPSILON).map_err(not_one)?;
            PiecedTable::of_rows(table, rows, sizing, shards)?
        }
        BucketBound::Time(width) => of_bytes(table, TIME_SAMPLED_BYTES)?.by_time(width)?,
    };
    Ok(match buckets.keep {
        Some(length) if buckets.leaves_out_late => pieced.kept_for(length)?.leaving_out_late(),
        Some(length) => pieced.kept_for(length)?,
        None => pieced,
    })
}

/// Returns the number of shards of each bucket on a store with these limits. A store that moves rows by transactions
/// has one process and one file, so another partition would not reduce the load of a bucket.
fn shards_in(buckets: Buckets, limits: Limits) -> Shards {
    if Transacted::suits(limits) {
        Shards::ONE
    } else {
        shards_of(buckets)
    }
}

fn shards_of(buckets: Buckets) -> Shards {
    Shards::new(buckets.shards).unwrap_or(Shards::ONE)
}

/// Returns the cell with the counted size of a row that has only its key.
fn mark_of(clustering: &Cells) -> Vec<u8> {
    counted(clustering, std::iter::empty()).1
}

/// Returns the sizes of buckets that are split by samples.
fn sizing_of(bytes: u64) -> Result<Sizing, StoreError> {
    let largest = (bytes / ROW_PART).min(MAX_SAMPLED_ROW_BYTES);
    Sizing::new(bytes, largest, DEFAULT_EPSILON).map_err(not_one)
}

fn not_one(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, error.to_string()).with_source(error)
}
