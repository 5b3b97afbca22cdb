//! Updates of stored blocks by a transaction: blocks are changed, split, joined or removed.

use recto_store::{StoreError, StoreErrorKind};
use redb::{ReadableTable as _, ReadableTableMetadata as _};

use super::sums::{self, BlockChange};
use super::tally::{BlockTableDeltas, Delta};
use super::{
    Block, Builder, Content as _, MAX_ROWS, MIN_ROWS, Placed, TARGET_ROWS, earlier, entry_at, out_of_order,
    read_entry,
};
use crate::catalog::StoredTable;
use crate::error::engine;
use crate::walk::RowsTable;

/// Writes the changes of the blocks of a table to its stored blocks `entries`, and to its `sums` if it has
/// some. `rows` are the rows after the changes.
///
/// # Errors
/// The engine failed. Damage is no error: damaged blocks of the table, or damaged sums, are built again.
pub(crate) fn put_down(
    table: &StoredTable,
    entries: &mut RowsTable<'_>,
    sums: Option<&mut RowsTable<'_>>,
    rows: &RowsTable<'_>,
    deltas: &BlockTableDeltas,
) -> Result<(), StoreError> {
    let Some(blocks) = &table.blocks else {
        return Ok(());
    };
    let mut upkeep = Upkeep::of(table, blocks, entries, rows);
    if sums.is_some() {
        upkeep.list_changes();
    }
    upkeep.put_down(deltas)?;
    let changes = upkeep.changes;
    let Some((stored, sums)) = table.sums.as_deref().zip(sums) else {
        return Ok(());
    };
    if let SumChanges::Listed(changes) = changes {
        match sums::put_down((blocks, &*entries), (stored, &mut *sums), &changes) {
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {}
            done => return done,
        }
    }
    build_sums(table, entries, sums, rows)
}

/// Builds the sums over the blocks of a table. If a block is damaged, builds all blocks from the rows first.
///
/// # Errors
/// The engine failed.
pub(crate) fn build_sums(
    table: &StoredTable,
    entries: &mut RowsTable<'_>,
    sums: &mut RowsTable<'_>,
    rows: &RowsTable<'_>,
) -> Result<(), StoreError> {
    let Some((blocks, stored)) = table.blocks.as_deref().zip(table.sums.as_deref()) else {
        return Ok(());
    };
    match sums::build((blocks, &*entries), (stored, &mut *sums)) {
        Err(error) if error.kind() == StoreErrorKind::Corrupt => {}
        done => return done,
    }
    Upkeep::of(table, blocks, entries, rows).build_again()?;
    sums::build((blocks, &*entries), (stored, sums))
}

/// Changes of blocks that must be applied to the stored sums over groups of blocks.
pub(super) enum SumChanges {
    /// The table has no sums, so changes are not listed.
    Untracked,
    Listed(Vec<BlockChange>),
    /// All blocks were built again, so the sums must be built again, too.
    All,
}

impl SumChanges {
    fn note(&mut self, lower: &[u8], before: Option<Block>, after: Option<Block>) {
        if let Self::Listed(changes) = self {
            changes.push(BlockChange {
                lower: lower.to_vec(),
                before,
                after,
            });
        }
    }
}

pub(super) struct Upkeep<'u, 'e, 'r> {
    table: &'u StoredTable,
    blocks: &'u StoredTable,
    entries: &'u mut RowsTable<'e>,
    rows: &'u RowsTable<'r>,
    pub(super) changes: SumChanges,
    value: Vec<u8>,
}

impl<'u, 'e, 'r> Upkeep<'u, 'e, 'r> {
    pub(super) fn of(
        table: &'u StoredTable,
        blocks: &'u StoredTable,
        entries: &'u mut RowsTable<'e>,
        rows: &'u RowsTable<'r>,
    ) -> Self {
        Self {
            table,
            blocks,
            entries,
            rows,
            changes: SumChanges::Untracked,
            value: Vec::new(),
        }
    }

    /// Starts the list of changes of blocks, which the caller then applies to the sums.
    pub(super) fn list_changes(&mut self) {
        self.changes = SumChanges::Listed(Vec::new());
    }

    fn put_down(&mut self, deltas: &BlockTableDeltas) -> Result<(), StoreError> {
        if deltas.recount {
            return self.build_again();
        }
        for (lower, delta) in &deltas.blocks {
            if (delta.rows, delta.bytes, delta.earliest_expiry) == (0, 0, 0) {
                continue;
            }
            match self.change(lower, *delta) {
                Err(error) if error.kind() == StoreErrorKind::Corrupt => return self.build_again(),
                done => done?,
            }
        }
        Ok(())
    }

