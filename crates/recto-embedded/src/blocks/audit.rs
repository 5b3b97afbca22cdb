//! Comparison of the blocks (row counts by key range) of a table with its rows, for a check of the store.

use std::ops::Bound;
use std::sync::Arc;

use recto_store::{StoreError, StoreErrorKind};
use redb::{Range, ReadableTableMetadata as _};

use super::sums::{Sum, sum_of};
use super::{Block, Content, EntrySize, is_row};
use crate::catalog::StoredTable;
use crate::damage::damaged;
use crate::error::engine;
use crate::state::State;

type Bytes = &'static [u8];

/// Callback that receives each problem that a check finds: the key of the damaged row or block, and a
/// description.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&[u8], String);

/// Lower bound of a stored block, and its content. The content is `None` if it is damaged.
type StoredBlock = (Vec<u8>, Option<Block>);

/// Comparison of stored blocks (row counts by key range) with the rows of a table. The caller passes the rows
/// in key order.
pub(crate) struct BlockAudit<'a> {
    table: &'a StoredTable,
    blocks: &'a StoredTable,
    entries: Range<'static, Bytes, Bytes>,
    /// Number of stored blocks according to the engine. `found` is the number of stored blocks that were read.
    expected: u64,
    found: u64,
    current: Option<StoredBlock>,
    next: Option<StoredBlock>,
    /// Content of the current block, as counted from its rows so far.
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
        let open = state.open_companion(blocks)?;
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

    /// Makes the next stored block the current one, and starts counting its rows.
    fn advance(&mut self, tell: Tell<'_>) -> Result<(), StoreError> {
        self.current = self.next.take();
        self.next = self.read(tell)?;
        self.counted = Block::default();
        Ok(())
    }

    /// Counts the next row in its block. First compares the blocks that end before the row with their stored
    /// content. The row may be damaged.
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

    /// Ends the comparison after the last row of the table: compares the remaining blocks and their number.
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

/// Compares the sums over the blocks of a table with its stored blocks. Passes each problem to `tell`.
///
/// # Errors
/// The engine cannot read the blocks or the sums.
pub(crate) fn audit_sums(state: &State, table: &StoredTable, tell: Tell<'_>) -> Result<(), StoreError> {
    let (Some(blocks), Some(sums)) = (&table.blocks, &table.sums) else {
        return Ok(());
    };
    let (blocks, sums) = (state.open_companion(blocks)?, state.open_companion(sums)?);
    let mut bounds: Vec<Vec<u8>> = Vec::new();
    for entry in sums.rows.range::<&[u8]>(..).map_err(engine)? {
        bounds.push(entry.map_err(engine)?.0.value().to_vec());
    }
    if bounds.first().is_none_or(|first| !first.is_empty()) {
        tell(&[], "the first sum does not begin before all rows".to_owned());
    }
    for (number, lower) in bounds.iter().enumerate() {
        let Some(found) = sums.rows.get(lower.as_slice()).map_err(engine)? else {
            continue;
        };
        let stored = Sum::decode(sums.stored.key_checksum(lower), found.value());
        let upper = bounds.get(number + 1).map(Vec::as_slice);
        let range = (
            Bound::Included(lower.as_slice()),
            upper.map_or(Bound::Unbounded, Bound::Excluded),
        );
        match (stored, sum_of(&blocks.stored, &blocks.rows, range)) {
            // The audit of the blocks reports a damaged block.
            (_, Err(error)) if error.kind() != StoreErrorKind::Corrupt => return Err(error),
            (Err(damage), _) => tell(lower, damaged(&sums.stored, lower, damage).to_string()),
            (Ok(stored), Ok(sum)) if !stored.covers(&sum) => {
                tell(lower, format!("a sum is {stored:?}, and its blocks give {sum:?}"));
            }
            _ => {}
        }
    }
    Ok(())
}
