//! Reading the rows beyond an edge, one direction, any shape.

use std::sync::Arc;

use recto_model::{RowSet, Slice};
use recto_plan::{Plan, Position, Shape, Side, Travel};
use recto_store::{RowsRead, Snapshot};

use super::budget::{Meter, Stop};
use super::merge;
use super::pieces::{Pieces, Rest, in_time};
use crate::error::{Error, ErrorKind, Result};

/// The fewest rows read at once where conditions are checked row by row.
pub(crate) const RESIDUAL_CHUNK_ROWS: u32 = 256;

/// What was read in one direction.
#[derive(Debug)]
pub(super) struct Run {
    /// Rows that satisfy everything, in the order of travel.
    pub(super) rows: RowSet,
    /// Whether nothing lies beyond them.
    pub(super) exhausted: bool,
    /// The budget that ended the read.
    pub(super) stop: Option<Stop>,
    /// The position beyond the last row looked at, if it was not kept.
    pub(super) scanned_to: Option<Position>,
}

/// One read of a plan in one direction.
pub(super) struct Reader<'a> {
    pub(super) plan: &'a Plan,
    pub(super) snapshot: &'a Arc<dyn Snapshot>,
    /// Where the rows lie of partitions that are kept in pieces.
    pub(super) pieces: &'a dyn Pieces,
    pub(super) travel: Travel,
    /// Whether asking the store twice costs more than reading rows in vain.
    pub(super) remote: bool,
}

impl Reader<'_> {
    /// The first `want` rows beyond `edge`.
    pub(super) async fn read(&self, edge: Option<&Position>, want: u32, meter: &mut Meter) -> Result<Run> {
        match self.plan.shape {
            Shape::Empty => Ok(finished(RowSet::new(self.width()))),
            Shape::Scan if self.plan.residual.is_empty() && !self.plan.arrangement.is_in_pieces() => {
                self.scan(edge, want, meter).await
            }
            Shape::Scan | Shape::Concat => self.concat(edge, want, meter).await,
            Shape::Merge => merge::read(self, edge, want, meter).await,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.plan.arrangement.table.columns().len()
    }

    /// The run whose time was over before it had looked at a row.
    pub(super) fn late(&self) -> Run {
        Run {
            rows: RowSet::new(self.width()),
            exhausted: false,
            stop: Some(Stop::Time),
            scanned_to: None,
        }
    }

    /// One slice is the run: no row is copied or looked at.
    async fn scan(&self, edge: Option<&Position>, want: u32, meter: &mut Meter) -> Result<Run> {
        let Some(slice) = self.plan.slice(0, edge, self.travel, want) else {
            return Ok(finished(RowSet::new(self.width())));
        };
        meter.take_turns().await;
        let Some(read) = self.slice(&slice, u64::MAX, meter).await? else {
            return Err(out_of_time());
        };
        meter.count_read(&read);
        meter.count_round_trips(read.round_trips);
        let stop = (!read.exhausted && read.rows.len() < want as usize).then_some(Stop::Bytes);
        Ok(Run {
            rows: read.rows,
            exhausted: read.exhausted,
            stop,
            scanned_to: None,
        })
    }

    /// Sources one after the other, each in chunks where rows may be rejected.
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
                    return Ok(keeper.stopped(Stop::Scanned));
                }
                meter.take_turns().await;
                let Some(read) = rest.next(self, limit, u64::MAX, meter).await? else {
                    return keeper.timed_out();
                };
                meter.count_read(&read);
                meter.count_round_trips(read.round_trips);
                for row in read.rows.iter() {
                    if let Some(run) = keeper.offer(row, meter) {
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
        Ok(keeper.finished())
    }

    /// The position just beyond a row in the direction of travel.
    pub(super) fn position_beyond(&self, row: recto_model::RowRef<'_>) -> Position {
        let side = if self.travel == Travel::Forward {
            Side::After
        } else {
            Side::Before
        };
        self.plan.position(row, side)
    }

    /// What is to be read of a source beyond an edge; `None` if there is nothing.
    pub(super) fn rest(&self, source: usize, edge: Option<&Position>, limit: u32) -> Option<Rest> {
        let slice = self.plan.slice(source, edge, self.travel, limit)?;
        Some(Rest::new(slice, self.plan.arrangement.is_in_pieces()))
    }

    /// Reads a slice of a partition of the table within the time left; `None` if there is none left.
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

    /// As [`slice`](Self::slice), of one that is known not to be had at once.
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

/// A run that ended with its sources.
fn finished(rows: RowSet) -> Run {
    Run {
        rows,
        exhausted: true,
        stop: None,
        scanned_to: None,
    }
}

/// The error of a page whose time was over before it had looked at a row.
pub(super) fn out_of_time() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the page's time was over before the store answered",
    )
    .with_hint("give the page more time, or look at the store's health")
}

/// Keeps the rows of a run and watches its budget.
pub(super) struct Keeper<'a> {
    reader: &'a Reader<'a>,
    want: u32,
    rows: RowSet,
    looked_at: u64,
    rejected_at: Option<Position>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(reader: &'a Reader<'a>, want: u32) -> Self {
        Self {
            reader,
            want,
            rows: RowSet::new(reader.width()),
            looked_at: 0,
            rejected_at: None,
        }
    }

    /// How many rows to ask for next; 0 if no more may be looked at.
    pub(super) fn chunk(&self, meter: &Meter) -> u32 {
        let missing = self.want - self.rows.len() as u32;
        if self.reader.plan.residual.is_empty() {
            return missing;
        }
        let left = u32::try_from(meter.scan_left()).unwrap_or(u32::MAX);
        missing.max(RESIDUAL_CHUNK_ROWS).min(left)
    }

    /// Looks at a row in the order of travel; the run, if it ends here.
    pub(super) fn offer(&mut self, row: recto_model::RowRef<'_>, meter: &mut Meter) -> Option<Run> {
        let checks = !self.reader.plan.residual.is_empty();
        self.looked_at += 1;
        if checks {
            if meter.scan_left() == 0 {
                return Some(self.stopped(Stop::Scanned));
            }
            meter.count_scanned();
            if !self.reader.plan.accepts(row) {
                self.rejected_at = Some(self.reader.position_beyond(row));
                return None;
            }
        }
        self.rejected_at = None;
        self.rows.push_row(row);
        let full = meter.count_kept(row.byte_len());
        if self.rows.len() == self.want as usize {
            return Some(self.take(false, None));
        }
        full.then(|| self.stopped(Stop::Bytes))
    }

    /// The run that a budget ended.
    pub(super) fn stopped(&mut self, stop: Stop) -> Run {
        self.take(false, Some(stop))
    }

    /// The run of a read whose time was over: an error if it had looked at nothing, so that a
    /// traversal always gets on.
    pub(super) fn timed_out(&mut self) -> Result<Run> {
        if self.looked_at == 0 {
            Err(out_of_time())
        } else {
            Ok(self.stopped(Stop::Time))
        }
    }

    /// The run that ended with its sources.
    pub(super) fn finished(&mut self) -> Run {
        self.take(true, None)
    }

    fn take(&mut self, exhausted: bool, stop: Option<Stop>) -> Run {
        Run {
            rows: std::mem::take(&mut self.rows),
            exhausted,
            stop,
            scanned_to: self.rejected_at.take(),
        }
    }
}
