//! Reading of the rows beyond an edge, in one direction, for plans of every shape.

use std::sync::Arc;

use recto_api::pages::Stop;
use recto_model::{RowRef, RowSet, Slice};
use recto_plan::{Plan, Position, Shape, Side, Travel};
use recto_store::{RowsRead, Snapshot};

use super::budget::Meter;
use super::found::FoundRows;
use super::intersect;
use super::joined::Joining;
use super::keeper::Keeper;
use super::merge;
use super::rest::{Rest, in_time};
use crate::error::{Error, ErrorKind, Result};
use crate::present::Presence;

/// Minimum number of rows of one read, if conditions are checked on each row.
pub(crate) const FILTER_SCAN_CHUNK_ROWS: u32 = 256;

/// Result of reading rows of a plan in one direction.
#[derive(Debug)]
pub(super) struct Run {
    /// Rows that satisfy all conditions, in the order of travel.
    pub(super) rows: FoundRows,
    /// True if the plan has no further rows beyond `rows` in the order of travel.
    pub(super) exhausted: bool,
    /// Budget because of which the read ended early; `None` if it did not end early.
    pub(super) stop: Option<Stop>,
    /// Position beyond the last checked row, if that row is not in `rows`.
    pub(super) scanned_to: Option<Position>,
}

/// Checks that decide which of the read rows are records. Tables may also have stale, deleted or
/// expired rows.
pub(super) struct Truth<'a> {
    /// Check of the row's own columns, if the table has rows that are not records.
    pub(super) presence: Option<Presence>,
    /// Join with base rows, if base rows decide or must be read.
    pub(super) joining: Option<&'a Joining>,
    /// Time at which a record must exist: it must not have expired before.
    pub(super) now_micros: i64,
}

impl Truth<'_> {
    fn rejects(&self) -> bool {
        self.presence.is_some() || self.joining.is_some()
    }

    /// Returns whether a row is a record, judged by its own columns.
    fn has(&self, row: RowRef<'_>) -> Result<bool> {
        self.presence
            .map_or(Ok(true), |presence| presence.has(row, self.now_micros))
    }
}

/// Reader of the rows of a plan in one direction.
pub(super) struct Reader<'a> {
    pub(super) plan: &'a Plan,
    pub(super) snapshot: &'a Arc<dyn Snapshot>,
    pub(super) travel: Travel,
    /// True if each read is a network round trip. A second read then costs more than rows that are
    /// not needed.
    pub(super) remote: bool,
    /// Checks that decide which of the read rows are records.
    pub(super) truth: &'a Truth<'a>,
}

