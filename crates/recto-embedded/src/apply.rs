//! Applies changes inside a write transaction of the engine.

use std::collections::HashMap;
use std::sync::Arc;

use recto_store::{RowsMet, StoreError};
use redb::ReadableTable as _;

use crate::batch::{Action, Batch, Change};
use crate::blocks::{self, BlockDeltas, BlockTableDeltas, BlockTally, EntrySize};
use crate::catalog::{Catalog, StoredTable, different};
use crate::damage::damaged;
use crate::error::engine;
use crate::log::Transaction;
use crate::row::{Damage, Row, StoredRow};
use crate::runs::Runs;
use crate::walk::{RowsTable, find, find_edge};
use crate::work::Reply;

/// Maximum number of rows that a range deletion stores again at a time. A row is stored again if a part of it
/// is newer than the deletion.
const PARTLY_DELETED_ROWS: usize = 10_000;

/// Tables of the engine that a write transaction has opened. They are closed before the transaction commits.
pub(crate) struct OpenTables<'t> {
    transaction: &'t Transaction,
    open: HashMap<u32, RowsTable<'t>>,
    /// Open tables of blocks (row counts by key range), by the id of the table whose rows the blocks count.
    blocks: HashMap<u32, RowsTable<'t>>,
    /// Changes of blocks (row counts by key range) by the requests so far. `put_down_blocks` writes these
    /// changes.
    block_deltas: BlockDeltas,
    /// Tables that have enough blocks (row counts by key range) to need sums over groups of blocks, but have
    /// no sums yet.
    without_sums: Vec<Arc<StoredTable>>,
    /// Index, within the group, of the request that is being applied.
    request: usize,
}

impl<'t> OpenTables<'t> {
    pub(crate) fn new(transaction: &'t Transaction) -> Self {
        Self {
            transaction,
            open: HashMap::new(),
            blocks: HashMap::new(),
            block_deltas: BlockDeltas::default(),
            without_sums: Vec::new(),
            request: 0,
        }
    }

    /// Attributes the following changes to the request with the index `request` in the group.
    pub(crate) fn begin_request(&mut self, request: usize) {
        self.request = request;
    }

    pub(crate) fn rows(&mut self, table: &StoredTable) -> Result<&mut RowsTable<'t>, StoreError> {
        if !self.open.contains_key(&table.id) {
            let rows = self.transaction.open(&table.rows)?;
            self.open.insert(table.id, rows);
        }
        Ok(self.open.get_mut(&table.id).expect("it was opened above"))
    }

    /// Closes a table that is about to be dropped.
    pub(crate) fn close(&mut self, table: &StoredTable) {
        self.open.remove(&table.id);
        self.blocks.remove(&table.id);
        self.block_deltas.forget(table);
    }

    /// Removes and returns the open blocks (row counts by key range) of a table. The caller gives the blocks
    /// back with `return_blocks`. Returns `None` if the table has no blocks.
    pub(crate) fn take_blocks(&mut self, table: &StoredTable) -> Result<Option<RowsTable<'t>>, StoreError> {
        let Some(blocks) = &table.blocks else {
            return Ok(None);
        };
        if let Some(open) = self.blocks.remove(&table.id) {
            return Ok(Some(open));
        }
        self.transaction.open(&blocks.rows).map(Some)
    }

    pub(crate) fn return_blocks(&mut self, table: u32, blocks: RowsTable<'t>) {
        self.blocks.insert(table, blocks);
    }

    /// Writes the recorded changes of blocks (row counts by key range) to the engine. On failure, returns the
    /// error and the index of the request that gets it. `catalog` is the catalog after all requests, because
    /// a request of the group may have created the sums of a table.
    pub(crate) fn put_down_blocks(&mut self, catalog: &Catalog) -> Result<(), (usize, StoreError)> {
        while let Some((table, deltas)) = self.block_deltas.pop() {
            let now = catalog.get(table.definition.name());
            let Some(now) = now.filter(|now| now.id == table.id) else {
                continue;
            };
            self.put_down_table(now, &deltas)
                .map_err(|error| (deltas.request, error))?;
        }
        Ok(())
    }

    fn put_down_table(
        &mut self,
        table: &Arc<StoredTable>,
        deltas: &BlockTableDeltas,
    ) -> Result<(), StoreError> {
        let Some(mut blocks) = self.take_blocks(table)? else {
            return Ok(());
        };
        let mut sums = match &table.sums {
            Some(sums) => Some(self.open_sums(sums)?),
            None => None,
        };
        blocks::put_down(table, &mut blocks, sums.as_mut(), self.rows(table)?, deltas)?;
        if sums.is_none() && blocks::needs_sums(&blocks)? {
            self.without_sums.push(Arc::clone(table));
        }
        self.return_blocks(table.id, blocks);
        Ok(())
    }

    fn open_sums(&self, sums: &StoredTable) -> Result<RowsTable<'t>, StoreError> {
        self.transaction.open(&sums.rows)
    }

    /// Removes and returns the tables that need sums over their blocks (row counts by key range). Call this
    /// after [`Self::put_down_blocks`].
    pub(crate) fn take_tables_without_sums(&mut self) -> Vec<Arc<StoredTable>> {
        std::mem::take(&mut self.without_sums)
    }

    /// Builds the sums over the blocks (row counts by key range) of a table. Does nothing if the catalog
    /// gives the table no sums or no blocks.
    pub(crate) fn build_sums(&mut self, table: &StoredTable) -> Result<(), StoreError> {
        let Some(sums) = &table.sums else {
            return Ok(());
        };
        let Some(mut blocks) = self.take_blocks(table)? else {
            return Ok(());
        };
        let mut sums = self.open_sums(sums)?;
        blocks::build_sums(table, &mut blocks, &mut sums, self.rows(table)?)?;
        self.return_blocks(table.id, blocks);
        Ok(())
    }
}

