//! Changes of blocks (row counts by key range) by a request, and by a transaction.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use recto_store::{StoreError, StoreErrorKind};
use redb::ReadableTable as _;

use super::{Block, earlier, entry_at, is_row};
use crate::catalog::StoredTable;
use crate::error::engine;
use crate::row::expiry;
use crate::walk::RowsTable;

/// Size and expiry of a stored row, as its block counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntrySize {
    /// Number of bytes of the stored value, without the key.
    pub(super) bytes: u64,
    /// Time at which the row expires, in seconds since 1970. 0: it does not expire.
    pub(super) expiry: u32,
}

impl EntrySize {
    /// Returns the size and expiry of a stored row. `key_checksum` is the checksum of its key.
    pub(crate) fn of(key_checksum: u32, value: &[u8]) -> Self {
        Self {
            bytes: value.len() as u64,
            expiry: expiry(key_checksum, value),
        }
    }
}

/// Change of the content of a block: of its rows, of their bytes, and an earliest expiry of new rows (0:
/// none).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Delta {
    pub(super) rows: i64,
    pub(super) bytes: i64,
    pub(super) earliest_expiry: u32,
}

impl Delta {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.earliest_expiry = earlier(self.earliest_expiry, other.earliest_expiry);
    }
}

/// Changes that a transaction makes to the blocks (row counts by key range) of one table.
#[derive(Debug, Default)]
pub(crate) struct BlockTableDeltas {
    /// Change of each block, by the lower bound that the block had before the transaction.
    pub(super) blocks: BTreeMap<Vec<u8>, Delta>,
    /// True if a damaged block was found. All blocks of the table are then built again from its rows.
    pub(super) recount: bool,
    /// Index, within the transaction, of the last request that changed the table.
    pub(crate) request: usize,
}

/// Changes of blocks (row counts by key range) that one transaction makes. The key is the id of the table
/// whose rows the blocks count.
#[derive(Default)]
pub(crate) struct BlockDeltas(BTreeMap<u32, (Arc<StoredTable>, BlockTableDeltas)>);

impl BlockDeltas {
    fn table(&mut self, table: &Arc<StoredTable>) -> &mut BlockTableDeltas {
        let new = || (Arc::clone(table), BlockTableDeltas::default());
        &mut self.0.entry(table.id).or_insert_with(new).1
    }

    /// Removes and returns the changes of the blocks of one table. `None`: there are no more changes.
    pub(crate) fn pop(&mut self) -> Option<(Arc<StoredTable>, BlockTableDeltas)> {
        self.0.pop_first().map(|(_, deltas)| deltas)
    }

    /// Removes the changes of a table that is dropped.
    pub(crate) fn forget(&mut self, table: &StoredTable) {
        self.0.remove(&table.id);
    }
}

/// Record of the changes that one request makes to blocks (row counts by key range).
#[derive(Default)]
pub(crate) struct BlockTally<'t> {
    current: Option<Counting<'t>>,
    done: BlockDeltas,
}

/// Table whose rows are being changed, and the block of the last change.
struct Counting<'t> {
    table: Arc<StoredTable>,
    blocks: Arc<StoredTable>,
    entries: RowsTable<'t>,
    at: Option<Range>,
    /// Upper bounds of the blocks after the current one that were read in advance. The bound of the last
    /// block is `None`.
    ahead: VecDeque<Option<Vec<u8>>>,
    /// True if a damaged block was found. Further changes are not noted, because all blocks are built again.
    is_damaged: bool,
}

/// Bounds of the key range of a block, and the change of the block's numbers so far.
struct Range {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    delta: Delta,
}

impl Range {
    fn contains(&self, key: &[u8]) -> bool {
        self.lower.as_slice() <= key && self.upper.as_deref().is_none_or(|upper| key < upper)
    }
}

impl<'t> BlockTally<'t> {
    /// Returns the size of a stored row, or `None` if the current table does not count its rows.
    /// `key_checksum` is the checksum of the row's key.
    #[inline]
    pub(crate) fn size(&self, key_checksum: u32, value: &[u8]) -> Option<EntrySize> {
        self.current.as_ref().map(|_| EntrySize::of(key_checksum, value))
    }

    /// Records that a row with the stored form `value` was added at `key`.
    #[inline]
    pub(crate) fn note_new(
        &mut self,
        (key, key_checksum): (&[u8], u32),
        value: &[u8],
    ) -> Result<(), StoreError> {
        let after = self.size(key_checksum, value);
        self.note(key, None, after)
    }

    /// Returns whether changes of `table` can be recorded now. If not, call `enter` first.
    #[inline]
    pub(crate) fn is_in(&self, table: &StoredTable) -> bool {
        match &self.current {
            Some(current) => current.table.id == table.id,
            None => table.blocks.is_none(),
        }
    }

