//! Views that are walked side by side: the records that are in all of them.
//!
//! Each view's rows stand in the query's order. Where they have the fields of all conditions, one view is read and the others say where
//! it is worth while ([`sparsest`]). Else whichever view is furthest says where the next record can be at the
//! earliest: all others seek there (a leapfrog join, or zigzag merge join; docs/design/intersect.md). What is read are chunks, of all views that need one
//! side by side, so that a seek that stays within what was read costs nothing.

use std::cmp::Ordering;

use futures::future::try_join_all;
use recto_api::pages::Stop;
use recto_model::{RowRef, RowSet};
use recto_plan::plan::{MAX_INTERSECTED, Plan};
use recto_plan::{Position, Side, Travel};
use recto_store::{ReadOptions, RowsRead};

use super::budget::Meter;
use super::keeper::Keeper;
use super::merge::MIN_SOURCE_BYTES;
use super::reader::{Reader, Run};
use super::rest::Rest;
use super::sparsest;
use crate::error::Result;

/// The most rows of a view that are read at a time, where that is no round trip or all views are walked.
pub(super) const MAX_CHUNK_ROWS: u32 = 256;
/// How many rows of each view are read at first: enough to see which has the fewest.
pub(super) const FIRST_CHUNK_ROWS: u32 = 16;
/// The fewest, where most of those that were read are skipped.
const MIN_CHUNK_ROWS: u32 = 2;
/// The same of a remote store, where each time is a round trip.
pub(crate) const MIN_REMOTE_CHUNK_ROWS: u32 = 32;

/// The most rows of all views that are walked, of a remote store, that are asked for at first so that it is asked once.
const MAX_FIRST_ROWS: u64 = 640;

/// What part of the page's budget one stage may read.
const STAGE_SHARE: u64 = 4;

/// A view that is walked: rows read and not yet passed.
pub(super) struct Walk {
    source: usize,
    pub(super) rows: RowSet,
    next: usize,
    /// Whether nothing lies beyond the rows that were read.
    pub(super) exhausted: bool,
    /// How many rows are asked for next.
    pub(super) chunk: u32,
    /// How many of the rows that were read last were looked at, and not skipped.
    seen: u32,
}

impl Walk {
    pub(super) fn head(&self) -> Option<(usize, RowRef<'_>)> {
        self.row(self.next)
    }

    pub(super) fn last(&self) -> Option<(usize, RowRef<'_>)> {
        self.row(self.rows.len().checked_sub(1)?)
    }

    pub(super) fn row(&self, index: usize) -> Option<(usize, RowRef<'_>)> {
        (index < self.rows.len()).then(|| (self.source, self.rows.row(index)))
    }

    fn needs_rows(&self) -> bool {
        self.next == self.rows.len() && !self.exhausted
    }

    pub(super) fn pass(&mut self, rows: usize) {
        self.seen += 1;
        self.next += rows;
    }

    /// Asks for more at a time where most rows are looked at, for fewer where most are skipped.
    fn adapt(&mut self, least: u32) {
        let read = self.rows.len() as u32;
        if read == 0 {
            return;
        }
        if self.seen * 2 >= read {
            self.chunk = self.chunk.saturating_mul(2).min(MAX_CHUNK_ROWS);
        } else if self.seen * 4 < read {
            self.chunk = (self.seen * 2).max(least);
        }
    }

    /// Reads on from elsewhere, and not behind what was read.
    pub(super) fn forget(&mut self) {
        self.rows.truncate(0);
        self.next = 0;
        self.exhausted = false;
    }

    fn take(&mut self, read: RowsRead) {
        self.rows = read.rows;
        self.next = 0;
        self.exhausted = read.exhausted;
        self.seen = 0;
    }
}

/// The first `want` records that are in all views.
pub(super) async fn read(
    reader: &Reader<'_>,
    edge: Option<&Position>,
    want: u32,
    meter: &mut Meter,
) -> Result<Run> {
    if sparsest::serves(reader.plan) {
        return sparsest::read(reader, edge, want, meter).await;
    }
    let mut keeper = Keeper::new(reader, want);
    let mut walks = begin(reader, want);
    loop {
        meter.take_turns().await;
        match step(reader, &mut walks) {
            Step::Ended => return keeper.finish(meter).await,
            Step::Found => {
                if let Some((_, row)) = walks[0].head()
                    && let Some(pause) = keeper.offer(row, meter)?
                    && let Some(run) = keeper.pause(pause, meter).await?
                {
                    return Ok(run);
                }
                for walk in &mut walks {
                    walk.pass(1);
                }
            }
            Step::Dry(decided) => {
                // Of each view a row is read at least, so that the page gets on.
                let is_spent = decided.is_some() && meter.read_left() == 0;
                let from = decided.as_ref().or(edge);
                for walk in walks.iter_mut().filter(|walk| walk.needs_rows()) {
                    walk.adapt(least_rows(reader.remote));
                }
                if !is_spent && fill(reader, &mut walks, from, meter).await? {
                    continue;
                }
                if let Some(decided) = decided {
                    keeper.decide_to(decided);
                }
                return if is_spent {
                    keeper.stopped(Stop::Scanned, meter).await
                } else {
                    keeper.timed_out()
                };
            }
        }
    }
}

