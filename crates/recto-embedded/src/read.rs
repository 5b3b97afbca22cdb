//! Slices and point reads.

use std::ops::{Bound, Range};

use recto_model::table::ReadDirection;
use recto_model::{Cells, Environment, RowSet, Slice, Table};
use recto_store::{PointRead, ReadOptions, RowsRead, StoreError};

use crate::catalog::StoredTable;
use crate::clock::{Deadline, Now};
use crate::damage::damaged;
use crate::keys;
use crate::limits::LIMITS;
use crate::row::{Damage, Life, StoredRow};
use crate::state::{OpenTable, State};
use crate::verified::pages_asked;
use crate::walk::{Walk, find, verify};

/// Maximum number of rows for which a read reserves memory before it has read a row.
const ROWS_ROOM: usize = 128;
/// Assumed bytes of a row, to reserve memory before a row was read.
const ROW_ROOM_BYTES: usize = 160;

/// Position, in the buffer of cells, of a cell that many rows share. `None`: the cell is null.
type Shared = Option<Range<usize>>;

/// Builder of the result of a read. The cells of the partition key and the static cells are copied into the
/// buffer once, and every row refers to them.
pub(crate) struct Collector<'a> {
    table: &'a StoredTable,
    /// Definition of the table that the reader has. It may lack the columns that were added last.
    definition: &'a Table,
    pub(crate) rows: RowSet,
    pub(crate) bytes: u64,
    /// Timestamp and expiry of each row, if the read requests them.
    pub(crate) lives: Option<Vec<Life>>,
    now: Now<'a>,
    partition: Vec<Shared>,
    statics: Vec<Shared>,
    /// Bytes with which all keys of the partition's rows begin, including the kind byte.
    prefix: Vec<u8>,
    prefix_checksum: u32,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        table: &'a StoredTable,
        definition: &'a Table,
        environment: &'a Environment,
        limit: u32,
        stamps: bool,
    ) -> Self {
        let room = (limit as usize).min(ROWS_ROOM);
        Self {
            table,
            definition,
            rows: RowSet::with_capacity(definition.columns().len(), room, ROW_ROOM_BYTES),
            bytes: 0,
            lives: stamps.then(Vec::new),
            now: Now::new(environment),
            partition: Vec::new(),
            statics: Vec::new(),
            prefix: Vec::new(),
            prefix_checksum: 0,
        }
    }

    /// Starts adding the rows of another partition. Their keys begin with `prefix` and the kind byte.
    pub(crate) fn enter(&mut self, prefix: &[u8]) -> Result<(), StoreError> {
        let mut cells = Cells::with_capacity(self.definition.partition().len(), prefix.len());
        keys::decode(self.definition.partition(), &mut &*prefix, &mut cells)
            .map_err(|error| damaged(self.table, prefix, Damage::Layout).with_source(error))?;
        self.partition.clear();
        self.statics.clear();
        for cell in cells.iter() {
            let bytes = cell.unwrap_or_default();
            let start = self.rows.push_bytes(bytes);
            self.partition.push(Some(start..start + bytes.len()));
        }
        self.statics.resize(self.definition.statics().len(), None);
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        self.prefix.push(keys::ROW);
        self.prefix_checksum = self.table.key_checksum(&self.prefix);
        Ok(())
    }

    /// Returns the bytes with which the keys of the partition's rows begin.
    pub(crate) fn rows_prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns whether `key` belongs to the current partition.
    pub(crate) fn is_inside(&self, key: &[u8]) -> bool {
        let partition = &self.prefix[..self.prefix.len().saturating_sub(1)];
        !partition.is_empty() && key.starts_with(partition)
    }

    /// Takes the static cells of the current partition from the stored static row `value`. Returns whether
    /// the row contains a value.
    pub(crate) fn set_statics(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        let columns = self.definition.statics().len();
        let stored = StoredRow::open(self.table.key_checksum(key), value)
            .map_err(|damage| damaged(self.table, key, damage))?;
        let mut row = stored
            .decode(columns)
            .map_err(|damage| damaged(self.table, key, damage))?;
        row.end(self.now.for_row(&stored));
        for (place, cell) in self.statics.iter_mut().zip(&row.cells) {
            *place = cell.value.map(|value| {
                let start = self.rows.push_bytes(value);
                start..start + value.len()
            });
        }
        self.bytes += (key.len() + value.len()) as u64;
        Ok(row.exists())
    }

    /// Adds the row that is stored at `key` in the current partition, unless the row has expired. Returns
    /// whether the row was added.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        let Some(clustering) = key.strip_prefix(self.prefix.as_slice()) else {
            return Err(damaged(self.table, key, Damage::Layout));
        };
        let checksum = crc32c::crc32c_append(self.prefix_checksum, clustering);
        let stored = StoredRow::open(checksum, value).map_err(|damage| damaged(self.table, key, damage))?;
        let now_seconds = self.now.for_row(&stored);
        if stored
            .is_gone(now_seconds)
            .map_err(|damage| damaged(self.table, key, damage))?
        {
            return Ok(false);
        }
        push_shared(&self.partition, &mut self.rows);
        let mut rest = clustering;
        for column in self.definition.clustering() {
            let direction = keys::direction(column);
            self.rows
                .try_push_cell_with(|out| recto_model::key::decode(&column.ty, direction, &mut rest, out))
                .map_err(|error| damaged(self.table, key, Damage::Layout).with_source(error))?;
        }
        if !rest.is_empty() {
            return Err(damaged(self.table, key, Damage::Layout));
        }
        push_shared(&self.statics, &mut self.rows);
        let life = stored
            .push_cells(
                self.definition.regular().len(),
                self.table.definition.regular().len(),
                now_seconds,
                &mut self.rows,
            )
            .map_err(|damage| damaged(self.table, key, damage))?;
        if let (Some(lives), Some(life)) = (&mut self.lives, life) {
            lives.push(life);
        }
        self.bytes += (key.len() + value.len()) as u64;
        Ok(true)
    }

    /// Adds one row for a partition that has only static cells.
    pub(crate) fn push_statics_only(&mut self) {
        push_shared(&self.partition, &mut self.rows);
        for _ in self.definition.clustering() {
            self.rows.push_cell(None);
        }
        push_shared(&self.statics, &mut self.rows);
        for _ in self.definition.regular() {
            self.rows.push_cell(None);
        }
        if let Some(lives) = &mut self.lives {
            lives.push(Life::NO_VALUE);
        }
    }

    /// Returns the timestamps and the remaining lifetimes of the rows, in the form of a read's result.
    pub(crate) fn take_lives(&mut self) -> (Vec<i64>, Vec<Option<u32>>) {
        let lives = self.lives.take().unwrap_or_default();
        let told = lives.into_iter().map(|life| {
            let ends = (life.expiry != 0).then(|| life.expiry.saturating_sub(self.now.seconds()));
            (life.stamp, ends)
        });
        told.unzip()
    }

    fn into_read(mut self, exhausted: bool) -> RowsRead {
        let (stamps, ends_in_seconds) = self.take_lives();
        RowsRead {
            rows: self.rows,
            exhausted,
            bytes: self.bytes,
            stamps,
            ends_in_seconds,
            ..RowsRead::default()
        }
    }
}

