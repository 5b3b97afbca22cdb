//! Row counts by block, for tables that count their rows.
//!
//! A block is a range of keys, in the key order of the whole table, with about [`TARGET_ROWS`] rows. A small
//! table of the engine has an entry for each block: its lower bound, and its number of rows, their bytes and
//! their earliest expiry (`docs/format.md`). The transaction that changes rows also changes the entries of
//! their blocks, so that the numbers are exact at every commit. `docs/design/counts-by-block.md` has the
//! reasons.
//!
//! - The first block begins at the empty key, and is never removed. The other bounds are between two rows,
//!   and change only when a block is split or joined. A block can contain rows of several partitions.
//! - Static rows are not counted. A damaged row is counted with the bytes that are stored.
//! - The earliest expiry is a lower bound: it does not rise when a row that expires is deleted by a request. The
//!   deletion of expired rows makes it exact.
//! - A table with many blocks has a second level: sums over groups of blocks.
//!
//! | module | content |
//! |---|---|
//! | `tally` | changes of blocks by a request, and by a transaction |
//! | `upkeep` | blocks after the changes: split, joined, removed |
//! | `sums` | sums over groups of blocks |
//! | `expired` | deletion of expired rows, block by block |
//! | `build` | blocks of rows that arrive in key order |
//! | `read` | counts and ranks in a snapshot |
//! | `audit` | comparison with rows |

mod audit;
mod build;
mod expired;
mod read;
mod sums;
mod tally;
mod upkeep;

use std::ops::Bound;

use recto_store::StoreError;

pub(crate) use audit::{BlockAudit, audit_sums};
pub(crate) use build::Builder;
pub(crate) use expired::{DeletedBlock, delete_expired};
pub(crate) use read::{count, row_at, sizes};
pub(crate) use sums::{build as build_sums_of_copy, needs_sums};
pub(crate) use tally::{BlockDeltas, BlockTableDeltas, BlockTally, EntrySize};
pub(crate) use upkeep::{build_sums, put_down};

use crate::catalog::StoredTable;
use crate::damage::damaged;
use crate::error::{corrupt, engine};
use crate::keys;
use crate::row::{Cell, Damage, Life, Row, StoredRow};
use crate::scan::partition_of;
use crate::walk::RowsOfTable;

/// Number of rows of a new block (key range whose rows are counted).
pub(crate) const TARGET_ROWS: u64 = 1_000;
/// Maximum number of rows of a block (key range whose rows are counted). A larger block is split.
const MAX_ROWS: u64 = 2_000;
/// Minimum number of rows of a block (key range whose rows are counted). A smaller block is joined with a
/// neighbor if the two together have less than [`TARGET_ROWS`] rows.
const MIN_ROWS: u64 = 250;

/// Content of a block or of a group of blocks. It is stored as a row with a fixed number of cells.
trait Content: Copy + Default {
    /// Appends the stored form of the content to `out`. `key_checksum` is the checksum of the entry's key.
    fn encode(self, key_checksum: u32, out: &mut Vec<u8>);

    /// Returns the content of a stored value. `key_checksum` is the checksum of the entry's key.
    fn decode(key_checksum: u32, value: &[u8]) -> Result<Self, Damage>;
}

/// Content of a block (key range of a table): the number of its rows, their bytes, and their earliest expiry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) rows: u64,
    /// Number of bytes of the keys and the stored values of the rows.
    pub(crate) bytes: u64,
    /// Time before which no row expires, in seconds since 1970. 0: no row expires.
    pub(crate) earliest_expiry: u32,
}

/// Stored block or group of blocks: the bounds of its key range, and its content. The last block or group of
/// a table has no upper bound (`None`).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Placed<T> {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    content: T,
}

impl<T> Placed<T> {
    /// Returns the key range of the block or group.
    fn range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let upper = self.upper.as_deref();
        (
            Bound::Included(self.lower.as_slice()),
            upper.map_or(Bound::Unbounded, Bound::Excluded),
        )
    }
}

impl Block {
    /// Returns whether rows of the block may have expired by `now_seconds`.
    fn may_have_expired(self, now_seconds: u32) -> bool {
        self.earliest_expiry != 0 && self.earliest_expiry <= now_seconds
    }

    fn add_row(&mut self, key: &[u8], size: EntrySize) {
        self.rows += 1;
        self.bytes += key.len() as u64 + size.bytes;
        self.earliest_expiry = earlier(self.earliest_expiry, size.expiry);
    }