pub(super) fn begin(reader: &Reader<'_>, want: u32) -> Vec<Walk> {
    let walk = |source| Walk {
        source,
        rows: no_rows(reader, source),
        next: 0,
        exhausted: false,
        chunk: first_chunk_rows(reader.plan, source, want, reader.remote),
        seen: 0,
    };
    (0..reader.plan.sources.len()).map(walk).collect()
}

fn no_rows(reader: &Reader<'_>, source: usize) -> RowSet {
    RowSet::new(reader.plan.views[source].sort_order.table.columns().len())
}

/// How many rows of each view are read at first, if so many records are wanted and so many rows may be looked at.
pub(crate) fn first_chunks(plan: &Plan, want: u32, remote: bool, scan_budget: u64) -> Vec<u32> {
    let sources = 0..plan.sources.len();
    let asked: Vec<u32> = sources
        .map(|source| first_chunk_rows(plan, source, want, remote))
        .collect();
    let most = most_of_each(scan_budget / STAGE_SHARE, asked.iter().copied());
    asked.into_iter().map(|rows| rows.min(most)).collect()
}

/// How many rows of one of several views are read at first, if so many records are wanted. Of a remote store a stage costs as much as some
/// hundred rows: so, where all are walked, as many as have them where each view has half of the rows of each other one, if those are few enough.
fn first_chunk_rows(plan: &Plan, source: usize, want: u32, remote: bool) -> u32 {
    if !remote {
        return FIRST_CHUNK_ROWS;
    }
    if sparsest::serves(plan) {
        return sparsest::look_rows(want, plan.views.len(), source == 0, remote);
    }
    let views = plan.views.len().clamp(1, MAX_INTERSECTED);
    let likely = want << (views - 1);
    let is_little = u64::from(likely) * views as u64 <= MAX_FIRST_ROWS;
    let rows = if is_little { likely } else { want };
    rows.clamp(MIN_REMOTE_CHUNK_ROWS, MAX_CHUNK_ROWS)
}

fn least_rows(remote: bool) -> u32 {
    if remote {
        MIN_REMOTE_CHUNK_ROWS
    } else {
        MIN_CHUNK_ROWS
    }
}

/// How many rows each view may be asked for at once, if they are to be asked for so many each and may be asked for so many in all: evenly,
/// unless that is enough for all.
fn most_of_each(rows: u64, asked: impl ExactSizeIterator<Item = u32>) -> u32 {
    let count = asked.len().max(1) as u64;
    if asked.map(u64::from).sum::<u64>() <= rows {
        return u32::MAX;
    }
    u32::try_from(rows / count).unwrap_or(u32::MAX).max(1)
}

/// Reads on in the views of which nothing is left, all side by side, from where the next record can be; false if the time is
/// over.
pub(super) async fn fill(
    reader: &Reader<'_>,
    walks: &mut [Walk],
    from: Option<&Position>,
    meter: &mut Meter,
) -> Result<bool> {
    let Some(reads) = chunks(reader, walks, from, meter).await? else {
        return Ok(false);
    };
    let mut round_trips = 0;
    for (source, read) in reads {
        meter.count_read(source, &read);
        meter.count_seek();
        round_trips = round_trips.max(read.round_trips);
        if let Some(walk) = walks.iter_mut().find(|walk| walk.source == source) {
            walk.take(read);
        }
    }
    meter.count_round_trips(round_trips);
    Ok(true)
}

/// The next rows of each view that lacks some; `None` if the time is over.
async fn chunks(
    reader: &Reader<'_>,
    walks: &mut [Walk],
    from: Option<&Position>,
    meter: &Meter,
) -> Result<Option<Vec<(usize, RowsRead)>>> {
    let Some(options) = meter.read_options() else {
        return Ok(None);
    };
    let max_bytes = (options.max_bytes / walks.len() as u64).max(MIN_SOURCE_BYTES);
    let options = ReadOptions { max_bytes, ..options };
    let rows = (meter.budget().scanned / STAGE_SHARE).min(meter.read_left());
    let most = most_of_each(rows, walks.iter().map(|walk| walk.chunk));
    let mut reads: Vec<(usize, RowsRead)> = Vec::with_capacity(walks.len());
    let mut waiting = Vec::new();
    for walk in walks.iter_mut().filter(|walk| walk.needs_rows()) {
        let (source, limit) = (walk.source, walk.chunk.min(most));
        let Some(mut rest) = reader.rest(source, from, limit) else {
            walk.take(nothing_left(no_rows(reader, source)));
            continue;
        };
        match rest.next_now(reader, &options).transpose()? {
            Some(read) if read.exhausted || !read.rows.is_empty() => reads.push((source, read)),
            _ => waiting.push(first_rows(reader, source, rest, limit, max_bytes, meter)),
        }
    }
    if !waiting.is_empty() {
        let waited = try_join_all(waiting).await?;
        let waited: Option<Vec<_>> = waited
            .into_iter()
            .map(|(source, read)| Some((source, read?)))
            .collect();
        match waited {
            Some(waited) => reads.extend(waited),
            None => return Ok(None),
        }
    }
    Ok(Some(reads))
}

