//! Sums of the content of consecutive key ranges. A *block* is such a sum, and ends where the next block
//! begins. Blocks serve to estimate the number of rows of a partition without reading a range map of many
//! windows. A range map that fits into one window has no blocks.
//!
//! A process writes blocks by plain writes to another table, after it has changed the range map. A block
//! may therefore be outdated. Module `survey` checks some of the key ranges that a block covers.
//!
//! Each edge of a block is also an edge of a key range, because of two rules: a split adds edges only
//! within a block, and a key range is removed only together with the block that begins there.

use std::sync::Arc;

use futures::future::join;
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice};
use recto_protocol::buckets::limits::MAX_WINDOW_PIECES;
use recto_protocol::buckets::{Figures, Key, Piece, Several, Span};
use recto_store::{Mutation, Operation, PartitionWrite, ReadOptions};

use crate::directory::{Seek, Window};
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{
    MAX_BLOCK_PIECES, MAX_OPENED_PIECES, MAX_REQUEST_TIME, MAX_SUM_READS, MAX_SUMS_READ, MAX_TORN_READS,
};
use crate::place::{Deadline, PieceStore, Place};
use crate::tables::mutation;

/// Index of the column with the start of a block, in the table of sums.
const START: usize = 2;
const PIECES: usize = 3;
const ROWS: usize = 4;
const ROWS_VARIANCE: usize = 5;

/// Block: the sum of the contents of consecutive key ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// Edge at which the first key range of the block begins.
    pub(crate) start: Key,
    pub(crate) summed: Several,
}

impl PieceStore {
    /// Returns the blocks that overlap a span (range of keys), in their order. The first block may
    /// begin before the span, and the last block may end after the span. Returns no blocks if no
    /// process has written blocks for the partition.
    pub(crate) async fn blocks(&self, place: &Place, span: &Span, deadline: Deadline) -> Result<Vec<Block>> {
        let (before, behind) = join(
            self.block_of(place, &span.start, deadline),
            self.blocks_behind(place, span, MAX_SUMS_READ, deadline),
        )
        .await;
        let mut blocks: Vec<Block> = before?.into_iter().collect();
        blocks.extend(behind?);
        Ok(blocks)
    }

    /// Recomputes the blocks (sums of consecutive key ranges) that contain the keys `keys`.
    ///
    /// # Errors
    /// The store cannot be read or written in time. The former blocks remain.
    pub(crate) async fn sum_up(&self, place: &Place, keys: &[Key]) -> Result<()> {
        let mut done: Option<Option<Key>> = None;
        for key in keys {
            // Skip the key if the last recomputed block contains it.
            match &done {
                Some(None) => break,
                Some(Some(end)) if key < end => continue,
                _ => {}
            }
            let deadline = self.deadline(MAX_REQUEST_TIME);
            let from = Span {
                start: key.clone(),
                end: None,
            };
            let (block, next) = join(
                self.block_of(place, key, deadline),
                self.blocks_behind(place, &from, 1, deadline),
            )
            .await;
            let start = block?.map(|block| block.start).unwrap_or_default();
            let end = next?.into_iter().next().map(|next| next.start);
            let within = Span {
                start,
                end: end.clone(),
            };
            let pieces = self.pieces_from(place, &within, deadline).await?;
            let is_short = within == Span::all() && pieces.len() <= MAX_WINDOW_PIECES;
            if !is_short {
                self.write_blocks(place, &pieces, deadline).await?;
            }
            done = Some(end);
        }
        Ok(())
    }

