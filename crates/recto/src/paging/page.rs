//! Reading of a page: its rows, whether more rows exist at both ends, and the positions from which
//! to continue.

use std::collections::HashSet;
use std::sync::Arc;

use recto_api::pages::{Count, PageCost, RowCount, Stop};
use recto_model::schema::AttachedTable;
use recto_model::{Cells, Environment, Table};
use recto_plan::{Plan, Position, Side, Travel};
use recto_store::{PartitionWrite, Snapshot, Store};

use super::budget::{AskedBucket, Budget, Meter};
use super::counter;
use super::estimate::{self, Estimator, Purpose};
use super::found::FoundRows;
use super::joined::Joining;
use super::reader::{Reader, Run, Truth, out_of_time};
use crate::error::{ErrorKind, Result};
use crate::present::Presence;

/// Position of a page in its query's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The page has the first rows of the query.
    First,
    /// The page has the last rows of the query.
    Last,
    /// The page has the rows after or before a position, in the direction of travel.
    Beyond(Position, Travel),
    /// The page has rows around a position: half of them before the position, the others from the
    /// position on.
    Around(Position),
    /// The page has rows around the position where a share of the query's rows ends.
    AroundShare(Share),
    /// The page begins after the contained number of rows of the query.
    AtRank(u64),
}

/// Share of all rows of a query, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(pub(crate) u32);

impl Share {
    /// Share that contains all rows: one million millionths.
    pub(crate) const WHOLE: Self = Self(1_000_000);

    /// Returns the number of rows that this share of `rows` rows is.
    pub(super) fn of(self, rows: u64) -> u64 {
        let part = u128::from(rows) * u128::from(self.0) / u128::from(Self::WHOLE.0);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// Specification of a page: its position, size and budget.
#[derive(Debug, Clone)]
pub(crate) struct PageSpec {
    pub(crate) place: Place,
    /// Maximum number of rows of the page, at least 1.
    pub(crate) size: u32,
    pub(crate) budget: Budget,
    /// True if the page must also determine whether rows exist before the position at which the
    /// read starts, in the direction of travel.
    pub(crate) both_edges: bool,
    /// Method of counting the rows of the query. `None`: they are not counted.
    pub(crate) count: Option<Count>,
}

/// Page with the rows as the store returned them, before they are decoded.
#[derive(Debug)]
pub(crate) struct RawPage {
    /// Rows of the page in the query's order.
    pub(crate) rows: FoundRows,
    /// True if rows of the query exist before the page. `None`: unknown.
    pub(crate) before: Option<bool>,
    /// True if rows of the query exist after the page. `None`: unknown.
    pub(crate) after: Option<bool>,
    /// Position of the page's beginning, if no row of the page marks it. Backward reading continues
    /// from it.
    pub(crate) start: Option<Position>,
    /// Position of the page's end, if no row of the page marks it. Forward reading continues from
    /// it.
    pub(crate) end: Option<Position>,
    /// Budget that ended the page early; `None` if no budget did.
    pub(crate) stop: Option<Stop>,
    pub(crate) cost: PageCost,
    /// Buckets from which the page's rows were read.
    pub(crate) buckets: Vec<AskedBucket>,
    /// Number of rows of the query, if requested.
    pub(crate) row_count: Option<Box<RowCount>>,
}

/// Returns whether the rows of a table are read over a network: the store is remote, or the table is attached.
pub(crate) fn is_remote(store: &dyn Store, table: &Table) -> bool {
    store.limits().remote || AttachedTable::keyspace_of(table.name()).is_some()
}

/// Returns the purposes for which a page must count or estimate the rows of its query.
fn purposes(spec: &PageSpec) -> impl Iterator<Item = Purpose> {
    let of_count = match spec.count {
        Some(Count::Exact) => Some(Purpose::ExactCount),
        Some(Count::Estimate) => Some(Purpose::Estimate),
        Some(Count::UpTo(_)) | None => None,
    };
    let of_place = match spec.place {
        Place::AroundShare(_) => Some(Purpose::Share),
        Place::AtRank(_) => Some(Purpose::Skip),
        _ => None,
    };
    of_count.into_iter().chain(of_place)
}

/// Reads a page. Also returns the writes that remove the stale rows (view rows whose record has
/// changed) that the page found.
pub(crate) async fn fetch(
    store: &Arc<dyn Store>,
    environment: &Environment,
    plan: &Plan,
    joining: Option<&Joining>,
    spec: &PageSpec,
) -> Result<(RawPage, Vec<PartitionWrite>)> {
    for purpose in purposes(spec) {
        estimate::check(&**store, plan, purpose)?;
    }
    let snapshot = store.snapshot()?;
    let presence = Presence::of(&plan.sort_order);
    let truth = Truth {
        now_micros: match (presence, joining) {
            (None, None) => 0,
            _ => environment.now_micros(),
        },
        presence,
        joining,
    };
    let fetcher = Fetcher {
        plan,
        snapshot: &snapshot,
        remote: is_remote(&**store, &plan.sort_order.table),
        truth: &truth,
        spec,
    };
    let mut meter = Meter::new(spec.budget, environment.clone());
    let mut page = match &spec.place {
        Place::First => fetcher.one_way(None, Travel::Forward, &mut meter).await?,
        Place::Last => fetcher.one_way(None, Travel::Backward, &mut meter).await?,
        Place::Beyond(position, travel) => fetcher.one_way(Some(position), *travel, &mut meter).await?,
        Place::Around(position) => fetcher.around(position, &mut meter).await?,
        // Boxed, because the future is large, and the future of every page would contain it.
        Place::AroundShare(share) => Box::pin(fetcher.around_share(*share, &mut meter)).await?,
        Place::AtRank(rank) => Box::pin(fetcher.at_rank(*rank, &mut meter)).await?,
    };
    if let Some(count) = spec.count {
        page.row_count = Some(Box::new(Box::pin(fetcher.count(count, &page, &mut meter)).await?));
    }
    page.cost = meter.cost();
    let (buckets, removals) = meter.into_findings();
    page.buckets = buckets;
    Ok((page, removals))
}

struct Fetcher<'a> {
    plan: &'a Plan,
    snapshot: &'a Arc<dyn Snapshot>,
    remote: bool,
    truth: &'a Truth<'a>,
    spec: &'a PageSpec,
}

impl Fetcher<'_> {
    /// Counts the rows of the query of a page.
    async fn count(&self, count: Count, page: &RawPage, meter: &mut Meter) -> Result<RowCount> {
        let rows = page.rows.len();
        match count {
            Count::Exact | Count::Estimate => self.count_all(page, meter).await,
            Count::UpTo(limit) => {
                let counted = self.count_up_to(limit, meter).await?;
                Ok(RowCount {
                    total_size: counted.total_size.max(rows.min(limit as usize) as u64),
                    ..counted
                })
            }
        }
    }

