//! Applies changes inside a write transaction of the engine.

use std::collections::HashMap;
use std::sync::Arc;

use recto_store::{RowsMet, StoreError};
use redb::{ReadableTable as _, WriteTransaction};

use crate::batch::{Action, Batch, Change};
use crate::blocks::{self, BlockDeltas, BlockTableDeltas};
use crate::catalog::{Catalog, StoredTable, different};
use crate::counts::{Deltas, Sizes, TableDeltas, Tally};
use crate::damage::damaged;
use crate::error::engine;
use crate::row::{Damage, Row, StoredRow};
use crate::runs::Runs;
use crate::state::RowsDefinition;
use crate::walk::{RowsTable, find, find_edge};
use crate::work::Reply;

/// Maximum number of rows that a range deletion rewrites at a time. These are rows that it deletes in part.
const PARTLY_DELETED_ROWS: usize = 10_000;

/// Tables that a transaction has opened. They are closed before the commit.
pub(crate) struct OpenTables<'t> {
    transaction: &'t WriteTransaction,
    open: HashMap<u32, RowsTable<'t>>,
    /// Changes of counts.
    deltas: Deltas,
    /// Open tables of blocks, by the numbers of the tables whose blocks they have.
    blocks: HashMap<u32, RowsTable<'t>>,
    /// Changes of blocks.
    block_deltas: BlockDeltas,
    /// Number of the request, within the group, that is being applied.
    request: usize,
}

impl<'t> OpenTables<'t> {
    pub(crate) fn new(transaction: &'t WriteTransaction) -> Self {
        Self {
            transaction,
            open: HashMap::new(),
            deltas: Deltas::default(),
            blocks: HashMap::new(),
            block_deltas: BlockDeltas::default(),
            request: 0,
        }
    }

    /// Continues with the request of this number.
    pub(crate) fn begin_request(&mut self, request: usize) {
        self.request = request;
    }

    pub(crate) fn rows(&mut self, table: &StoredTable) -> Result<&mut RowsTable<'t>, StoreError> {
        if !self.open.contains_key(&table.id) {
            let rows = self
                .transaction
                .open_table(RowsDefinition::new(&table.rows))
                .map_err(engine)?;
            self.open.insert(table.id, rows);
        }
        Ok(self.open.get_mut(&table.id).expect("it was opened above"))
    }

    /// Closes a table that is about to be dropped.
    pub(crate) fn close(&mut self, table: &StoredTable) {
        self.open.remove(&table.id);
        self.blocks.remove(&table.id);
        self.deltas.forget(table);
        self.block_deltas.forget(table);
    }

    /// Opens the blocks of a table for the caller, who gives them back. Returns `None` if the table has no blocks.
    pub(crate) fn take_blocks(&mut self, table: &StoredTable) -> Result<Option<RowsTable<'t>>, StoreError> {
        let Some(blocks) = &table.blocks else {
            return Ok(None);
        };
        if let Some(open) = self.blocks.remove(&table.id) {
            return Ok(Some(open));
        }
        let open = self.transaction.open_table(RowsDefinition::new(&blocks.rows));
        open.map(Some).map_err(engine)
    }

    pub(crate) fn return_blocks(&mut self, table: u32, blocks: RowsTable<'t>) {
        self.blocks.insert(table, blocks);
    }

    /// Writes all changes of blocks. If this fails, returns the number of the request that gets the error.
    pub(crate) fn put_down_blocks(&mut self) -> Result<(), (usize, StoreError)> {
        while let Some((table, deltas)) = self.block_deltas.pop() {
            self.put_down_table(&table, &deltas)
                .map_err(|error| (deltas.request, error))?;
        }
        Ok(())
    }

    fn put_down_table(&mut self, table: &StoredTable, deltas: &BlockTableDeltas) -> Result<(), StoreError> {
        if let Some(mut blocks) = self.take_blocks(table)? {
            blocks::put_down(table, &mut blocks, self.rows(table)?, deltas)?;
            self.return_blocks(table.id, blocks);
        }
        Ok(())
    }

    /// Writes all changes of counts. If this fails, returns the number of the request that gets the error.
    pub(crate) fn put_down_counts(&mut self) -> Result<(), (usize, StoreError)> {
        while let Some(deltas) = self.deltas.pop() {
            self.put_down(&deltas).map_err(|error| (deltas.request, error))?;
        }
        Ok(())
    }

    fn put_down(&mut self, deltas: &TableDeltas) -> Result<(), StoreError> {
        let Some(counts) = &deltas.table.counts else {
            return Ok(());
        };
        let mut counts = self
            .transaction
            .open_table(RowsDefinition::new(&counts.rows))
            .map_err(engine)?;
        deltas.put_down(&mut counts, self.rows(&deltas.table)?)
    }
}