    /// Returns the key ranges that begin within a span. The span must begin where a key range begins.
    ///
    /// # Errors
    /// - No key range begins at the start of the span.
    /// - There are more than [`MAX_OPENED_PIECES`] key ranges.
    /// - The range map cannot be read in time, or is damaged.
    pub(crate) async fn pieces_from(
        &self,
        place: &Place,
        span: &Span,
        deadline: Deadline,
    ) -> Result<Vec<(Span, Piece)>> {
        let (mut pieces, mut next) = (Vec::new(), Some(span.start.clone()));
        while let Some(start) = next {
            let most = if span.end.is_some() {
                MAX_BLOCK_PIECES
            } else {
                MAX_WINDOW_PIECES
            };
            let window = self
                .again(deadline, |timeout| {
                    let (start, options) = (start.clone(), self.directory_options(false, timeout));
                    async move { self.window_from(place, start, most, &options).await }
                })
                .await?;
            let begins_within =
                |(of, _): &(Span, &Piece)| span.end.as_ref().is_none_or(|end| of.start < *end);
            let window_pieces = window.spans().take_while(begins_within);
            pieces.extend(window_pieces.map(|(of, piece)| (of, piece.clone())));
            if pieces.len() > MAX_OPENED_PIECES {
                let message = format!("more than {MAX_OPENED_PIECES} adjacent buckets have no sum yet");
                return Err(PiecesError::new(PiecesErrorKind::InvalidArgument, message)
                    .with_hint("repair this partition, or count fewer of its rows"));
            }
            let is_left = |end: &Key| span.end.as_ref().is_none_or(|of_span| end < of_span);
            next = window.end.filter(is_left);
        }
        Ok(pieces)
    }

    async fn window_from(
        &self,
        place: &Place,
        start: Key,
        most: usize,
        options: &ReadOptions,
    ) -> Result<recto_protocol::buckets::Directory> {
        if let Some(times) = &place.pieced.times {
            let deadline = self.deadline(options.timeout);
            let read = self
                .read_registry(place, times, &Seek::At(start), deadline)
                .await?;
            return Ok(read.0);
        }
        let first = (!start.is_empty()).then_some(start);
        for _ in 0..MAX_TORN_READS {
            self.counters.read_directory();
            let snapshot = self.store.snapshot()?;
            let read = self
                .tables
                .read_pieces(&*snapshot, place, first.clone(), most, options);
            match read.await? {
                Window::Read(window, _) => return Ok(window),
                Window::None => {
                    return Ok(recto_protocol::buckets::Directory::absent(
                        place.pieced.sampling,
                        self.protocol,
                    ));
                }
                Window::Torn => {}
            }
        }
        let message = "the buckets of a partition were split or merged while their rows were counted";
        Err(PiecesError::new(PiecesErrorKind::Conflict, message))
    }

    /// Removes the blocks from the first to the last edge of removed key ranges. Blocks between them are removed,
    /// too, and summed up again later.
    ///
    /// # Errors
    /// The blocks cannot be removed in time.
    pub(crate) async fn forget_sums(&self, place: &Place, gone: &[Key]) -> Result<()> {
        let (Some(first), Some(last)) = (gone.first(), gone.last()) else {
            return Ok(());
        };
        let range = Operation::DeleteRange {
            from: Bound::Before(edge(first)),
            to: Bound::After(edge(last)),
        };
        let write = PartitionWrite {
            table: Arc::clone(&self.tables.sums),
            partition: place.directory_partition(),
            mutations: vec![mutation(range, (self.stamps)(), None)],
        };
        let written = self.write(write, self.deadline(MAX_REQUEST_TIME)).await;
        written.map_err(|undone| undone.error)
    }

    /// Returns the block (sum of key ranges) that contains a key, or `None` if no block contains
    /// the key.
    async fn block_of(&self, place: &Place, key: &Key, deadline: Deadline) -> Result<Option<Block>> {
        let slice = Slice {
            to: Bound::After(edge(key)),
            direction: ReadDirection::Backward,
            ..self.sums_slice(place, 1)
        };
        let (blocks, _) = self.read_blocks(&slice, deadline).await?;
        Ok(blocks.into_iter().next())
    }

    /// Returns the blocks that begin after the start of a span (range of keys) and before its end.
    /// A limit of 1 returns only the first block.
    async fn blocks_behind(
        &self,
        place: &Place,
        span: &Span,
        limit: u32,
        deadline: Deadline,
    ) -> Result<Vec<Block>> {
        let mut slice = Slice {
            from: Bound::After(edge(&span.start)),
            ..self.sums_slice(place, limit)
        };
        if let Some(end) = &span.end {
            slice.to = Bound::Before(edge(end));
        }
        let mut found: Vec<Block> = Vec::new();
        for _ in 0..MAX_SUM_READS {
            let (blocks, is_all) = self.read_blocks(&slice, deadline).await?;
            found.extend(blocks);
            match found.last() {
                Some(last) if !is_all && limit > 1 => slice.from = Bound::After(edge(&last.start)),
                _ => break,
            }
        }
        Ok(found)
    }