    /// Counts or estimates the rows of the query. A page at an end of the list agrees with the result: no rows are
    /// before the first page, and the last page ends at the total.
    async fn count_all(&self, page: &RawPage, meter: &mut Meter) -> Result<RowCount> {
        let (rows, lacks) = (page.rows.len() as u64, self.plan.sort_order.lacks.too_large);
        let (is_first, is_last) = (page.before == Some(false), page.after == Some(false));
        if is_first && is_last {
            return Ok(RowCount {
                total_size: rows,
                total_size_error: lacks,
                total_size_is_minimum: false,
                offset: Some(0),
                offset_error: Some(0),
            });
        }
        let first = page.rows.rows.iter().next();
        let first = first.map(|row| self.plan.position(row, Side::Before));
        let begin = first
            .or_else(|| page.start.clone())
            .filter(|_| !is_first && !is_last);
        let counted = self
            .estimator(meter)?
            .estimate(begin.as_ref(), rows as usize)
            .await?;
        if !is_last {
            return Ok(counted);
        }
        Ok(RowCount {
            offset: Some(counted.total_size - rows),
            offset_error: Some(counted.total_size_error - lacks),
            ..counted
        })
    }

    /// Counts the rows of the query up to a limit. Reads base rows only if they decide which rows
    /// belong to the query.
    async fn count_up_to(&self, limit: u32, meter: &mut Meter) -> Result<RowCount> {
        let plan = self.plan;
        let base_decides = plan.sort_order.is_verified || !plan.is_served_by_one_view();
        let truth = Truth {
            joining: self.truth.joining.filter(|_| base_decides),
            ..*self.truth
        };
        let reader = Reader {
            truth: &truth,
            ..self.reader(Travel::Forward)
        };
        let budget = counter::budget(&reader, limit, meter.budget());
        let mut following = meter.following(budget, counter::unseen_columns(&reader));
        let counted = counter::count_up_to(&reader, limit, &mut following).await;
        meter.add_following(following);
        counted
    }

