//! The two forms of a table that is kept in buckets: the logical table that callers use, and the stored table.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use recto_model::table::{BucketBound, Buckets, ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Column, Table, Type};
use recto_protocol::buckets::Shards;
use recto_protocol::buckets::sizing::{DEFAULT_EPSILON, RowSizing, Sizing};
use recto_store::{RowsRead, StoreError, StoreErrorKind};

use crate::limits::{MAX_KNOWN_TABLES, MAX_SAMPLED_ROW_BYTES};
use crate::tables::{BUCKET_COLUMN, PiecedTable, ROOT_COLUMN, ROW_COLUMN, SHARD_COLUMN};

/// Columns of the stored table that the logical table does not have.
const HIDDEN: [&str; 4] = [BUCKET_COLUMN, SHARD_COLUMN, ROOT_COLUMN, ROW_COLUMN];
/// Minimum ratio of the target size of a bucket to the maximum size of a row for which samples are designed.
const ROW_PART: u64 = 160;

/// Assumed target size of time buckets, in bytes. The size determines how their rows are sampled,
/// so that their content can be estimated.
const TIME_SAMPLED_BYTES: u64 = 10_000_000;

/// Logical and stored definition of a table that is kept in buckets.
#[derive(Debug)]
pub(crate) struct Bucketed {
    /// Table as callers use it, without the columns of the engine.
    pub(crate) logical: Arc<Table>,
    pub(crate) pieced: Arc<PiecedTable>,
    /// Indexes that the columns of the logical table have in the stored table.
    columns: Vec<usize>,
}

/// Cache of the tables with buckets that this process has used.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_name: RwLock<HashMap<String, Vec<Arc<Bucketed>>>>,
}

impl Known {
    /// Returns the logical and the stored definition of a table, or `None` if the table is not kept
    /// in buckets.
    ///
    /// # Errors
    /// The table is not valid with the buckets that its options declare.
    pub(crate) fn bucketed(&self, table: &Arc<Table>) -> Result<Option<Arc<Bucketed>>, StoreError> {
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
        let made = Arc::new(Bucketed::new(table, buckets)?);
        let mut known = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN_TABLES {
            known.clear();
        }
        let of_name = known.entry(table.name().to_owned()).or_default();
        // Limit the number of definitions of one name: a table has several definitions if fields are
        // added.
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
    fn new(logical: &Arc<Table>, buckets: Buckets) -> Result<Self, StoreError> {
        let table = Arc::new(in_store(logical, buckets)?);
        // Hide four columns. The bucket and the shard follow the partition key. The root mark and the
        // counted size of the row follow the whole key.
        let hidden = logical.partition().len()..table.partition().len();
        let columns = (0..table.columns().len()).filter(|column| {
            !hidden.contains(column) && !(table.key_len()..table.key_len() + 2).contains(column)
        });
        Ok(Self {
            columns: columns.collect(),
            logical: Arc::clone(logical),
            pieced: Arc::new(pieced(table, buckets)?),
        })
    }

    /// Returns the index that a regular column of the logical table has among the regular columns of the
    /// stored table.
    pub(crate) fn regular(column: u16) -> u16 {
        // Saturation has no effect, because the store rejects a table with more columns than the
        // maximum.
        column.saturating_add(1)
    }

    /// Returns the regular cells of a row of the stored table: an empty cell for the size of the
    /// row, and then `cells`.
    pub(crate) fn with_row_cell(cells: &Cells) -> Cells {
        std::iter::once(None).chain(cells.iter()).collect()
    }

    /// Returns rows of the stored table as rows of the logical table.
    pub(crate) fn shown(&self, read: RowsRead) -> RowsRead {
        RowsRead {
            rows: read.rows.with_columns(&self.columns),
            ..read
        }
    }
}

/// Returns the definition of a table as a store without transactions has it. The definition of a
/// table in buckets has the hidden columns of the engine.
///
/// # Errors
/// The table has a column with the name of a hidden column.
pub fn table_in_store(table: &Table) -> Result<Table, StoreError> {
    match table.options().buckets {
        Some(buckets) => in_store(table, buckets),
        None => Ok(table.clone()),
    }
}

/// Returns the stored definition of a logical table whose options declare `buckets`.
pub(crate) fn in_store(logical: &Table, buckets: Buckets) -> Result<Table, StoreError> {
    let shards = shards_of(buckets);
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
        counts_rows: false,
        ..logical.options()
    };
    Table::new(logical.name(), columns, options).map_err(not_one)
}

/// Returns the logical definition of a stored table, or `None` if the table is not kept in buckets. The
/// result lacks the maximum size of a bucket, because the stored table does not contain it.
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
        ..table.options()
    };
    Table::new(table.name(), shown.cloned().collect(), options).ok()
}

/// Describes a stored table with its sizes of buckets for the engine.
fn pieced(table: Arc<Table>, buckets: Buckets) -> Result<PiecedTable, StoreError> {
    let shards = shards_of(buckets);
    let of_bytes = |table, bytes| -> Result<PiecedTable, StoreError> {
        Ok(PiecedTable::sharded(table, sizing_of(bytes)?, shards)?.of_bytes(bytes))
    };
    let pieced = match buckets.bound {
        BucketBound::Bytes(bytes) => of_bytes(table, bytes)?,
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

fn shards_of(buckets: Buckets) -> Shards {
    Shards::new(buckets.shards).unwrap_or(Shards::ONE)
}

/// Returns the sizing (target size and sampling rate) of buckets with at most `bytes` bytes.
fn sizing_of(bytes: u64) -> Result<Sizing, StoreError> {
    let largest = (bytes / ROW_PART).min(MAX_SAMPLED_ROW_BYTES);
    Sizing::new(bytes, largest, DEFAULT_EPSILON).map_err(not_one)
}

fn not_one(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, error.to_string()).with_source(error)
}
