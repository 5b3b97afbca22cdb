//! Deletion of expired rows, block by block.
//!
//! The earliest expiry of a block shows whether the block can have expired rows, so other blocks are not read.

use recto_store::{StoreError, StoreErrorKind};

use super::sums::{self, Sum};
use super::upkeep::{SumChanges, Upkeep};
use super::{Block, Placed, entry_at, is_row};
use crate::catalog::StoredTable;
use crate::error::engine;
use crate::row::StoredRow;
use crate::walk::RowsTable;

/// Block whose expired rows were deleted.
#[derive(Debug)]
pub(crate) struct DeletedBlock {
    /// Number of rows of the block before the deletion.
    pub(crate) visited_rows: u64,
    /// Key from which the next call continues, or `None` if the block was the last one of the table.
    pub(crate) next: Option<Vec<u8>>,
}

/// Deletes the rows that have expired by `now_seconds`, in the first block that may have such rows. The search
/// begins at the block that contains `from`. Returns `None` if there is no such block. Static rows stay.
///
/// # Errors
/// - `Corrupt`: a block or a sum is damaged.
/// - The engine failed.
pub(crate) fn delete_expired(
    table: &StoredTable,
    (rows, entries, sums): (&mut RowsTable<'_>, &mut RowsTable<'_>, Option<&mut RowsTable<'_>>),
    from: &[u8],
    now_seconds: u32,
) -> Result<Option<DeletedBlock>, StoreError> {
    let Some(blocks) = table.blocks.as_deref() else {
        return Ok(None);
    };
    let mut sums = table.sums.as_deref().zip(sums);
    let by_group = sums.as_ref().map(|(stored, entries)| (*stored, &**entries));
    let Some(found) = next_block((blocks, &*entries), by_group, from, now_seconds)? else {
        return Ok(None);
    };
    rows.retain_in(found.range(), |key, value| {
        !is_row(table, key) || !has_expired(table, key, value, now_seconds)
    })
    .map_err(engine)?;
    match count_again(table, blocks, (rows, &mut *entries, &mut sums), &found) {
        // Damage of another block was found. The rows are deleted already, so count all rows again.
        Err(error) if error.kind() == StoreErrorKind::Corrupt => {
            Upkeep::of(table, blocks, entries, rows).build_again()?;
            if let Some((stored, sums)) = sums {
                sums::build((blocks, &*entries), (stored, sums))?;
            }
        }
        done => done?,
    }
    Ok(Some(DeletedBlock {
        visited_rows: found.content.rows,
        next: found.upper,
    }))
}

/// Counts the rows of a block again, so that its stored content, and the sum of its group, are exact.
fn count_again(
    table: &StoredTable,
    blocks: &StoredTable,
    (rows, entries, sums): (
        &RowsTable<'_>,
        &mut RowsTable<'_>,
        &mut Option<(&StoredTable, &mut RowsTable<'_>)>,
    ),
    found: &Placed<Block>,
) -> Result<(), StoreError> {
    let mut upkeep = Upkeep::of(table, blocks, entries, rows);
    if sums.is_some() {
        upkeep.list_changes();
    }
    upkeep.recount(found)?;
    let changes = upkeep.changes;
    let Some((stored, sums)) = sums else { return Ok(()) };
    if let SumChanges::Listed(changes) = changes {
        sums::put_down((blocks, &*entries), (stored, &mut **sums), &changes)?;
    }
    sums::recount((blocks, &*entries), (stored, &mut **sums), &found.lower)
}

/// Returns the first block whose rows may have expired, from the block that contains `from` on.
fn next_block(
    (blocks, entries): (&StoredTable, &RowsTable<'_>),
    sums: Option<(&StoredTable, &RowsTable<'_>)>,
    from: &[u8],
    now_seconds: u32,
) -> Result<Option<Placed<Block>>, StoreError> {
    let mut from = from.to_vec();
    // Upper bound of the group that contains `from`, if the blocks of the group must be read. The last group
    // has the bound `None`.
    let mut group_end: Option<Option<Vec<u8>>> = None;
    loop {
        let is_in_group = group_end
            .as_ref()
            .is_some_and(|end| end.as_ref().is_none_or(|end| from < *end));
        if let Some((stored, sums)) = sums.filter(|_| !is_in_group) {
            let group = entry_at::<Sum>(stored, sums, &from)?;
            if !group.content.content.may_have_expired(now_seconds) {
                match group.upper {
                    Some(upper) => from = upper,
                    None => return Ok(None),
                }
                continue;
            }
            group_end = Some(group.upper);
        }
        let block = entry_at::<Block>(blocks, entries, &from)?;
        if block.content.may_have_expired(now_seconds) {
            return Ok(Some(block));
        }
        match block.upper {
            Some(upper) => from = upper,
            None => return Ok(None),
        }
    }
}

/// Returns whether no part of a row exists any more. A damaged row has not expired.
fn has_expired(table: &StoredTable, key: &[u8], value: &[u8], now_seconds: u32) -> bool {
    let stored = StoredRow::open(table.key_checksum(key), value);
    stored.is_ok_and(|stored| stored.may_end() && stored.is_gone(now_seconds) == Ok(true))
}