#[inline]
fn push_shared(cells: &[Shared], rows: &mut RowSet) {
    for cell in cells {
        match cell {
            Some(place) => rows.push_span(place.start, place.len()),
            None => rows.push_cell(None),
        }
    }
}

/// Maximum number of rows of a slice that is read immediately, on the caller's thread, if it is in memory.
/// Reading this number of rows from memory takes less than a millisecond. A longer slice, or a slice that is
/// on disk, is read on a thread that may block.
pub const INLINE_ROWS: u32 = 2_000;

/// Permission of a read to wait for the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Disk {
    /// The read may wait until pages are read from the disk.
    Wait,
    /// The read ends at the next row after a page was not in memory, or after more than [`INLINE_ROWS`] rows.
    /// The second condition is necessary because the limit of a slice does not count expired rows.
    Avoid,
}

/// Returns the rows of one slice. Returns `None` if some of them are on disk and the read must not wait for
/// the disk.
pub(crate) fn slice(
    state: &State,
    slice: &Slice,
    options: &ReadOptions,
    disk: Disk,
) -> Result<Option<RowsRead>, StoreError> {
    let asked_before = pages_asked();
    LIMITS.check_slice(slice)?;
    let mut deadline = Deadline::new(&state.environment, options.timeout)?;
    let open = state.open(&slice.table)?;
    let (stored, known) = (&open.stored, &*slice.table);
    let mut collector = Collector::new(stored, known, &state.environment, slice.limit, options.stamps);
    enter(&open, &slice.partition, &mut collector, options)?;
    let from = keys::edge(&slice.table, collector.rows_prefix(), &slice.from)?;
    let to = keys::edge(&slice.table, collector.rows_prefix(), &slice.to)?;
    if from >= to {
        return Ok(Some(collector.into_read(true)));
    }
    let (near, far) = match slice.direction {
        ReadDirection::Forward => (from.as_slice(), to.as_slice()),
        ReadDirection::Backward => (to.as_slice(), from.as_slice()),
    };
    let mut walk = Walk::begin(&open, Bound::Included(near), slice.direction)?;
    let mut left = slice.limit;
    let mut met = 0;
    while left > 0 && (collector.bytes < options.max_bytes || collector.rows.is_empty()) {
        let Some((key, value)) = walk.next()? else {
            return Ok(Some(collector.into_read(true)));
        };
        let is_beyond = match slice.direction {
            ReadDirection::Forward => key >= far,
            ReadDirection::Backward => key < far,
        };
        // A damaged key may only seem to be beyond the slice, so verify its checksum before it ends
        // the slice.
        if is_beyond {
            verify(stored, key, value)?;
            return Ok(Some(collector.into_read(true)));
        }
        met += 1;
        if matches!(disk, Disk::Avoid) && (met > INLINE_ROWS || pages_asked() != asked_before) {
            return Ok(None);
        }
        deadline.visit()?;
        if collector.push(key, value)? {
            left -= 1;
        }
    }
    Ok(Some(collector.into_read(false)))
}