impl Reader<'_> {
    /// Reads the first `want` rows of the plan beyond the position `edge`, in the direction of
    /// travel.
    pub(super) async fn read(&self, edge: Option<&Position>, want: u32, meter: &mut Meter) -> Result<Run> {
        match self.plan.shape {
            Shape::Empty => Ok(finished(self.no_rows())),
            Shape::Scan if !self.rejects() => self.scan(edge, want, meter).await,
            Shape::Scan | Shape::Concat => self.concat(edge, want, meter).await,
            Shape::Merge => merge::read(self, edge, want, meter).await,
            // Boxed, because the future is large, and the future of every page would contain it.
            Shape::Intersect => Box::pin(intersect::read(self, edge, want, meter)).await,
        }
    }

    /// Returns whether some rows that are read may not belong to the page.
    pub(super) fn rejects(&self) -> bool {
        !self.plan.filter_scan.is_empty() || self.truth.rejects()
    }

    /// Returns whether a row belongs to the page, judged by its own columns.
    pub(super) fn accepts(&self, row: RowRef<'_>) -> Result<bool> {
        Ok(self.truth.has(row)? && self.plan.accepts(row))
    }

    pub(super) fn width(&self) -> usize {
        self.plan.sort_order.table.columns().len()
    }

    pub(super) fn no_rows(&self) -> FoundRows {
        let bases = |joining: &Joining| Box::new(RowSet::new(joining.width()));
        FoundRows {
            rows: RowSet::new(self.width()),
            bases: self.truth.joining.map(bases),
        }
    }

    /// Returns the empty result of a read whose time was over before it checked a row.
    pub(super) fn late(&self) -> Run {
        Run {
            rows: self.no_rows(),
            exhausted: false,
            stop: Some(Stop::Time),
            scanned_to: None,
        }
    }

    /// Reads the only source of a plan as one slice. The rows become the result without being
    /// copied or checked.
    async fn scan(&self, edge: Option<&Position>, want: u32, meter: &mut Meter) -> Result<Run> {
        let Some(slice) = self.plan.slice(0, edge, self.travel, want) else {
            return Ok(finished(self.no_rows()));
        };
        meter.take_turns().await;
        let Some(read) = self.slice(&slice, u64::MAX, meter).await? else {
            return Err(out_of_time());
        };
        meter.count_read(0, &read);
        meter.count_round_trips(read.round_trips);
        let stop = (!read.exhausted && read.rows.len() < want as usize).then_some(Stop::Bytes);
        Ok(Run {
            rows: FoundRows {
                rows: read.rows,
                bases: None,
            },
            exhausted: read.exhausted,
            stop,
            scanned_to: None,
        })
    }

    /// Reads the sources of the plan (ranges of a table) in sequence. If rows may be rejected,
    /// reads each source in chunks.
    async fn concat(&self, edge: Option<&Position>, want: u32, meter: &mut Meter) -> Result<Run> {
        let mut keeper = Keeper::new(self, want);
        let count = self.plan.sources.len();
        for step in 0..count {
            let source = if self.travel == Travel::Forward {
                step
            } else {
                count - 1 - step
            };
            let Some(mut rest) = self.rest(source, edge, 0) else {
                continue;
            };
            loop {
                let limit = keeper.chunk(meter);
                if limit == 0 {
                    return keeper.stopped(Stop::Scanned, meter).await;
                }
                meter.take_turns().await;
                let Some(read) = rest.next(self, limit, u64::MAX, meter).await? else {
                    return keeper.timed_out();
                };
                meter.count_read(source, &read);
                meter.count_round_trips(read.round_trips);
                for row in read.rows.iter() {
                    if let Some(pause) = keeper.offer(row, meter)?
                        && let Some(run) = keeper.pause(pause, meter).await?
                    {
                        return Ok(run);
                    }
                }
                if read.exhausted {
                    break;
                }
                if let Some(last) = read.rows.iter().next_back() {
                    rest.pass(last);
                }
            }
        }
        keeper.finish(meter).await
    }

    /// Returns the position just beyond a row in the direction of travel.
    pub(super) fn position_beyond(&self, row: RowRef<'_>) -> Position {
        let side = if self.travel == Travel::Forward {
            Side::After
        } else {
            Side::Before
        };
        self.plan.position(row, side)
    }

    /// Returns the part of a source beyond `edge`, in reads of at most `limit` rows. Returns `None`
    /// if the source has no rows there.
    pub(super) fn rest(&self, source: usize, edge: Option<&Position>, limit: u32) -> Option<Rest> {
        let slice = self.plan.slice(source, edge, self.travel, limit)?;
        Some(Rest::new(slice))
    }

    /// Reads a slice of a partition within the time that is left. Returns `None` if no time is left.
    pub(super) async fn slice(
        &self,
        slice: &Slice,
        max_bytes: u64,
        meter: &Meter,
    ) -> Result<Option<RowsRead>> {
        let read = |options| async move {
            match self.snapshot.slice_now(slice, &options) {
                Some(read) => read,
                None => self.snapshot.slice(slice, &options).await,
            }
        };
        in_time(read, max_bytes, meter).await
    }

    /// Reads a slice like [`slice`](Self::slice), if the store has already reported that it cannot
    /// return the slice without waiting.
    pub(super) async fn slice_later(
        &self,
        slice: &Slice,
        max_bytes: u64,
        meter: &Meter,
    ) -> Result<Option<RowsRead>> {
        let read = |options| async move { self.snapshot.slice(slice, &options).await };
        in_time(read, max_bytes, meter).await
    }
}

/// Returns the result of a read that has read all rows of the plan.
fn finished(rows: FoundRows) -> Run {
    Run {
        rows,
        exhausted: true,
        stop: None,
        scanned_to: None,
    }
}

/// Returns the error of a page that had no time to check a row.
pub(super) fn out_of_time() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the page's time was over before the store answered",
    )
    .with_hint("raise request_timeout_ms of the store, or look at the store's health")
}
