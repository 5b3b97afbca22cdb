//! Blocks after the changes of a transaction: split, joined, removed.

use recto_store::{StoreError, StoreErrorKind};
use redb::{ReadableTable as _, ReadableTableMetadata as _};

use super::tally::{BlockTableDeltas, Delta};
use super::{
    Block, Builder, MAX_ROWS, MIN_ROWS, PlacedBlock, TARGET_ROWS, block_at, earlier, out_of_order, read_entry,
};
use crate::catalog::StoredTable;
use crate::error::engine;
use crate::walk::RowsTable;

/// Writes the changes of the blocks of a table to its `entries`. `rows` are the rows after the changes.
///
/// # Errors
/// The engine failed. A damaged block is no error: the blocks of the table are built again.
pub(crate) fn put_down(
    table: &StoredTable,
    entries: &mut RowsTable<'_>,
    rows: &RowsTable<'_>,
    deltas: &BlockTableDeltas,
) -> Result<(), StoreError> {
    let Some(blocks) = &table.blocks else {
        return Ok(());
    };
    let mut upkeep = Upkeep {
        table,
        blocks,
        entries,
        rows,
        value: Vec::new(),
    };
    if deltas.recount {
        return upkeep.build_again();
    }
    for (lower, delta) in &deltas.blocks {
        if (delta.rows, delta.bytes, delta.earliest_expiry) == (0, 0, 0) {
            continue;
        }
        match upkeep.change(lower, *delta) {
            Err(error) if error.kind() == StoreErrorKind::Corrupt => return upkeep.build_again(),
            done => done?,
        }
    }
    Ok(())
}

struct Upkeep<'u, 'e, 'r> {
    table: &'u StoredTable,
    blocks: &'u StoredTable,
    entries: &'u mut RowsTable<'e>,
    rows: &'u RowsTable<'r>,
    value: Vec<u8>,
}

impl Upkeep<'_, '_, '_> {
    /// Changes the block that contains `lower`. That was the lower bound of a block, which may be joined with the block
    /// before it by now.
    fn change(&mut self, lower: &[u8], delta: Delta) -> Result<(), StoreError> {
        let found = block_at(self.blocks, self.entries, lower)?;
        if self.are_lost(delta)? {
            return self.build_again();
        }
        let rows = found.block.rows.checked_add_signed(delta.rows);
        let bytes = found.block.bytes.checked_add_signed(delta.bytes);
        let (Some(rows), Some(bytes)) = (rows, bytes) else {
            return Err(out_of_order(self.blocks));
        };
        let expiry = earlier(found.block.earliest_expiry, delta.earliest_expiry);
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

    /// Returns whether the table had rows and no block before its first block gets this change.
    fn are_lost(&self, delta: Delta) -> Result<bool, StoreError> {
        let has_blocks = !self.entries.is_empty().map_err(engine)?;
        if has_blocks {
            return Ok(false);
        }
        let rows = self.rows.len().map_err(engine)?;
        Ok(i64::try_from(rows) != Ok(delta.rows))
    }

    /// Divides the rows of a block into blocks of about [`TARGET_ROWS`] rows.
    fn split(&mut self, found: &PlacedBlock, rows: u64) -> Result<(), StoreError> {
        let size = rows.div_ceil(rows.div_ceil(TARGET_ROWS));
        let mut builder = Builder::new(self.table, found.lower.clone(), size);
        let range = match &found.upper {
            Some(upper) => self.rows.range::<&[u8]>(found.lower.as_slice()..upper.as_slice()),
            None => self.rows.range::<&[u8]>(found.lower.as_slice()..),
        };
        for entry in range.map_err(engine)? {
            let (key, value) = entry.map_err(engine)?;
            if let Some((lower, block)) = builder.add(key.value(), value.value()) {
                put(self.blocks, self.entries, (&lower, block), &mut self.value)?;
            }
        }
        let (lower, block) = builder.finish();
        self.put(&lower, block)
    }

    /// Joins a small block with a neighbor, if both together are no large block. Returns whether it did.
    fn join(&mut self, found: &PlacedBlock, block: Block) -> Result<bool, StoreError> {
        if let Some(upper) = &found.upper {
            let next = self.entries.get(upper.as_slice()).map_err(engine)?;
            let next = next
                .map(|value| read_entry(self.blocks, upper, value.value()))
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
            let previous = read_entry(self.blocks, lower.value(), value.value())?;
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

    /// Builds all blocks of the table again.
    fn build_again(&mut self) -> Result<(), StoreError> {
        self.entries.retain(|_, _| false).map_err(engine)?;
        let whole = PlacedBlock {
            lower: Vec::new(),
            upper: None,
            block: Block::default(),
        };
        self.split(&whole, TARGET_ROWS)
    }

    fn put(&mut self, lower: &[u8], block: Block) -> Result<(), StoreError> {
        put(self.blocks, self.entries, (lower, block), &mut self.value)
    }

    fn remove(&mut self, lower: &[u8]) -> Result<(), StoreError> {
        self.entries.remove(lower).map_err(engine)?;
        Ok(())
    }
}

fn put(
    blocks: &StoredTable,
    entries: &mut RowsTable<'_>,
    (lower, block): (&[u8], Block),
    value: &mut Vec<u8>,
) -> Result<(), StoreError> {
    value.clear();
    block.encode(blocks.key_checksum(lower), value);
    entries.insert(lower, value.as_slice()).map_err(engine)?;
    Ok(())
}
