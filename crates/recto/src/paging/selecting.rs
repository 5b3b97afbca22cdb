//! Selection of the row with a given rank in the merged order of several sources.
//!
//! Each step finds the middle row of the remaining rows of each source. The pivot is the median of
//! these middle rows, weighted by the number of remaining rows of their sources. The number of rows
//! before the pivot, in all sources, shows on which side of the pivot the requested row is. Each
//! step thus removes at least a quarter of the remaining rows, and usually half of them.

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowSet, Slice};
use recto_plan::plan::beyond_row;
use recto_plan::{Position, Side};
use recto_store::RowEstimate;

use super::estimate::Estimator;
use crate::error::{Error, Result};

/// Maximum number of steps. Even if each step removes only a quarter of the remaining rows, 64
/// steps reduce 100 million rows to one.
const MAX_PIVOTS: usize = 64;
/// Number of remaining rows at which the search ends. The remaining rows are then read and sorted.
const MAX_SORTED_ROWS: u64 = 256;
/// Maximum number of sources that are queried concurrently.
pub(super) const MAX_SOURCES_AT_ONCE: usize = 16;

/// Part of the sources (ranges of a table) that can still contain the requested row.
struct Left {
    /// Start of the part; `None` is the beginning of the sources. `before` is the number of rows
    /// before the start.
    from: Option<Position>,
    before: u64,
    /// End of the part. `None`: after the last row.
    to: Option<Position>,
    /// Number of remaining rows of each source (range of a table) in this part.
    rows: Vec<u64>,
}

impl Left {
    fn all(&self) -> u64 {
        self.rows.iter().sum()
    }
}

impl Estimator<'_> {
    /// Returns the position of the row that has `rank` rows before it, with a tolerance of `error`
    /// rows. `rows` is the number of rows of each source. Returns nothing if the sources have too
    /// few rows.
    pub(super) async fn select(&self, rank: u64, rows: Vec<u64>, error: u64) -> Result<Option<Position>> {
        let mut left = Left {
            from: None,
            before: 0,
            to: None,
            rows,
        };
        let mut last = None;
        for _ in 0..MAX_PIVOTS {
            if left.all() <= MAX_SORTED_ROWS {
                break;
            }
            let Some(pivot) = self.pivot(&left).await? else {
                break;
            };
            let before = self.rows_between(left.from.as_ref(), Some(&pivot)).await?;
            let at = left.before + before.iter().sum::<u64>();
            last = Some(pivot.clone());
            if at.abs_diff(rank) <= error {
                return Ok(last);
            }
            if at > rank {
                left.to = Some(pivot);
                left.rows = before;
            } else {
                // The pivot is before the wanted row, so the search continues after the pivot.
                left.from = Some(Position {
                    side: Side::After,
                    ..pivot
                });
                left.before = at + 1;
                left.rows = self.rows_between(left.from.as_ref(), left.to.as_ref()).await?;
            }
        }
        let sorted = self.sorted(&left).await?;
        let wanted = usize::try_from(rank.saturating_sub(left.before)).unwrap_or(usize::MAX);
        // If the numbers of rows are estimates, fewer rows may exist, so take the last row.
        let found = sorted.into_iter().take(wanted.saturating_add(1)).next_back();
        Ok(found.or(last))
    }

    /// Returns the pivot: among the middle rows of the sources, the row with about half of all
    /// remaining rows on each side.
    async fn pivot(&self, left: &Left) -> Result<Option<Position>> {
        let middles = left.rows.iter().enumerate().filter(|(_, rows)| **rows > 0);
        let middles = middles.map(|(source, rows)| async move {
            let Some(slice) = self
                .plan
                .slice_between(source, left.from.as_ref(), left.to.as_ref())
            else {
                return Ok(None);
            };
            let found = self.snapshot.row_at(&slice, rows / 2, &self.options).await?;
            Ok::<_, Error>(found.map(|clustering| (key_of(&slice, &clustering), *rows)))
        });
        let middles: Vec<_> = middles.collect();
        let middles: Vec<Option<(Cells, u64)>> = stream::iter(middles)
            .buffered(MAX_SOURCES_AT_ONCE)
            .try_collect()
            .await?;
        let mut keys = RowSet::new(self.plan.sort_order.table.key_len());
        let mut rows = Vec::new();
        for (key, count) in middles.into_iter().flatten() {
            keys.push_row(key.as_row());
            rows.push(count);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|one, other| self.plan.compare_rows(keys.row(*one), keys.row(*other)));
        let half = rows.iter().sum::<u64>() / 2;
        let mut before = 0;
        let pivot = order.into_iter().find(|at| {
            before += rows[*at];
            before > half
        });
        Ok(pivot.map(|at| self.plan.position(keys.row(at), Side::Before)))
    }

    /// Returns the number of rows of each source between two positions.
    async fn rows_between(&self, from: Option<&Position>, to: Option<&Position>) -> Result<Vec<u64>> {
        let sources = (0..self.plan.sources.len()).map(|source| async move {
            let Some(slice) = self.plan.slice_between(source, from, to) else {
                return Ok(0);
            };
            let RowEstimate { rows, .. } = self.snapshot.estimate(&slice, &self.options).await?;
            Ok(rows)
        });
        let sources: Vec<_> = sources.collect();
        stream::iter(sources)
            .buffered(MAX_SOURCES_AT_ONCE)
            .try_collect()
            .await
    }

    /// Reads and sorts the remaining rows, whose number must be small.
    async fn sorted(&self, left: &Left) -> Result<Vec<Position>> {
        let mut rows = RowSet::new(self.plan.sort_order.table.columns().len());
        for source in 0..self.plan.sources.len() {
            let Some(slice) = self
                .plan
                .slice_between(source, left.from.as_ref(), left.to.as_ref())
            else {
                continue;
            };
            let mut rest = Some(Slice {
                limit: MAX_SORTED_ROWS as u32,
                ..slice
            });
            // A read may end early at its maximum of bytes, so continue until the
            // store has no more rows.
            while let Some(slice) = rest.take() {
                let read = self.snapshot.slice(&slice, &self.options).await?;
                read.rows.iter().for_each(|row| rows.push_row(row));
                let last = read.rows.iter().next_back().filter(|_| !read.exhausted);
                rest = last.and_then(|last| beyond_row(slice, last));
            }
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|one, other| self.plan.compare_rows(rows.row(*one), rows.row(*other)));
        let positions = order
            .into_iter()
            .map(|at| self.plan.position(rows.row(at), Side::Before));
        Ok(positions.collect())
    }
}

/// Returns the key of a row of a slice: the partition key and the clustering key.
pub(super) fn key_of(slice: &Slice, clustering: &Cells) -> Cells {
    slice.partition.iter().chain(clustering.iter()).collect()
}
