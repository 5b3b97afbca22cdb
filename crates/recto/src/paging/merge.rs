//! K-way merge of sorted sources into one order.

use futures::future::try_join_all;
use recto_api::pages::Stop;
use recto_model::{RowRef, RowSet};
use recto_plan::{Position, Travel};
use recto_store::{ReadOptions, RowsRead};

use super::budget::Meter;
use super::keeper::Keeper;
use super::reader::{Reader, Run, out_of_time};
use super::rest::Rest;
use crate::error::{Error, Result};

/// Number of sources after which reading yields to other tasks, if no read had to wait.
const SOURCES_PER_TURN: usize = 16;

/// Number of rows that the first read of a source requests beyond the source's even share of the
/// page.
const SHARE_SLACK_ROWS: u32 = 4;

/// Minimum limit of bytes for one read of a source, even if many sources share the limit of the
/// page.
pub(super) const MIN_SOURCE_BYTES: u64 = 32 << 10;

/// Divisor of the page's row budget. The rows that are read ahead from all sources together take at
/// most this fraction of it.
const AHEAD_SHARE: u64 = 4;

/// Minimum number of rows that are read ahead from a source of a local store at a time.
const MIN_AHEAD_ROWS: u64 = 16;
const MIN_REMOTE_AHEAD_ROWS: u64 = 64;

/// Source (range of a table) of a merge, with the rows that were read and not yet taken.
struct Stream {
    source: usize,
    rest: Rest,
    rows: RowSet,
    next: usize,
    exhausted: bool,
}

impl Stream {
    fn head(&self) -> RowRef<'_> {
        self.rows.row(self.next)
    }
}

/// Reads the first `want` rows beyond the position `edge` in the merged order of all sources
/// (ranges of a table).
pub(super) async fn read(
    reader: &Reader<'_>,
    edge: Option<&Position>,
    want: u32,
    meter: &mut Meter,
) -> Result<Run> {
    let mut keeper = Keeper::new(reader, want);
    let mut streams = open(reader, edge, want, meter).await?;
    // `ready` is sorted, so that `pop` returns the stream whose head comes first in
    // the order of travel.
    let mut ready: Vec<usize> = Vec::with_capacity(streams.len());
    for index in 0..streams.len() {
        insert(reader, &streams, &mut ready, index);
    }
    while let Some(index) = ready.pop() {
        if let Some(pause) = keeper.offer(streams[index].head(), meter)?
            && let Some(run) = keeper.pause(pause, meter).await?
        {
            return Ok(run);
        }
        streams[index].next += 1;
        if streams[index].next == streams[index].rows.len() && !streams[index].exhausted {
            let mut limit = keeper.chunk(meter).min(ahead_rows(reader, meter));
            if reader.rejects() {
                // Rows that are read ahead count against the budget, too, although they
                // are not checked yet.
                limit = limit.min(u32::try_from(meter.read_left()).unwrap_or(u32::MAX));
            }
            if limit == 0 {
                return keeper.stopped(Stop::Scanned, meter).await;
            }
            if !refill(reader, &mut streams[index], limit, meter).await? {
                return keeper.timed_out();
            }
        }
        insert(reader, &streams, &mut ready, index);
    }
    keeper.finish(meter).await
}

/// Returns the number of rows of one read of a source. All sources are read ahead of the page, so
/// the number is the source's share of a fraction of the page's budget.
fn ahead_rows(reader: &Reader<'_>, meter: &Meter) -> u32 {
    let least = if reader.remote {
        MIN_REMOTE_AHEAD_ROWS
    } else {
        MIN_AHEAD_ROWS
    };
    let count = reader.plan.sources.len().max(1) as u64;
    let share = meter.budget().scanned / AHEAD_SHARE / count;
    u32::try_from(share.max(least)).unwrap_or(u32::MAX)
}

