//! Intersection of views whose rows show by themselves whether their record is in all views. Only
//! one view is read at a time: the view that has the fewest rows at the current position (the
//! sparsest view).
//!
//! The sparsest view differs from position to position. To find it, the reader reads a chunk of
//! each view from the current position. If all chunks have the same number of rows, the rows of the
//! sparsest view reach furthest. A page reads about as many rows as the sparsest view has in the
//! range of the page.

use recto_api::pages::Stop;
use recto_model::{RowRef, RowSet};
use recto_plan::Position;
use recto_plan::filter_scan::ScanCondition;
use recto_plan::plan::{Intersected, MAX_INTERSECTED, Plan};

use super::budget::Meter;
use super::intersect::{FIRST_CHUNK_ROWS, MAX_CHUNK_ROWS, MIN_REMOTE_CHUNK_ROWS, Walk, begin, fill, towards};
use super::keeper::{Keeper, Pause};
use super::reader::{Reader, Run};
use crate::error::Result;

/// Minimum number of rows that are read from the sparsest view (the view with the fewest rows)
/// before the views are compared again. The number doubles each time the same view stays the
/// sparsest, so that comparisons are a small part of the work.
const MIN_ROWS_BEFORE_LOOK: u32 = 1_024;
const MAX_ROWS_BEFORE_LOOK: u32 = 65_536;
/// Maximum number of rows of one read of a view, if each read is a round trip.
const MAX_REMOTE_CHUNK_ROWS: u32 = 1_024;

/// Returns whether this module can execute a plan. Each view of the plan must have all columns of
/// the first view, and all fields of the conditions that only the other views guarantee. A row of
/// any view can then be checked and shown without the other views.
pub(super) fn serves(plan: &Plan) -> bool {
    plan.views.iter().all(|view| view.as_first.is_some())
}

/// Returns the number of rows to read from a view in order to compare the density of `views` views.
/// `want` is the number of records to find. If each read is a round trip, the view that is likely
/// the sparsest (`is_likely`) is read with more rows. They suffice for `want` records if each other
/// view contains half of its rows. An eighth is added, because this estimate is seldom exact.
/// Usually no other read is needed.
pub(super) fn look_rows(want: u32, views: usize, is_likely: bool, remote: bool) -> u32 {
    if !remote {
        return FIRST_CHUNK_ROWS;
    }
    if !is_likely {
        return MIN_REMOTE_CHUNK_ROWS;
    }
    let rows = want.saturating_mul(1 << (views.clamp(1, MAX_INTERSECTED) - 1));
    rows.saturating_add(rows / 8)
        .clamp(MIN_REMOTE_CHUNK_ROWS, MAX_REMOTE_CHUNK_ROWS)
}

/// Converts a row of a view to the form of a row of the plan's first view.
fn as_first(view: &Intersected, row: RowRef<'_>) -> RowSet {
    let columns = view.as_first.as_deref().unwrap_or_default();
    let mut first = RowSet::new(columns.len());
    for column in columns {
        first.push_cell(row.get(*column));
    }
    first
}

/// Traversal of an intersection of views that reads only the sparsest view: the view with the
/// fewest rows.
struct Way<'r> {
    reader: &'r Reader<'r>,
    walks: Vec<Walk>,
    /// Index of the view whose rows are checked; `None` before the first read.
    judged_view: Option<usize>,
    /// Index of the view that is read: the view with the fewest rows at the current position.
    sparsest: Option<usize>,
    /// Position before which the page has found all its rows. `None`: the beginning of the page.
    place: Option<Position>,
    /// Number of rows of the sparsest view that were read since the last comparison of the views.
    /// When it reaches `look_after`, the views are compared again.
    rows: u32,
    look_after: u32,
    /// Number of rows that were checked. After a switch to a sparser view, it is converted to rows
    /// of that view. `found` is the number of records that the checked rows added to the page.
    judged: u32,
    found: u32,
}

/// Reads the first `want` records beyond the position `edge` that are in all views.
pub(super) async fn read(
    reader: &Reader<'_>,
    edge: Option<&Position>,
    want: u32,
    meter: &mut Meter,
) -> Result<Run> {
    let mut keeper = Keeper::new(reader, want);
    let mut way = Way {
        reader,
        walks: begin(reader, want),
        judged_view: None,
        sparsest: None,
        place: None,
        rows: 0,
        look_after: MIN_ROWS_BEFORE_LOOK,
        judged: 0,
        found: 0,
    };
    loop {
        meter.take_turns().await;
        // Stop at the budget only after the page has decided on some rows, so that every
        // page makes progress.
        let is_spent = way.place.is_some() && meter.read_left() == 0;
        if is_spent || !way.fill(edge, keeper.missing(), meter).await? {
            if let Some(place) = way.place.take() {
                keeper.decide_to(place);
            }
            return if is_spent {
                keeper.stopped(Stop::Scanned, meter).await
            } else {
                keeper.timed_out()
            };
        }
        while let Some(pause) = way.offer(&mut keeper, meter)? {
            if let Some(run) = keeper.pause(pause, meter).await? {
                return Ok(run);
            }
        }
        if way.is_over() {
            return keeper.finish(meter).await;
        }
    }
}

