//! Selection of the rows that belong to a page, within the page's budget.
//!
//! Rows are offered in the order of travel. If rows must be joined with base rows, rows that
//! satisfy the conditions on their own columns wait first. When enough rows wait to complete the
//! page, their base rows are read concurrently.

use std::collections::HashSet;

use recto_api::pages::Stop;
use recto_model::{Cells, RowRef, RowSet};
use recto_plan::Position;

use super::budget::Meter;
use super::found::FoundRows;
use super::joined::Joining;
use super::reader::{FILTER_SCAN_CHUNK_ROWS, Reader, Run, out_of_time};
use crate::error::Result;

/// Collects the rows of a read that belong to the page, and enforces the budget of the page.
pub(super) struct Keeper<'a> {
    reader: &'a Reader<'a>,
    want: u32,
    rows: FoundRows,
    looked_at: u64,
    rejected_at: Option<Position>,
    /// Rows that wait for base rows. Boxed, because most pages have none.
    waiting: Option<Box<Waiting<'a>>>,
}

/// Rows of a view that wait for their base rows.
struct Waiting<'a> {
    joining: &'a Joining,
    rows: RowSet,
    /// Number of waiting rows at which the base rows are read.
    enough: u32,
    /// Position beyond the last waiting row, if a row after it was rejected.
    rejected_at: Option<Position>,
    /// Keys of the records that were kept. Used only if a record can be offered twice.
    records: HashSet<Cells>,
}