/// Inserts the stream (source with its read rows) `index` into the sorted list of ready streams,
/// unless it has no rows left.
fn insert(reader: &Reader<'_>, streams: &[Stream], ready: &mut Vec<usize>, index: usize) {
    let stream = &streams[index];
    if stream.next == stream.rows.len() {
        return;
    }
    let place = ready.partition_point(|other| {
        let ordering = reader.plan.compare_rows(streams[*other].head(), stream.head());
        if reader.travel == Travel::Forward {
            ordering.is_gt()
        } else {
            ordering.is_lt()
        }
    });
    ready.insert(place, index);
}

/// Reads the first rows of every source of the plan concurrently.
async fn open(
    reader: &Reader<'_>,
    edge: Option<&Position>,
    want: u32,
    meter: &mut Meter,
) -> Result<Vec<Stream>> {
    let mut options = meter.read_options().ok_or_else(out_of_time)?;
    let count = reader.plan.sources.len();
    options.max_bytes = (options.max_bytes / count as u64).max(MIN_SOURCE_BYTES);
    let share = want.div_ceil(count as u32) + SHARE_SLACK_ROWS;
    let each = |rows: u64| u32::try_from(rows / count as u64).unwrap_or(u32::MAX);
    let scanned = meter.budget().scanned;
    let limit = match (reader.remote, !reader.rejects()) {
        // On a remote store, a further request is expensive, so request enough rows that one
        // source can fill the page.
        (true, true) => want.min(each(scanned / 2).max(share)),
        (true, false) => want.min(ahead_rows(reader, meter)),
        (false, _) => want.min(share),
    };
    let limit = if reader.rejects() {
        // Read at least one row of each source, so that the page makes progress.
        limit.min(each(scanned).max(1))
    } else {
        limit
    };
    let reads = first_reads(reader, edge, limit, &options, meter).await?;
    let mut streams = Vec::with_capacity(count);
    let mut round_trips = 0;
    for (source, rest, read) in reads {
        meter.count_read(source, &read);
        round_trips = round_trips.max(read.round_trips);
        streams.push(Stream {
            source,
            rest,
            rows: read.rows,
            next: 0,
            exhausted: read.exhausted,
        });
    }
    meter.count_round_trips(round_trips);
    Ok(streams)
}

/// Reads the first rows of every source that can have rows. Returns each read with the index of its
/// source, in the order of the plan.
async fn first_reads(
    reader: &Reader<'_>,
    edge: Option<&Position>,
    limit: u32,
    options: &ReadOptions,
    meter: &Meter,
) -> Result<Vec<(usize, Rest, RowsRead)>> {
    let count = reader.plan.sources.len();
    let mut reads: Vec<(usize, Rest, RowsRead)> = Vec::with_capacity(count);
    let mut waiting = Vec::new();
    for source in 0..count {
        let Some(mut rest) = reader.rest(source, edge, limit) else {
            continue;
        };
        match rest.next_now(reader, options) {
            Some(read) => reads.push((source, rest, read?)),
            None => waiting.push(async move {
                let read = rest.first_rows(reader, limit, options.max_bytes, meter).await?;
                Ok::<_, Error>((source, rest, read.ok_or_else(out_of_time)?))
            }),
        }
        // An embedded store may have blocked on its disk before it returned that the read must
        // wait, so let other tasks run.
        let has_waited = !reader.remote && !waiting.is_empty();
        if has_waited || reads.len() % SOURCES_PER_TURN == SOURCES_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    if !waiting.is_empty() {
        reads.extend(try_join_all(waiting).await?);
        reads.sort_unstable_by_key(|(source, ..)| *source);
    }
    Ok(reads)
}

/// Reads more rows of a source whose read rows were all taken. Returns false if the time of the
/// page is over.
async fn refill(reader: &Reader<'_>, stream: &mut Stream, limit: u32, meter: &mut Meter) -> Result<bool> {
    if let Some(last) = stream.rows.iter().next_back() {
        stream.rest.pass(last);
    }
    meter.take_turns().await;
    let Some(read) = stream.rest.first_rows(reader, limit, u64::MAX, meter).await? else {
        return Ok(false);
    };
    meter.count_read(stream.source, &read);
    meter.count_round_trips(read.round_trips);
    stream.rows = read.rows;
    stream.next = 0;
    stream.exhausted = read.exhausted;
    Ok(true)
}