    /// Returns the content of a block that contains the rows of both blocks.
    fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            earliest_expiry: earlier(self.earliest_expiry, other.earliest_expiry),
        }
    }
}

impl Content for Block {
    fn encode(self, key_checksum: u32, out: &mut Vec<u8>) {
        let (rows, bytes) = (self.rows.to_be_bytes(), self.bytes.to_be_bytes());
        encode_cells(
            [&rows, &bytes, &self.earliest_expiry.to_be_bytes()],
            key_checksum,
            out,
        );
    }

    fn decode(key_checksum: u32, value: &[u8]) -> Result<Self, Damage> {
        let [rows, bytes, earliest_expiry] = decode_cells(key_checksum, value)?;
        Ok(Self {
            rows: number(rows)?,
            bytes: number(bytes)?,
            earliest_expiry: earliest_expiry
                .try_into()
                .map(u32::from_be_bytes)
                .map_err(|_| Damage::Layout)?,
        })
    }
}

fn encode_cells<const CELLS: usize>(cells: [&[u8]; CELLS], key_checksum: u32, out: &mut Vec<u8>) {
    let life = Life { stamp: 0, expiry: 0 };
    let cells = cells.map(|cell| Cell {
        life,
        value: Some(cell),
    });
    let row = Row {
        marker: life,
        cells: cells.to_vec(),
    };
    row.encode(key_checksum, out);
}

fn decode_cells<const CELLS: usize>(key_checksum: u32, value: &[u8]) -> Result<[&[u8]; CELLS], Damage> {
    let row = StoredRow::open(key_checksum, value)?.decode(CELLS)?;
    if row.cells.len() != CELLS {
        return Err(Damage::Layout);
    }
    let mut cells = [&[][..]; CELLS];
    for (cell, stored) in cells.iter_mut().zip(&row.cells) {
        *cell = stored.value.ok_or(Damage::Layout)?;
    }
    Ok(cells)
}

fn number(cell: &[u8]) -> Result<u64, Damage> {
    cell.try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| Damage::Layout)
}

/// Returns the earlier of two expiry times, in seconds since 1970. 0 means that nothing expires.
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

/// Returns the block or group whose range contains `key`. If the table has no stored entry, returns an empty
/// one whose range contains all keys.
///
/// # Errors
/// `Corrupt`: the entry, or the next one, is damaged.
fn entry_at<T: Content>(
    table: &StoredTable,
    entries: &impl RowsOfTable,
    key: &[u8],
) -> Result<Placed<T>, StoreError> {
    let mut cursor = entries.lower_bound(Bound::Excluded(key)).map_err(engine)?;
    let upper = match cursor.peek_next().map_err(engine)? {
        None => None,
        Some((upper, value)) => {
            let upper = upper.value();
            read_entry::<T>(table, upper, value.value())?;
            if upper <= key {
                return Err(out_of_order(table));
            }
            Some(upper.to_vec())
        }
    };
    let Some((lower, value)) = cursor.peek_prev().map_err(engine)? else {
        // If entries exist, the first entry begins before all keys, so a later entry without an entry
        // before `key` is damage.
        return match upper {
            None => Ok(Placed {
                lower: Vec::new(),
                upper: None,
                content: T::default(),
            }),
            Some(_) => Err(out_of_order(table)),
        };
    };
    let content = read_entry(table, lower.value(), value.value())?;
    if lower.value() > key {
        return Err(out_of_order(table));
    }
    Ok(Placed {
        lower: lower.value().to_vec(),
        upper,
        content,
    })
}

fn read_entry<T: Content>(table: &StoredTable, lower: &[u8], value: &[u8]) -> Result<T, StoreError> {
    T::decode(table.key_checksum(lower), value).map_err(|damage| damaged(table, lower, damage))
}

#[cold]
fn out_of_order(table: &StoredTable) -> StoreError {
    corrupt(format!(
        "the {}s of table {} are out of their order",
        table.entry,
        table.definition.name()
    ))
}

/// Appends the stored form of a block with the given lower bound to `out`.
pub(crate) fn encode_block(blocks: &StoredTable, lower: &[u8], block: Block, out: &mut Vec<u8>) {
    block.encode(blocks.key_checksum(lower), out);
}
