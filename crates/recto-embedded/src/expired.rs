//! Deletion of expired rows by the writer, in steps between the requests of callers.
//!
//! Reads leave out expired rows, so a deletion only frees their space. `docs/design/retention.md` gives the
//! reasons for the clock that decides.

use std::time::Duration;

use recto_store::{StoreError, StoreErrorKind};

use crate::blocks::{DeletedBlock, delete_expired};
use crate::catalog::StoredTable;
use crate::log::Transaction;
use crate::meta;
use crate::shared::{Durable, Shared};

/// Minimum time between the starts of two passes over the store that delete expired rows.
pub(crate) const PASS_EVERY: Duration = Duration::from_secs(600);
/// Minimum time between two steps of a pass that deletes expired rows, while requests wait.
pub(crate) const STEP_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of rows that one step of the deletion visits. A step ends after the block (group of
/// adjacent rows) in which it reaches the limit.
const MAX_STEP_ROWS: u64 = 5_000;
/// Maximum time of one step of the deletion, without its commit. A step ends after the block (group of
/// adjacent rows) in which it reaches the limit.
const MAX_STEP_TIME: Duration = Duration::from_millis(20);

/// Position of a pass over the store that deletes expired rows. The default is the start of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Id of the table.
    table: u32,
    /// Key in the table from which the pass continues.
    key: Vec<u8>,
}

/// Deletes expired rows from a position on, in one transaction. Returns the next position, or `None` at the end of
/// the store.
///
/// # Errors
/// The engine failed. Nothing was deleted by this step.
pub(crate) fn step(shared: &Shared, from: Position) -> Result<Option<Position>, StoreError> {
    let (current, catalog) = shared.engine_and_catalog();
    let Some(database) = current.writable() else {
        return Ok(None);
    };
    let now_seconds = u32::try_from(shared.clock.trusted_micros() / 1_000_000).unwrap_or(0);
    let begun_nanos = shared.environment.monotonic_nanos();
    let is_over = |rows: u64| {
        let nanos = shared.environment.monotonic_nanos().saturating_sub(begun_nanos);
        rows >= MAX_STEP_ROWS || Duration::from_nanos(nanos) >= MAX_STEP_TIME
    };
    let transaction = Transaction::begin(database)?;
    let (mut position, mut rows) = (Some(from), 0);
    while let Some(at) = position.take() {
        // Search for the next id, because the catalog is sorted by name and a pass visits the tables by id.
        let tables = catalog.iter().filter(|table| table.id >= at.table);
        let Some(table) = tables.min_by_key(|table| table.id) else {
            break;
        };
        let from = if table.id == at.table { &*at.key } else { &[] };
        let deleted = match delete_in(&transaction, table, from, now_seconds) {
            // Skip the other rows of a damaged table. A check of the store reports the damage.
            Err(error) if error.kind() == StoreErrorKind::Corrupt => None,
            deleted => deleted?,
        };
        rows += deleted.as_ref().map_or(0, |block| block.visited_rows);
        position = Some(match deleted.and_then(|block| block.next) {
            Some(key) => Position { table: table.id, key },
            None => Position {
                table: table.id.saturating_add(1),
                key: Vec::new(),
            },
        });
        if is_over(rows) {
            break;
        }
    }
    if rows == 0 {
        transaction.abort()?;
        return Ok(position);
    }
    let recorded = shared.clock.due_trusted();
    if let Some(micros) = recorded {
        meta::set_clock_record(&transaction, micros)?;
    }
    shared.commit(transaction, None, Durable::Now)?;
    if let Some(micros) = recorded {
        shared.clock.set_recorded(micros);
    }
    Ok(position)
}

fn delete_in(
    transaction: &Transaction,
    table: &StoredTable,
    from: &[u8],
    now_seconds: u32,
) -> Result<Option<DeletedBlock>, StoreError> {
    let Some(blocks) = &table.blocks else {
        return Ok(None);
    };
    let open = |rows: &str| transaction.open(rows);
    let (mut rows, mut entries) = (open(&table.rows)?, open(&blocks.rows)?);
    let mut sums = match &table.sums {
        Some(sums) => Some(open(&sums.rows)?),
        None => None,
    };
    delete_expired(table, (&mut rows, &mut entries, sums.as_mut()), from, now_seconds)
}
