//! Numbers of rows and bytes of each partition, for tables that count them.
//!
//! The counts are in separate tables of the engine, so that other tables have no cost. They are stored as rows
//! (`docs/format.md`), so that damage of counts is found like damage of rows. The transaction that changes the rows
//! also changes the counts: the changes of a group of requests are summed up here, and are written once before the
//! commit.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Cells, Table};
use recto_store::read::ROW_OVERHEAD_BYTES;
use recto_store::{PartitionCount, ReadOptions, StoreError};
use redb::ReadableTable as _;

use crate::blocks::{BlockTally, EntrySize};
use crate::catalog::{StoredTable, different};
use crate::clock::Deadline;
use crate::damage::{damaged, hex};
use crate::error::{corrupt, engine};
use crate::keys;
use crate::limits::LIMITS;
use crate::row::{Cell, Damage, Life, Row, StoredRow};
use crate::scan::partition_of;
use crate::state::{OpenTable, State};
use crate::walk::{RowsTable, Walk, find};

/// Number of cells of a stored count: its rows, and its bytes.
const CELLS: usize = 2;

/// Sizes of a stored row, as counts and blocks need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) counted: Size,
    /// `None`: there is no row, or the table has no blocks.
    pub(crate) stored: Option<EntrySize>,
}

impl Sizes {
    /// No row.
    pub(crate) const NOTHING: Self = Self {
        counted: Size::Nothing,
        stored: None,
    };
}

/// Size of a stored row, as counts need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// No row.
    Nothing,
    /// Row whose values have this number of bytes.
    Values(u64),
    /// Damaged row. Its part of the count is unknown.
    Unknown,
}

/// Returns the size of a stored row. `key_checksum` is the checksum of its key.
pub(crate) fn size(key_checksum: u32, value: &[u8]) -> Size {
    StoredRow::open(key_checksum, value)
        .and_then(|row| row.value_bytes())
        .map_or(Size::Unknown, Size::Values)
}

/// Returns the bytes of the clustering cells of the row at `key`. They follow the partition, which has `partition`
/// bytes, and the kind byte.
fn clustering_bytes(table: &StoredTable, key: &[u8], partition: usize) -> Result<u64, StoreError> {
    let mut cells = Cells::new();
    keys::decode(
        table.definition.clustering(),
        &mut &key[partition + 1..],
        &mut cells,
    )
    .map_err(|error| damaged(table, key, Damage::Layout).with_source(error))?;
    Ok(cells.byte_len() as u64)
}

/// Counter of rows that arrive in key order.
pub(crate) struct Counter<'t> {
    table: &'t StoredTable,
    /// Components of the current partition; empty before the first row.
    partition: Vec<u8>,
    count: PartitionCount,
}

/// Components of a partition, and its count.
pub(crate) type Counted = (Vec<u8>, PartitionCount);

impl<'t> Counter<'t> {
    pub(crate) fn new(table: &'t StoredTable) -> Self {
        Self {
            table,
            partition: Vec::new(),
            count: PartitionCount::default(),
        }
    }

    /// Counts the row at `key`. Returns the previous partition, if the row belongs to another one.
    pub(crate) fn add(&mut self, key: &[u8], row: &StoredRow<'_>) -> Result<Option<Counted>, StoreError> {
        let partition = partition_of(self.table, key)?;
        let before = self.enter(partition);
        if key[partition.len()] == keys::ROW {
            let values = row
                .value_bytes()
                .map_err(|damage| damaged(self.table, key, damage))?;
            let cells = values + clustering_bytes(self.table, key, partition.len())?;
            self.count.rows += 1;
            self.count.bytes += cells + ROW_OVERHEAD_BYTES;
        }
        Ok(before)
    }

    /// Continues with the rows of a partition. Returns the previous partition, if it is another one.
    pub(crate) fn enter(&mut self, partition: &[u8]) -> Option<Counted> {
        if partition == self.partition {
            return None;
        }
        let before = std::mem::replace(&mut self.partition, partition.to_vec());
        let count = std::mem::take(&mut self.count);
        (!before.is_empty()).then_some((before, count))
    }

    /// Returns the last partition, if there was one.
    pub(crate) fn finish(self) -> Option<Counted> {
        (!self.partition.is_empty()).then_some((self.partition, self.count))
    }
}

/// Change of the count of a partition.
#[derive(Debug, Clone, Copy, Default)]
struct Delta {
    rows: i64,
    bytes: i64,
    /// True if a damaged row was overwritten. Then the rows of the partition are counted again.
    anew: bool,
}

