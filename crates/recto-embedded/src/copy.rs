//! Copy of a snapshot into a new data file, with pages that are filled in key order. Backups and compaction use it.

use std::path::Path;
use std::sync::Arc;

use recto_store::StoreError;
use redb::{CursorError, ReadableTableMetadata as _};

use crate::blocks::{self, Block, Builder, TARGET_ROWS};
use crate::catalog::{self, CATALOG, StoredTable};
use crate::clock::Now;
use crate::damage::damaged;
use crate::data::create_data;
use crate::error::{engine, guarded};
use crate::log::{LOG_ENTRY, META_NAME, Transaction, WriteCursor};
use crate::row::{Damage, StoredRow};
use crate::state::{OpenTable, State};
use crate::verified::Met;
use crate::walk::RowsTable;

/// Progress of an operation that reads all rows of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of rows that were processed so far.
    pub rows: u64,
    /// Number of rows to process, including static rows and expired rows.
    pub total_rows: u64,
}

/// Number of processed rows between two reports of progress.
pub const ROWS_PER_REPORT: u64 = 65_536;

/// Callback that receives the progress of an operation at intervals.
pub(crate) type Report = Box<dyn FnMut(Progress) + Send>;

/// Counter of processed rows, which reports the progress at intervals.
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

/// Selection of the rows to copy into a new data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// All rows, including expired rows.
    All,
    /// Rows that have not expired.
    Living,
}

/// Returns the number of stored rows of all tables of a snapshot, including expired rows.
pub(crate) fn total_rows(state: &State) -> Result<u64, StoreError> {
    let mut total = 0;
    for stored in state.catalog.iter() {
        total += state.open_stored(stored)?.rows.len().map_err(engine)?;
    }
    Ok(total)
}

/// Creates a data file at `path` with `rows` of the snapshot, and without free pages at its end. The checksum of every
/// row is verified, so that damage is not copied. Returns the number of rows that were read. On error, no file remains
/// at `path`.
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
        let transaction = Transaction::begin_copy(&database)?;
        {
            let mut meta = transaction.open(META_NAME)?;
            let mut definitions = transaction.open_catalog(redb::TableHandle::name(&CATALOG))?;
            for (name, value) in state.meta()? {
                // The log belongs to the store, so a compacted file still has its position, and a backup has
                // none.
                if name == LOG_ENTRY && rows == Rows::All {
                    continue;
                }
                meta.insert(&name, &value).map_err(engine)?;
            }
            for stored in state.catalog.iter() {
                let definition = catalog::encode(stored);
                definitions
                    .insert(stored.definition.name().as_bytes(), &definition)
                    .map_err(engine)?;
                let mut target = transaction.open(&stored.rows)?;
                let source = state.open_stored(stored)?;
                let open = |companion: &Arc<StoredTable>| transaction.open(&companion.rows);
                let mut open_blocks = stored.blocks.as_ref().map(open).transpose()?;
                {
                    let mut blocks = match stored.blocks.as_deref().zip(open_blocks.as_mut()) {
                        Some((blocks, target)) => Some(BlockCopy::begin(stored, blocks, target)?),
                        None => None,
                    };
                    copy_rows(state, &source, &mut target, (rows, blocks.as_mut()), &mut counter)?;
                    blocks.map_or(Ok(()), BlockCopy::finish)?;
                }
                let mut sums = stored.sums.as_ref().map(open).transpose()?;
                if let (Some(from), Some(open_blocks), Some(to), Some(sums)) =
                    (&stored.blocks, &open_blocks, &stored.sums, &mut sums)
                {
                    blocks::build_sums_of_copy((from, open_blocks), (to, sums))?;
                }
            }
        }
        let (mut transaction, _) = transaction.into_parts();
        transaction.set_quick_repair(true);
        transaction.commit().map_err(engine)?;
        // Compact the copy. The engine doubles the size of a growing file and uses both ends of the new half.
        // It can therefore cut off free pages only after it has moved the last pages.
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
    (rows, mut blocks): (Rows, Option<&mut BlockCopy<'_, '_>>),
    counter: &mut Counter,
) -> Result<(), StoreError> {
    let table = &source.stored;
    let mut now = Now::new(&state.environment);
    let mut cursor = target.end_mut().map_err(engine)?;
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
            if let Some(blocks) = &mut blocks {
                blocks.add(key, value)?;
            }
        }
        counter.count();
    }
    cursor.close().map_err(engine)
}

/// Builder of the blocks (row counts by key range) of a copied table. It counts the copied rows. The blocks
/// of the source are not copied.
struct BlockCopy<'t, 'c> {
    blocks: &'t StoredTable,
    builder: Builder<'t>,
    target: WriteCursor<'c>,
}

impl<'t, 'c> BlockCopy<'t, 'c> {
    /// Starts building the blocks for the rows of `table`, which has no `blocks` yet.
    fn begin(
        table: &'t StoredTable,
        blocks: &'t StoredTable,
        target: &'c mut RowsTable<'_>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            blocks,
            builder: Builder::new(table, Vec::new(), TARGET_ROWS),
            target: target.end_mut().map_err(engine)?,
        })
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let done = self.builder.add(key, value);
        done.map_or(Ok(()), |done| put_block(self.blocks, done, &mut self.target))
    }

    fn finish(mut self) -> Result<(), StoreError> {
        put_block(self.blocks, self.builder.finish(), &mut self.target)?;
        self.target.close().map_err(engine)
    }
}

fn put_block(
    table: &StoredTable,
    (lower, block): (Vec<u8>, Block),
    target: &mut WriteCursor<'_>,
) -> Result<(), StoreError> {
    let mut value = Vec::new();
    blocks::encode_block(table, &lower, block, &mut value);
    put_entry(table, target, &lower, &value)
}

fn put_entry(
    table: &StoredTable,
    target: &mut WriteCursor<'_>,
    key: &[u8],
    value: &[u8],
) -> Result<(), StoreError> {
    target.insert_before(key, value).map_err(|error| match error {
        CursorError::UnorderedKey => damaged(table, key, Damage::Layout),
        error => engine(redb::Error::from(error)),
    })
}
