//! Number of rows by block, for tables that count their rows.
//!
//! A block is a range of keys, in the key order of the whole table, with about [`TARGET_ROWS`] rows. A small table of the
//! engine has an entry for each block: its lower bound, and its number of rows, their bytes and their earliest expiry
//! (`docs/format.md`). The transaction that changes rows also changes the entries of their blocks, so that the numbers are
//! exact at every commit. `docs/design/counts-by-block.md` has the reasons.
//!
//! - The first block begins at the empty key, and is never removed. The other bounds are between
//!   two rows, and change only when a block is split or joined. A partition begins no block.
//! - Static rows are not counted. A damaged row is counted with the bytes that are stored.
//! - The earliest expiry is a lower bound: it does not rise when a row that expires is deleted.
//!
//! | module | content |
//! |---|---|
//! | `tally` | changes of blocks by a request, and by a transaction |
//! | `upkeep` | blocks after the changes: split, joined, removed |
//! | `build` | blocks of rows that arrive in key order |
//! | `read` | counts and ranks in a snapshot |
//! | `audit` | comparison with rows |

mod audit;
mod build;
mod read;
mod tally;
mod upkeep;

use std::ops::Bound;

use recto_store::StoreError;

pub(crate) use audit::{BlockAudit, Tell};
pub(crate) use build::Builder;
pub(crate) use read::{count, row_at};
pub(crate) use tally::{BlockDeltas, BlockTableDeltas, BlockTally, EntrySize};
pub(crate) use upkeep::put_down;

use crate::catalog::StoredTable;
use crate::damage::damaged;
use crate::error::{corrupt, engine};
use crate::keys;
use crate::row::{Cell, Damage, Life, Row, StoredRow};
use crate::scan::partition_of;
use crate::walk::RowsOfTable;

/// Number of rows of a new block.
pub(crate) const TARGET_ROWS: u64 = 1_000;
/// Maximum number of rows of a block. A larger block is split.
const MAX_ROWS: u64 = 2_000;
/// Minimum number of rows of a block. A smaller block is joined with a neighbor if both have less than [`TARGET_ROWS`].
const MIN_ROWS: u64 = 250;

/// Number of cells of a stored block: its rows, their bytes, and their earliest expiry.
const CELLS: usize = 3;

/// Content of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) rows: u64,
    /// Bytes of the keys and the stored values.
    pub(crate) bytes: u64,
    /// Time before which no row expires, in seconds since 1970. 0: no row expires.
    pub(crate) earliest_expiry: u32,
}

/// Block in its table: the bounds, and the content. Without an upper bound, it is the last block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlacedBlock {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    block: Block,
}

impl Block {
    fn add_row(&mut self, key: &[u8], size: EntrySize) {
        self.rows += 1;
        self.bytes += key.len() as u64 + size.bytes;
        self.earliest_expiry = earlier(self.earliest_expiry, size.expiry);
    }

    /// Returns the content of both blocks together.
    fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            earliest_expiry: earlier(self.earliest_expiry, other.earliest_expiry),
        }
    }

    /// Appends the stored form. `key_checksum` is the checksum of the lower bound.
    pub(crate) fn encode(self, key_checksum: u32, out: &mut Vec<u8>) {
        let life = Life { stamp: 0, expiry: 0 };
        let (rows, bytes) = (self.rows.to_be_bytes(), self.bytes.to_be_bytes());
        let expiry = self.earliest_expiry.to_be_bytes();
        let cells: [&[u8]; CELLS] = [&rows, &bytes, &expiry];
        let row = Row {
            marker: life,
            cells: cells
                .map(|cell| Cell {
                    life,
                    value: Some(cell),
                })
                .to_vec(),
        };
        row.encode(key_checksum, out);
    }

    /// Returns the block of a stored value. `key_checksum` is the checksum of its lower bound.
    pub(crate) fn decode(key_checksum: u32, value: &[u8]) -> Result<Self, Damage> {
        let row = StoredRow::open(key_checksum, value)?.decode(CELLS)?;
        if row.cells.len() != CELLS {
            return Err(Damage::Layout);
        }
        let number = |index: usize| -> Result<u64, Damage> {
            let cell = row.cells[index].value.ok_or(Damage::Layout)?;
            cell.try_into()
                .map(u64::from_be_bytes)
                .map_err(|_| Damage::Layout)
        };
        let expiry = row.cells[2].value.ok_or(Damage::Layout)?;
        Ok(Self {
            rows: number(0)?,
            bytes: number(1)?,
            earliest_expiry: expiry
                .try_into()
                .map(u32::from_be_bytes)
                .map_err(|_| Damage::Layout)?,
        })
    }
}

/// Returns the earlier of two expiries. 0 is no expiry.
fn earlier(one: u32, other: u32) -> u32 {
    match (one, other) {
        (0, expiry) | (expiry, 0) => expiry,
        (one, other) => one.min(other),
    }
}

/// Returns whether the entry at `key` is a row, and not the static row of a partition.
fn is_row(table: &StoredTable, key: &[u8]) -> bool {
    table.definition.statics().is_empty()
        || partition_of(table, key).map_or(true, |partition| key.get(partition.len()) == Some(&keys::ROW))
}

/// Returns the block that contains `key`. Returns an empty first block if there are no blocks.
///
/// # Errors
/// `Corrupt`: the entry of the block, or the next one, is damaged.
fn block_at(blocks: &StoredTable, entries: &impl RowsOfTable, key: &[u8]) -> Result<PlacedBlock, StoreError> {
    let mut cursor = entries.lower_bound(Bound::Excluded(key)).map_err(engine)?;
    let upper = match cursor.peek_next().map_err(engine)? {
        None => None,
        Some((upper, value)) => {
            let upper = upper.value();
            read_entry(blocks, upper, value.value())?;
            if upper <= key {
                return Err(out_of_order(blocks));
            }
            Some(upper.to_vec())
        }
    };
    let Some((lower, value)) = cursor.peek_prev().map_err(engine)? else {
        // If blocks exist, the first block begins before all keys, so a later block without a block
        // before `key` is damage.
        return match upper {
            None => Ok(PlacedBlock {
                lower: Vec::new(),
                upper: None,
                block: Block::default(),
            }),
            Some(_) => Err(out_of_order(blocks)),
        };
    };
    let block = read_entry(blocks, lower.value(), value.value())?;
    if lower.value() > key {
        return Err(out_of_order(blocks));
    }
    Ok(PlacedBlock {
        lower: lower.value().to_vec(),
        upper,
        block,
    })
}

fn read_entry(blocks: &StoredTable, lower: &[u8], value: &[u8]) -> Result<Block, StoreError> {
    Block::decode(blocks.key_checksum(lower), value).map_err(|damage| damaged(blocks, lower, damage))
}

#[cold]
fn out_of_order(blocks: &StoredTable) -> StoreError {
    corrupt(format!(
        "the blocks of table {} are out of their order",
        blocks.definition.name()
    ))
}