/// Checks that the table for which a request was prepared still exists. Another request may have dropped the
/// table, or dropped it and created it again, since then.
pub(crate) fn check_table(table: &StoredTable, catalog: &Catalog) -> Result<(), StoreError> {
    let name = table.definition.name();
    if catalog.get(name).is_some_and(|now| now.id == table.id) {
        return Ok(());
    }
    Err(different(name).with_hint("write again: the table was dropped or emptied during the write"))
}

/// Time at which the changes of a request take place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Time in seconds since 1970. Rows and cells that have expired by this time count as absent.
    pub(crate) now_seconds: u32,
    /// Minimum timestamp, in microseconds, of changes without a timestamp. The change also gets a newer
    /// timestamp than the existing row.
    pub(crate) now_micros: i64,
}

/// Applies a batch that is [sorted](Batch::sort). If an insert conflicts, nothing of the batch is applied. A
/// batch that is applied row by row skips the conflicting insert instead.
pub(crate) fn apply(
    batch: &Batch,
    catalog: &Catalog,
    tables: &mut OpenTables<'_>,
    now: Moment,
) -> Result<Reply, StoreError> {
    for table in &batch.tables {
        check_table(table, catalog)?;
    }
    let mut applier = Applier {
        now_seconds: now.now_seconds,
        now_micros: now.now_micros,
        restamp: None,
        tells_met: batch.row_by_row,
        tally: BlockTally::default(),
        merged: Vec::new(),
        old: Vec::new(),
    };
    let mut met_rows = RowsMet::default();
    let mut undo: Vec<PreviousRow<'_>> = Vec::new();
    let mut runs = Runs::default();
    let not_in_order = batch.changes.len() - batch.in_key_order();
    let mut changes = batch.changes.as_slice();
    while let Some((change, rest)) = changes.split_first() {
        let table = &batch.tables[change.table];
        applier.enter(table, tables)?;
        let rows = tables.rows(table)?;
        if let Some(in_order @ 1..) = changes.len().checked_sub(not_in_order) {
            let found = runs.insert(batch, &changes[..in_order], table, rows)?;
            let (run, after) = changes.split_at(found);
            if !run.is_empty() {
                for change in run {
                    let key = batch.key(change);
                    let place = (key, table.key_checksum(key));
                    applier.tally.note_new(place, batch.value(change))?;
                }
                if batch.may_be_undone() {
                    undo.extend(run.iter().map(|change| PreviousRow { change, row: None }));
                }
                changes = after;
                continue;
            }
        }
        changes = rest;
        if batch.may_be_undone() {
            let row = rows.get(batch.key(change)).map_err(engine)?;
            let row = row.map(|row| row.value().to_vec());
            undo.push(PreviousRow { change, row });
        }
        match applier.apply(batch, change, table, rows)? {
            Met::Nothing => {}
            Met::Same => met_rows.repeated += 1,
            Met::Other if change.action != Action::Insert => met_rows.replaced += 1,
            Met::Other if batch.row_by_row => met_rows.conflicts.push(change.number as usize),
            Met::Other => {
                undo_all(batch, undo, tables)?;
                return Ok(Reply::Conflict(change.number as usize));
            }
        }
    }
    applier.finish(tables);
    Ok(if batch.row_by_row {
        Reply::Counted(met_rows)
    } else {
        Reply::Done
    })
}

