//! Estimates: the number of rows of a query, the number of rows before a page, and the position where a share of the
//! rows ends.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_api::pages::Estimate;
use recto_model::RowSet;
use recto_plan::{Plan, Position, Shape, Side, Travel};
use recto_protocol::buckets::Figures;
use recto_store::{ReadOptions, Snapshot};

use super::page::Share;
use super::selecting::{MAX_SOURCES_AT_ONCE, key_of};
use crate::error::{Error, ErrorKind, Result};

/// Inputs of estimates.
pub(super) struct Estimator<'e> {
    pub(super) plan: &'e Plan,
    pub(super) snapshot: &'e Arc<dyn Snapshot>,
    pub(super) options: ReadOptions,
}

impl Estimator<'_> {
    /// Estimates the number of rows, and the number of rows before a position. Without a position, the page begins at
    /// the first row. `rows` is the number of rows of the page.
    pub(super) async fn estimate(&self, begin: Option<&Position>, rows: usize) -> Result<Estimate> {
        self.check()?;
        let total = self.rows(None, Travel::Forward).await?;
        let before = match begin {
            Some(position) => self.rows(Some(position), Travel::Backward).await?,
            None => Figures::default(),
        };
        // The error covers two kinds of rows: records that do not fit the view, which are not counted; and stale
        // entries, which are counted.
        let least = u64::from(self.plan.sort_order.is_verified && total.rows > 0);
        Ok(Estimate {
            total_size: total.rows.max(rows as u64),
            total_size_error: total.rows_error().max(least) + self.plan.sort_order.lacks.too_large,
            offset: before.rows.min(total.rows.saturating_sub(rows as u64)),
            offset_error: before.rows_error().max(least.min(before.rows)),
        })
    }

    /// Returns the position where a share of the rows ends, or nothing if there are no rows.
    pub(super) async fn position(&self, share: Share) -> Result<Option<Position>> {
        self.check()?;
        if self.plan.shape == Shape::Empty {
            return Ok(None);
        }
        let each = self.of_each(None, Travel::Forward).await?;
        let total = sum(&each);
        let rank = share.of(total.rows).min(total.rows.saturating_sub(1));
        if each.len() > 1 {
            let rows = each.iter().map(|figures| figures.rows).collect();
            return self.select(rank, rows, total.rows_error()).await;
        }
        let Some(slice) = self.plan.slice(0, None, Travel::Forward, 1) else {
            return Ok(None);
        };
        let found = self.snapshot.row_at(&slice, rank, &self.options).await?;
        Ok(found.map(|clustering| {
            let key = key_of(&slice, &clustering);
            let mut rows = RowSet::new(key.len());
            rows.push_row(key.as_row());
            self.plan.position(rows.row(0), Side::Before)
        }))
    }

    /// Returns the number of rows beyond an edge, for all sources together.
    async fn rows(&self, edge: Option<&Position>, travel: Travel) -> Result<Figures> {
        Ok(sum(&self.of_each(edge, travel).await?))
    }

    /// Returns the number of rows beyond an edge for each source.
    async fn of_each(&self, edge: Option<&Position>, travel: Travel) -> Result<Vec<Figures>> {
        if self.plan.shape == Shape::Empty {
            return Ok(Vec::new());
        }
        let sources = (0..self.plan.sources.len()).map(|source| async move {
            let Some(slice) = self.plan.slice(source, edge, travel, 1) else {
                return Ok(Figures::default());
            };
            let found = self.snapshot.estimate(&slice, &self.options).await?;
            Ok(Figures {
                rows: found.rows,
                rows_variance: found.variance,
                ..Figures::default()
            })
        });
        let sources: Vec<_> = sources.collect();
        stream::iter(sources)
            .buffered(MAX_SOURCES_AT_ONCE)
            .try_collect()
            .await
    }

    /// Returns an error if the rows of the plan are not counted: it intersects views, reads a table without buckets, or
    /// checks conditions row by row.
    fn check(&self) -> Result<()> {
        if !self.plan.views.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidQuery,
                "how many rows there are is not known where views are intersected",
            )
            .with_hint("declare a view that serves all conditions by itself"));
        }
        let sort_order = &self.plan.sort_order;
        // A plan that reads nothing needs no count.
        if sort_order.table.options().buckets.is_none() && self.plan.shape != Shape::Empty {
            let title = sort_order.title();
            return Err(Error::new(
                ErrorKind::InvalidQuery,
                format!("the rows of {title} are not counted, because it has no buckets"),
            )
            .with_hint(format!(
                "declare `bucket = {{ target = \"10MB\" }}` for {title} in the schema, or leave the estimate out"
            )));
        }
        if self.plan.filter_scan.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidQuery,
            "how many rows there are is not known where conditions are checked row by row",
        )
        .with_hint("leave out what no view serves, or declare a view that serves it"))
    }
}

fn sum(each: &[Figures]) -> Figures {
    each.iter().fold(Figures::default(), |all, one| all.plus(*one))
}
