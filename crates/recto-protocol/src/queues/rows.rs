//! Rows of a segment's log, each with the messages of one append. Copies of a log share the rows,
//! because each conditional write works on a new copy, and only adds rows at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::queues::log::LogRow;
use crate::queues::names::{Chunk, Seq};

/// Number of rows of a block. All blocks except the last have this size. A copy of the log that
/// adds a row clones only the last block.
const BLOCK_ROWS: usize = 64;

/// Rows of a log, each with the position of its first message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Rows {
    /// Blocks of rows, in the order of positions. No block is empty.
    blocks: Vec<Arc<Block>>,
    /// Positions of the messages that were received in an earlier segment, before segment merging
    /// moved them to this one.
    moved_on: Vec<Seq>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Block {
    rows: Vec<(Seq, LogRow)>,
    /// Index in `rows` of each chunk: the random id under which the bodies of a row are stored.
    by_chunk: BTreeMap<Chunk, usize>,
}

impl Rows {
    /// Adds a row at the end. `first` is the position of its first message.
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

    /// Returns the positions, ascending, of the messages that were received in an earlier segment,
    /// before segment merging moved them to this one.
    pub(crate) fn moved_on(&self) -> impl Iterator<Item = Seq> {
        self.moved_on.iter().copied()
    }

    pub(crate) fn count(&self) -> Seq {
        let full = self.blocks.len().saturating_sub(1) * BLOCK_ROWS;
        let last = self.blocks.last().map_or(0, |last| last.rows.len());
        (full + last) as Seq
    }

    /// Returns all rows in order, each with the position of its first message.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Seq, &LogRow)> {
        let rows = self.blocks.iter().flat_map(|block| &block.rows);
        rows.map(|(first, row)| (*first, row))
    }

    /// Returns the rows from the index `number` (from 0) on.
    pub(crate) fn from(&self, number: Seq) -> impl Iterator<Item = &LogRow> {
        let (block, row) = (usize::from(number) / BLOCK_ROWS, usize::from(number) % BLOCK_ROWS);
        let rows = self.blocks.iter().skip(block).flat_map(|block| &block.rows);
        rows.skip(row).map(|(_, row)| row)
    }

    /// Returns the last row that begins at the position `seq` or before it.
    pub(crate) fn at(&self, seq: Seq) -> Option<(Seq, &LogRow)> {
        let block = self.blocks.get(self.blocks_to(seq).checked_sub(1)?)?;
        let index = block.rows.partition_point(|(first, _)| *first <= seq);
        let (first, row) = block.rows.get(index.checked_sub(1)?)?;
        Some((*first, row))
    }

    pub(crate) fn last(&self) -> Option<(Seq, &LogRow)> {
        self.at(Seq::MAX)
    }

    /// Returns the row whose bodies are stored under this id.
    pub(crate) fn of_chunk(&self, chunk: Chunk) -> Option<(Seq, &LogRow)> {
        let mut found = self.blocks.iter().filter_map(|block| {
            let (first, row) = block.rows.get(*block.by_chunk.get(&chunk)?)?;
            Some((*first, row))
        });
        found.next()
    }

    /// Returns the number of blocks whose first message is at the position `seq` or before it.
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
