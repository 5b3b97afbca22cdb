//! Runs of new rows: rows of a batch that come to lie side by side, with no other row between them.
//!
//! The engine splits a full page in halves. Where new rows always come before those that are there, as in a
//! partition whose newest row is first, nothing is ever added to the half behind, and a file of them is twice
//! as large as it need be. Its cursor fills pages, from a few rows on; it looks at both sides of its gap
//! first, so that rows in no order, each in a gap of its own, are inserted one by one.

use std::ops::Bound;

use recto_store::{StoreError, StoreErrorKind};
use redb::CursorError;

use crate::batch::{Action, Batch, Change};
use crate::catalog::StoredTable;
use crate::error::engine;
use crate::walk::{Found, RowsTable, search};

/// How many rows are a run: fewer do not fill a page that they split.
const MIN_RUN_ROWS: usize = 16;

/// How many rows are inserted one by one, at most, before a run is looked for again.
const MAX_ROWS_WITHOUT_LOOKING: usize = 16;

/// Finds the runs of a batch and inserts them.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// For how many changes no run is looked for.
    rest: usize,
    /// How many those were at the last time.
    last_rest: usize,
}

impl Runs {
    /// Inserts the run that `changes`, in key order, begin with, if they do. Returns how many rows it has.
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
            // What says no stamp is not stored as it was made ready.
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
            // Beside a damaged row a row is inserted as any other is.
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
                // The same key again.
                Err(CursorError::UnorderedKey) => break,
                Err(error) => return Err(engine(redb::Error::from(error))),
            }
        }
        cursor.close().map_err(engine)?;
        Ok(inserted)
    }
}
