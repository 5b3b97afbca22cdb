//! Sums over groups of blocks (row counts by key range), for tables with many blocks.
//!
//! A group contains the blocks whose lower bounds are in the key range of the group. The group's lower bound
//! was the lower bound of a block when the group was created. The block may since have been joined with the
//! block before it. Some rows in the range of a group can therefore belong to a block of the previous group.
//! The first group begins at the empty key. The last one may have no block.
//!
//! The table of sums is created when a table gets more than [`MAX_BLOCKS`] blocks. It then stays, even if the
//! number of blocks decreases. Groups are not joined, because their number is small. A group is removed when
//! it is empty.

use std::ops::Bound;

use recto_store::StoreError;
use redb::{ReadableTable as _, ReadableTableMetadata as _};

use super::{Block, Content, Placed, decode_cells, encode_cells, entry_at, number, out_of_order, read_entry};
use crate::catalog::StoredTable;
use crate::error::engine;
use crate::row::Damage;
use crate::walk::{RowsOfTable, RowsTable};

/// Number of blocks (row counts by key range) in a new group.
const TARGET_BLOCKS: u64 = if cfg!(feature = "testing") { 4 } else { 256 };
/// Maximum number of blocks of a group, and of a table without sums. Tests use small groups, so that small tables have
/// several.
const MAX_BLOCKS: u64 = 2 * TARGET_BLOCKS;

/// Number of blocks of a group, and the sums of their contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) blocks: u64,
    pub(super) content: Block,
}

impl Sum {
    pub(super) fn add(&mut self, block: Block) {
        self.blocks += 1;
        self.content = self.content.plus(block);
    }

    /// Returns whether this sum agrees with `exact`, which was computed from the blocks. The earliest expiry
    /// of this sum may be earlier than the exact one.
    pub(super) fn covers(&self, exact: &Self) -> bool {
        let (expiry, earliest) = (self.content.earliest_expiry, exact.content.earliest_expiry);
        let is_early = earliest == 0 || (expiry != 0 && expiry <= earliest);
        is_early
            && (self.blocks, self.content.rows, self.content.bytes)
                == (exact.blocks, exact.content.rows, exact.content.bytes)
    }

    /// Returns the sum after a change of a block. Returns `None` if the sum is less than the previous content
    /// of the block, which shows damage.
    fn changed(self, change: &BlockChange) -> Option<Self> {
        let (before, after) = (change.before, change.after);
        let less = before.unwrap_or_default();
        let mut sum = Self {
            blocks: self.blocks.checked_sub(u64::from(before.is_some()))?,
            content: Block {
                rows: self.content.rows.checked_sub(less.rows)?,
                bytes: self.content.bytes.checked_sub(less.bytes)?,
                earliest_expiry: self.content.earliest_expiry,
            },
        };
        if let Some(block) = after {
            sum.add(block);
        }
        Some(sum)
    }
}

impl Content for Sum {
    fn encode(self, key_checksum: u32, out: &mut Vec<u8>) {
        let block = self.content;
        let [blocks, rows, bytes] = [self.blocks, block.rows, block.bytes].map(u64::to_be_bytes);
        let expiry = block.earliest_expiry.to_be_bytes();
        encode_cells([&blocks, &rows, &bytes, &expiry], key_checksum, out);
    }

    fn decode(key_checksum: u32, value: &[u8]) -> Result<Self, Damage> {
        let [blocks, rows, bytes, expiry] = decode_cells(key_checksum, value)?;
        let earliest_expiry = expiry.try_into().map(u32::from_be_bytes);
        Ok(Self {
            blocks: number(blocks)?,
            content: Block {
                rows: number(rows)?,
                bytes: number(bytes)?,
                earliest_expiry: earliest_expiry.map_err(|_| Damage::Layout)?,
            },
        })
    }
}

/// Change of a stored block. A new block has no `before`, and a removed block has no `after`.
pub(super) struct BlockChange {
    pub(super) lower: Vec<u8>,
    pub(super) before: Option<Block>,
    pub(super) after: Option<Block>,
}

/// Returns whether a table that has these blocks and no sums needs sums.
pub(crate) fn needs_sums(blocks: &RowsTable<'_>) -> Result<bool, StoreError> {
    Ok(blocks.len().map_err(engine)? > MAX_BLOCKS)
}