/// Checks that a table is still the one for which a request was prepared. It may have been dropped, or created again,
/// since.
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
    /// Time in seconds. Rows and cells that have expired by then do not exist.
    pub(crate) now_seconds: u32,
    /// Minimum timestamp of changes without a timestamp. Such a change is also newer than the row that it meets.
    pub(crate) now_micros: i64,
}

/// Applies a batch that is [sorted](Batch::sort). If an insert conflicts, applies nothing of the batch, unless the
/// batch is applied row by row.
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
        tally: Tally::default(),
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
                    applier.tally.note_new(place, batch.value(change), change.cells)?;
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

/// Row at the key of a change, before the change.
struct PreviousRow<'a> {
    change: &'a Change,
    row: Option<Vec<u8>>,
}

/// Undoes changes, so that the other changes of their group are committed without them. Starting the whole group again
/// for each conflict would let a few clients delay all others.
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

/// Row that a put or an insert met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    /// No row, the row of an earlier attempt, or a row that has ended; also if no caller needs to know.
    Nothing,
    /// A row with the same values.
    Same,
    /// Another row.
    Other,
}

struct Applier<'t> {
    now_seconds: u32,
    now_micros: i64,
    /// Minimum timestamp of the current change, if it has no timestamp.
    restamp: Option<i64>,
    /// True if a caller needs to know the rows that puts met.
    tells_met: bool,
    /// Changes of rows, as the counts need them.
    tally: Tally<'t>,
    merged: Vec<u8>,
    old: Vec<u8>,
}

impl<'t> Applier<'t> {
    /// Continues with changes of `table`.
    fn enter(&mut self, table: &Arc<StoredTable>, tables: &mut OpenTables<'t>) -> Result<(), StoreError> {
        self.tally.enter(table);
        if self.tally.blocks.is_in(table) {
            return Ok(());
        }
        let blocks = tables.take_blocks(table)?;
        if let Some((before, blocks)) = self.tally.blocks.enter(table, blocks) {
            tables.return_blocks(before, blocks);
        }
        Ok(())
    }