async fn first_rows(
    reader: &Reader<'_>,
    source: usize,
    mut rest: Rest,
    limit: u32,
    max_bytes: u64,
    meter: &Meter,
) -> Result<(usize, Option<RowsRead>)> {
    let read = rest.first_rows(reader, limit, max_bytes, meter).await?;
    Ok((source, read))
}

fn nothing_left(rows: RowSet) -> RowsRead {
    RowsRead {
        rows,
        exhausted: true,
        ..RowsRead::default()
    }
}

/// What becomes of the rows that the views stand at.
enum Step {
    /// A view has ended: no more record is in all of them.
    Ended,
    /// All stand at one record.
    Found,
    /// Views lack rows. Before this position all is decided; none: nothing was read yet.
    Dry(Option<Position>),
}

/// Passes rows until all views stand at one record, or one has none left.
fn step(reader: &Reader<'_>, walks: &mut [Walk]) -> Step {
    loop {
        for walk in &mut *walks {
            skip_others(reader, walk);
        }
        if walks.iter().any(|walk| walk.head().is_none()) {
            return dry(reader, walks);
        }
        let furthest = (1..walks.len()).fold(0, |furthest, index| {
            if compare_heads(reader, &walks[index], &walks[furthest]).is_gt() {
                index
            } else {
                furthest
            }
        });
        let mut is_found = true;
        for index in (0..walks.len()).filter(|index| *index != furthest) {
            let rows = rows_before(reader, &walks[index], &walks[furthest]);
            if rows > 0 {
                walks[index].pass(rows);
                is_found = false;
            }
        }
        if is_found {
            return Step::Found;
        }
    }
}

/// What to do where a view has no row left of those that were read: if nothing of it has ended, all seek the furthest
/// place that any is at.
fn dry(reader: &Reader<'_>, walks: &[Walk]) -> Step {
    if walks.iter().any(|walk| walk.head().is_none() && walk.exhausted) {
        return Step::Ended;
    }
    let places = walks.iter().filter_map(|walk| place(reader, walk));
    let furthest = places.reduce(|one, other| {
        let ordering = reader.plan.compare_positions(&one, &other);
        let is_further = match reader.travel {
            Travel::Forward => ordering.is_lt(),
            Travel::Backward => ordering.is_gt(),
        };
        if is_further { other } else { one }
    });
    Step::Dry(furthest)
}

/// Where the next record can be at the earliest, by what was read of a view; none if nothing was.
fn place(reader: &Reader<'_>, walk: &Walk) -> Option<Position> {
    if let Some((source, row)) = walk.head() {
        let before = match reader.travel {
            Travel::Forward => Side::Before,
            Travel::Backward => Side::After,
        };
        return Some(reader.plan.position_in(source, row, before));
    }
    let (source, row) = walk.last()?;
    Some(reader.plan.position_beyond(source, row, reader.travel))
}

/// Passes rows of which the view itself says that they are none of the query's.
fn skip_others(reader: &Reader<'_>, walk: &mut Walk) {
    let view = &reader.plan.views[walk.source];
    while walk.head().is_some_and(|(_, row)| !view.accepts(row)) {
        walk.pass(1);
    }
}

/// How many rows of a view stand before the row that another stands at: found by steps that grow, then by halves.
fn rows_before(reader: &Reader<'_>, walk: &Walk, ahead: &Walk) -> usize {
    let Some(ahead) = ahead.head() else {
        return 0;
    };
    let left = walk.rows.len() - walk.next;
    let is_before = |index: usize| {
        let row = (walk.source, walk.rows.row(walk.next + index));
        towards(reader, row, ahead).is_lt()
    };
    if left == 0 || !is_before(0) {
        return 0;
    }
    let mut step = 1;
    while step < left && is_before(step) {
        step *= 2;
    }
    let (mut low, mut high) = (step / 2 + 1, step.min(left));
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// How the rows that two views stand at compare, in the direction of travel.
fn compare_heads(reader: &Reader<'_>, one: &Walk, other: &Walk) -> Ordering {
    match (one.head(), other.head()) {
        (Some(one), Some(other)) => towards(reader, one, other),
        _ => Ordering::Equal,
    }
}

/// How rows of two views compare in the direction of travel.
pub(super) fn towards(reader: &Reader<'_>, one: (usize, RowRef<'_>), other: (usize, RowRef<'_>)) -> Ordering {
    let ordering = reader.plan.compare_in(one, other);
    match reader.travel {
        Travel::Forward => ordering,
        Travel::Backward => ordering.reverse(),
    }
}
