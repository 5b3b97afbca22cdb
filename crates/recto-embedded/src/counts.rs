//! How many rows and bytes each partition of a table has, where the table says that it counts them.
//!
//! The counts lie in a table of the engine of their own, so that tables that count nothing cost nothing, and as stored
//! rows (`docs/format.md`), so that damage to them is found as damage to rows is. They are changed by the transaction that
//! changes the rows: changes of a group of requests are summed up here, and put down once before its commit.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Cells, Table};
use recto_store::read::ROW_OVERHEAD_BYTES;
use recto_store::{PartitionCount, ReadOptions, StoreError};
use redb::ReadableTable as _;

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

/// What a count is stored as: its rows, its bytes.
const CELLS: usize = 2;

/// What became of a row, as far as counts go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// There is none.
    Nothing,
    /// One whose values have so many bytes.
    Values(u64),
    /// One that is damaged: what it counted as is not known.
    Unknown,
}

/// The size of a stored row under the key that `key_checksum` is the checksum of.
pub(crate) fn size(key_checksum: u32, value: &[u8]) -> Size {
    StoredRow::open(key_checksum, value)
        .and_then(|row| row.value_bytes())
        .map_or(Size::Unknown, Size::Values)
}

/// The bytes of the clustering cells of the row at `key`, which follow `partition` and the kind byte.
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

/// Counts rows that come in the order of their keys.
pub(crate) struct Counter<'t> {
    table: &'t StoredTable,
    /// The components of the partition at hand; empty before the first one.
    partition: Vec<u8>,
    count: PartitionCount,
}

/// The components of a partition, and its count.
pub(crate) type Counted = (Vec<u8>, PartitionCount);

impl<'t> Counter<'t> {
    pub(crate) fn new(table: &'t StoredTable) -> Self {
        Self {
            table,
            partition: Vec::new(),
            count: PartitionCount::default(),
        }
    }

    /// Counts the row at `key`. Returns the partition before, if this is of another.
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

    /// Goes on with rows of a partition. Returns the one before, if it is another.
    pub(crate) fn enter(&mut self, partition: &[u8]) -> Option<Counted> {
        if partition == self.partition {
            return None;
        }
        let before = std::mem::replace(&mut self.partition, partition.to_vec());
        let count = std::mem::take(&mut self.count);
        (!before.is_empty()).then_some((before, count))
    }

    /// The last partition, if there was one.
    pub(crate) fn finish(self) -> Option<Counted> {
        (!self.partition.is_empty()).then_some((self.partition, self.count))
    }
}

/// What changes did to the count of a partition.
#[derive(Debug, Clone, Copy, Default)]
struct Delta {
    rows: i64,
    bytes: i64,
    /// Whether a damaged row was written over: its rows are counted anew.
    anew: bool,
}

impl Delta {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.anew |= other.anew;
    }
}

/// What changes did to the counts of a table.
pub(crate) struct TableDeltas {
    pub(crate) table: Arc<StoredTable>,
    partitions: BTreeMap<Vec<u8>, Delta>,
    /// The last request of the group that changed it.
    pub(crate) request: usize,
}

impl TableDeltas {
    /// Puts them down in the table's `counts`; its `rows` are as the changes left them.
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