/// Makes `partition` the current partition of the collector, and reads its static cells if the caller uses
/// them.
fn enter(
    open: &OpenTable,
    partition: &Cells,
    collector: &mut Collector<'_>,
    options: &ReadOptions,
) -> Result<(), StoreError> {
    let definition = &open.stored.definition;
    let mut key = Vec::with_capacity(partition.byte_len() + keys::KEY_ROOM_BYTES);
    keys::push_partition(definition, partition, &mut key)?;
    collector.enter(&key)?;
    if !options.unseen.contains_statics(definition) {
        key.push(keys::STATIC);
        take_statics(open, &key, collector)?;
    }
    Ok(())
}

/// Reads the static row at `key`, if it exists, into `collector`. Returns whether the row contains a value.
pub(crate) fn take_statics(
    open: &OpenTable,
    key: &[u8],
    collector: &mut Collector<'_>,
) -> Result<bool, StoreError> {
    match find(&open.stored, &open.rows, key)? {
        Some(value) => collector.set_statics(key, value.value()),
        None => Ok(false),
    }
}

/// Returns one row by its full key.
pub(crate) fn get(state: &State, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
    LIMITS.check_point(read)?;
    Deadline::new(&state.environment, options.timeout)?;
    let open = state.open(&read.table)?;
    let (stored, known) = (&open.stored, &*read.table);
    let mut collector = Collector::new(stored, known, &state.environment, 1, options.stamps);
    let mut key =
        Vec::with_capacity(read.partition.byte_len() + read.clustering.byte_len() + keys::KEY_ROOM_BYTES);
    keys::push_row(&read.table, &read.partition, &read.clustering, &mut key)?;
    if let Some(value) = find(stored, &open.rows, &key)? {
        enter(&open, &read.partition, &mut collector, options)?;
        collector.push(&key, value.value())?;
    }
    Ok(collector.into_read(true))
}

/// Returns the static cells of a partition.
pub(crate) fn get_statics(
    state: &State,
    table: &Table,
    partition: &Cells,
    options: &ReadOptions,
) -> Result<RowsRead, StoreError> {
    LIMITS.check_partition(table, partition)?;
    Deadline::new(&state.environment, options.timeout)?;
    let open = state.open(table)?;
    let mut read = RowsRead {
        rows: RowSet::new(table.statics().len()),
        exhausted: true,
        ..RowsRead::default()
    };
    let mut key = Vec::with_capacity(partition.byte_len() + keys::KEY_ROOM_BYTES);
    keys::push_partition(table, partition, &mut key)?;
    key.push(keys::STATIC);
    let Some(value) = find(&open.stored, &open.rows, &key)? else {
        return Ok(read);
    };
    let damage = |damage| damaged(&open.stored, &key, damage);
    let stored = StoredRow::open(open.stored.key_checksum(&key), value.value()).map_err(damage)?;
    let mut now = Now::new(&state.environment);
    let life = stored
        .push_cells(
            table.statics().len(),
            table.statics().len(),
            now.for_row(&stored),
            &mut read.rows,
        )
        .map_err(damage)?;
    read.bytes = (key.len() + value.value().len()) as u64;
    if let (true, Some(life)) = (options.stamps, life) {
        read.stamps.push(life.stamp);
    }
    Ok(read)
}