impl Way<'_> {
    /// Reads more rows of the sparsest view (the view with the fewest rows), or rows of every view
    /// to find the sparsest view again. `missing` is the number of records that the page still lacks.
    /// Returns false if the time of the page is over.
    async fn fill(&mut self, edge: Option<&Position>, missing: u32, meter: &mut Meter) -> Result<bool> {
        if let Some(source) = self.sparsest.filter(|_| self.rows < self.look_after) {
            self.turn_to(source);
            self.walks[source].chunk = self.chunk(missing);
            let from = self.place.as_ref().or(edge);
            let walk = &mut self.walks[source..=source];
            let is_filled = fill(self.reader, walk, from, meter).await?;
            self.rows += walk[0].rows.len() as u32;
            return Ok(is_filled);
        }
        let from = self.place.as_ref().or(edge);
        let (views, likely) = (self.walks.len(), self.sparsest.unwrap_or(0));
        for (source, walk) in self.walks.iter_mut().enumerate() {
            walk.chunk = look_rows(missing, views, source == likely, self.reader.remote);
            walk.forget();
        }
        if !fill(self.reader, &mut self.walks, from, meter).await? {
            return Ok(false);
        }
        // Check the rows of the view whose rows reach furthest, even if another view has fewer rows
        // after them.
        self.judged_view = Some(self.furthest(Walk::last));
        let of_each = self.walks.iter().map(|walk| walk.rows.len());
        let rows = of_each.min().unwrap_or(0);
        let sparsest = self.furthest(|walk| walk.row(rows.checked_sub(1)?));
        self.look_after = match self.sparsest {
            Some(before) if before == sparsest => (self.look_after * 2).min(MAX_ROWS_BEFORE_LOOK),
            _ => MIN_ROWS_BEFORE_LOOK,
        };
        (self.sparsest, self.rows) = (Some(sparsest), 0);
        Ok(true)
    }

    /// Makes the view `source`, which is sparser, the view whose rows are checked. Scales the
    /// number of checked rows by the ratio of the numbers of rows that both views have in the same
    /// range.
    fn turn_to(&mut self, source: usize) {
        let Some(before) = self
            .judged_view
            .replace(source)
            .filter(|before| *before != source)
        else {
            return;
        };
        if let Some(last) = self.walks[source].last() {
            let rows = self.walks[before].rows.iter();
            let as_far = rows.take_while(|row| towards(self.reader, (before, *row), last).is_le());
            let as_far = as_far.count().max(1) as u64;
            let judged = u64::from(self.judged) * self.walks[source].rows.len() as u64 / as_far;
            self.judged = u32::try_from(judged).unwrap_or(u32::MAX).max(self.found);
        }
        self.walks[source].forget();
    }

    /// Returns the index of the view whose row, as chosen by `row`, is furthest in the direction of
    /// travel. A view that was read to its end is further than any other. Among several such views,
    /// the view with the fewest rows is furthest.
    fn furthest(&self, row: impl Fn(&Walk) -> Option<(usize, RowRef<'_>)>) -> usize {
        let further = |one: &Walk, other: &Walk| match (one.exhausted, other.exhausted) {
            (true, true) => one.rows.len() < other.rows.len(),
            (false, false) => match (row(one), row(other)) {
                (Some(one), Some(other)) => towards(self.reader, one, other).is_gt(),
                _ => false,
            },
            (is_whole, _) => is_whole,
        };
        (1..self.walks.len()).fold(0, |best, index| {
            if further(&self.walks[index], &self.walks[best]) {
                index
            } else {
                best
            }
        })
    }

    /// Checks the rows that were read, one after the other, and keeps the rows whose record is in
    /// all views. Returns the reason if reading must pause.
    fn offer(&mut self, keeper: &mut Keeper<'_>, meter: &mut Meter) -> Result<Option<Pause>> {
        let Some(source) = self.judged_view else {
            return Ok(None);
        };
        let view = &self.reader.plan.views[source];
        let walk = &mut self.walks[source];
        while let Some((_, row)) = walk.head() {
            let matches = |one: &ScanCondition| one.matches(&view.sort_order, row);
            let is_in_all = view.accepts(row) && view.unserved.iter().all(matches);
            let missing = keeper.missing();
            let pause = match is_in_all {
                true if source == 0 => keeper.offer(row, meter)?,
                true => keeper.offer(as_first(view, row).row(0), meter)?,
                false => None,
            };
            if matches!(pause, Some(Pause::Stop(_))) {
                return Ok(pause);
            }
            self.judged += 1;
            self.found += missing.saturating_sub(keeper.missing());
            walk.pass(1);
            if pause.is_some() {
                return Ok(pause);
            }
        }
        if let Some((source, row)) = walk.last() {
            self.place = Some(self.reader.plan.position_beyond(source, row, self.reader.travel));
        }
        Ok(None)
    }

    /// Estimates how many rows of the sparsest view must be read to find the `missing` records of
    /// the page.
    fn chunk(&self, missing: u32) -> u32 {
        let likely = u64::from(missing) * u64::from(self.judged) / u64::from(self.found.max(1));
        let likely = u32::try_from(likely).unwrap_or(u32::MAX);
        // On a remote store, a further read is a round trip, and the estimate is seldom exact, so
        // read half as many rows more.
        let (likely, most) = if self.reader.remote {
            (likely.saturating_add(likely / 2), MAX_REMOTE_CHUNK_ROWS)
        } else {
            (likely, MAX_CHUNK_ROWS)
        };
        likely.clamp(look_rows(missing, 1, true, self.reader.remote), most)
    }

    /// Returns whether the view whose rows are checked has no further rows.
    fn is_over(&self) -> bool {
        self.judged_view
            .is_some_and(|source| self.walks[source].exhausted)
    }
}
