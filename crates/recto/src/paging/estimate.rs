//! Estimates for a query: its number of rows, the number of rows before a page, and the position that a
//! share of the rows precedes.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_api::explanation::KnownRowCount;
use recto_api::pages::{MAX_COUNT_UP_TO, RowCount};
use recto_model::RowSet;
use recto_model::schema::AttachedTable;
use recto_plan::{Plan, Position, Shape, Side, Travel};
use recto_protocol::buckets::Figures;
use recto_store::{ReadOptions, Snapshot, Store};

use super::page::Share;
use super::selecting::{MAX_SOURCES_AT_ONCE, key_of};
use crate::error::{Error, ErrorKind, Result};

/// Estimator of the number of rows of a plan, and of the position of a row with a given rank.
pub(super) struct Estimator<'e> {
    pub(super) plan: &'e Plan,
    pub(super) snapshot: &'e Arc<dyn Snapshot>,
    pub(super) options: ReadOptions,
}

impl Estimator<'_> {
    /// Estimates the number of rows of the query, and the number of rows before the position `begin` of a
    /// page. If `begin` is `None`, the page begins at the first row. `rows` is the number of rows of the
    /// page.
    pub(super) async fn estimate(&self, begin: Option<&Position>, rows: usize) -> Result<RowCount> {
        let total = self.rows(None, Travel::Forward).await?;
        let before = match begin {
            Some(position) => self.rows(Some(position), Travel::Backward).await?,
            None => Figures::default(),
        };
        // The error covers two kinds of rows: records that do not fit the view, which are not counted, and
        // stale entries, which are counted.
        let least = u64::from(self.plan.sort_order.is_verified && total.rows > 0);
        Ok(RowCount {
            total_size: total.rows.max(rows as u64),
            total_size_error: total.rows_error().max(least) + self.plan.sort_order.lacks.too_large,
            total_size_is_minimum: false,
            offset: Some(before.rows.min(total.rows.saturating_sub(rows as u64))),
            offset_error: Some(before.rows_error().max(least.min(before.rows))),
        })
    }

    /// Returns the position at which a share of the rows ends, or `None` if there are no rows.
    pub(super) async fn position(&self, share: Share) -> Result<Option<Position>> {
        let each = self.of_each(None, Travel::Forward).await?;
        let total = sum(&each);
        let rank = share.of(total.rows).min(total.rows.saturating_sub(1));
        self.position_in(rank, &each, total).await
    }

    /// Returns the position of the row that has `rank` rows before it, or `None` if there are too few
    /// rows.
    pub(super) async fn position_at(&self, rank: u64) -> Result<Option<Position>> {
        let each = self.of_each(None, Travel::Forward).await?;
        let total = sum(&each);
        if rank >= total.rows {
            return Ok(None);
        }
        self.position_in(rank, &each, total).await
    }

    async fn position_in(&self, rank: u64, each: &[Figures], total: Figures) -> Result<Option<Position>> {
        if self.plan.shape == Shape::Empty {
            return Ok(None);
        }
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

    /// Returns the number of rows beyond the position `edge` in a direction, over all sources of the plan.
    async fn rows(&self, edge: Option<&Position>, travel: Travel) -> Result<Figures> {
        Ok(sum(&self.of_each(edge, travel).await?))
    }

    /// Returns the number of rows beyond the position `edge` in a direction, for each source of the plan.
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
}

/// Returns how well the number of rows of a plan is known without reading the rows. Returns `None` if it
/// is not known.
pub(crate) fn known_row_count(store: &dyn Store, plan: &Plan) -> Option<KnownRowCount> {
    let table = &plan.sort_order.table;
    let is_attached = AttachedTable::keyspace_of(table.name()).is_some();
    if plan.shape == Shape::Empty {
        return Some(KnownRowCount::Exact);
    }
    if !plan.is_served_by_one_view() {
        return None;
    }
    if store.limits().counts_rows && !is_attached {
        return Some(KnownRowCount::Exact);
    }
    table.options().buckets.map(|_| KnownRowCount::Estimate)
}

/// Returns an error if the number of rows of a plan is not known well enough for a purpose.
pub(super) fn check(store: &dyn Store, plan: &Plan, purpose: Purpose) -> Result<()> {
    let is_exact = purpose.is_exact();
    match known_row_count(store, plan) {
        Some(known) if !is_exact || known == KnownRowCount::Exact => Ok(()),
        _ => Err(unknown_row_count(plan, purpose)),
    }
}

#[cold]
fn unknown_row_count(plan: &Plan, purpose: Purpose) -> Error {
    let reason = if !plan.views.is_empty() {
        "the query intersects views".to_owned()
    } else if !plan.filter_scan.is_empty() {
        "the query is a filter scan".to_owned()
    } else if purpose.is_exact() {
        "only an embedded store counts rows exactly".to_owned()
    } else {
        format!("{} has no buckets", plan.sort_order.title())
    };
    let message = format!("{}, because {reason}", purpose.refusal());
    Error::new(ErrorKind::InvalidQuery, message).with_hint(purpose.hint(plan))
}

/// Purpose for which a number of rows is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    ExactCount,
    Estimate,
    /// Find the position at which a share of the rows ends.
    Share,
    /// Find the position of the row with a given rank.
    Skip,
}

impl Purpose {
    fn is_exact(self) -> bool {
        matches!(self, Self::ExactCount | Self::Skip)
    }

    fn refusal(self) -> &'static str {
        match self {
            Self::ExactCount => "Recto cannot count the rows exactly",
            Self::Estimate => "Recto cannot estimate the number of rows",
            Self::Share => "Recto cannot find the row at a percentage",
            Self::Skip => "Recto cannot skip a number of rows",
        }
    }

    fn hint(self, plan: &Plan) -> String {
        match self {
            Self::ExactCount if plan.is_served_by_one_view() => format!(
                "ask for count=up_to:{MAX_COUNT_UP_TO}, or for count=estimate of a view with `bucket`"
            ),
            Self::ExactCount => {
                format!("ask for count=up_to:{MAX_COUNT_UP_TO}, or declare a view that serves all conditions")
            }
            Self::Estimate => format!(
                "ask for count=up_to:{MAX_COUNT_UP_TO}, or declare a view with `bucket` that serves all conditions"
            ),
            Self::Share | Self::Skip => {
                "continue with page tokens, or start at a row or a value with around or from".to_owned()
            }
        }
    }
}

fn sum(each: &[Figures]) -> Figures {
    each.iter().fold(Figures::default(), |all, one| all.plus(*one))
}