/// Reason why a page stops reading rows, for now or for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// There are enough rows to return, or to join with base rows.
    Enough,
    /// A budget of the page (bytes, rows or time) is used up.
    Stop(Stop),
    /// The sources of the plan have no more rows.
    End,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(reader: &'a Reader<'a>, want: u32) -> Self {
        let waiting = |joining| Waiting {
            joining,
            rows: RowSet::new(reader.width()),
            enough: want,
            rejected_at: None,
            records: HashSet::new(),
        };
        Self {
            reader,
            want,
            rows: reader.no_rows(),
            looked_at: 0,
            rejected_at: None,
            waiting: reader.truth.joining.map(waiting).map(Box::new),
        }
    }

    /// Returns the number of further rows that the page needs, or that must wait before base rows
    /// are read.
    pub(super) fn missing(&self) -> u32 {
        match &self.waiting {
            Some(waiting) => waiting.enough - waiting.rows.len() as u32,
            None => self.want - self.rows.len() as u32,
        }
    }

    /// Returns the number of rows of the next read; 0 if no more rows may be checked.
    pub(super) fn chunk(&self, meter: &Meter) -> u32 {
        let missing = self.missing();
        if !self.reader.rejects() {
            return missing;
        }
        let left = u32::try_from(meter.scan_left()).unwrap_or(u32::MAX);
        if !self.reader.plan.rejects_many() && !self.has_rejected() {
            return missing.min(left);
        }
        missing.max(FILTER_SCAN_CHUNK_ROWS).min(left)
    }

    /// Returns whether a condition has rejected a row so far. Rejected rows are often adjacent, so
    /// more rejections are likely.
    fn has_rejected(&self) -> bool {
        let waiting = self.waiting.as_ref();
        let rejected = self.looked_at > self.rows.len() as u64;
        let rejected = rejected || waiting.is_some_and(|waiting| waiting.rejected_at.is_some());
        rejected && !self.reader.plan.filter_scan.is_empty()
    }

    /// Checks the next row in the order of travel, and keeps or rejects it. Returns the reason if
    /// reading must pause.
    pub(super) fn offer(&mut self, row: RowRef<'_>, meter: &mut Meter) -> Result<Option<Pause>> {
        if self.reader.rejects() {
            if meter.scan_left() == 0 {
                return Ok(Some(Pause::Stop(Stop::Scanned)));
            }
            meter.count_scanned();
            if !self.reader.accepts(row)? {
                self.reject(row);
                return Ok(None);
            }
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.rows.push_row(row);
            waiting.rejected_at = None;
            return Ok((waiting.rows.len() >= waiting.enough as usize).then_some(Pause::Enough));
        }
        Ok(self.keep(row, None, meter))
    }

    fn reject(&mut self, row: RowRef<'_>) {
        self.decide_to(self.reader.position_beyond(row));
    }

    /// Records that the page has found all its rows before `position`, which is beyond all rows
    /// that were offered.
    pub(super) fn decide_to(&mut self, position: Position) {
        let position = Some(position);
        match &mut self.waiting {
            Some(waiting) if !waiting.rows.is_empty() => waiting.rejected_at = position,
            _ => {
                self.looked_at += 1;
                self.rejected_at = position;
            }
        }
    }

    fn keep(&mut self, row: RowRef<'_>, base: Option<RowRef<'_>>, meter: &mut Meter) -> Option<Pause> {
        self.looked_at += 1;
        self.rejected_at = None;
        self.rows.push(row, base);
        let is_over = meter.count_kept(base.unwrap_or(row).byte_len());
        if self.rows.len() == self.want as usize {
            return Some(Pause::Enough);
        }
        is_over.then_some(Pause::Stop(Stop::Bytes))
    }

    /// Joins the waiting rows with their base rows. Returns the result of the read if the read ends
    /// here; `None` if it must continue.
    pub(super) async fn pause(&mut self, pause: Pause, meter: &mut Meter) -> Result<Option<Run>> {
        let mut pause = pause;
        if self
            .waiting
            .as_ref()
            .is_some_and(|waiting| !waiting.rows.is_empty())
        {
            // Boxed, because the future is large, and the future of every page would contain it.
            match Box::pin(self.join(meter)).await? {
                Joined::All => {}
                Joined::Ended(end) => pause = end,
                Joined::Late => return self.timed_out().map(Some),
            }
        }
        Ok(match pause {
            Pause::Enough if self.rows.len() < self.want as usize => None,
            Pause::Enough => Some(self.take(false, None)),
            Pause::Stop(stop) => Some(self.take(false, Some(stop))),
            Pause::End => Some(self.take(true, None)),
        })
    }

    /// Reads the base rows of the waiting rows, then keeps or rejects each waiting row.
    async fn join(&mut self, meter: &mut Meter) -> Result<Joined> {
        let Some(waiting) = &mut self.waiting else {
            return Ok(Joined::All);
        };
        let joining = waiting.joining;
        let kept_before = self.rows.len() as u32;
        let width = self.reader.width();
        let rows = std::mem::replace(&mut waiting.rows, RowSet::new(width));
        let after = waiting.rejected_at.take();
        let snapshot = self.reader.snapshot;
        let bases = joining
            .base_rows(snapshot, &rows, self.reader.truth.now_micros, meter)
            .await?;
        let Some(bases) = bases else {
            return Ok(Joined::Late);
        };
        for (row, base) in rows.iter().zip(&bases) {
            let base = base.as_ref().and_then(|read| read.rows.iter().next());
            let Some(base) = base.filter(|base| self.is_the_pages(row, *base)) else {
                self.looked_at += 1;
                self.rejected_at = Some(self.reader.position_beyond(row));
                continue;
            };
            if let Some(end) = self.keep(row, Some(base), meter) {
                return Ok(Joined::Ended(end));
            }
        }
        if after.is_some() {
            self.rejected_at = after;
        }
        let missing = self.want - self.rows.len() as u32;
        let joined = rows.len() as u32;
        // Assume that the next join rejects the same fraction of rows, and request
        // enough rows for that.
        let enough = match self.rows.len() as u32 - kept_before {
            0 => joined * 2,
            kept => (missing * joined).div_ceil(kept),
        };
        if let Some(waiting) = &mut self.waiting {
            waiting.enough = missing.max(enough.min(FILTER_SCAN_CHUNK_ROWS));
        }
        Ok(Joined::All)
    }

    /// Returns whether a row belongs to the page according to its base row, and no other row of its
    /// record was kept.
    fn is_the_pages(&mut self, row: RowRef<'_>, base: RowRef<'_>) -> bool {
        let Some(waiting) = &mut self.waiting else {
            return true;
        };
        let (joining, plan) = (waiting.joining, self.reader.plan);
        // The entry of one view proves that view's conditions. In an intersection, the base row
        // must also prove the conditions of the other views.
        let satisfies = plan.is_served_by_one_view() || joining.satisfies(base, &plan.query);
        satisfies && (!joining.may_repeat() || waiting.records.insert(joining.key(row)))
    }

    /// Returns the result of a read that has no time left. Returns an error if no row was checked.
    /// The caller would otherwise continue at the same position without progress.
    pub(super) fn timed_out(&mut self) -> Result<Run> {
        if self.looked_at == 0 {
            Err(out_of_time())
        } else {
            Ok(self.take(false, Some(Stop::Time)))
        }
    }

    /// Returns the result of a read whose sources have ended.
    pub(super) async fn finish(&mut self, meter: &mut Meter) -> Result<Run> {
        self.end(Pause::End, meter).await
    }

    /// Returns the result of a read that ended because of a budget.
    pub(super) async fn stopped(&mut self, stop: Stop, meter: &mut Meter) -> Result<Run> {
        self.end(Pause::Stop(stop), meter).await
    }

    async fn end(&mut self, pause: Pause, meter: &mut Meter) -> Result<Run> {
        let run = self.pause(pause, meter).await?;
        Ok(run.unwrap_or_else(|| self.take(false, None)))
    }

    fn take(&mut self, exhausted: bool, stop: Option<Stop>) -> Run {
        let empty = self.reader.no_rows();
        Run {
            rows: std::mem::replace(&mut self.rows, empty),
            exhausted,
            stop,
            scanned_to: self.rejected_at.take(),
        }
    }
}

/// Result of the join of waiting rows with base rows.
enum Joined {
    /// All waiting rows were kept or rejected.
    All,
    /// The read ended before the last waiting row.
    Ended(Pause),
    /// No waiting row was kept or rejected, because the time was over.
    Late,
}