impl Delta {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.anew |= other.anew;
    }
}

/// Changes of the counts of a table.
pub(crate) struct TableDeltas {
    pub(crate) table: Arc<StoredTable>,
    partitions: BTreeMap<Vec<u8>, Delta>,
    /// Last request of the group that changed the table.
    pub(crate) request: usize,
}

impl TableDeltas {
    /// Writes the changes to the table's `counts`. `rows` are the table's rows after the changes.
    pub(crate) fn put_down(
        &self,
        counts: &mut RowsTable<'_>,
        rows: &RowsTable<'_>,
    ) -> Result<(), StoreError> {
        let Some(stored) = &self.table.counts else {
            return Ok(());
        };
        let mut value = Vec::new();
        for (partition, delta) in &self.partitions {
            if !delta.anew && (delta.rows, delta.bytes) == (0, 0) {
                continue;
            }
            let count = match self.changed(*delta, partition, counts)? {
                Some(count) => count,
                None => count_rows(&self.table, partition, rows)?,
            };
            if count.rows == 0 {
                counts.remove(partition.as_slice()).map_err(engine)?;
            } else {
                value.clear();
                encode(count, stored.key_checksum(partition), &mut value);
                counts
                    .insert(partition.as_slice(), value.as_slice())
                    .map_err(engine)?;
            }
        }
        Ok(())
    }

    /// Returns the count of a partition after the changes; `None` if the stored count cannot be used.
    fn changed(
        &self,
        delta: Delta,
        partition: &[u8],
        counts: &RowsTable<'_>,
    ) -> Result<Option<PartitionCount>, StoreError> {
        let Some(stored) = self.table.counts.as_ref().filter(|_| !delta.anew) else {
            return Ok(None);
        };
        let there = match find(stored, counts, partition)? {
            None => PartitionCount::default(),
            Some(value) => match decode(stored.key_checksum(partition), value.value()) {
                Ok(there) => there,
                Err(_) => return Ok(None),
            },
        };
        let rows = there.rows.checked_add_signed(delta.rows);
        let bytes = there.bytes.checked_add_signed(delta.bytes);
        match (rows, bytes) {
            (Some(rows), Some(bytes)) if (rows == 0) == (bytes == 0) => {
                Ok(Some(PartitionCount { rows, bytes }))
            }
            _ => Err(wrong(&self.table, partition)),
        }
    }
}

/// Returns the error of a count that contradicts the rows of its partition.
#[cold]
fn wrong(table: &StoredTable, partition: &[u8]) -> StoreError {
    corrupt(format!(
        "the count of a partition of table {} is wrong (key {})",
        table.definition.name(),
        hex(partition)
    ))
    .with_hint("check the store; compact it to count all partitions again")
}

/// Counts the rows of a partition, except damaged rows. A damaged row is counted when it is overwritten.
fn count_rows(
    table: &StoredTable,
    partition: &[u8],
    rows: &RowsTable<'_>,
) -> Result<PartitionCount, StoreError> {
    let (from, to) = (
        [partition, &[keys::ROW]].concat(),
        [partition, &[keys::ROW + 1]].concat(),
    );
    let mut counter = Counter::new(table);
    for entry in rows
        .range::<&[u8]>(from.as_slice()..to.as_slice())
        .map_err(engine)?
    {
        let (key, value) = entry.map_err(engine)?;
        if let Ok(row) = StoredRow::open(table.key_checksum(key.value()), value.value()) {
            counter.add(key.value(), &row)?;
        }
    }
    Ok(counter
        .finish()
        .map_or_else(PartitionCount::default, |(_, count)| count))
}

/// Appends the stored form of a count. `key_checksum` is the checksum of its key.
pub(crate) fn encode(count: PartitionCount, key_checksum: u32, out: &mut Vec<u8>) {
    let life = Life { stamp: 0, expiry: 0 };
    let (rows, bytes) = (count.rows.to_be_bytes(), count.bytes.to_be_bytes());
    let row = Row {
        marker: life,
        cells: [&rows, &bytes]
            .map(|cell| Cell {
                life,
                value: Some(cell.as_slice()),
            })
            .to_vec(),
    };
    row.encode(key_checksum, out);
}

