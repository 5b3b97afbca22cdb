//! Counts the rows of a query row by row, up to a limit.

use recto_api::pages::{RowCount, Stop};
use recto_plan::Position;
use recto_store::ColumnSet;

use super::budget::{Budget, Meter};
use super::reader::{Reader, Run};
use crate::error::{ErrorKind, Result};

/// Maximum number of rows of one read of a count. An embedded store reads them without yielding to
/// other tasks.
const MAX_CHUNK_ROWS: u32 = 2_500;

/// Counts the rows of a query from its first row, until there are more than `limit`. Stops early if
/// a budget is used up.
pub(super) async fn count_up_to(reader: &Reader<'_>, limit: u32, meter: &mut Meter) -> Result<RowCount> {
    let mut counted = 0;
    let mut edge = None;
    loop {
        meter.start_chunk();
        let want = (limit + 1 - counted).min(MAX_CHUNK_ROWS);
        let run = match reader.read(edge.as_ref(), want, meter).await {
            Err(error) if error.kind() == ErrorKind::Timeout => return Ok(at_least(counted)),
            run => run?,
        };
        counted += run.rows.len() as u32;
        if counted > limit {
            return Ok(at_least(limit));
        }
        if run.exhausted {
            return Ok(RowCount {
                total_size: counted.into(),
                ..RowCount::default()
            });
        }
        if matches!(run.stop, Some(Stop::Scanned | Stop::Time)) {
            return Ok(at_least(counted));
        }
        edge = end_of(reader, run);
        if edge.is_none() {
            return Ok(at_least(counted));
        }
    }
}

/// Returns the budget of a count up to `limit`.
///
/// If one view serves the whole query, the budget grows by the limit. Rows that are not records
/// then do not use up the part that the counted rows need.
pub(super) fn budget(reader: &Reader<'_>, limit: u32, budget: Budget) -> Budget {
    let scanned = if reader.plan.is_served_by_one_view() {
        u64::from(limit) + 1
    } else {
        0
    };
    Budget {
        scanned: budget.scanned.saturating_add(scanned),
        ..budget
    }
}

/// Returns the columns that a count does not need. A count needs the key, and the columns that show
/// whether a row is a record. Returns no columns if the rows are compared with conditions or with
/// other tables, because any column may then be needed.
pub(super) fn unseen_columns(reader: &Reader<'_>) -> ColumnSet {
    let plan = reader.plan;
    if !plan.is_served_by_one_view() || reader.truth.joining.is_some() {
        return ColumnSet::new();
    }
    let sort_order = &plan.sort_order;
    let table = &sort_order.table;
    let is_used = |column: usize| [sort_order.version, sort_order.head].contains(&Some(column));
    let unused = (table.key_len()..table.columns().len()).filter(|column| !is_used(*column));
    unused.fold(ColumnSet::new(), |all, column| all.with(column - table.key_len()))
}

/// Returns the position beyond the last row that the read `run` has checked.
fn end_of(reader: &Reader<'_>, run: Run) -> Option<Position> {
    let last = run.rows.rows.iter().next_back();
    run.scanned_to
        .or_else(|| last.map(|row| reader.position_beyond(row)))
}

fn at_least(rows: u32) -> RowCount {
    RowCount {
        total_size: rows.into(),
        total_size_is_minimum: true,
        ..RowCount::default()
    }
}
