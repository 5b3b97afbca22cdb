//! Computes the buckets of a store that keeps partitions whole: the buckets that a store without
//! transactions would have.
//!
//! Nothing is stored for these buckets. A list of buckets is computed for each request, from the row
//! counts that the store has for blocks of consecutive rows. If buckets are bounded by size, blocks fill
//! them in key order. If buckets are bounded by time, they are the intervals that have rows.

use std::ops::Range;
use std::sync::Arc;

use recto_model::table::{BucketBound, ReadDirection};
use recto_model::{Bound, Cells, Slice, Table};
use recto_protocol::buckets::{Bucket, Figures, Key};
use recto_store::{ReadOptions, RowBlock, Snapshot, Store, StoreError, StoreErrorKind};

use super::RetainedStore;
use crate::directory::Seek;
use crate::keys;
use crate::limits::{MAX_LISTED_PARTITIONS, MAX_LISTED_PIECES, MAX_STEP_TIME, MAX_SUMMED_PIECES};
use crate::list::{
    ListedPiece, Listing, Partitions, PartitionsPosition, Stage, Summary, list_around, list_summaries,
};
use crate::mend::Mended;
use crate::tables::BucketSize;
use crate::times::{TimeBucket, Times};

/// Snapshot of a partition for which the buckets are computed.
struct Drawing {
    snapshot: Arc<dyn Snapshot>,
    table: Arc<Table>,
    partition: Cells,
    bound: BucketBound,
    options: ReadOptions,
}

/// Computed bucket: the number of rows of the partition before it, and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DrawnBucket {
    rank: u64,
    content: RowBlock,
}

impl RetainedStore {
    /// Returns the encoded form of the first cells of a clustering key, which is a position in the order of the table.
    ///
    /// # Errors
    /// - The cells do not belong to the table.
    /// - The table has no buckets.
    pub fn key_of(&self, table: &Arc<Table>, clustering: &Cells) -> Result<Key, StoreError> {
        bound_of(table)?;
        Ok(keys::key_of(table, clustering.as_row())?)
    }

    /// Lists at most `most` consecutive buckets of a partition, and at most [`MAX_LISTED_PIECES`]: from the bucket
    /// that contains a key, or directly before an edge, as `seek` says.
    ///
    /// # Errors
    /// - The table has no buckets.
    /// - The store cannot be read in time, or is damaged.
    pub async fn list_buckets(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        seek: Seek,
        most: usize,
    ) -> Result<Listing, StoreError> {
        let drawing = self.drawing(table, partition)?;
        let most = most.clamp(1, MAX_LISTED_PIECES);
        if let BucketBound::Time(width) = drawing.bound {
            let times = Times::of(table, width)?;
            return drawing.list_intervals(&times, seek, most).await;
        }
        let buckets = drawing.all().await?;
        let range = drawing.range_of(&buckets, &seek, most).await?;
        drawing.listed(&buckets, range).await
    }

    /// Lists the buckets around the bucket that contains a key: about as many before this bucket as
    /// after it.
    ///
    /// # Errors
    /// As for [`list_buckets`](Self::list_buckets).
    pub async fn list_buckets_around(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        key: Key,
        most: usize,
    ) -> Result<Listing, StoreError> {
        list_around(key, most, |seek, most| {
            self.list_buckets(table, partition, seek, most)
        })
        .await
    }

    /// Lists partitions of a table in the store's own order, at most [`MAX_LISTED_PARTITIONS`]. The result
    /// may have fewer partitions than requested, even if more follow.
    ///
    /// # Errors
    /// As for [`list_buckets`](Self::list_buckets).
    pub async fn list_partitions(
        &self,
        table: &Arc<Table>,
        position: PartitionsPosition,
        most: usize,
    ) -> Result<Partitions, StoreError> {
        bound_of(table)?;
        let summarize = |partition| async move {
            let summary = self.drawing(table, &partition)?.summary().await?;
            Ok((partition, summary))
        };
        list_summaries(&*self.snapshot()?, table, position, most, summarize).await
    }

    /// Deletes the rows of a table below its retention bound now. Returns their number, and the number of
    /// computed buckets of a partition.
    ///
    /// # Errors
    /// - The table has no buckets.
    /// - The store cannot be read or written in time. Completed steps stay.
    pub async fn mend(&self, table: &Arc<Table>, partition: &Cells) -> Result<Mended, StoreError> {
        let deleted = self.retain_now(table).await?;
        let summary = self.drawing(table, partition)?.summary().await?;
        Ok(mended(&summary, deleted))
    }