/// Row that was stored at the key of a change before the change, so that the change can be undone.
struct PreviousRow<'a> {
    change: &'a Change,
    row: Option<Vec<u8>>,
}

/// Undoes the changes of one batch, so that the other batches of its group are committed without it. Applying
/// the whole group again after each conflict would let a few clients delay all others.
fn undo_all(
    batch: &Batch,
    undo: Vec<PreviousRow<'_>>,
    tables: &mut OpenTables<'_>,
) -> Result<(), StoreError> {
    for PreviousRow { change, row } in undo.into_iter().rev() {
        let rows = tables.rows(&batch.tables[change.table])?;
        match row {
            Some(row) => drop(rows.insert(batch.key(change), row.as_slice()).map_err(engine)?),
            None => drop(rows.remove(batch.key(change)).map_err(engine)?),
        }
    }
    Ok(())
}

/// Kind of existing row that a put or an insert found at its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    /// No row, an expired row, or the row of an earlier attempt of the same write. Also the result if the
    /// caller does not need the kind.
    Nothing,
    /// A row with the same values as the put.
    Same,
    /// A row with other values than the put.
    Other,
}

struct Applier<'t> {
    now_seconds: u32,
    now_micros: i64,
    /// Minimum timestamp of the current change. `None` if the change has its own timestamp.
    restamp: Option<i64>,
    /// True if the caller needs to know which existing rows its puts found.
    tells_met: bool,
    /// Record of the changes of row counts by block (key range).
    tally: BlockTally<'t>,
    merged: Vec<u8>,
    old: Vec<u8>,
}

impl<'t> Applier<'t> {
    /// Makes `table` the table whose row counts the following changes affect.
    fn enter(&mut self, table: &Arc<StoredTable>, tables: &mut OpenTables<'t>) -> Result<(), StoreError> {
        if self.tally.is_in(table) {
            return Ok(());
        }
        let blocks = tables.take_blocks(table)?;
        if let Some((before, blocks)) = self.tally.enter(table, blocks) {
            tables.return_blocks(before, blocks);
        }
        Ok(())
    }

    /// Adds the recorded changes of row counts by block to those of the transaction.
    fn finish(mut self, tables: &mut OpenTables<'t>) {
        if let Some((table, open)) = self.tally.leave() {
            tables.return_blocks(table, open);
        }
        self.tally.finish(&mut tables.block_deltas, tables.request);
    }

    fn apply(
        &mut self,
        batch: &Batch,
        change: &Change,
        table: &StoredTable,
        rows: &mut RowsTable<'_>,
    ) -> Result<Met, StoreError> {
        let (key, value) = (batch.key(change), batch.value(change));
        self.restamp = change.stamp.is_none().then_some(self.now_micros);
        match (change.action, change.stamp) {
            (Action::Put, Some(_)) => return self.put(table, key, value, rows),
            (Action::Insert, Some(_)) => return self.insert(table, key, value, rows),
            (Action::Put | Action::Insert | Action::Patch, _) => self.patch(table, key, value, rows)?,
            (Action::Delete, Some(stamp)) => self.delete(table, key, stamp, rows)?,
            (Action::Delete, None) => {
                let removed = rows
                    .remove(key)
                    .map_err(engine)?
                    .map(|old| self.tally.size(table.key_checksum(key), old.value()));
                match removed {
                    Some(before) => self.tally.note(key, before, None)?,
                    None => check_nothing(table, key, rows)?,
                }
            }
            // A range deletion always has a timestamp, because only plain writes delete ranges. One
            // without a timestamp would be newer than all rows.
            (Action::DeleteRange, stamp) => {
                self.delete_range(table, key, value, stamp.unwrap_or(i64::MAX), rows)?;
            }
        }
        Ok(Met::Nothing)
    }