    /// Applies `delta` to the block whose range contains `lower`. `lower` was the lower bound of a block
    /// before the transaction. The block may since have been joined with the block before it.
    fn change(&mut self, lower: &[u8], delta: Delta) -> Result<(), StoreError> {
        let found = entry_at::<Block>(self.blocks, self.entries, lower)?;
        if self.are_lost(delta)? {
            return self.build_again();
        }
        let rows = found.content.rows.checked_add_signed(delta.rows);
        let bytes = found.content.bytes.checked_add_signed(delta.bytes);
        let (Some(rows), Some(bytes)) = (rows, bytes) else {
            return Err(out_of_order(self.blocks));
        };
        let expiry = earlier(found.content.earliest_expiry, delta.earliest_expiry);
        let block = Block {
            rows,
            bytes,
            earliest_expiry: if rows == 0 { 0 } else { expiry },
        };
        if rows > MAX_ROWS {
            return self.split(&found, rows);
        }
        if rows == 0 && !found.lower.is_empty() {
            return self.remove(&found.lower);
        }
        if rows < MIN_ROWS && self.join(&found, block)? {
            return Ok(());
        }
        self.put(&found.lower, block)
    }

    /// Returns whether damage has removed all blocks of the table: no block is stored, although the table had
    /// rows before `delta`.
    fn are_lost(&self, delta: Delta) -> Result<bool, StoreError> {
        let has_blocks = !self.entries.is_empty().map_err(engine)?;
        if has_blocks {
            return Ok(false);
        }
        let rows = self.rows.len().map_err(engine)?;
        Ok(i64::try_from(rows) != Ok(delta.rows))
    }

    /// Divides the rows of a block into blocks of about [`TARGET_ROWS`] rows.
    fn split(&mut self, found: &Placed<Block>, rows: u64) -> Result<(), StoreError> {
        let size = rows.div_ceil(rows.div_ceil(TARGET_ROWS));
        let mut builder = Builder::new(self.table, found.lower.clone(), size);
        for entry in self.rows.range::<&[u8]>(found.range()).map_err(engine)? {
            let (key, value) = entry.map_err(engine)?;
            if let Some((lower, block)) = builder.add(key.value(), value.value()) {
                self.put(&lower, block)?;
            }
        }
        let (lower, block) = builder.finish();
        self.put(&lower, block)
    }

    /// Counts the rows of a block again, so that its stored content is exact. Removes the block if it has no
    /// rows, or joins it with a neighbor if it is small.
    pub(super) fn recount(&mut self, found: &Placed<Block>) -> Result<(), StoreError> {
        let mut builder = Builder::new(self.table, found.lower.clone(), u64::MAX);
        for entry in self.rows.range::<&[u8]>(found.range()).map_err(engine)? {
            let (key, value) = entry.map_err(engine)?;
            builder.add(key.value(), value.value());
        }
        let (lower, block) = builder.finish();
        if block.rows == 0 && !lower.is_empty() {
            return self.remove(&lower);
        }
        if block.rows < MIN_ROWS && self.join(found, block)? {
            return Ok(());
        }
        self.put(&lower, block)
    }

    /// Joins a small block with a neighbor if the result has less than [`TARGET_ROWS`] rows. Returns whether
    /// the block was joined.
    fn join(&mut self, found: &Placed<Block>, block: Block) -> Result<bool, StoreError> {
        if let Some(upper) = &found.upper {
            let next = self.entries.get(upper.as_slice()).map_err(engine)?;
            let next = next
                .map(|value| read_entry::<Block>(self.blocks, upper, value.value()))
                .transpose()?;
            if let Some(next) = next.filter(|next| next.rows + block.rows < TARGET_ROWS) {
                self.remove(upper)?;
                self.put(&found.lower, block.plus(next))?;
                return Ok(true);
            }
        }
        let mut before = self
            .entries
            .range::<&[u8]>(..found.lower.as_slice())
            .map_err(engine)?;
        let Some(entry) = before.next_back() else {
            return Ok(false);
        };
        let (lower, previous) = {
            let (lower, value) = entry.map_err(engine)?;
            let previous: Block = read_entry(self.blocks, lower.value(), value.value())?;
            (lower.value().to_vec(), previous)
        };
        drop(before);
        if previous.rows + block.rows >= TARGET_ROWS {
            return Ok(false);
        }
        self.remove(&found.lower)?;
        self.put(&lower, previous.plus(block))?;
        Ok(true)
    }

    /// Removes all blocks of the table, and builds them from its rows, because stored blocks are damaged or
    /// missing.
    pub(super) fn build_again(&mut self) -> Result<(), StoreError> {
        self.entries.clear().map_err(engine)?;
        let whole = Placed {
            lower: Vec::new(),
            upper: None,
            content: Block::default(),
        };
        if !matches!(self.changes, SumChanges::Untracked) {
            self.changes = SumChanges::All;
        }
        self.split(&whole, TARGET_ROWS)
    }

    fn put(&mut self, lower: &[u8], block: Block) -> Result<(), StoreError> {
        self.value.clear();
        block.encode(self.blocks.key_checksum(lower), &mut self.value);
        let before = self
            .entries
            .insert(lower, self.value.as_slice())
            .map_err(engine)?;
        let before = before.map(|value| read_entry(self.blocks, lower, value.value()));
        self.changes.note(lower, before.transpose()?, Some(block));
        Ok(())
    }

    fn remove(&mut self, lower: &[u8]) -> Result<(), StoreError> {
        let before = self.entries.remove(lower).map_err(engine)?;
        let before = before.map(|value| read_entry(self.blocks, lower, value.value()));
        self.changes.note(lower, before.transpose()?, None);
        Ok(())
    }
}
