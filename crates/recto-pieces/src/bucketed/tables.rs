//! A table whose partitions are kept in buckets, as who asks for it knows it and as it lies in the store.

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

/// What a table in the store has beside what is asked for.
const HIDDEN: [&str; 4] = [BUCKET_COLUMN, SHARD_COLUMN, ROOT_COLUMN, ROW_COLUMN];
/// Of a target a row may be this part, for its bucket to be cut by samples.
const ROW_PART: u64 = 160;

/// Buckets by time are sampled as if they were to be of this size, so that it can be said how much they hold.
const TIME_SAMPLED_BYTES: u64 = 10_000_000;

/// Both forms of a table.
#[derive(Debug)]
pub(crate) struct Bucketed {
    /// As it is asked for.
    pub(crate) logical: Arc<Table>,
    pub(crate) pieced: Arc<PiecedTable>,
    /// Which columns of the table in the store make the one that is asked for.
    columns: Vec<usize>,
}

/// The tables that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_name: RwLock<HashMap<String, Vec<Arc<Bucketed>>>>,
}

impl Known {
    /// Both forms of a table; none if it is not kept in buckets.
    ///
    /// # Errors
    /// There can be no such table.
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
        // Those that it was before fields were added to it.
        if of_name.len() >= MAX_KNOWN_TABLES {
            of_name.clear();
        }
        of_name.push(Arc::clone(&made));
        Ok(Some(made))
    }

    /// Those whose rows are kept for a time only.
    pub(crate) fn kept_for_a_time(&self) -> Vec<Arc<Bucketed>> {
        let known = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let newest = known.values().filter_map(|of_name| of_name.last());
        newest.filter(|one| one.pieced.keep.is_some()).cloned().collect()
    }
}

impl Bucketed {
    fn new(logical: &Arc<Table>, buckets: Buckets, limits: Limits) -> Result<Self, StoreError> {
        let table = Arc::new(in_store(logical, buckets, limits)?);
        // The bucket and the shard are behind the partition, the mark of the root behind the whole key, and what a row counts as behind
        // that.
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

    /// Where a regular column stands among those of the table in the store.
    pub(crate) fn regular(column: u16) -> u16 {
        // One more than there can be is refused by the store.
        column.saturating_add(1)
    }

    /// The cells of regular columns, with a place for what the row counts as.
    pub(crate) fn with_row_cell(cells: &Cells) -> Cells {
        std::iter::once(None).chain(cells.iter()).collect()
    }

    /// The cells of regular columns of a row that is put where nothing is sampled: what it counts as is said of one that has
    /// nothing else, so that its stamp is known.
    pub(crate) fn with_mark(clustering: &Cells, cells: Cells) -> Cells {
        if cells.iter().any(|cell| cell.is_some()) {
            return cells.with_null_first();
        }
        let mark = mark_of(clustering);
        std::iter::once(Some(&mark[..])).chain(cells.iter()).collect()
    }

    /// The columns and cells of a patch, likewise.
    pub(crate) fn patch_with_mark(clustering: &Cells, columns: &[u16], cells: Cells) -> (Vec<u16>, Cells) {
        let others = columns.iter().map(|column| Self::regular(*column));
        if cells.iter().any(|cell| cell.is_some()) {
            return (others.collect(), cells);
        }
        let columns = std::iter::once(0).chain(others).collect();
        (columns, Self::with_mark(clustering, cells))
    }

    /// What was read, as who asked knows the table.
    pub(crate) fn shown(&self, read: RowsRead) -> RowsRead {
        RowsRead {
            rows: read.rows.with_columns(&self.columns),
            ..read
        }
    }
}

/// A table as it lies in a store whose rows are not moved by transactions: with what is kept there beside its rows, if it is kept in
/// buckets.
///
/// # Errors
/// It has columns of the names of those that are added.
pub fn table_in_store(table: &Table) -> Result<Table, StoreError> {
    match table.options().buckets {
        Some(buckets) => with_hidden(table, false, shards_of(buckets)),
        None => Ok(table.clone()),
    }
}

/// A table as it lies in a store with these limits, of one that is asked for, and kept in such buckets.
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
    // Before the others, so that fields may be added behind them.
    columns.push(hidden(ROW_COLUMN, Type::Blob, ColumnKind::Regular(plain)));
    columns.extend(others.iter().cloned());
    let options = TableOptions {
        buckets: None,
        counts_partitions: counts,
        ..logical.options()
    };
    Table::new(logical.name(), columns, options).map_err(not_one)
}

/// A table as it is asked for, of one that lies in the store; none if it is not kept in buckets. What bounds them is not told
/// by it.
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

/// With buckets as they become in a store with these limits.
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

/// How many shards buckets have in a store with these limits. One process has the store whose rows are moved by transactions, in one file: nothing
/// would be less hot there in another partition.
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

/// What a row counts as that has nothing but its key.
fn mark_of(clustering: &Cells) -> Vec<u8> {
    counted(clustering, std::iter::empty()).1
}

/// How large its buckets become, by samples.
fn sizing_of(bytes: u64) -> Result<Sizing, StoreError> {
    let largest = (bytes / ROW_PART).min(MAX_SAMPLED_ROW_BYTES);
    Sizing::new(bytes, largest, DEFAULT_EPSILON).map_err(not_one)
}

fn not_one(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, error.to_string()).with_source(error)
}