    /// Puts a row. Inserts it first and then examines the previous value, so that a new row costs only one
    /// descent of the tree.
    fn put(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        value: &[u8],
        rows: &mut RowsTable<'_>,
    ) -> Result<Met, StoreError> {
        let checksum = table.key_checksum(key);
        let (met, before) = match rows.insert(key, value).map_err(engine)? {
            None => {
                self.tally.note_new((key, checksum), value)?;
                return Ok(Met::Nothing);
            }
            Some(old) => {
                let old = old.value();
                let before = self.tally.size(checksum, old);
                let met = if self.tells_met {
                    self.met(checksum, old, value)
                } else {
                    Met::Nothing
                };
                if replaces(table, checksum, old, value) {
                    let size = self.tally.size(checksum, value);
                    self.tally.note(key, before, size)?;
                    return Ok(met);
                }
                self.old.clear();
                self.old.extend_from_slice(old);
                (met, before)
            }
        };
        let old = std::mem::take(&mut self.old);
        let merged = self.merge(table, key, checksum, Some(&old), value);
        self.old = old;
        self.store(key, checksum, (before, merged?), rows)?;
        Ok(met)
    }

    /// Classifies the stored row `old`, which a put of `new` has replaced, by its values.
    fn met(&self, checksum: u32, old: &[u8], new: &[u8]) -> Met {
        let (Ok(old), Ok(new)) = (StoredRow::open(checksum, old), StoredRow::open(checksum, new)) else {
            return Met::Other;
        };
        let again = old.newest_at_once().is_some() && old.newest_at_once() == new.newest_at_once();
        if again || (old.may_end() && old.is_gone(self.now_seconds) == Ok(true)) {
            Met::Nothing
        } else if old.is_plainly(&new) {
            Met::Same
        } else {
            Met::Other
        }
    }

    /// Inserts a row. If a row with other values exists at its key, stores that row again.
    fn insert(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        value: &[u8],
        rows: &mut RowsTable<'_>,
    ) -> Result<Met, StoreError> {
        let checksum = table.key_checksum(key);
        let damage = |damage| damaged(table, key, damage);
        let open = |value| StoredRow::open(checksum, value).map_err(damage);
        match rows.insert(key, value).map_err(engine)? {
            None => {
                self.tally.note_new((key, checksum), value)?;
                return Ok(Met::Nothing);
            }
            Some(old) => {
                let old = old.value();
                let (there, new) = (open(old)?, open(value)?);
                if there.is_plainly(&new) {
                    // The row now has the new timestamp instead of the old one. The difference does not
                    // matter, because the values are the same.
                    let again = there.newest_at_once() == new.newest_at_once();
                    return Ok(if again { Met::Nothing } else { Met::Same });
                }
                self.old.clear();
                self.old.extend_from_slice(old);
            }
        }
        let old = std::mem::take(&mut self.old);
        let met = self.insert_apart(table, key, (&old, value), rows);
        self.old = old;
        met
    }

