//! List of the partitions of a table. The search for each partition skips all rows of the previous one.

use std::ops::Bound;

use recto_model::table::ReadDirection;
use recto_model::{Cells, RowSet, Table};
use recto_store::{ReadOptions, ScanPosition, ScanRead, StoreError, StoreErrorKind, TokenRange};

use crate::catalog::StoredTable;
use crate::clock::{Deadline, Now};
use crate::damage::damaged;
use crate::keys;
use crate::row::{Damage, StoredRow};
use crate::scan::partition_of;
use crate::state::{OpenTable, State};
use crate::walk::{Walk, verify};

/// Returns the partitions of a range, from its start or after a position. A position is the encoded key of a
/// partition. A partition belongs to the range that contains the first key that the partition could have,
/// even if no row has that key.
pub(crate) fn scan(
    state: &State,
    table: &Table,
    range: &TokenRange,
    after: Option<&ScanPosition>,
    limit: u32,
    options: &ReadOptions,
) -> Result<ScanRead, StoreError> {
    if limit == 0 {
        let message = "the limit of a scan of partitions must not be 0";
        return Err(StoreError::new(StoreErrorKind::Invalid, message));
    }
    let open = state.open(table)?;
    let mut seek = Seek {
        open: &open,
        range,
        edge: after.map_or_else(|| range.start.clone(), |position| beyond(&position.0)),
        now: Now::new(&state.environment),
        deadline: Deadline::new(&state.environment, options.timeout)?,
    };
    let mut rows = RowSet::new(table.partition().len() + table.statics().len());
    let mut next = None;
    while let Some(found) = seek.next()? {
        rows.push_row(found.cells.as_row());
        if rows.len() >= limit as usize || rows.byte_len() as u64 >= options.max_bytes {
            next = Some(ScanPosition(found.partition));
            break;
        }
    }
    Ok(ScanRead {
        bytes: rows.byte_len() as u64,
        rows,
        next,
        stamps: Vec::new(),
        ends_in_seconds: Vec::new(),
    })
}

/// Returns a key that is greater than all keys of the partition with these components, and not greater than any key of
/// a later partition.
fn beyond(partition: &[u8]) -> Vec<u8> {
    [partition, &[keys::ROW + 1]].concat()
}

/// Returns whether the first key that a partition could have is less than an edge of a range.
fn begins_before(partition: &[u8], edge: &[u8]) -> bool {
    partition.iter().chain(&[keys::STATIC]).lt(edge)
}

/// Partition that the search found: it has a row or a static cell that has not expired.
struct Found {
    partition: Vec<u8>,
    /// Cells of the partition key, followed by the static cells.
    cells: Cells,
}

struct Seek<'a> {
    open: &'a OpenTable,
    range: &'a TokenRange,
    /// Key from which to search for the next partition. Empty: the first key of the table.
    edge: Vec<u8>,
    now: Now<'a>,
    deadline: Deadline<'a>,
}

impl Seek<'_> {
    fn next(&mut self) -> Result<Option<Found>, StoreError> {
        let found = match self.look()? {
            // If the range begins inside a partition, the previous range contains that partition,
            // so skip it.
            Look::TooEarly(partition) => {
                self.edge = beyond(&partition);
                self.look()?
            }
            look => look,
        };
        match found {
            Look::Found(found) => {
                self.edge = beyond(&found.partition);
                Ok(Some(found))
            }
            Look::End | Look::TooEarly(_) => Ok(None),
        }
    }

    /// Searches for the first existing partition whose keys are at or after `edge`.
    fn look(&mut self) -> Result<Look, StoreError> {
        let edge = if self.edge.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Included(self.edge.as_slice())
        };
        let (stored, range) = (&self.open.stored, self.range);
        let mut walk = Walk::begin(self.open, edge, ReadDirection::Forward)?;
        while let Some((key, value)) = walk.next()? {
            self.deadline.visit()?;
            let partition = partition_of(stored, key)?;
            if begins_before(partition, &range.start) {
                verify(stored, key, value)?;
                return Ok(Look::TooEarly(partition.to_vec()));
            }
            if !range.end.is_empty() && !begins_before(partition, &range.end) {
                verify(stored, key, value)?;
                return Ok(Look::End);
            }
            let damage = |damage| damaged(stored, key, damage);
            let row = StoredRow::open(stored.key_checksum(key), value).map_err(damage)?;
            let now = self.now.seconds();
            if !row.is_gone(now).map_err(damage)? {
                return found(stored, partition, key, &row, now).map(Look::Found);
            }
        }
        Ok(Look::End)
    }
}

/// Returns the partition whose first existing entry is stored at `key`. The partition has static cells only
/// if this entry is its static row.
fn found(
    table: &StoredTable,
    partition: &[u8],
    key: &[u8],
    row: &StoredRow<'_>,
    now_seconds: u32,
) -> Result<Found, StoreError> {
    let damage = |damage| damaged(table, key, damage);
    let mut cells = Cells::new();
    keys::decode(table.definition.partition(), &mut &*partition, &mut cells)
        .map_err(|error| damage(Damage::Layout).with_source(error))?;
    let width = table.definition.statics().len();
    if key[partition.len()] == keys::STATIC {
        let mut row = row.decode(width).map_err(damage)?;
        row.end(now_seconds);
        row.cells[..width].iter().for_each(|cell| cells.push(cell.value));
    } else {
        (0..width).for_each(|_| cells.push(None));
    }
    Ok(Found {
        partition: partition.to_vec(),
        cells,
    })
}

/// Result of a search for a partition.
enum Look {
    Found(Found),
    /// A partition that begins before the range, and therefore belongs to the previous range.
    TooEarly(Vec<u8>),
    End,
}