    /// Returns the estimator of the number of rows. Its reads have the remaining time of the page.
    fn estimator(&self, meter: &Meter) -> Result<Estimator<'_>> {
        Ok(Estimator {
            plan: self.plan,
            snapshot: self.snapshot,
            options: meter.read_options().ok_or_else(out_of_time)?,
        })
    }

    fn reader(&self, travel: Travel) -> Reader<'_> {
        Reader {
            plan: self.plan,
            snapshot: self.snapshot,
            travel,
            remote: self.remote,
            truth: self.truth,
        }
    }

    async fn one_way(&self, edge: Option<&Position>, travel: Travel, meter: &mut Meter) -> Result<RawPage> {
        let size = self.spec.size as usize;
        let want = self.spec.size + 1;
        let look_behind = edge.filter(|_| self.spec.both_edges);
        let forth = self.reader(travel);
        let (mut run, behind) = match look_behind {
            Some(edge) if self.remote => {
                // Read backwards concurrently with the page, so that both reads
                // take one round trip.
                let mut beside = meter.beside();
                let back = self.reader(reversed(travel));
                let (run, behind) = futures::future::join(
                    forth.read(Some(edge), want, meter),
                    back.read(Some(edge), 1, &mut beside),
                )
                .await;
                meter.add(beside);
                (run?, Some(self.unless_late(behind)?))
            }
            Some(edge) => {
                let run = forth.read(Some(edge), want, meter).await?;
                let behind = self.reader(reversed(travel)).read(Some(edge), 1, meter).await;
                (run, Some(self.unless_late(behind)?))
            }
            None => (forth.read(edge, want, meter).await?, None),
        };
        let ahead = known(&run, run.rows.len() > size);
        run.rows.truncate(size);
        let behind = match (edge, behind) {
            (None, _) => Some(false),
            (Some(_), Some(behind)) => known(&behind, !behind.rows.is_empty()),
            (Some(_), None) => None,
        };
        let beyond = run
            .scanned_to
            .or_else(|| edge.filter(|_| run.rows.is_empty()).cloned());
        let near = edge.filter(|_| run.rows.is_empty()).cloned();
        if travel == Travel::Backward {
            turn_round(&mut run.rows);
        }
        let (before, after, start, end) = match travel {
            Travel::Forward => (behind, ahead, near, beyond),
            Travel::Backward => (ahead, behind, beyond, near),
        };
        Ok(RawPage {
            rows: run.rows,
            before,
            after,
            start,
            end,
            stop: run.stop,
            cost: PageCost::default(),
            buckets: Vec::new(),
            row_count: None,
        })
    }

    /// Reads the page around the position where a share of the rows ends.
    async fn around_share(&self, share: Share, meter: &mut Meter) -> Result<RawPage> {
        // The ends of a list need no estimate.
        match share {
            Share(0) => return self.one_way(None, Travel::Forward, meter).await,
            Share::WHOLE => return self.one_way(None, Travel::Backward, meter).await,
            _ => {}
        }
        match self.estimator(meter)?.position(share).await? {
            Some(position) => self.around(&position, meter).await,
            None => self.one_way(None, Travel::Forward, meter).await,
        }
    }

    /// Reads the page that starts after `rank` rows of the query.
    async fn at_rank(&self, rank: u64, meter: &mut Meter) -> Result<RawPage> {
        if rank == 0 {
            return self.one_way(None, Travel::Forward, meter).await;
        }
        if let Some(position) = self.estimator(meter)?.position_at(rank).await? {
            return self.one_way(Some(&position), Travel::Forward, meter).await;
        }
        // The query has at most `rank` rows, so the page is empty. The page before
        // it is the last page.
        let last = self.reader(Travel::Backward).read(None, 1, meter).await?;
        let end = last
            .rows
            .rows
            .iter()
            .next()
            .map(|row| self.plan.position(row, Side::After));
        self.one_way(end.as_ref(), Travel::Forward, meter).await
    }

    /// Reads the page around a position. Reads a full page on both sides, so that each side can replace rows that the
    /// other side lacks.
    async fn around(&self, position: &Position, meter: &mut Meter) -> Result<RawPage> {
        let size = self.spec.size as usize;
        let want = self.spec.size + 1;
        let position = Position {
            values: position.values.clone(),
            side: Side::Before,
        };
        let mut beside = meter.beside();
        let (forth, back) = (self.reader(Travel::Forward), self.reader(Travel::Backward));
        let (after, before) = futures::future::join(
            forth.read(Some(&position), want, meter),
            back.read(Some(&position), want, &mut beside),
        )
        .await;
        meter.add(beside);
        let (after, mut before) = match (after, before) {
            (Err(error), Err(_)) => return Err(error),
            (after, before) => (self.unless_late(after)?, self.unless_late(before)?),
        };
        let after = self.without_those_of(&before, after);
        let half = size / 2;
        let take_before = before
            .rows
            .len()
            .min(half.max(size.saturating_sub(after.rows.len())));
        let take_after = after.rows.len().min(size - take_before);
        let edge_before = known(&before, before.rows.len() > take_before);
        let edge_after = known(&after, after.rows.len() > take_after);
        let cut_before = take_before == before.rows.len();
        let cut_after = take_after == after.rows.len();
        before.rows.truncate(take_before);
        turn_round(&mut before.rows);
        let mut rows = before.rows;
        rows.extend(&after.rows, 0..take_after);
        let nowhere = rows.is_empty().then_some(position);
        Ok(RawPage {
            start: before
                .scanned_to
                .filter(|_| cut_before)
                .or_else(|| nowhere.clone()),
            end: after.scanned_to.filter(|_| cut_after).or(nowhere),
            stop: before
                .stop
                .filter(|_| cut_before)
                .or(after.stop.filter(|_| cut_after)),
            rows,
            before: edge_before,
            after: edge_after,
            cost: PageCost::default(),
            buckets: Vec::new(),
            row_count: None,
        })
    }

    /// Returns `run`, one of the two reads of a page, without the rows of records that the other
    /// read contains. A record is in both reads if it moved between them.
    fn without_those_of(&self, other: &Run, mut run: Run) -> Run {
        let Some(joining) = self.truth.joining.filter(|joining| joining.may_repeat()) else {
            return run;
        };
        let key = |row| joining.key(row);
        let there: HashSet<Cells> = other.rows.rows.iter().map(key).collect();
        let is_new = |place: &usize| !there.contains(&key(run.rows.rows.row(*place)));
        let places: Vec<usize> = (0..run.rows.len()).filter(is_new).collect();
        if places.len() == run.rows.len() {
            return run;
        }
        let last = run.rows.len() - 1;
        if run.scanned_to.is_none() && places.last() != Some(&last) {
            let forth = self.reader(Travel::Forward);
            run.scanned_to = Some(forth.position_beyond(run.rows.rows.row(last)));
        }
        let mut rows = self.reader(Travel::Forward).no_rows();
        rows.extend(&run.rows, places.into_iter());
        Run { rows, ..run }
    }

    /// Replaces a timeout of one of the two reads of a page by an empty result, because the other
    /// read may be sufficient.
    fn unless_late(&self, run: Result<Run>) -> Result<Run> {
        match run {
            Err(error) if error.kind() == ErrorKind::Timeout => Ok(self.reader(Travel::Forward).late()),
            run => run,
        }
    }
}

fn turn_round(found: &mut FoundRows) {
    found.rows.reverse();
    if let Some(bases) = &mut found.bases {
        bases.reverse();
    }
}

fn reversed(travel: Travel) -> Travel {
    match travel {
        Travel::Forward => Travel::Backward,
        Travel::Backward => Travel::Forward,
    }
}

/// Returns whether rows exist beyond the rows that were taken from `run`, the result of a read;
/// `None` if that is unknown. `seen_more` means that `run` has rows that were not taken.
fn known(run: &Run, seen_more: bool) -> Option<bool> {
    match (seen_more, run.exhausted) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}
