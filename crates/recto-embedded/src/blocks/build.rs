//! Division of rows, which arrive in key order, into blocks (key ranges with row counts).

use super::{Block, EntrySize, is_row};
use crate::catalog::StoredTable;

/// Builder that divides rows, which arrive in key order, into blocks (key ranges with row counts).
pub(crate) struct Builder<'t> {
    table: &'t StoredTable,
    /// Number of rows after which the next block begins.
    size: u64,
    lower: Vec<u8>,
    block: Block,
    /// Key of the row that was added last.
    last: Vec<u8>,
}

impl<'t> Builder<'t> {
    /// Creates a builder of blocks of `size` rows. The first block begins at the key `lower`.
    pub(crate) fn new(table: &'t StoredTable, lower: Vec<u8>, size: u64) -> Self {
        Self {
            table,
            size,
            lower,
            block: Block::default(),
            last: Vec::new(),
        }
    }

    /// Adds the row at `key`. If the row begins a new block, returns the previous block and its lower bound.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Option<(Vec<u8>, Block)> {
        if !is_row(self.table, key) {
            return None;
        }
        let done = (self.block.rows >= self.size).then(|| {
            let lower = separator(&self.last, key).to_vec();
            (
                std::mem::replace(&mut self.lower, lower),
                std::mem::take(&mut self.block),
            )
        });
        self.block
            .add_row(key, EntrySize::of(self.table.key_checksum(key), value));
        self.last.clear();
        self.last.extend_from_slice(key);
        done
    }

    /// Returns the last block, which is not full, and its lower bound.
    pub(crate) fn finish(self) -> (Vec<u8>, Block) {
        (self.lower, self.block)
    }
}

/// Returns the shortest prefix of `next` that is greater than `last`. It becomes the lower bound of the block
/// that begins with `next`.
fn separator<'k>(last: &[u8], next: &'k [u8]) -> &'k [u8] {
    let common = last
        .iter()
        .zip(next)
        .take_while(|(one, other)| one == other)
        .count();
    &next[..next.len().min(common + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_neighbors_by_a_short_bound() {
        for (last, next, bound) in [
            ("ab", "cd", "c"),
            ("abcd", "abxyz", "abx"),
            ("ab", "abc", "abc"),
            ("ab", "abcd", "abc"),
        ] {
            let found = separator(last.as_bytes(), next.as_bytes());
            assert_eq!(found, bound.as_bytes());
            assert!(last.as_bytes() < found && found <= next.as_bytes());
        }
    }
}
