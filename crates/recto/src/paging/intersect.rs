//! Intersection of views: the records that are in all of them.
//!
//! The rows of each view are in the query's order. Two methods exist:
//!
//! - If the rows contain the fields of all conditions, only one view is read, the view with the
//!   fewest rows. Other views are read to find this view ([`sparsest`]).
//! - Otherwise, the view whose current row is furthest determines the earliest position of the next
//!   record. All other views seek to this position. The method is a leapfrog join, or zigzag merge
//!   join (docs/design/intersect.md).
//!
//! Views are read in chunks. All views that need rows are read concurrently. A seek within the rows
//! that were already read costs nothing.

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

/// Maximum number of rows of one read of a view, unless each read is a round trip and only one view
/// is read.
pub(super) const MAX_CHUNK_ROWS: u32 = 256;
/// Number of rows of the first read of each view of an intersection. They suffice to see which view
/// has the fewest rows.
pub(super) const FIRST_CHUNK_ROWS: u32 = 16;
/// Minimum number of rows of one read. Reads become this small if most rows of earlier reads were
/// skipped.
const MIN_CHUNK_ROWS: u32 = 2;
/// Minimum number of rows of one read of a remote store, where each read is a round trip.
pub(crate) const MIN_REMOTE_CHUNK_ROWS: u32 = 32;

/// Maximum number of rows that the first reads of all views together may have when they are
/// enlarged. Larger first reads avoid a second round trip to a remote store.
const MAX_FIRST_ROWS: u64 = 640;

/// Divisor of the page's row budget. Concurrent reads of all views together read at most this
/// fraction of it.
const STAGE_SHARE: u64 = 4;

/// Cursor in one of the intersected views, with the rows that were read and not yet passed.
pub(super) struct Walk {
    source: usize,
    pub(super) rows: RowSet,
    next: usize,
    /// True if the view has no rows beyond `rows`.
    pub(super) exhausted: bool,
    /// Maximum number of rows of the next read of the view.
    pub(super) chunk: u32,
    /// Number of rows of the last read that were checked and not skipped.
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

    /// Adapts the size of the next read. Enlarges it if most rows of the last read were checked.
    /// Reduces it if most rows were skipped, but not below `least` rows.
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

    /// Discards the rows that were read, because reading continues at another position.
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

/// Reads the first `want` records beyond the position `edge` that are in all views.
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
                // Stop at the budget only after the page has decided on some rows, so that every
                // page makes progress.
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

/// Returns the number of rows of the first read of each view. `want` is the number of records to
/// find, and `scan_budget` the number of rows that may be checked.
pub(crate) fn first_chunks(plan: &Plan, want: u32, remote: bool, scan_budget: u64) -> Vec<u32> {
    let sources = 0..plan.sources.len();
    let asked: Vec<u32> = sources
        .map(|source| first_chunk_rows(plan, source, want, remote))
        .collect();
    let most = most_of_each(scan_budget / STAGE_SHARE, asked.iter().copied());
    asked.into_iter().map(|rows| rows.min(most)).collect()
}

/// Returns the number of rows that the first read of one view requests. `want` is the number of
/// records to find. On a remote store, one more round of reads costs as much as some hundred rows, so
/// the first read should find all `want` records. The number is chosen for this, up to a maximum, on
/// the assumption that each view contains half of the rows of each other view.
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

/// Returns the maximum number of rows to read of each view in one round of concurrent reads. The
/// views request `asked` rows each, and the round may read `rows` rows in total. The maximum is an
/// even share, or unlimited if all requests fit.
fn most_of_each(rows: u64, asked: impl ExactSizeIterator<Item = u32>) -> u32 {
    let count = asked.len().max(1) as u64;
    if asked.map(u64::from).sum::<u64>() <= rows {
        return u32::MAX;
    }
    u32::try_from(rows / count).unwrap_or(u32::MAX).max(1)
}

/// Reads more rows of all views whose read rows are all passed, concurrently. The reads start at
/// `from`, the earliest position of the next record. Returns false if the time of the page is over.
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

/// Reads the next rows of each view whose read rows are all passed. Returns them with the index of
/// the view; `None` if the time of the page is over.
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

/// Result of comparing the current rows of the intersected views.
enum Step {
    /// A view has no rows left, so no further record is in all views.
    Ended,
    /// The current rows of all views belong to the same record.
    Found,
    /// Some views need more rows. No unread record is before the contained position. `None`:
    /// nothing was read yet.
    Dry(Option<Position>),
}

/// Skips rows until the current rows of all views belong to the same record, or a view has no rows
/// left.
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

/// Returns the next step if all read rows of a view are passed. If this view has no more rows, the
/// intersection ends. Otherwise, all views seek to the furthest position that any view has reached.
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

/// Returns the earliest position at which the next record can be, according to the rows of one
/// view. Returns nothing if no row of the view was read.
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

/// Skips rows of a view that do not satisfy the view's own conditions.
fn skip_others(reader: &Reader<'_>, walk: &mut Walk) {
    let view = &reader.plan.views[walk.source];
    while walk.head().is_some_and(|(_, row)| !view.accepts(row)) {
        walk.pass(1);
    }
}

/// Returns the number of rows of `walk` that are before the current row of `ahead`. Uses an
/// exponential search, then a binary search.
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

/// Compares the current rows of two views in the direction of travel.
fn compare_heads(reader: &Reader<'_>, one: &Walk, other: &Walk) -> Ordering {
    match (one.head(), other.head()) {
        (Some(one), Some(other)) => towards(reader, one, other),
        _ => Ordering::Equal,
    }
}

/// Compares rows of two views in the direction of travel.
pub(super) fn towards(reader: &Reader<'_>, one: (usize, RowRef<'_>), other: (usize, RowRef<'_>)) -> Ordering {
    let ordering = reader.plan.compare_in(one, other);
    match reader.travel {
        Travel::Forward => ordering,
        Travel::Backward => ordering.reverse(),
    }
}