    /// Completes an insert of `new` over `old` by decoding both rows, if their encoded forms do not show the
    /// result. When this is called, `new` is stored at the key.
    fn insert_apart(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        (old, new): (&[u8], &[u8]),
        rows: &mut RowsTable<'_>,
    ) -> Result<Met, StoreError> {
        let checksum = table.key_checksum(key);
        let decode = |value| {
            StoredRow::open(checksum, value)
                .and_then(|stored| stored.decode(0))
                .map_err(|damage| damaged(table, key, damage))
        };
        let (mut there, inserted) = (decode(old)?, decode(new)?);
        let before = self.tally.size(checksum, old);
        there.end(self.now_seconds);
        if !there.exists() {
            let exists = self.merge(table, key, checksum, Some(old), new)?;
            self.store(key, checksum, (before, exists), rows)?;
            return Ok(Met::Nothing);
        }
        let is_same = inserted.has_values_of(&there);
        let again = there.newest() == inserted.newest();
        self.merged.clear();
        if is_same && there.prolong(inserted.marker.expiry) {
            there.encode(checksum, &mut self.merged);
        } else {
            self.merged.extend_from_slice(old);
        }
        self.store(key, checksum, (before, true), rows)?;
        Ok(match is_same {
            true if again => Met::Nothing,
            true => Met::Same,
            false => Met::Other,
        })
    }

    /// Merges a change into the stored row, which is read first.
    fn patch(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        value: &[u8],
        rows: &mut RowsTable<'_>,
    ) -> Result<(), StoreError> {
        let checksum = table.key_checksum(key);
        let (before, exists) = {
            let old = find(table, rows, key)?;
            let old = old.as_ref().map(redb::AccessGuard::value);
            let before = old.and_then(|old| self.tally.size(checksum, old));
            (before, self.merge(table, key, checksum, old, value)?)
        };
        self.store(key, checksum, (before, exists), rows)
    }

    /// Merges `value` into `old`, and writes the encoded result to `merged`. Returns whether the resulting
    /// row exists. A row whose data is deleted or expired does not.
    fn merge(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        checksum: u32,
        old: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let decode = |value| {
            StoredRow::open(checksum, value)
                .and_then(|stored| stored.decode(0))
                .map_err(|damage| damaged(table, key, damage))
        };
        let mut new: Row<'_> = decode(value)?;
        let old = old.map(decode).transpose()?;
        if let Some(stamp) = self.restamp {
            let newest = old.as_ref().map_or(i64::MIN, Row::newest);
            new.restamp(stamp.max(newest.saturating_add(1)));
        }
        if let Some(old) = &old {
            new.merge(old);
        }
        new.end(self.now_seconds);
        self.merged.clear();
        let exists = new.exists();
        if exists {
            new.encode(checksum, &mut self.merged);
        }
        Ok(exists)
    }

    /// Stores `merged` at `key` if the row `exists`, and otherwise removes the row. `before` is the size of
    /// the previous row.
    fn store(
        &mut self,
        key: &[u8],
        checksum: u32,
        (before, exists): (Option<EntrySize>, bool),
        rows: &mut RowsTable<'_>,
    ) -> Result<(), StoreError> {
        let mut after = None;
        if exists {
            rows.insert(key, self.merged.as_slice()).map_err(engine)?;
            after = self.tally.size(checksum, &self.merged);
        } else {
            rows.remove(key).map_err(engine)?;
        }
        self.tally.note(key, before, after)
    }

    fn delete(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        stamp: i64,
        rows: &mut RowsTable<'_>,
    ) -> Result<(), StoreError> {
        let checksum = table.key_checksum(key);
        let found = match rows.remove(key).map_err(engine)? {
            None => None,
            // Delete a damaged row as a whole, because no part of it can be kept.
            Some(old) if is_damaged(checksum, old.value()) => {
                Some((Left::Nothing, self.tally.size(checksum, old.value())))
            }
            Some(old) => {
                let before = self.tally.size(checksum, old.value());
                Some((self.left(table, key, old.value(), stamp)?, before))
            }
        };
        let Some((left, before)) = found else {
            return check_nothing(table, key, rows);
        };
        // If the row, or a part of it, is newer than the deletion, store the remaining part again.
        self.store_left(key, checksum, (before, left), rows)
    }

    /// Stores the remaining part of a deleted row again, and records the change of the row counts. `before`
    /// is the size of the row before the deletion.
    fn store_left(
        &mut self,
        key: &[u8],
        checksum: u32,
        (before, left): (Option<EntrySize>, Left),
        rows: &mut RowsTable<'_>,
    ) -> Result<(), StoreError> {
        if left == Left::Nothing {
            return self.tally.note(key, before, None);
        }
        rows.insert(key, self.merged.as_slice()).map_err(engine)?;
        let after = self.tally.size(checksum, &self.merged);
        self.tally.note(key, before, after)
    }