    /// Does the work of [`mend`](Self::mend) for all partitions of a table. Calls `told` with the buckets
    /// of each partition. Returns the number of deleted rows.
    ///
    /// # Errors
    /// As for [`mend`](Self::mend).
    pub async fn mend_all(
        &self,
        table: &Arc<Table>,
        told: &(dyn Fn(Mended) + Send + Sync),
    ) -> Result<u64, StoreError> {
        let deleted = self.retain_now(table).await?;
        let mut position = Some(PartitionsPosition::default());
        while let Some(from) = position {
            let listed = self.list_partitions(table, from, MAX_LISTED_PARTITIONS).await?;
            listed
                .partitions
                .iter()
                .for_each(|(_, summary)| told(mended(summary, 0)));
            position = listed.next;
        }
        Ok(deleted)
    }

    async fn retain_now(&self, table: &Arc<Table>) -> Result<u64, StoreError> {
        match self.retained(table)? {
            Some(retained) => self.retain(&retained).await,
            None => Ok(0),
        }
    }

    fn drawing(&self, table: &Arc<Table>, partition: &Cells) -> Result<Drawing, StoreError> {
        Ok(Drawing {
            snapshot: self.snapshot()?,
            table: Arc::clone(table),
            partition: partition.clone(),
            bound: bound_of(table)?,
            options: ReadOptions {
                timeout: MAX_STEP_TIME,
                ..ReadOptions::default()
            },
        })
    }
}

fn bound_of(table: &Table) -> Result<BucketBound, StoreError> {
    table
        .options()
        .buckets
        .map(|buckets| buckets.bound)
        .ok_or_else(|| {
            let message = format!("table {} has no buckets", table.name());
            StoreError::new(StoreErrorKind::Invalid, message)
        })
}

impl Drawing {
    fn slice(&self, from: Bound, to: Bound) -> Slice {
        Slice {
            from,
            to,
            ..Slice::from_start(&self.table, self.partition.clone(), 1)
        }
    }

    fn whole(&self) -> Slice {
        self.slice(Bound::start(), Bound::end())
    }

    /// Returns the maximum size of a bucket. Returns `None` if time bounds the buckets.
    fn size(&self) -> Option<BucketSize> {
        match self.bound {
            BucketBound::Bytes(bytes) => Some(BucketSize::Bytes(bytes)),
            BucketBound::Rows(rows) => Some(BucketSize::Rows(rows)),
            BucketBound::Time(_) => None,
        }
    }

    /// Returns all buckets of the partition, if size bounds the buckets. Returns no buckets if time
    /// bounds the buckets.
    async fn all(&self) -> Result<Vec<DrawnBucket>, StoreError> {
        let blocks = self.snapshot.blocks(&self.whole(), &self.options).await?;
        Ok(self.size().map(|size| draw(&blocks, size)).unwrap_or_default())
    }

    /// Returns the indices of the buckets to list, at most `most`.
    async fn range_of(
        &self,
        buckets: &[DrawnBucket],
        seek: &Seek,
        most: usize,
    ) -> Result<Range<usize>, StoreError> {
        let all = buckets.len();
        let rank = match seek {
            Seek::Before(None) => return Ok(all.saturating_sub(most)..all),
            Seek::At(key) | Seek::Before(Some(key)) => {
                let slice = self.slice(Bound::start(), keys::bound_of(&self.table, key)?);
                self.snapshot.estimate(&slice, &self.options).await?.rows
            }
        };
        Ok(match seek {
            Seek::At(_) => {
                let first = buckets.partition_point(|bucket| bucket.rank <= rank);
                let first = first.saturating_sub(1);
                first..all.min(first + most)
            }
            Seek::Before(_) => {
                let end = buckets.partition_point(|bucket| bucket.rank < rank);
                end.saturating_sub(most)..end
            }
        })
    }

    /// Returns a list of the buckets whose indices are in `range`.
    async fn listed(&self, buckets: &[DrawnBucket], range: Range<usize>) -> Result<Listing, StoreError> {
        let Range { start: first, end } = range;
        let mut edges = Vec::with_capacity(end - first + 1);
        for bucket in buckets
            .get(first..=end.min(buckets.len().saturating_sub(1)))
            .unwrap_or_default()
        {
            edges.push(self.edge(bucket.rank).await?);
        }
        let behind = buckets
            .get(end)
            .and(edges.get(end - first))
            .map(|(key, _)| key.clone());
        let pieces = (first..end).map(|number| {
            let (edge, start) = edges[number - first].clone();
            ListedPiece {
                edge,
                start,
                end: edges.get(number - first + 1).map(|(_, cells)| cells.clone()),
                bucket: Bucket(number as u64),
                stage: Stage::AtRest,
                other: None,
                is_below_floor: false,
                figures: figures(buckets[number].content),
                leftover: Figures::default(),
            }
        });
        let pieces: Vec<ListedPiece> = pieces.collect();
        let before = pieces.first().filter(|piece| !piece.edge.is_empty());
        Ok(Listing {
            before: before.map(|piece| piece.edge.clone()),
            behind,
            pieces,
        })
    }

