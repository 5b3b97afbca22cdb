//! The row that stands so far from the beginning, of several sources that are merged.
//!
//! Of what is left of each source the row in its middle is found, and of those the one that has half of all behind it is the pivot: how many
//! rows stand before that, in all sources, says on which side of it the row lies. So a quarter of what is left goes each time at
//! least, and a half as a rule.

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowSet, Slice};
use recto_plan::{Position, Side};
use recto_store::RowEstimate;

use super::estimate::Estimator;
use crate::error::{Error, Result};

/// How often what is left is halved: of 100 million rows one is left.
const MAX_PIVOTS: usize = 64;
/// So few rows are read and sorted.
const MAX_SORTED_ROWS: u64 = 256;
/// Sources that are asked side by side.
pub(super) const MAX_SOURCES_AT_ONCE: usize = 16;

/// What is left of the sources.
struct Left {
    /// Where it begins, and how many rows are before; none: at the first row.
    from: Option<Position>,
    before: u64,
    /// Where it ends; none: behind the last row.
    to: Option<Position>,
    /// How many rows each source has there.
    rows: Vec<u64>,
}

impl Left {
    fn all(&self) -> u64 {
        self.rows.iter().sum()
    }
}

impl Estimator<'_> {
    /// The row that so many stand before, which may be off by `error`; each source has so many `rows`. None: there are not so many.
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
                // The pivot is one of the rows behind it, and another one is looked for.
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
        // Where rows are estimated, there may be fewer than they were taken for.
        let found = sorted.into_iter().take(wanted.saturating_add(1)).next_back();
        Ok(found.or(last))
    }

    /// The row in the middle of each source, and of those the one with half of what is left on each side, about.
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

    /// How many rows each source has between two positions.
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

    /// The rows that are left, of those that are so few that they are read.
    async fn sorted(&self, left: &Left) -> Result<Vec<Position>> {
        let mut rows = RowSet::new(self.plan.sort_order.table.columns().len());
        for source in 0..self.plan.sources.len() {
            let Some(slice) = self
                .plan
                .slice_between(source, left.from.as_ref(), left.to.as_ref())
            else {
                continue;
            };
            let slice = Slice {
                limit: MAX_SORTED_ROWS as u32,
                ..slice
            };
            let read = self.snapshot.slice(&slice, &self.options).await?;
            read.rows.iter().for_each(|row| rows.push_row(row));
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|one, other| self.plan.compare_rows(rows.row(*one), rows.row(*other)));
        let positions = order
            .into_iter()
            .map(|at| self.plan.position(rows.row(at), Side::Before));
        Ok(positions.collect())
    }
}

/// The key of a row of a slice.
pub(super) fn key_of(slice: &Slice, clustering: &Cells) -> Cells {
    slice.partition.iter().chain(clustering.iter()).collect()
}