/// Builds the sums over the blocks of a table from the stored blocks, and replaces existing sums.
///
/// # Errors
/// `Corrupt`: a block is damaged.
pub(crate) fn build(
    blocks: (&StoredTable, &RowsTable<'_>),
    sums: (&StoredTable, &mut RowsTable<'_>),
) -> Result<(), StoreError> {
    let mut upkeep = SumUpkeep {
        blocks,
        table: sums.0,
        entries: sums.1,
        value: Vec::new(),
    };
    upkeep.entries.clear().map_err(engine)?;
    upkeep.divide(&Placed {
        lower: Vec::new(),
        upper: None,
        content: Sum::default(),
    })
}

/// Updates the stored sums (total numbers of blocks, rows and bytes) of the groups whose blocks changed.
/// Divides each group that then has too many blocks.
///
/// # Errors
/// `Corrupt`: a block or a sum is damaged. The caller then builds all sums again.
pub(super) fn put_down(
    blocks: (&StoredTable, &RowsTable<'_>),
    sums: (&StoredTable, &mut RowsTable<'_>),
    changes: &[BlockChange],
) -> Result<(), StoreError> {
    let mut upkeep = SumUpkeep {
        blocks,
        table: sums.0,
        entries: sums.1,
        value: Vec::new(),
    };
    let mut current: Option<Placed<Sum>> = None;
    // Lower bounds of groups that have too many blocks. These groups are divided after all changes, because
    // the division reads the changed blocks.
    let mut large: Vec<Vec<u8>> = Vec::new();
    for change in changes {
        let mut group = match current.take() {
            Some(group) if group.contains(&change.lower) => group,
            other => {
                if let Some(done) = other {
                    upkeep.write(done, &mut large)?;
                }
                entry_at(upkeep.table, upkeep.entries, &change.lower)?
            }
        };
        let changed = group.content.changed(change);
        group.content = changed.ok_or_else(|| out_of_order(upkeep.table))?;
        current = Some(group);
    }
    if let Some(done) = current {
        upkeep.write(done, &mut large)?;
    }
    for lower in large {
        let group = entry_at::<Sum>(upkeep.table, upkeep.entries, &lower)?;
        if group.content.blocks > MAX_BLOCKS {
            upkeep.divide(&group)?;
        }
    }
    Ok(())
}

/// Computes the sum of the group whose range contains `lower` from its blocks, and stores the sum. Its
/// earliest expiry is then exact.
///
/// # Errors
/// `Corrupt`: a block or a sum is damaged.
pub(super) fn recount(
    blocks: (&StoredTable, &RowsTable<'_>),
    sums: (&StoredTable, &mut RowsTable<'_>),
    lower: &[u8],
) -> Result<(), StoreError> {
    let group = entry_at::<Sum>(sums.0, &*sums.1, lower)?;
    let sum = sum_of(blocks.0, blocks.1, group.range())?;
    let mut upkeep = SumUpkeep {
        blocks,
        table: sums.0,
        entries: sums.1,
        value: Vec::new(),
    };
    upkeep.put(&group.lower, sum)
}

/// Returns the sum of the blocks in a key range.
///
/// # Errors
/// `Corrupt`: a block is damaged.
pub(super) fn sum_of(
    stored: &StoredTable,
    blocks: &impl RowsOfTable,
    range: (Bound<&[u8]>, Bound<&[u8]>),
) -> Result<Sum, StoreError> {
    let mut sum = Sum::default();
    for entry in blocks.range::<&[u8]>(range).map_err(engine)? {
        let (bound, value) = entry.map_err(engine)?;
        sum.add(read_entry(stored, bound.value(), value.value())?);
    }
    Ok(sum)
}

impl Placed<Sum> {
    fn contains(&self, lower: &[u8]) -> bool {
        self.lower.as_slice() <= lower && self.upper.as_deref().is_none_or(|upper| lower < upper)
    }
}

struct SumUpkeep<'u, 'b, 'e> {
    blocks: (&'u StoredTable, &'u RowsTable<'b>),
    table: &'u StoredTable,
    entries: &'u mut RowsTable<'e>,
    value: Vec<u8>,
}

impl SumUpkeep<'_, '_, '_> {
    /// Writes a changed group, or removes it if it has no blocks. Adds its lower bound to `large` if it has
    /// more than [`MAX_BLOCKS`] blocks.
    fn write(&mut self, group: Placed<Sum>, large: &mut Vec<Vec<u8>>) -> Result<(), StoreError> {
        if group.content.blocks == 0 && !group.lower.is_empty() {
            self.entries.remove(group.lower.as_slice()).map_err(engine)?;
            return Ok(());
        }
        self.put(&group.lower, group.content)?;
        if group.content.blocks > MAX_BLOCKS {
            large.push(group.lower);
        }
        Ok(())
    }

    /// Divides the blocks in the range of a group into groups of [`TARGET_BLOCKS`] blocks.
    fn divide(&mut self, group: &Placed<Sum>) -> Result<(), StoreError> {
        let (stored, blocks) = self.blocks;
        let range = blocks.range::<&[u8]>(group.range()).map_err(engine)?;
        let (mut lower, mut sum) = (group.lower.clone(), Sum::default());
        for entry in range {
            let (bound, value) = entry.map_err(engine)?;
            if sum.blocks >= TARGET_BLOCKS {
                self.put(&lower, std::mem::take(&mut sum))?;
                bound.value().clone_into(&mut lower);
            }
            sum.add(read_entry(stored, bound.value(), value.value())?);
        }
        self.put(&lower, sum)
    }

    fn put(&mut self, lower: &[u8], sum: Sum) -> Result<(), StoreError> {
        self.value.clear();
        sum.encode(self.table.key_checksum(lower), &mut self.value);
        self.entries
            .insert(lower, self.value.as_slice())
            .map_err(engine)?;
        Ok(())
    }
}

/// Returns the group of blocks whose range contains the key `lower`, as a snapshot contains it.
pub(super) fn group_at(
    sums: &StoredTable,
    entries: &impl RowsOfTable,
    lower: &[u8],
) -> Result<Placed<Sum>, StoreError> {
    entry_at(sums, entries, lower)
}