    /// Returns the edge before the row with this rank. The first bucket begins at the start of the partition.
    async fn edge(&self, rank: u64) -> Result<(Key, Cells), StoreError> {
        if rank == 0 {
            return Ok((Key::new(), Cells::new()));
        }
        let row = self.snapshot.row_at(&self.whole(), rank, &self.options).await?;
        let cells = row.unwrap_or_default();
        Ok((keys::key_of(&self.table, cells.as_row())?, cells))
    }

    async fn summary(&self) -> Result<Summary, StoreError> {
        let BucketBound::Time(width) = self.bound else {
            let buckets = self.all().await?;
            let contents: Vec<RowBlock> = buckets.iter().map(|bucket| bucket.content).collect();
            return Ok(summary_of(&contents, true));
        };
        let times = Times::of(&self.table, width)?;
        let listing = self
            .list_intervals(&times, Seek::At(Key::new()), MAX_SUMMED_PIECES)
            .await?;
        let pieces = listing.pieces.iter();
        let contents = pieces.map(|piece| RowBlock {
            rows: piece.figures.rows,
            bytes: piece.figures.bytes,
        });
        let contents: Vec<RowBlock> = contents.collect();
        Ok(summary_of(&contents, listing.behind.is_none()))
    }

    /// Lists the time buckets that have rows, from a key onward, or those before an edge.
    async fn list_intervals(&self, times: &Times, seek: Seek, most: usize) -> Result<Listing, StoreError> {
        let (direction, mut left) = match &seek {
            Seek::At(key) => {
                let start = if key.is_empty() {
                    Key::new()
                } else {
                    times.bucket_of(key)?.start
                };
                (ReadDirection::Forward, self.slice_from(&start)?)
            }
            Seek::Before(edge) => {
                let to = match edge {
                    Some(edge) => keys::bound_of(&self.table, edge)?,
                    None => Bound::end(),
                };
                (ReadDirection::Backward, self.slice(Bound::start(), to))
            }
        };
        let mut intervals: Vec<TimeBucket> = Vec::new();
        while intervals.len() < most {
            let Some(interval) = self.interval_at(times, &left, direction).await? else {
                break;
            };
            match direction {
                ReadDirection::Forward => match &interval.end {
                    Some(end) => left.from = keys::bound_of(&self.table, end)?,
                    None => left.from = Bound::end(),
                },
                ReadDirection::Backward => left.to = keys::bound_of(&self.table, &interval.start)?,
            }
            intervals.push(interval);
        }
        if direction == ReadDirection::Backward {
            intervals.reverse();
        }
        self.listed_intervals(times, &intervals).await
    }

    async fn listed_intervals(&self, times: &Times, intervals: &[TimeBucket]) -> Result<Listing, StoreError> {
        let mut pieces = Vec::with_capacity(intervals.len());
        for interval in intervals {
            let (from, to) = keys::bounds_of(&self.table, &interval.span())?;
            let blocks = self
                .snapshot
                .blocks(&self.slice(from.clone(), to.clone()), &self.options)
                .await?;
            pieces.push(ListedPiece {
                edge: interval.start.clone(),
                start: from.cells().clone(),
                end: interval.end.as_ref().map(|_| to.cells().clone()),
                bucket: interval.bucket,
                stage: Stage::AtRest,
                other: None,
                is_below_floor: false,
                figures: figures(sum(&blocks)),
                leftover: Figures::default(),
            });
        }
        let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else {
            return Ok(Listing::default());
        };
        let before = self.slice(Bound::start(), keys::bound_of(&self.table, &first.start)?);
        let before = self.interval_at(times, &before, ReadDirection::Backward).await?;
        let behind = match &last.end {
            Some(end) => {
                self.interval_at(times, &self.slice_from(end)?, ReadDirection::Forward)
                    .await?
            }
            None => None,
        };
        Ok(Listing {
            before: before.map(|_| first.start.clone()),
            behind: behind.map(|interval| interval.start),
            pieces,
        })
    }

    fn slice_from(&self, edge: &[u8]) -> Result<Slice, StoreError> {
        Ok(self.slice(keys::bound_of(&self.table, edge)?, Bound::end()))
    }