    /// Makes `table` the current table, whose stored blocks are `entries`. Returns the id and the stored
    /// blocks of the previous table.
    pub(crate) fn enter(
        &mut self,
        table: &Arc<StoredTable>,
        entries: Option<RowsTable<'t>>,
    ) -> Option<(u32, RowsTable<'t>)> {
        let before = self.leave();
        self.current = entries
            .zip(table.blocks.clone())
            .map(|(entries, blocks)| Counting {
                table: Arc::clone(table),
                blocks,
                entries,
                at: None,
                ahead: VecDeque::new(),
                is_damaged: false,
            });
        before
    }

    /// Ends the record for the current table. Returns the id and the stored blocks of the table.
    pub(crate) fn leave(&mut self) -> Option<(u32, RowsTable<'t>)> {
        let mut current = self.current.take()?;
        if let Some(range) = current.at.take() {
            add(&mut self.done, &current.table, range);
        }
        Some((current.table.id, current.entries))
    }

    /// Records that the row at `key` changed from one size to another. `None` means that there is no row.
    #[inline]
    pub(crate) fn note(
        &mut self,
        key: &[u8],
        before: Option<EntrySize>,
        after: Option<EntrySize>,
    ) -> Result<(), StoreError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if before == after || !is_row(&current.table, key) {
            return Ok(());
        }
        let Some(range) = current.find(key, &mut self.done)? else {
            return Ok(());
        };
        let of = |size: Option<EntrySize>| {
            size.map_or((0, 0), |size| (1, (key.len() as u64 + size.bytes).cast_signed()))
        };
        let ((rows_before, bytes_before), (rows, bytes)) = (of(before), of(after));
        range.delta.add(Delta {
            rows: rows - rows_before,
            bytes: bytes - bytes_before,
            earliest_expiry: after.map_or(0, |size| size.expiry),
        });
        Ok(())
    }

    /// Reads the bounds of the blocks of a key range in advance. The bounds cannot be read later, while the
    /// engine visits the rows of the range.
    pub(crate) fn look_ahead(&mut self, from: &[u8], to: &[u8]) -> Result<(), StoreError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if let Some(range) = current.at.take() {
            add(&mut self.done, &current.table, range);
        }
        current.ahead.clear();
        let Some(range) = current.find(from, &mut self.done)? else {
            return Ok(());
        };
        let Some(upper) = range.upper.clone().filter(|upper| upper.as_slice() < to) else {
            return Ok(());
        };
        let after = (Bound::Excluded(upper.as_slice()), Bound::Unbounded);
        for entry in current.entries.range::<&[u8]>(after).map_err(engine)? {
            let (lower, _) = entry.map_err(engine)?;
            let is_beyond = lower.value() >= to;
            current.ahead.push_back(Some(lower.value().to_vec()));
            if is_beyond {
                return Ok(());
            }
        }
        current.ahead.push_back(None);
        Ok(())
    }

    /// Adds the recorded changes to the `deltas` of a transaction, as changes of the request with the index
    /// `request`. The caller must have called [`leave`](Self::leave) for the last table.
    pub(crate) fn finish(self, deltas: &mut BlockDeltas, request: usize) {
        for (_, (table, changes)) in self.done.0 {
            let all = deltas.table(&table);
            all.recount |= changes.recount;
            all.request = request;
            for (lower, delta) in changes.blocks {
                all.blocks.entry(lower).or_default().add(delta);
            }
        }
    }
}

fn add(done: &mut BlockDeltas, table: &Arc<StoredTable>, range: Range) {
    done.table(table)
        .blocks
        .entry(range.lower)
        .or_default()
        .add(range.delta);
}

impl Counting<'_> {
    /// Returns the block that contains `key`. If a stored block is damaged, records the damage and returns
    /// `None`.
    fn find(&mut self, key: &[u8], done: &mut BlockDeltas) -> Result<Option<&mut Range>, StoreError> {
        if self.is_damaged {
            return Ok(None);
        }
        if !self.at.as_ref().is_some_and(|range| range.contains(key)) {
            if let Some(range) = self.at.take() {
                let upper = range.upper.clone();
                add(done, &self.table, range);
                self.advance(key, upper);
            }
            if self.at.is_none() {
                self.ahead.clear();
                match entry_at::<Block>(&self.blocks, &self.entries, key) {
                    Ok(found) => {
                        self.at = Some(Range {
                            lower: found.lower,
                            upper: found.upper,
                            delta: Delta::default(),
                        });
                    }
                    Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                        self.is_damaged = true;
                        done.table(&self.table).recount = true;
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(self.at.as_mut())
    }

    /// Makes the block that contains `key` the current one, if its bounds were read in advance.
    fn advance(&mut self, key: &[u8], upper: Option<Vec<u8>>) {
        let Some(mut lower) = upper.filter(|upper| upper.as_slice() <= key) else {
            return;
        };
        while let Some(upper) = self.ahead.pop_front() {
            match upper {
                Some(upper) if upper.as_slice() <= key => lower = upper,
                upper => {
                    let delta = Delta::default();
                    self.at = Some(Range { lower, upper, delta });
                    return;
                }
            }
        }
    }
}
