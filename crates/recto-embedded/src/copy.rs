//! Copying a snapshot into a new data file, its pages filled in key order: what backups and
//! compaction are made of.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use recto_store::StoreError;
use redb::{CursorError, CursorMut, ReadableTableMetadata as _};

use crate::catalog::{self, CATALOG, StoredTable};
use crate::clock::Now;
use crate::counts::{self, Counted};
use crate::damage::damaged;
use crate::data::create_data;
use crate::error::{engine, guarded};
use crate::meta::META;
use crate::row::{Damage, StoredRow};
use crate::state::{OpenTable, RowsDefinition, State};
use crate::verified::Met;
use crate::walk::RowsTable;

/// How far work on a store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Rows done.
    pub rows: u64,
    /// Rows there are, those of statics and those that have ended included.
    pub total_rows: u64,
}

/// How many rows lie between two reports of progress.
pub const ROWS_PER_REPORT: u64 = 65_536;

/// Who is told of progress.
pub(crate) type Report = Box<dyn FnMut(Progress) + Send>;

/// Counts rows, and reports now and then.
pub(crate) struct Counter {
    progress: Progress,
    report: Report,
}

impl Counter {
    pub(crate) fn new(total_rows: u64, report: Report) -> Self {
        let progress = Progress { rows: 0, total_rows };
        Self { progress, report }
    }

    pub(crate) fn count(&mut self) {
        self.progress.rows += 1;
        if self.progress.rows.is_multiple_of(ROWS_PER_REPORT) {
            (self.report)(self.progress);
        }
    }

    pub(crate) fn finish(mut self) -> u64 {
        (self.report)(self.progress);
        self.progress.rows
    }
}

/// Which rows are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// All.
    All,
    /// Those that have not ended.
    Living,
}

/// How many rows a snapshot has.
pub(crate) fn total_rows(state: &State) -> Result<u64, StoreError> {
    let mut total = 0;
    for stored in state.catalog.iter() {
        total += state.open_stored(stored)?.rows.len().map_err(engine)?;
    }
    Ok(total)
}

/// Makes a data file at `path` that holds `rows` of the snapshot, and no free pages at its end. Every row's
/// checksum is looked at: damage is not copied. Returns how many rows were looked at. On error nothing is
/// left at `path`.
pub(crate) fn copy(
    state: &State,
    path: &Path,
    cache_bytes: usize,
    met: &Arc<Met>,
    rows: Rows,
    report: Report,
) -> Result<u64, StoreError> {
    let _ = std::fs::remove_file(path);
    let copied = guarded(|| {
        let mut database = create_data(path, cache_bytes, met)?;
        let mut counter = Counter::new(total_rows(state)?, report);
        let mut transaction = database.begin_write().map_err(engine)?;
        transaction.set_quick_repair(true);
        {
            let mut meta = transaction.open_table(META).map_err(engine)?;
            let mut definitions = transaction.open_table(CATALOG).map_err(engine)?;
            for (name, value) in state.meta()? {
                meta.insert(name.as_slice(), value.as_slice()).map_err(engine)?;
            }
            for stored in state.catalog.iter() {
                let definition = catalog::encode(stored.id, &stored.definition);
                definitions
                    .insert(stored.definition.name().as_bytes(), definition.as_slice())
                    .map_err(engine)?;
                let mut target = transaction
                    .open_table(RowsDefinition::new(&stored.rows))
                    .map_err(engine)?;
                let source = state.open_stored(stored)?;
                let Some(counts) = &stored.counts else {
                    copy_rows(state, &source, &mut target, (rows, None), &mut counter)?;
                    continue;
                };
                let mut counted = transaction
                    .open_table(RowsDefinition::new(&counts.rows))
                    .map_err(engine)?;
                let mut recount = Recount::begin(stored, counts, &mut counted)?;
                copy_rows(
                    state,
                    &source,
                    &mut target,
                    (rows, Some(&mut recount)),
                    &mut counter,
                )?;
                recount.finish()?;
            }
        }
        transaction.commit().map_err(engine)?;
        // The engine doubles its file and begins at both ends of the new half: it cuts off what is free only
        // after it has moved the pages that lie last.
        database.compact().map_err(engine)?;
        database.close().map_err(engine)?;
        Ok(counter.finish())
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(path);
    }
    copied
}

fn copy_rows(
    state: &State,
    source: &OpenTable,
    target: &mut RowsTable<'_>,
    (rows, mut recount): (Rows, Option<&mut Recount<'_, '_>>),
    counter: &mut Counter,
) -> Result<(), StoreError> {
    let table = &source.stored;
    let mut now = Now::new(&state.environment);
    let mut cursor = target
        .upper_bound_mut(Bound::<&[u8]>::Unbounded)
        .map_err(engine)?;
    for entry in source.rows.range::<&[u8]>(..).map_err(engine)? {
        let (key, value) = entry.map_err(engine)?;
        let (key, value) = (key.value(), value.value());
        let damage = |damage| damaged(table, key, damage);
        let row = StoredRow::open(table.key_checksum(key), value).map_err(damage)?;
        if rows == Rows::All || !row.is_gone(now.seconds()).map_err(damage)? {
            cursor.insert_before(key, value).map_err(|error| match error {
                CursorError::UnorderedKey => damage(Damage::Layout),
                error => engine(redb::Error::from(error)),
            })?;
            if let Some(recount) = &mut recount {
                recount.add(key, &row)?;
            }
        }
        counter.count();
    }
    cursor.close().map_err(engine)
}

/// Counts the rows that are copied, by their partitions: what counts said before is not copied.
struct Recount<'t, 'c> {
    counts: &'t StoredTable,
    counter: counts::Counter<'t>,
    target: CursorMut<'c, &'static [u8], &'static [u8]>,
}

impl<'t, 'c> Recount<'t, 'c> {
    /// For the rows of `table`, into its `counts`, which are empty.
    fn begin(
        table: &'t StoredTable,
        counts: &'t StoredTable,
        target: &'c mut RowsTable<'_>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            counts,
            counter: counts::Counter::new(table),
            target: target
                .upper_bound_mut(Bound::<&[u8]>::Unbounded)
                .map_err(engine)?,
        })
    }

    fn add(&mut self, key: &[u8], row: &StoredRow<'_>) -> Result<(), StoreError> {
        let done = self.counter.add(key, row)?;
        done.map_or(Ok(()), |done| put_count(self.counts, done, &mut self.target))
    }

    fn finish(mut self) -> Result<(), StoreError> {
        if let Some(last) = self.counter.finish() {
            put_count(self.counts, last, &mut self.target)?;
        }
        self.target.close().map_err(engine)
    }
}

fn put_count(
    counts: &StoredTable,
    (partition, count): Counted,
    target: &mut CursorMut<'_, &'static [u8], &'static [u8]>,
) -> Result<(), StoreError> {
    if count.rows == 0 {
        return Ok(());
    }
    let mut value = Vec::new();
    counts::encode(count, counts.key_checksum(&partition), &mut value);
    target
        .insert_before(partition.as_slice(), value.as_slice())
        .map_err(|error| match error {
            CursorError::UnorderedKey => damaged(counts, &partition, Damage::Layout),
            error => engine(redb::Error::from(error)),
        })
}
