//! The rows of a log, which its copies share: one is made for each conditional write, and adds to the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::queues::log::LogRow;
use crate::queues::names::{Chunk, Seq};

/// Rows of a block, of which all but the last are full: what a copy that adds to the end makes anew.
const BLOCK_ROWS: usize = 64;

/// Rows, by the place of the first entry of each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Rows {
    /// None is empty.
    blocks: Vec<Arc<Block>>,
    /// Places of messages that were received before they were moved on to this segment.
    moved_on: Vec<Seq>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Block {
    rows: Vec<(Seq, LogRow)>,
    /// Where among these the row of a chunk is.
    by_chunk: BTreeMap<Chunk, usize>,
}

impl Rows {
    /// Adds a row whose first entry has this place, behind all that there are.
    pub(crate) fn push(&mut self, first: Seq, row: LogRow) {
        if self
            .blocks
            .last()
            .is_none_or(|last| last.rows.len() == BLOCK_ROWS)
        {
            self.blocks.push(Arc::default());
        }
        let moved_on = (first..).zip(&*row.entries);
        let moved_on = moved_on.filter(|(_, entry)| entry.received.is_some());
        self.moved_on.extend(moved_on.map(|(seq, _)| seq));
        if let Some(last) = self.blocks.last_mut() {
            let last = Arc::make_mut(last);
            last.by_chunk.insert(row.chunk, last.rows.len());
            last.rows.push((first, row));
        }
    }

    /// Places of messages that were received before they were moved on, in order.
    pub(crate) fn moved_on(&self) -> impl Iterator<Item = Seq> {
        self.moved_on.iter().copied()
    }

    /// How many there are. Each has a message at least.
    pub(crate) fn count(&self) -> Seq {
        let full = self.blocks.len().saturating_sub(1) * BLOCK_ROWS;
        let last = self.blocks.last().map_or(0, |last| last.rows.len());
        (full + last) as Seq
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Seq, &LogRow)> {
        let rows = self.blocks.iter().flat_map(|block| &block.rows);
        rows.map(|(first, row)| (*first, row))
    }

    /// Those of this number, counted from 0, and later ones.
    pub(crate) fn from(&self, number: Seq) -> impl Iterator<Item = &LogRow> {
        let (block, row) = (usize::from(number) / BLOCK_ROWS, usize::from(number) % BLOCK_ROWS);
        let rows = self.blocks.iter().skip(block).flat_map(|block| &block.rows);
        rows.skip(row).map(|(_, row)| row)
    }

    /// The last one whose first entry has this place or an earlier one.
    pub(crate) fn at(&self, seq: Seq) -> Option<(Seq, &LogRow)> {
        let block = self.blocks.get(self.blocks_to(seq).checked_sub(1)?)?;
        let index = block.rows.partition_point(|(first, _)| *first <= seq);
        let (first, row) = block.rows.get(index.checked_sub(1)?)?;
        Some((*first, row))
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<(Seq, &LogRow)> {
        self.at(Seq::MAX)
    }

    /// The one that was put under this chunk.
    pub(crate) fn of_chunk(&self, chunk: Chunk) -> Option<(Seq, &LogRow)> {
        let mut found = self.blocks.iter().filter_map(|block| {
            let (first, row) = block.rows.get(*block.by_chunk.get(&chunk)?)?;
            Some((*first, row))
        });
        found.next()
    }

    /// How many blocks begin there or before.
    fn blocks_to(&self, seq: Seq) -> usize {
        let begins = |block: &Arc<Block>| block.rows.first().is_some_and(|(first, _)| *first <= seq);
        self.blocks.partition_point(begins)
    }
}

impl FromIterator<(Seq, LogRow)> for Rows {
    fn from_iter<I: IntoIterator<Item = (Seq, LogRow)>>(rows: I) -> Self {
        let mut all = Self::default();
        for (first, row) in rows {
            all.push(first, row);
        }
        all
    }
}