    /// Returns the time bucket that contains the first row of a slice in a direction.
    async fn interval_at(
        &self,
        times: &Times,
        slice: &Slice,
        direction: ReadDirection,
    ) -> Result<Option<TimeBucket>, StoreError> {
        let first = Slice {
            direction,
            limit: 1,
            ..slice.clone()
        };
        let read = self.snapshot.slice(&first, &self.options).await?;
        let Some(row) = read.rows.iter().next() else {
            return Ok(None);
        };
        let clustering = self.table.partition().len()..self.table.key_len();
        let cells: Cells = clustering.map(|column| row.get(column)).collect();
        let key = keys::key_of(&self.table, cells.as_row())?;
        Ok(Some(times.bucket_of(&key)?))
    }
}

/// Returns the buckets that consecutive blocks of rows fill, each up to the maximum size. A block that is
/// larger than a bucket is divided into equal parts.
fn draw(blocks: &[RowBlock], size: BucketSize) -> Vec<DrawnBucket> {
    let mut drawn: Vec<DrawnBucket> = Vec::new();
    let mut rank = 0;
    for part in blocks.iter().flat_map(|block| parts_of(*block, size)) {
        let room = drawn.last_mut().filter(|last| {
            let whole = sum(&[last.content, part]);
            !size.is_exceeded(figures(whole))
        });
        match room {
            Some(last) => last.content = sum(&[last.content, part]),
            None => drawn.push(DrawnBucket { rank, content: part }),
        }
        rank += part.rows;
    }
    drawn
}

/// Divides a block into equal parts that fit into a bucket. A part has at least one row, even if the row is
/// larger than a bucket.
fn parts_of(block: RowBlock, size: BucketSize) -> impl Iterator<Item = RowBlock> {
    let (is, most) = match size {
        BucketSize::Bytes(most) => (block.bytes, most),
        BucketSize::Rows(most) => (block.rows, most),
    };
    let parts = is.div_ceil(most.max(1)).clamp(1, block.rows.max(1));
    let share = move |whole: u64, number: u64| whole * (number + 1) / parts - whole * number / parts;
    (0..parts).map(move |number| RowBlock {
        rows: share(block.rows, number),
        bytes: share(block.bytes, number),
    })
}

fn sum(blocks: &[RowBlock]) -> RowBlock {
    blocks.iter().fold(RowBlock::default(), |all, block| RowBlock {
        rows: all.rows + block.rows,
        bytes: all.bytes + block.bytes,
    })
}

fn figures(content: RowBlock) -> Figures {
    Figures {
        rows: content.rows,
        bytes: content.bytes,
        ..Figures::default()
    }
}

fn summary_of(contents: &[RowBlock], is_whole: bool) -> Summary {
    let largest = contents.iter().copied().max_by_key(|content| content.bytes);
    Summary {
        buckets: contents.len() as u64,
        figures: figures(sum(contents)),
        leftover: Figures::default(),
        largest: figures(largest.unwrap_or_default()),
        too_large: 0,
        is_being_cut: false,
        is_whole,
    }
}

fn mended(summary: &Summary, deleted: u64) -> Mended {
    Mended {
        buckets: usize::try_from(summary.buckets).unwrap_or(usize::MAX),
        deleted,
        ..Mended::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn block(rows: u64, bytes: u64) -> RowBlock {
        RowBlock { rows, bytes }
    }

    #[test]
    fn fills_buckets_in_order_up_to_their_size() {
        let blocks = [
            block(1_000, 40_000),
            block(800, 30_000),
            block(1_200, 50_000),
            block(3, 100),
        ];
        let drawn = draw(&blocks, BucketSize::Bytes(80_000));
        let expected = [(0, block(1_800, 70_000)), (1_800, block(1_203, 50_100))];
        assert_eq!(
            drawn,
            expected.map(|(rank, content)| DrawnBucket { rank, content })
        );
        assert_eq!(draw(&[], BucketSize::Rows(10)), []);
    }

    #[test]
    fn divides_a_block_that_is_larger_than_a_bucket() {
        let drawn = draw(&[block(10, 1_000)], BucketSize::Rows(4));
        let rows: Vec<(u64, u64)> = drawn
            .iter()
            .map(|bucket| (bucket.rank, bucket.content.rows))
            .collect();
        assert_eq!(rows, [(0, 3), (3, 3), (6, 4)]);
        // A single row is never divided.
        assert_eq!(draw(&[block(1, 1_000)], BucketSize::Bytes(10)).len(), 1);
    }
}