    /// Passes the recorded changes of counts and blocks to the transaction.
    fn finish(self, tables: &mut OpenTables<'t>) {
        let mut blocks = self.tally.finish(&mut tables.deltas, tables.request);
        if let Some((table, open)) = blocks.leave() {
            tables.return_blocks(table, open);
        }
        blocks.finish(&mut tables.block_deltas, tables.request);
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
            (Action::Put, Some(_)) => return self.put(table, key, (value, change.cells), rows),
            (Action::Insert, Some(_)) => return self.insert(table, key, (value, change.cells), rows),
            (Action::Put | Action::Insert | Action::Patch, _) => self.patch(table, key, value, rows)?,
            (Action::Delete, Some(stamp)) => self.delete(table, key, stamp, rows)?,
            (Action::Delete, None) => {
                let removed = rows
                    .remove(key)
                    .map_err(engine)?
                    .map(|old| self.tally.size(table.key_checksum(key), old.value()));
                match removed {
                    Some(before) => self.tally.note(key, before, Sizes::NOTHING)?,
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

    /// Inserts first, and then looks at the previous value. So a new row costs one descent of the tree.
    fn put(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        (value, cells): (&[u8], u32),
        rows: &mut RowsTable<'_>,
    ) -> Result<Met, StoreError> {
        let checksum = table.key_checksum(key);
        let (met, before) = match rows.insert(key, value).map_err(engine)? {
            None => {
                self.tally.note_new((key, checksum), value, cells)?;
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

    /// Returns the result of a put of `new` that replaced `old`.
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

    /// Inserts a row. If a row exists already, puts that row back.
    fn insert(
        &mut self,
        table: &StoredTable,
        key: &[u8],
        (value, cells): (&[u8], u32),
        rows: &mut RowsTable<'_>,
    ) -> Result<Met, StoreError> {
        let checksum = table.key_checksum(key);
        let damage = |damage| damaged(table, key, damage);
        let open = |value| StoredRow::open(checksum, value).map_err(damage);
        match rows.insert(key, value).map_err(engine)? {
            None => {
                self.tally.note_new((key, checksum), value, cells)?;
                return Ok(Met::Nothing);
            }
            Some(old) => {
                let old = old.value();
                let (there, new) = (open(old)?, open(value)?);
                if there.is_plainly(&new) {
                    // Keep the stored timestamp or the new one: it does not matter, because the
                    // values are the same.
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

    /// Handles an insert of `new` over `old`, with both decoded. `new` is stored at the moment.
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

    /// Reads the stored row first.
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
            let before = old.map_or(Sizes::NOTHING, |old| self.tally.size(checksum, old));
            (before, self.merge(table, key, checksum, old, value)?)
        };
        self.store(key, checksum, (before, exists), rows)
    }

    /// Writes the result of merging `old` and `value` to `merged`. Returns whether a row remains.
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

    /// Stores `merged` at `key`, or removes the row if it does not exist. `before` is the size of the previous row.
    fn store(
        &mut self,
        key: &[u8],
        checksum: u32,
        (before, exists): (Sizes, bool),
        rows: &mut RowsTable<'_>,
    ) -> Result<(), StoreError> {
        let mut after = Sizes::NOTHING;
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

    /// Stores the remaining part of a deleted row, and records the change for the counts. `before` is the size of the
    /// row before the deletion.
    fn store_left(
        &mut self,
        key: &[u8],
        checksum: u32,
        (before, left): (Sizes, Left),
        rows: &mut RowsTable<'_>,
    ) -> Result<(), StoreError> {
        if left == Left::Nothing {
            return self.tally.note(key, before, Sizes::NOTHING);
        }
        rows.insert(key, self.merged.as_slice()).map_err(engine)?;
        let after = self.tally.size(checksum, &self.merged);
        self.tally.note(key, before, after)
    }

    /// Returns whether a deletion at `stamp` leaves nothing, a part, or all of a stored row. Writes the rest to
    /// `merged`.
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

    /// Returns whether a deletion of a range leaves nothing, a part, or all of a row. Records the change for the
    /// counts.
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
            Left::Nothing => Sizes::NOTHING,
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
            self.tally.blocks.look_ahead(from, to)?;
            let mut partly: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut failed = None;
            rows.retain_in::<&[u8], _>(from..to, |key, stored| {
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

/// Remaining part of a row after a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Part,
    All,
}

/// Checks that no damaged key hides the row. A hidden row was not removed, so the deletion must not be acknowledged.
fn check_nothing(table: &StoredTable, key: &[u8], rows: &RowsTable<'_>) -> Result<(), StoreError> {
    find(table, rows, key).map(drop)
}

fn is_damaged(checksum: u32, stored: &[u8]) -> bool {
    matches!(StoredRow::open(checksum, stored), Err(Damage::Checksum))
}

/// Returns whether `new` replaces all of `old`, so that no merge is needed. A write of every column of a damaged row
/// repairs it.
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