    /// Returns whether a deletion at `stamp` leaves nothing, a part, or all of a stored row. Writes the
    /// remaining part to `merged`.
    fn left(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        stored: &[u8],
        stamp: i64,
    ) -> Result<Left, StoreError> {
        let checksum = table.key_checksum(key);
        let damage = |damage| damaged(table, key, damage);
        let old = StoredRow::open(checksum, stored).map_err(damage)?;
        if old.newest_at_once().is_some_and(|newest| newest <= stamp) {
            return Ok(Left::Nothing);
        }
        self.merged.clear();
        let before = old.decode(0).map_err(damage)?;
        let mut after = before.clone();
        after.delete(stamp);
        after.end(self.now_seconds);
        if !after.exists() {
            return Ok(Left::Nothing);
        }
        if after == before {
            self.merged.extend_from_slice(stored);
            return Ok(Left::All);
        }
        after.encode(checksum, &mut self.merged);
        Ok(Left::Part)
    }

    /// Returns whether a deletion of a range leaves nothing, a part, or all of a row. Records the change of
    /// the row counts.
    fn left_in_range(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        stored: &[u8],
        stamp: i64,
    ) -> Result<Left, StoreError> {
        let left = self.left(table, key, stored, stamp)?;
        let checksum = table.key_checksum(key);
        let before = self.tally.size(checksum, stored);
        let after = match left {
            Left::Nothing => None,
            Left::All => before,
            Left::Part => self.tally.size(checksum, &self.merged),
        };
        self.tally.note(key, before, after)?;
        Ok(left)
    }

    fn delete_range(
        &mut self,
        table: &StoredTable,
        from: &[u8],
        to: &[u8],
        stamp: i64,
        rows: &mut RowsTable<'_>,
    ) -> Result<(), StoreError> {
        for edge in [from, to] {
            find_edge(table, rows, edge)?;
        }
        loop {
            self.tally.look_ahead(from, to)?;
            let mut partly: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut failed = None;
            rows.retain_in(from..to, |key, stored| {
                if failed.is_some() || partly.len() == PARTLY_DELETED_ROWS {
                    return true;
                }
                match self.left_in_range(table, key, stored, stamp) {
                    Ok(Left::Nothing) => false,
                    Ok(Left::All) => true,
                    Ok(Left::Part) => {
                        partly.push((key.to_vec(), self.merged.clone()));
                        true
                    }
                    Err(error) => {
                        failed = Some(error);
                        true
                    }
                }
            })
            .map_err(engine)?;
            if let Some(error) = failed {
                return Err(error);
            }
            for (key, row) in &partly {
                rows.insert(key.as_slice(), row.as_slice()).map_err(engine)?;
            }
            if partly.len() < PARTLY_DELETED_ROWS {
                return Ok(());
            }
        }
    }
}

/// Part of a row that remains after a deletion, because it is newer than the deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Part,
    All,
}

/// Checks that no row is stored at `key`. A damaged key nearby can hide the row from the engine's search. The
/// deletion must then fail, because the hidden row still exists.
fn check_nothing(table: &StoredTable, key: &[u8], rows: &RowsTable<'_>) -> Result<(), StoreError> {
    find(table, rows, key).map(drop)
}

fn is_damaged(checksum: u32, stored: &[u8]) -> bool {
    matches!(StoredRow::open(checksum, stored), Err(Damage::Checksum))
}

/// Returns whether `new` replaces all of `old`, so that no merge is needed. A damaged `old` is replaced only
/// if `new` writes every column.
fn replaces(table: &StoredTable, checksum: u32, old: &[u8], new: &[u8]) -> bool {
    let Ok(new) = StoredRow::open(checksum, new) else {
        return false;
    };
    let old = match StoredRow::open(checksum, old) {
        Ok(old) => old,
        Err(Damage::Checksum) => return new.writes_columns(table.definition.regular().len()),
        Err(_) => return false,
    };
    match (old.newest_at_once(), new.newest_at_once()) {
        (Some(newest), Some(stamp)) => new.writes_all_of(&old) && newest < stamp,
        _ => false,
    }
}
