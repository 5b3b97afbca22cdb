//! Comparison of the blocks of a table with its rows.

use std::sync::Arc;

use recto_store::StoreError;
use redb::{Range, ReadableTableMetadata as _};

use super::{Block, EntrySize, is_row};
use crate::catalog::StoredTable;
use crate::damage::damaged;
use crate::error::engine;
use crate::state::State;

type Bytes = &'static [u8];

/// Function that receives each problem: the key concerned, and a description.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&[u8], String);

/// Lower bound and content of a stored block, unless it is damaged.
type StoredBlock = (Vec<u8>, Option<Block>);

/// Comparison of blocks with rows. The caller passes the rows in key order.
pub(crate) struct BlockAudit<'a> {
    table: &'a StoredTable,
    blocks: &'a StoredTable,
    entries: Range<'static, Bytes, Bytes>,
    /// Number of entries according to the engine. `found` is the number of entries that were read.
    expected: u64,
    found: u64,
    current: Option<StoredBlock>,
    next: Option<StoredBlock>,
    /// Rows of the current block.
    counted: Block,
}

impl<'a> BlockAudit<'a> {
    /// Starts the comparison of the rows of `table` with its `blocks`.
    pub(crate) fn begin(
        state: &State,
        table: &'a StoredTable,
        blocks: &'a Arc<StoredTable>,
        tell: Tell<'_>,
    ) -> Result<Self, StoreError> {
        let open = state.open_blocks(blocks)?;
        let mut audit = Self {
            table,
            blocks,
            entries: open.rows.range::<&[u8]>(..).map_err(engine)?,
            expected: open.rows.len().map_err(engine)?,
            found: 0,
            current: None,
            next: None,
            counted: Block::default(),
        };
        audit.next = audit.read(tell)?;
        audit.advance(tell)?;
        Ok(audit)
    }

    fn read(&mut self, tell: Tell<'_>) -> Result<Option<StoredBlock>, StoreError> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        let (lower, value) = entry.map_err(engine)?;
        let lower = lower.value();
        self.found += 1;
        let block = Block::decode(self.blocks.key_checksum(lower), value.value());
        if let Err(damage) = block {
            tell(lower, damaged(self.blocks, lower, damage).to_string());
        }
        Ok(Some((lower.to_vec(), block.ok())))
    }

    /// Continues with the next block.
    fn advance(&mut self, tell: Tell<'_>) -> Result<(), StoreError> {
        self.current = self.next.take();
        self.next = self.read(tell)?;
        self.counted = Block::default();
        Ok(())
    }

    /// Handles the next row, which may be damaged.
    pub(crate) fn row(&mut self, key: &[u8], value: &[u8], tell: Tell<'_>) -> Result<(), StoreError> {
        if !is_row(self.table, key) {
            return Ok(());
        }
        while self
            .next
            .as_ref()
            .is_some_and(|(lower, _)| lower.as_slice() <= key)
        {
            self.compare(tell);
            self.advance(tell)?;
        }
        self.counted
            .add_row(key, EntrySize::of(self.table.key_checksum(key), value));
        Ok(())
    }

    fn compare(&self, tell: Tell<'_>) {
        let (lower, stored) = match &self.current {
            None => (&[][..], Some(Block::default())),
            Some((lower, stored)) => (lower.as_slice(), *stored),
        };
        let Some(stored) = stored else { return };
        let found = self.counted;
        if (stored.rows, stored.bytes) != (found.rows, found.bytes) {
            let what = format!(
                "a block counts {} rows of {} bytes, and has {} of {}",
                stored.rows, stored.bytes, found.rows, found.bytes
            );
            tell(lower, what);
        }
        let (told, earliest) = (stored.earliest_expiry, found.earliest_expiry);
        if earliest != 0 && (told == 0 || told > earliest) {
            tell(
                lower,
                format!("a row of a block expires at {earliest}, before {told}"),
            );
        }
    }

    /// Ends the comparison after the last row of the table.
    pub(crate) fn finish(mut self, tell: Tell<'_>) -> Result<(), StoreError> {
        self.compare(tell);
        while self.next.is_some() {
            self.advance(tell)?;
            self.compare(tell);
        }
        if self.found != self.expected {
            let (expected, found) = (self.expected, self.found);
            tell(
                &[],
                format!("the table has {expected} blocks, and {found} are found"),
            );
        }
        Ok(())
    }
}