/// Returns the count of a stored value. `key_checksum` is the checksum of its key.
pub(crate) fn decode(key_checksum: u32, value: &[u8]) -> Result<PartitionCount, Damage> {
    let row = StoredRow::open(key_checksum, value)?.decode(CELLS)?;
    let number = |index: usize| -> Result<u64, Damage> {
        let cell = row.cells[index].value.ok_or(Damage::Layout)?;
        cell.try_into()
            .map(u64::from_be_bytes)
            .map_err(|_| Damage::Layout)
    };
    if row.cells.len() != CELLS {
        return Err(Damage::Layout);
    }
    Ok(PartitionCount {
        rows: number(0)?,
        bytes: number(1)?,
    })
}

/// Returns the counts of partitions in a snapshot.
pub(crate) fn read(
    state: &State,
    table: &Table,
    partitions: &[Cells],
    options: &ReadOptions,
) -> Result<Vec<PartitionCount>, StoreError> {
    LIMITS.check_counted(table, partitions)?;
    let mut deadline = Deadline::new(&state.environment, options.timeout)?;
    let stored = state.catalog.find(table)?;
    // The stored table has the same options as the caller's table, so it has counts.
    let counts = stored.counts.as_ref().ok_or_else(|| different(table.name()))?;
    let open = state.open_counts(counts)?;
    let mut keys = Vec::with_capacity(partitions.len());
    for (index, partition) in partitions.iter().enumerate() {
        let mut key = Vec::new();
        keys::push_partition(table, partition, &mut key)?;
        keys.push((key, index));
    }
    // Sort the keys, so that one cursor reads consecutive partitions, such as buckets.
    keys.sort_unstable();
    let mut found = vec![PartitionCount::default(); partitions.len()];
    let mut along: Option<Along<'_>> = None;
    for (key, index) in &keys {
        deadline.visit()?;
        let along = match &mut along {
            Some(along) => along,
            none => none.insert(Along::begin(&open, key)?),
        };
        found[*index] = along.seek(key)?;
    }
    Ok(found)
}

/// Maximum number of counts that a walk passes before it searches the next one from the root.
const MAX_PASSED: usize = 16;

/// Walk along the counts, in key order.
struct Along<'a> {
    open: &'a OpenTable,
    walk: Walk<'a>,
    /// Key and value at the current position; `None`: the end.
    at: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Along<'a> {
    fn begin(open: &'a OpenTable, key: &'a [u8]) -> Result<Self, StoreError> {
        let walk = Walk::begin(open, Bound::Included(key), ReadDirection::Forward)?;
        let at = None;
        let mut along = Self { open, walk, at };
        along.step()?;
        Ok(along)
    }

    fn step(&mut self) -> Result<(), StoreError> {
        let entry = self.walk.next()?;
        match (entry, &mut self.at) {
            (Some((key, value)), Some(at)) => {
                at.0.clear();
                at.0.extend_from_slice(key);
                at.1.clear();
                at.1.extend_from_slice(value);
            }
            (entry, at) => *at = entry.map(|(key, value)| (key.to_vec(), value.to_vec())),
        }
        Ok(())
    }

    /// Returns the count of a key that comes after the previous one.
    fn seek(&mut self, key: &'a [u8]) -> Result<PartitionCount, StoreError> {
        let mut passed = 0;
        loop {
            match &self.at {
                Some((at, value)) if at == key => {
                    let counts = &self.open.stored;
                    return decode(counts.key_checksum(key), value)
                        .map_err(|damage| damaged(counts, key, damage));
                }
                Some((at, _)) if at.as_slice() < key => {}
                _ => return Ok(PartitionCount::default()),
            }
            if passed == MAX_PASSED {
                *self = Self::begin(self.open, key)?;
                continue;
            }
            passed += 1;
            self.step()?;
        }
    }
}

/// Changes of counts by a transaction, by the numbers of tables.
#[derive(Default)]
pub(crate) struct Deltas(BTreeMap<u32, TableDeltas>);

impl Deltas {
    fn add(&mut self, table: &Arc<StoredTable>, partition: &[u8], delta: Delta, request: usize) {
        let deltas = self.0.entry(table.id).or_insert_with(|| TableDeltas {
            table: Arc::clone(table),
            partitions: BTreeMap::new(),
            request,
        });
        deltas.request = request;
        match deltas.partitions.get_mut(partition) {
            Some(sum) => sum.add(delta),
            None => drop(deltas.partitions.insert(partition.to_vec(), delta)),
        }
    }

    /// Removes and returns the changes of one table.
    pub(crate) fn pop(&mut self) -> Option<TableDeltas> {
        self.0.pop_first().map(|(_, deltas)| deltas)
    }

