//! Counts and ranks of rows in a snapshot.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Cells, Slice};
use recto_store::{ReadOptions, StoreError, StoreErrorKind};

use super::{Block, block_at, read_entry};
use crate::catalog::StoredTable;
use crate::clock::{Deadline, Now};
use crate::damage::damaged;
use crate::keys;
use crate::limits::LIMITS;
use crate::row::{Damage, StoredRow};
use crate::state::{OpenTable, State};
use crate::walk::Walk;

/// Maximum number of rows that one count visits in blocks whose rows may have expired.
pub(crate) const MAX_VISITED_ROWS: u64 = 100_000;

/// Returns the number of rows of a slice, regardless of its limit.
pub(crate) fn count(state: &State, slice: &Slice, options: &ReadOptions) -> Result<u64, StoreError> {
    let mut total = 0;
    let mut counting = Counting::begin(state, slice, options)?;
    counting.each_part(|counting, part| {
        total += counting.rows_of(&part)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(total)
}

/// Returns the clustering key of the row that has `rank` rows of the slice before it, in the direction of the slice.
pub(crate) fn row_at(
    state: &State,
    slice: &Slice,
    rank: u64,
    options: &ReadOptions,
) -> Result<Option<Cells>, StoreError> {
    let mut left = match slice.direction {
        ReadDirection::Forward => rank,
        ReadDirection::Backward => match count(state, slice, options)?.checked_sub(rank + 1) {
            Some(rank) => rank,
            None => return Ok(None),
        },
    };
    let mut found = None;
    let mut counting = Counting::begin(state, slice, options)?;
    counting.each_part(|counting, part| {
        let rows = counting.rows_of(&part)?;
        if left >= rows {
            left -= rows;
            return Ok(ControlFlow::Continue(()));
        }
        found = counting.row_in(&part, left)?;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Part of a block within the slice.
struct Part {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Number of rows, if the part is a whole block of which no row can have expired.
    rows: Option<u64>,
}

struct Counting<'s> {
    blocks: Arc<OpenTable>,
    rows: Arc<OpenTable>,
    /// Common prefix of the keys of the partition's rows.
    prefix: Vec<u8>,
    from: Vec<u8>,
    to: Vec<u8>,
    now: Now<'s>,
    deadline: Deadline<'s>,
    /// Number of rows that were visited in blocks whose rows may have expired.
    visited: u64,
}

impl<'s> Counting<'s> {
    fn begin(state: &'s State, slice: &Slice, options: &ReadOptions) -> Result<Self, StoreError> {
        LIMITS.check_slice(slice)?;
        let rows = state.open(&slice.table)?;
        let blocks = rows
            .stored
            .blocks
            .clone()
            .ok_or_else(|| not_counted(&rows.stored))?;
        let mut prefix = Vec::with_capacity(slice.partition.byte_len() + keys::KEY_ROOM_BYTES);
        keys::push_partition(&slice.table, &slice.partition, &mut prefix)?;
        prefix.push(keys::ROW);
        Ok(Self {
            blocks: state.open_blocks(&blocks)?,
            from: keys::edge(&slice.table, &prefix, &slice.from)?,
            to: keys::edge(&slice.table, &prefix, &slice.to)?,
            rows,
            prefix,
            now: Now::new(&state.environment),
            deadline: Deadline::new(&state.environment, options.timeout)?,
            visited: 0,
        })
    }

    /// Calls `work` for the part of each block within the slice, in key order.
    fn each_part(
        &mut self,
        mut work: impl FnMut(&mut Self, Part) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        if self.from >= self.to {
            return Ok(());
        }
        let entries = Arc::clone(&self.blocks);
        let first = block_at(&entries.stored, &entries.rows, &self.from)?;
        let (mut lower, mut block) = (first.lower, first.block);
        let from = self.from.clone();
        let mut walk = Walk::begin(&entries, Bound::Excluded(from.as_slice()), ReadDirection::Forward)?;
        loop {
            self.deadline.visit()?;
            let next = match walk.next()? {
                None => None,
                Some((upper, value)) => Some((upper.to_vec(), read_entry(&entries.stored, upper, value)?)),
            };
            let upper = next.as_ref().map(|(upper, _)| upper.as_slice());
            let part = self.part(&lower, upper, block);
            if work(self, part)?.is_break() {
                return Ok(());
            }
            match next {
                Some((upper, next)) if upper < self.to => (lower, block) = (upper, next),
                _ => return Ok(()),
            }
        }
    }

    fn part(&mut self, lower: &[u8], upper: Option<&[u8]>, block: Block) -> Part {
        let is_whole =
            lower >= self.from.as_slice() && upper.is_some_and(|upper| upper <= self.to.as_slice());
        let may_end = block.earliest_expiry != 0 && block.earliest_expiry <= self.now.seconds();
        let to = upper.map_or(self.to.as_slice(), |upper| upper.min(self.to.as_slice()));
        Part {
            from: lower.max(self.from.as_slice()).to_vec(),
            to: to.to_vec(),
            rows: (is_whole && !may_end).then_some(block.rows),
        }
    }

    fn rows_of(&mut self, part: &Part) -> Result<u64, StoreError> {
        if let Some(rows) = part.rows {
            return Ok(rows);
        }
        let mut rows = 0;
        self.visit(part, |_| {
            rows += 1;
            true
        })?;
        Ok(rows)
    }

    fn row_in(&mut self, part: &Part, rank: u64) -> Result<Option<Cells>, StoreError> {
        let mut left = rank;
        let mut found = None;
        self.visit(part, |key| {
            if left == 0 {
                found = Some(key.to_vec());
                return false;
            }
            left -= 1;
            true
        })?;
        let Some(key) = found else { return Ok(None) };
        let (stored, mut cells) = (&self.rows.stored, Cells::new());
        keys::decode(
            stored.definition.clustering(),
            &mut &key[self.prefix.len()..],
            &mut cells,
        )
        .map_err(|error| damaged(stored, &key, Damage::Layout).with_source(error))?;
        Ok(Some(cells))
    }

    /// Calls `work` with the key of each row of a part that has not expired, until it returns `false`.
    fn visit(&mut self, part: &Part, mut work: impl FnMut(&[u8]) -> bool) -> Result<(), StoreError> {
        let open = Arc::clone(&self.rows);
        let stored = &open.stored;
        let mut walk = Walk::begin(
            &open,
            Bound::Included(part.from.as_slice()),
            ReadDirection::Forward,
        )?;
        while let Some((key, value)) = walk.next()? {
            let damage = |damage| damaged(stored, key, damage);
            let row = StoredRow::open(stored.key_checksum(key), value).map_err(damage)?;
            if key >= part.to.as_slice() {
                return Ok(());
            }
            self.deadline.visit()?;
            self.visited += 1;
            if self.visited > MAX_VISITED_ROWS {
                return Err(too_many_expired(stored));
            }
            if !row.is_gone(self.now.for_row(&row)).map_err(damage)? && !work(key) {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cold]
fn not_counted(table: &StoredTable) -> StoreError {
    let name = table.definition.name();
    StoreError::new(
        StoreErrorKind::Invalid,
        format!("the store does not count the rows of table {name}, which an earlier release created"),
    )
    .with_hint("export the collection and load it into a new store")
}

#[cold]
fn too_many_expired(table: &StoredTable) -> StoreError {
    let name = table.definition.name();
    StoreError::new(
        StoreErrorKind::Invalid,
        format!(
            "more than {MAX_VISITED_ROWS} rows of table {name} may have expired, so that they are not counted"
        ),
    )
    .with_hint("compact the store, or count up to a limit")
}
