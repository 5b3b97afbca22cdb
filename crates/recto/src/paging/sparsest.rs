//! Views whose rows say themselves whether they are in all others: of those one is read at a time, the one that has the fewest rows
//! where reading is.
//!
//! Which that is differs from place to place, and is found out by reading a chunk of each from there: the one of which as many rows reach furthest has
//! the fewest. So a page reads about as many rows as the sparsest view has on its way, and never those of all.

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

/// How many rows are read of one view before the others are looked at again, at least: twice as many each time it stays the sparsest, so that
/// looking takes a small part of all.
const MIN_ROWS_BEFORE_LOOK: u32 = 1_024;
const MAX_ROWS_BEFORE_LOOK: u32 = 65_536;
/// The most rows of one view that are read at a time where each time is a round trip.
const MAX_REMOTE_CHUNK_ROWS: u32 = 1_024;

/// Whether rows of each view can be judged, and shown, alone.
pub(super) fn serves(plan: &Plan) -> bool {
    plan.views.iter().all(|view| view.as_first.is_some())
}

/// How many rows of a view are read where it is found out which is the sparsest of so many, if so many records are wanted. Where each time is a round trip,
/// of the one that is `likely` to be it as many as have them if each other view has half of its rows, and an eighth for that it is seldom just so many:
/// mostly that is all that is read.
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

/// A row of a view as one of the first view.
fn as_first(view: &Intersected, row: RowRef<'_>) -> RowSet {
    let columns = view.as_first.as_deref().unwrap_or_default();
    let mut first = RowSet::new(columns.len());
    for column in columns {
        first.push_cell(row.get(*column));
    }
    first
}

/// A walk through whichever view is the sparsest.
struct Way<'r> {
    reader: &'r Reader<'r>,
    walks: Vec<Walk>,
    /// The view whose rows are judged.
    judged_view: Option<usize>,
    /// The view that is read.
    sparsest: Option<usize>,
    /// Before it all is decided; none: where the page begins.
    place: Option<Position>,
    /// How many rows of it were read since the others were looked at, and after how many that is done again.
    rows: u32,
    look_after: u32,
    /// How many rows were judged, or would have been in the view that is read, and how many of them the page lacked.
    judged: u32,
    found: u32,
}

/// The first `want` records that are in all views.
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
        // Of each view a row is read at least, so that the page gets on.
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
    /// Reads on in the sparsest view, or in all of them to see which that is, where so many records are missing; false if the time is over.
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
        // What was read reaches as far as it does, whoever has fewer rows beyond it.
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

    /// Judges the rows of another view from now on: of it there are fewer, as those of both say that were read.
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

    /// The view of which these rows go furthest; to its end, the fewest.
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

    /// Judges the rows that were read, one after the other, and keeps those that are in all views. Why that pauses, if it does.
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

    /// How many rows are likely to have as many records as are missing.
    fn chunk(&self, missing: u32) -> u32 {
        let likely = u64::from(missing) * u64::from(self.judged) / u64::from(self.found.max(1));
        let likely = u32::try_from(likely).unwrap_or(u32::MAX);
        // Where one more time is a round trip, half as many again, for that it is seldom just so many.
        let (likely, most) = if self.reader.remote {
            (likely.saturating_add(likely / 2), MAX_REMOTE_CHUNK_ROWS)
        } else {
            (likely, MAX_CHUNK_ROWS)
        };
        likely.clamp(look_rows(missing, 1, true, self.reader.remote), most)
    }

    /// Whether nothing lies beyond what was judged.
    fn is_over(&self) -> bool {
        self.judged_view
            .is_some_and(|source| self.walks[source].exhausted)
    }
}
