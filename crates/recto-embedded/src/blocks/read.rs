//! Counts and ranks of rows in a snapshot.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Cells, Slice};
use recto_store::{ReadOptions, RowBlock, StoreError, StoreErrorKind};

use super::sums::{Sum, group_at};
use super::{Block, entry_at, read_entry};
use crate::catalog::StoredTable;
use crate::clock::{Deadline, Now};
use crate::damage::damaged;
use crate::keys;
use crate::limits::LIMITS;
use crate::row::{Damage, StoredRow};
use crate::state::{OpenTable, State};
use crate::walk::Walk;

/// Maximum number of rows that one count of a slice visits. The count visits the rows of blocks that the
/// slice contains only in part, and of blocks whose rows may have expired.
pub(crate) const MAX_VISITED_ROWS: u64 = 100_000;

/// Returns the number of rows of a slice, regardless of its limit.
pub(crate) fn count(state: &State, slice: &Slice, options: &ReadOptions) -> Result<u64, StoreError> {
    let mut total = 0;
    let mut counting = Counting::begin(state, slice, options)?;
    counting.summable_rows = u64::MAX;
    counting.each_part(|counting, part| {
        total += counting.rows_of(&part)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(total)
}

/// Returns the number of rows of a slice and their bytes, by block, in key order.
pub(crate) fn sizes(
    state: &State,
    slice: &Slice,
    options: &ReadOptions,
) -> Result<Vec<RowBlock>, StoreError> {
    let mut sizes = Vec::new();
    let mut counting = Counting::begin(state, slice, options)?;
    counting.each_part(|counting, part| {
        let size = counting.size_of(&part)?;
        sizes.extend((size.rows > 0).then_some(size));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(sizes)
}

/// Returns the clustering key of the row that has `rank` rows of the slice before it, in the direction of the
/// slice. `None`: the slice has too few rows.
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
    counting.summable_rows = left;
    counting.each_part(|counting, part| {
        let rows = counting.rows_of(&part)?;
        if left >= rows {
            left -= rows;
            counting.summable_rows = left;
            return Ok(ControlFlow::Continue(()));
        }
        found = counting.row_in(&part, left)?;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Part of a slice: several whole blocks, or as much of one block as the slice contains.
struct Part {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Number of rows and their bytes, if the part has only whole blocks and none of its rows can have
    /// expired. `None`: the rows must be visited.
    whole: Option<RowBlock>,
}

struct Counting<'s> {
    blocks: Arc<OpenTable>,
    /// Sums over groups of blocks, if the table has many blocks.
    sums: Option<Arc<OpenTable>>,
    /// Maximum number of rows of a part that is counted by the sums of whole groups. 0: every block is a part
    /// of its own.
    summable_rows: u64,
    rows: Arc<OpenTable>,
    /// Common prefix of the keys of the partition's rows.
    prefix: Vec<u8>,
    from: Vec<u8>,
    to: Vec<u8>,
    now: Now<'s>,
    deadline: Deadline<'s>,
    /// Number of rows that the count has visited so far. Above [`MAX_VISITED_ROWS`], the count fails.
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
            blocks: state.open_companion(&blocks)?,
            sums: match &rows.stored.sums {
                Some(sums) => Some(state.open_companion(sums)?),
                None => None,
            },
            summable_rows: 0,
            from: keys::edge(&slice.table, &prefix, &slice.from)?,
            to: keys::edge(&slice.table, &prefix, &slice.to)?,
            rows,
            prefix,
            now: Now::new(&state.environment),
            deadline: Deadline::new(&state.environment, options.timeout)?,
            visited: 0,
        })
    }

    /// Calls `work` for each part of the slice (some blocks, or a part of one), in key order.
    fn each_part(
        &mut self,
        mut work: impl FnMut(&mut Self, Part) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut from = Some(self.from.clone()).filter(|from| *from < self.to);
        while let Some(start) = from.take() {
            let Some(group) = self.each_block(&start, &mut work)? else {
                return Ok(());
            };
            if let Some(sum) = self.sum_from(&group)? {
                from = Some(sum.to.clone()).filter(|from| *from < self.to);
                if work(self, sum)?.is_break() {
                    return Ok(());
                }
            } else {
                from = Some(group);
            }
        }
        Ok(())
    }

    /// Calls `work` for each block from `from` on, with the part of the block that is within the slice. Stops
    /// at a block that begins a group of blocks, and returns its lower bound. Returns `None` at the end of
    /// the slice, or if `work` breaks.
    fn each_block(
        &mut self,
        from: &[u8],
        work: &mut impl FnMut(&mut Self, Part) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let entries = Arc::clone(&self.blocks);
        let first = entry_at::<Block>(&entries.stored, &entries.rows, from)?;
        let (mut lower, mut block) = (first.lower, first.content);
        let group_end = self.group_end(&lower)?;
        let mut walk = Walk::begin(&entries, Bound::Excluded(from), ReadDirection::Forward)?;
        loop {
            self.deadline.visit()?;
            let next = match walk.next()? {
                None => None,
                Some((upper, value)) => Some((upper.to_vec(), read_entry(&entries.stored, upper, value)?)),
            };
            let upper = next.as_ref().map(|(upper, _)| upper.as_slice());
            let part = self.part(&lower, upper, block);
            if work(self, part)?.is_break() {
                return Ok(None);
            }
            match next {
                Some((upper, next)) if upper < self.to => (lower, block) = (upper, next),
                _ => return Ok(None),
            }
            if group_end.as_ref().is_some_and(|end| *end <= lower) {
                return Ok(Some(lower));
            }
        }
    }

    /// Returns the upper bound of the group of blocks that contains the key `lower`. Returns `None` for the
    /// last group, and for a table without sums.
    fn group_end(&self, lower: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match &self.sums {
            Some(sums) => Ok(group_at(&sums.stored, &sums.rows, lower)?.upper),
            None => Ok(None),
        }
    }

    /// Returns one part with as many whole groups as possible, beginning with the group at the block `lower`.
    /// The part must be within the slice, must not exceed `summable_rows` rows, and must have no row that may
    /// have expired. Returns `None` if not even the first group qualifies.
    fn sum_from(&mut self, lower: &[u8]) -> Result<Option<Part>, StoreError> {
        let Some(sums) = self.sums.clone() else {
            return Ok(None);
        };
        let mut sum: Sum = group_at(&sums.stored, &sums.rows, lower)?.content;
        let mut walk = Walk::begin(&sums, Bound::Excluded(lower), ReadDirection::Forward)?;
        let mut total = RowBlock::default();
        let mut passed: Vec<(Vec<u8>, RowBlock)> = Vec::new();
        while let Some((end, value)) = walk.next()? {
            self.deadline.visit()?;
            let content = sum.content;
            total.rows = total.rows.saturating_add(content.rows);
            total.bytes = total.bytes.saturating_add(content.bytes);
            if end > self.to.as_slice() || total.rows > self.summable_rows || self.may_have_expired(content) {
                break;
            }
            passed.push((end.to_vec(), total));
            sum = read_entry(&sums.stored, end, value)?;
        }
        // The last block of a group may reach beyond the end of the group. End the part where that block
        // ends, if this is within the slice; otherwise leave out the group.
        while let Some((end, total)) = passed.pop() {
            let block = entry_at::<Block>(&self.blocks.stored, &self.blocks.rows, &end)?;
            let to = if block.lower == end {
                Some(end)
            } else {
                block.upper
            };
            if let Some(to) = to.filter(|to| *to <= self.to) {
                return Ok(Some(Part {
                    from: lower.to_vec(),
                    to,
                    whole: Some(total),
                }));
            }
        }
        Ok(None)
    }

    fn part(&mut self, lower: &[u8], upper: Option<&[u8]>, block: Block) -> Part {
        let is_whole =
            lower >= self.from.as_slice() && upper.is_some_and(|upper| upper <= self.to.as_slice());
        let to = upper.map_or(self.to.as_slice(), |upper| upper.min(self.to.as_slice()));
        Part {
            from: lower.max(self.from.as_slice()).to_vec(),
            to: to.to_vec(),
            whole: (is_whole && !self.may_have_expired(block)).then_some(RowBlock {
                rows: block.rows,
                bytes: block.bytes,
            }),
        }
    }

    fn may_have_expired(&mut self, block: Block) -> bool {
        block.may_have_expired(self.now.seconds())
    }

    fn rows_of(&mut self, part: &Part) -> Result<u64, StoreError> {
        self.size_of(part).map(|size| size.rows)
    }

    fn size_of(&mut self, part: &Part) -> Result<RowBlock, StoreError> {
        if let Some(whole) = part.whole {
            return Ok(whole);
        }
        let mut size = RowBlock::default();
        self.visit(part, |key, value| {
            size.rows += 1;
            size.bytes += (key.len() + value.len()) as u64;
            true
        })?;
        Ok(size)
    }

    fn row_in(&mut self, part: &Part, rank: u64) -> Result<Option<Cells>, StoreError> {
        let mut left = rank;
        let mut found = None;
        self.visit(part, |key, _| {
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

    /// Calls `work` with the key and the stored value of each row of a part that has not expired. Stops when
    /// `work` returns `false`.
    fn visit(&mut self, part: &Part, mut work: impl FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError> {
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
            if !row.is_gone(self.now.for_row(&row)).map_err(damage)? && !work(key, value) {
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