    async fn read_blocks(&self, slice: &Slice, deadline: Deadline) -> Result<(Vec<Block>, bool)> {
        let read = self.read_slice(slice, ReadOptions::default(), deadline).await?;
        let blocks: Option<Vec<_>> = read.rows.iter().map(block_of).collect();
        Ok((blocks.ok_or_else(missing)?, read.exhausted))
    }

    async fn write_blocks(&self, place: &Place, pieces: &[(Span, Piece)], deadline: Deadline) -> Result<()> {
        // Replace an oversized block by several blocks that have room for further splits.
        let each = if pieces.len() <= MAX_BLOCK_PIECES {
            pieces.len().max(1)
        } else {
            let count = pieces.len().div_ceil(MAX_BLOCK_PIECES / 4 * 3);
            pieces.len().div_ceil(count)
        };
        let blocks: Vec<Block> = pieces.chunks(each).filter_map(summed).collect();
        let stamp = (self.stamps)();
        for some in blocks.chunks(MAX_BLOCK_PIECES) {
            let mutations = some.iter().map(|block| mutation(put(block), stamp, None));
            let write = PartitionWrite {
                table: Arc::clone(&self.tables.sums),
                partition: place.directory_partition(),
                mutations: mutations.collect::<Vec<Mutation>>(),
            };
            let written = self.write(write, deadline).await;
            written.map_err(|undone| undone.error)?;
        }
        Ok(())
    }

    fn sums_slice(&self, place: &Place, limit: u32) -> Slice {
        Slice::from_start(&self.tables.sums, place.directory_partition(), limit)
    }
}

/// Returns the sum of the contents of key ranges, or `None` if there are no key ranges.
pub(crate) fn summed(pieces: &[(Span, Piece)]) -> Option<Block> {
    let (first, _) = pieces.first()?;
    Some(Block {
        start: first.start.clone(),
        summed: several(pieces.iter().map(|(_, piece)| piece)),
    })
}

/// Returns the sum of the contents that the range map records for key ranges. An unknown content
/// counts as 0.
pub(crate) fn several<'p>(pieces: impl Iterator<Item = &'p Piece>) -> Several {
    let nothing = Several::default();
    pieces.fold(nothing, |all, piece| Several {
        pieces: all.pieces + 1,
        recorded: all.recorded.plus(piece.figures.unwrap_or_default()),
    })
}

fn edge(key: &Key) -> Cells {
    std::iter::once(Some(&key[..])).collect()
}

fn put(block: &Block) -> Operation {
    let Several { pieces, recorded } = block.summed;
    let numbers = [pieces, recorded.rows, recorded.rows_variance];
    let cells = numbers.map(|number| i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes());
    Operation::Patch {
        clustering: edge(&block.start),
        columns: vec![0, 1, 2],
        cells: cells.iter().map(|cell| Some(&cell[..])).collect(),
    }
}

fn block_of(row: RowRef<'_>) -> Option<Block> {
    let number = |column: usize| {
        let number = i64::from_be_bytes(row.get(column)?.try_into().ok()?);
        u64::try_from(number).ok()
    };
    Some(Block {
        start: row.get(START)?.to_vec(),
        summed: Several {
            pieces: number(PIECES)?,
            recorded: Figures {
                rows: number(ROWS)?,
                rows_variance: number(ROWS_VARIANCE)?,
                ..Figures::default()
            },
        },
    })
}

fn missing() -> PiecesError {
    let message = "the sums of buckets are damaged: cells are missing or negative";
    PiecesError::new(PiecesErrorKind::Corrupt, message)
        .with_hint("delete this partition of recto_sums: another program wrote to the table")
}