    /// The count of a partition after changes; none if what is there cannot be gone on from.
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

/// A count cannot be what the rows of its partition were.
#[cold]
fn wrong(table: &StoredTable, partition: &[u8]) -> StoreError {
    corrupt(format!(
        "the count of a partition of table {} is wrong (key {})",
        table.definition.name(),
        hex(partition)
    ))
    .with_hint("run a check; compacting the store counts all partitions anew")
}

/// Counts the rows of a partition, those that are damaged left out: they are counted when they are written over.
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

/// Appends the stored form of a count, for the key that `key_checksum` is the checksum of.
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

/// The count that is stored under the key that `key_checksum` is the checksum of.
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

/// The counts of partitions in a snapshot.
pub(crate) fn read(
    state: &State,
    table: &Table,
    partitions: &[Cells],
    options: &ReadOptions,
) -> Result<Vec<PartitionCount>, StoreError> {
    LIMITS.check_counted(table, partitions)?;
    let mut deadline = Deadline::new(&state.environment, options.timeout)?;
    let stored = state.catalog.find(table)?;
    // One that serves the caller has the caller's options.
    let counts = stored.counts.as_ref().ok_or_else(|| different(table.name()))?;
    let open = state.open_counts(counts)?;
    let mut keys = Vec::with_capacity(partitions.len());
    for (index, partition) in partitions.iter().enumerate() {
        let mut key = Vec::new();
        keys::push_partition(table, partition, &mut key)?;
        keys.push((key, index));
    }
    // Partitions that follow one another, as buckets do, are gone along.
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

/// How many counts are gone past before one is looked for anew.
const MAX_PASSED: usize = 16;

/// Goes along counts in the order of their keys.
struct Along<'a> {
    open: &'a OpenTable,
    walk: Walk<'a>,
    /// The key and the value where it stands; none: at the end.
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

    /// The count of a key that lies behind the one before.
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

/// What changes of a transaction did to counts, by the numbers of tables.
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

    /// Takes what was done to one table.
    pub(crate) fn pop(&mut self) -> Option<TableDeltas> {
        self.0.pop_first().map(|(_, deltas)| deltas)
    }

    /// Forgets those of a table that is dropped.
    pub(crate) fn forget(&mut self, table: &StoredTable) {
        self.0.remove(&table.id);
    }
}

/// Notes what the changes of one request do to counts.
#[derive(Default)]
pub(crate) struct Tally {
    /// The table of the change at hand, if it counts.
    table: Option<Arc<StoredTable>>,
    /// The components of the partition of the change before; empty if there was none.
    partition: Vec<u8>,
    delta: Delta,
    /// Those of partitions before.
    done: Vec<(Arc<StoredTable>, Vec<u8>, Delta)>,
}

impl Tally {
    /// Goes on with changes of `table`.
    pub(crate) fn enter(&mut self, table: &Arc<StoredTable>) {
        let is_in = self.table.as_ref().is_some_and(|there| there.id == table.id);
        if !is_in && (self.table.is_some() || table.counts.is_some()) {
            self.leave();
            self.table = table.counts.is_some().then(|| Arc::clone(table));
        }
    }

    /// The size of a stored row, if it matters.
    pub(crate) fn size(&self, key_checksum: u32, value: &[u8]) -> Size {
        if self.table.is_none() {
            return Size::Nothing;
        }
        size(key_checksum, value)
    }

    /// Notes that a row of so many bytes, those of its key included, is stored at `key` where none was.
    pub(crate) fn note_new(&mut self, key: &[u8], cells: u32) -> Result<(), StoreError> {
        if self.table.is_some() && self.enter_partition(key)? {
            self.delta.rows += 1;
            self.delta.bytes += i64::from(cells) + ROW_OVERHEAD_BYTES.cast_signed();
        }
        Ok(())
    }

    /// Goes on with what is stored at `key`; whether that is a row, and no static cells.
    fn enter_partition(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        let is_same = !self.partition.is_empty() && key.starts_with(&self.partition);
        if !is_same && let Some(table) = self.table.clone() {
            self.leave();
            self.partition.extend_from_slice(partition_of(&table, key)?);
        }
        Ok(key.get(self.partition.len()) == Some(&keys::ROW))
    }

    /// Notes that what is stored at `key` became another.
    pub(crate) fn note(&mut self, key: &[u8], before: Size, after: Size) -> Result<(), StoreError> {
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
        // Where a row stays one, its key does not matter.
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

    /// Ends the partition at hand.
    fn leave(&mut self) {
        let partition = std::mem::take(&mut self.partition);
        let delta = std::mem::take(&mut self.delta);
        if let (Some(table), false) = (&self.table, partition.is_empty()) {
            self.done.push((Arc::clone(table), partition, delta));
        }
    }

    /// Adds what was noted to the `deltas` of a transaction, as changes of the request of this number.
    pub(crate) fn finish(mut self, deltas: &mut Deltas, request: usize) {
        self.leave();
        for (table, partition, delta) in self.done {
            deltas.add(&table, &partition, delta, request);
        }
    }
}
