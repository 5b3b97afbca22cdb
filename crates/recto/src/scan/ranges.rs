//! Scans of whole tables in the store's own order, several ranges concurrently.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};
use recto_model::RowSet;
use recto_plan::scan_token::{ScanProgress, ScanRange};
use recto_store::{ColumnSet, ReadOptions, ScanPosition, TokenRange};

use super::token::Seal;
use super::{Rows, Step, Steps};
use crate::core::CollectionCore;
use crate::error::Result;
use crate::paging::blurred;

/// Default number of token ranges (parts of a table) that are read concurrently.
const DEFAULT_PARALLEL: u32 = 4;
/// Maximum number of token ranges (parts of a table) that are read concurrently.
const MAX_PARALLEL: u32 = 64;
/// Maximum number of rows that one step reads from a range.
const STEP_ROWS: u32 = 1_000;

/// Options of a scan that reads ranges of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// True if a row filter hides rows from the caller. If so, the sizes of steps are random, so
    /// that they do not reveal the number of hidden rows.
    pub(super) hides: bool,
    /// Key columns that must not be empty. Rows with an empty cell in one of them are omitted.
    pub(super) leaves_out: ColumnSet,
}

/// Token range (part of a table) of a scan, with the position of the last row that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    range: TokenRange,
    after: Option<ScanPosition>,
}

/// Progress of a scan. A range that was read to its end is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    ranges: Vec<Option<Range>>,
}

/// Returns the steps of a scan of the whole table, from the beginning or from the positions in the
/// token `resume`. `parallel` is the number of ranges into which a new scan divides the table.
pub(super) async fn begin(
    rows: &Rows,
    parallel: u32,
    reading: Reading,
    resume: Option<String>,
) -> Result<Steps> {
    let seal = rows.seal();
    let progress = match resume {
        Some(token) => Progress::of_token(seal.open(&token).await?).ok_or_else(Seal::unknown)?,
        None => Progress::begin(&rows.core, parallel).await?,
    };
    Ok(run(Arc::clone(&rows.core), reading, seal, progress).boxed())
}

fn run(
    core: Arc<CollectionCore>,
    reading: Reading,
    seal: Seal,
    progress: Progress,
) -> impl Stream<Item = Result<Step>> + Send {
    let readers = progress.ranges.iter().enumerate().filter_map(|(index, range)| {
        let range = range.clone()?;
        Some(read_range(Arc::clone(&core), reading, index, range).boxed())
    });
    let readers: Vec<_> = readers.collect();
    // On Cassandra, concurrent reads save time, and rows come in any order. Read a local store
    // sequentially, so that rows come in its own order.
    let at_once = if core.is_remote() { MAX_PARALLEL } else { 1 };
    let merged = stream::iter(readers).flatten_unordered(Some(at_once as usize));
    merged.scan((progress, false), move |(progress, failed), step| {
        if *failed {
            return std::future::ready(None);
        }
        let step = step.and_then(|(index, rows, next)| {
            progress.ranges[index] = next;
            let resume = progress.token(&seal)?;
            Ok(Step { rows, resume })
        });
        *failed = step.is_err();
        std::future::ready(Some(step))
    })
}

type RangeStep = (usize, RowSet, Option<Range>);

/// Returns the steps of one range. Each step has the rest of the range after the step, or `None` at
/// the end of the range.
fn read_range(
    core: Arc<CollectionCore>,
    reading: Reading,
    index: usize,
    range: Range,
) -> impl Stream<Item = Result<RangeStep>> + Send {
    stream::try_unfold(Some(range), move |range| {
        let core = Arc::clone(&core);
        async move {
            let Some(range) = range else { return Ok(None) };
            core.check_still_held()?;
            let snapshot = core.shared.store.snapshot()?;
            let table = &core.base().table;
            let (rows, options) = step_limits(&core, reading);
            let after = range.after.as_ref();
            let read = snapshot.scan(table, &range.range, after, rows, &options).await?;
            let next = read.next.map(|after| Range {
                range: range.range,
                after: Some(after),
            });
            Ok(Some(((index, read.rows, next.clone()), next)))
        }
    })
}

/// Returns the maximum number of rows of the next step, and the options of the read.
fn step_limits(core: &CollectionCore, reading: Reading) -> (u32, ReadOptions) {
    let mut options = core.shared.read_options();
    options.leaves_out_empty = reading.leaves_out;
    if !reading.hides {
        return (STEP_ROWS, options);
    }
    let environment = &core.shared.environment;
    options.max_bytes = blurred(options.max_bytes, environment);
    let rows = blurred(u64::from(STEP_ROWS), environment);
    (u32::try_from(rows).unwrap_or(STEP_ROWS), options)
}

impl Progress {
    async fn begin(core: &CollectionCore, parallel: u32) -> Result<Self> {
        let parallel = match parallel {
            // A local store reads ranges one after the other, so several ranges have no advantage.
            // Dividing the table would require a walk over all keys.
            0 if !core.is_remote() => 1,
            0 => DEFAULT_PARALLEL,
            given => given.min(MAX_PARALLEL),
        };
        let snapshot = core.shared.store.snapshot()?;
        let ranges = snapshot.token_ranges(&core.base().table, parallel).await?;
        Ok(Self {
            ranges: ranges
                .into_iter()
                .map(|range| Some(Range { range, after: None }))
                .collect(),
        })
    }

    /// Returns the token with which the scan continues, or `None` if no rows remain unread.
    fn token(&self, seal: &Seal) -> Result<Option<String>> {
        let ranges: Vec<ScanRange> = self.ranges.iter().flatten().map(left).collect();
        if ranges.is_empty() {
            return Ok(None);
        }
        let store = seal.store().to_owned();
        seal.seal(&ScanProgress::Ranges { store, ranges }).map(Some)
    }

    fn of_token(progress: ScanProgress) -> Option<Self> {
        let ScanProgress::Ranges { ranges, .. } = progress else {
            return None;
        };
        let range = |range: ScanRange| {
            Some(Range {
                range: TokenRange {
                    start: range.start,
                    end: range.end,
                },
                after: range.after.map(ScanPosition),
            })
        };
        Some(Self {
            ranges: ranges.into_iter().map(range).collect(),
        })
    }
}

/// Returns the entry of a range in a token. The entry needs the start of the range only if no row
/// of the range was read.
fn left(range: &Range) -> ScanRange {
    let after = range.after.as_ref().map(|ScanPosition(after)| after.clone());
    ScanRange {
        start: match after {
            Some(_) => Vec::new(),
            None => range.range.start.clone(),
        },
        end: range.range.end.clone(),
        after,
    }
}
