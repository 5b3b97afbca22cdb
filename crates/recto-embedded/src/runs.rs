//! Runs of new rows: rows of a batch that are adjacent in key order, with no existing row between them.
//!
//! The engine splits a full page into halves. In a partition whose newest row is first, new rows always come
//! before the existing rows. No row is then ever added to the second half, and the file is twice as large as
//! necessary. The engine's cursor inserts a run into the gap between two rows and fills pages. Its first step
//! is to read both sides of the gap, which is worth the cost only from a few rows on. Rows that are each in a
//! gap of their own are therefore inserted one by one.

use std::ops::Bound;

use recto_store::{StoreError, StoreErrorKind};
use redb::CursorError;

use crate::batch::{Action, Batch, Change};
use crate::catalog::StoredTable;
use crate::error::engine;
use crate::walk::{Found, RowsTable, search};

/// Minimum number of rows of a run (adjacent new rows). Fewer rows do not fill a page that they split.
const MIN_RUN_ROWS: usize = 16;

/// Maximum number of rows that are inserted one by one before the next search for a run (adjacent new rows).
const MAX_ROWS_WITHOUT_LOOKING: usize = 16;

/// Finder of runs (adjacent new rows) in a batch, which inserts each run at once.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Number of further changes to insert one by one before the next search for a run.
    rest: usize,
    /// Number of changes that were inserted one by one after the last search that found no run.
    last_rest: usize,
}

impl Runs {
    /// Inserts the run at the start of `changes`, which are in key order, if there is a run. Returns the
    /// number of inserted rows; 0 if the caller must insert the first change itself.
    pub(crate) fn insert(
        &mut self,
        batch: &Batch,
        changes: &[Change],
        table: &StoredTable,
        rows: &mut RowsTable<'_>,
    ) -> Result<usize, StoreError> {
        if self.rest > 0 {
            self.rest -= 1;
            return Ok(0);
        }
        let makes_rows = |change: &Change| {
            // A change without a timestamp is not stored in its prepared form, so it cannot be part
            // of a run.
            change.table == changes[0].table
                && change.stamp.is_some()
                && matches!(change.action, Action::Put | Action::Insert)
        };
        let Some(first_rows) = changes.get(..MIN_RUN_ROWS) else {
            return Ok(0);
        };
        if !first_rows.iter().all(makes_rows) {
            return Ok(0);
        }
        let key = |index: usize| batch.key(&changes[index]);
        let ahead = match search(table, rows, key(0)) {
            Ok(Found::Row(_)) => return Ok(0),
            Ok(Found::Gap(ahead)) => ahead.map(|ahead| ahead.value().to_vec()),
            // If the neighboring row is damaged, insert no run: the normal path inserts the rows
            // one by one.
            Err(error) if error.kind() == StoreErrorKind::Corrupt => return Ok(0),
            Err(error) => return Err(error),
        };
        let is_in_gap = |key: &[u8]| ahead.as_deref().is_none_or(|ahead| key < ahead);
        if !is_in_gap(key(MIN_RUN_ROWS - 1)) {
            self.last_rest = (2 * self.last_rest + 1).min(MAX_ROWS_WITHOUT_LOOKING);
            self.rest = self.last_rest;
            return Ok(0);
        }
        self.last_rest = 0;
        let mut cursor = rows.lower_bound_mut(Bound::Included(key(0))).map_err(engine)?;
        let mut inserted = 0;
        for change in changes.iter().take_while(|change| makes_rows(change)) {
            if !is_in_gap(batch.key(change)) {
                break;
            }
            match cursor.insert_before(batch.key(change), batch.value(change)) {
                Ok(()) => inserted += 1,
                // A repeated key ends the run, because its changes must be merged.
                Err(CursorError::UnorderedKey) => break,
                Err(error) => return Err(engine(redb::Error::from(error))),
            }
        }
        cursor.close().map_err(engine)?;
        Ok(inserted)
    }
}