    /// Removes the changes of a table that is dropped.
    pub(crate) fn forget(&mut self, table: &StoredTable) {
        self.0.remove(&table.id);
    }
}

/// Record of the changes of counts and blocks by one request.
#[derive(Default)]
pub(crate) struct Tally<'t> {
    pub(crate) blocks: BlockTally<'t>,
    /// Table of the current change, if it counts rows.
    table: Option<Arc<StoredTable>>,
    /// Components of the partition of the previous change; empty before the first change.
    partition: Vec<u8>,
    delta: Delta,
    /// Changes of earlier partitions.
    done: Vec<(Arc<StoredTable>, Vec<u8>, Delta)>,
}

impl<'t> Tally<'t> {
    /// Continues with changes of `table`.
    pub(crate) fn enter(&mut self, table: &Arc<StoredTable>) {
        let is_in = self.table.as_ref().is_some_and(|there| there.id == table.id);
        if !is_in && (self.table.is_some() || table.counts.is_some()) {
            self.leave();
            self.table = table.counts.is_some().then(|| Arc::clone(table));
        }
    }

    /// Returns the sizes of a stored row that the table needs.
    pub(crate) fn size(&self, key_checksum: u32, value: &[u8]) -> Sizes {
        let mut sizes = Sizes::NOTHING;
        if self.table.is_some() {
            sizes.counted = size(key_checksum, value);
        }
        if self.blocks.is_active() {
            sizes.stored = Some(EntrySize::of(key_checksum, value));
        }
        sizes
    }

    /// Records a new row at `key`. `cells` is the number of bytes of its cells, including those of its key.
    pub(crate) fn note_new(
        &mut self,
        (key, key_checksum): (&[u8], u32),
        value: &[u8],
        cells: u32,
    ) -> Result<(), StoreError> {
        if self.blocks.is_active() {
            self.blocks
                .note(key, None, Some(EntrySize::of(key_checksum, value)))?;
        }
        if self.table.is_some() && self.enter_partition(key)? {
            self.delta.rows += 1;
            self.delta.bytes += i64::from(cells) + ROW_OVERHEAD_BYTES.cast_signed();
        }
        Ok(())
    }

    /// Continues with the entry at `key`. Returns whether that is a row, and not a static row.
    fn enter_partition(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        let is_same = !self.partition.is_empty() && key.starts_with(&self.partition);
        if !is_same && let Some(table) = self.table.clone() {
            self.leave();
            self.partition.extend_from_slice(partition_of(&table, key)?);
        }
        Ok(key.get(self.partition.len()) == Some(&keys::ROW))
    }

    /// Records that the entry at `key` changed its size.
    pub(crate) fn note(&mut self, key: &[u8], before: Sizes, after: Sizes) -> Result<(), StoreError> {
        self.blocks.note(key, before.stored, after.stored)?;
        let (before, after) = (before.counted, after.counted);
        if self.table.is_none() || !self.enter_partition(key)? {
            return Ok(());
        }
        let Some(table) = &self.table else { return Ok(()) };
        let partition = self.partition.len();
        let counted = |size: Size, cells: u64| match size {
            Size::Values(values) => (1, (values + cells + ROW_OVERHEAD_BYTES).cast_signed()),
            Size::Nothing | Size::Unknown => (0, 0),
        };
        self.delta.anew |= before == Size::Unknown || after == Size::Unknown;
        // If the row exists before and after the write, the bytes of its key do not change the
        // difference.
        let stays = matches!((before, after), (Size::Values(_), Size::Values(_)));
        let cells = if stays || before == after {
            0
        } else {
            clustering_bytes(table, key, partition)?
        };
        let ((rows_before, before), (rows_after, after)) = (counted(before, cells), counted(after, cells));
        self.delta.rows += rows_after - rows_before;
        self.delta.bytes += after - before;
        Ok(())
    }

    /// Ends the current partition.
    fn leave(&mut self) {
        let partition = std::mem::take(&mut self.partition);
        let delta = std::mem::take(&mut self.delta);
        if let (Some(table), false) = (&self.table, partition.is_empty()) {
            self.done.push((Arc::clone(table), partition, delta));
        }
    }

    /// Adds the recorded changes of counts to the `deltas` of a transaction, as changes of the request of this number. Returns
    /// the changes of blocks.
    pub(crate) fn finish(mut self, deltas: &mut Deltas, request: usize) -> BlockTally<'t> {
        self.leave();
        for (table, partition, delta) in self.done {
            deltas.add(&table, &partition, delta, request);
        }
        self.blocks
    }
}
