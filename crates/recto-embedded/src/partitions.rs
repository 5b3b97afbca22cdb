//! The partitions of a table, each found by going past all rows of the one before.

use std::ops::Bound;

use recto_model::table::ReadDirection;
use recto_model::{Cells, RowSet, Table};
use recto_store::{ReadOptions, ScanPosition, ScanRead, StoreError, StoreErrorKind};

use crate::clock::{Deadline, Now};
use crate::damage::damaged;
use crate::keys;
use crate::row::{Damage, StoredRow};
use crate::scan::partition_of;
use crate::state::{OpenTable, State};
use crate::walk::Walk;

/// Partitions from the first one on, or after a position, which is the components of one.
pub(crate) fn partitions(
    state: &State,
    table: &Table,
    after: Option<&ScanPosition>,
    limit: u32,
    options: &ReadOptions,
) -> Result<ScanRead, StoreError> {
    if limit == 0 {
        let message = "a list of partitions has the limit 0";
        return Err(StoreError::new(StoreErrorKind::Invalid, message));
    }
    let open = state.open(table)?;
    let mut seek = Seek {
        open: &open,
        now: Now::new(&state.environment),
        deadline: Deadline::new(&state.environment, options.timeout)?,
    };
    let mut rows = RowSet::new(table.partition().len());
    let mut last = after.map(|position| position.0.clone());
    loop {
        let Some(partition) = seek.after(last.as_deref())? else {
            last = None;
            break;
        };
        let mut cells = Cells::new();
        keys::decode(table.partition(), &mut partition.as_slice(), &mut cells)
            .map_err(|error| damaged(&open.stored, &partition, Damage::Layout).with_source(error))?;
        rows.push_row(cells.as_row());
        last = Some(partition);
        if rows.len() >= limit as usize || rows.byte_len() as u64 >= options.max_bytes {
            break;
        }
    }
    Ok(ScanRead {
        bytes: rows.byte_len() as u64,
        rows,
        next: last.map(ScanPosition),
        stamps: Vec::new(),
        ends_in_seconds: Vec::new(),
    })
}

struct Seek<'a> {
    open: &'a OpenTable,
    now: Now<'a>,
    deadline: Deadline<'a>,
}

impl Seek<'_> {
    /// The components of the next partition that has a row, or static cells.
    fn after(&mut self, partition: Option<&[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        let beyond = partition.map(|partition| [partition, &[keys::ROW + 1]].concat());
        let edge = beyond.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let stored = &self.open.stored;
        let mut walk = Walk::begin(self.open, edge, ReadDirection::Forward)?;
        while let Some((key, value)) = walk.next()? {
            self.deadline.visit()?;
            let damage = |damage| damaged(stored, key, damage);
            let row = StoredRow::open(stored.key_checksum(key), value).map_err(damage)?;
            if !row.is_gone(self.now.seconds()).map_err(damage)? {
                return Ok(Some(partition_of(stored, key)?.to_vec()));
            }
        }
        Ok(None)
    }
}
