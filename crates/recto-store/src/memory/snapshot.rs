//! Reads of the reference store.

use std::sync::Arc;

use async_trait::async_trait;
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Column, RowSet, Slice, Table};

use super::partition::{LiveRow, Partition, lies_before};
use super::{Contents, MemoryStore, PartitionKey, State, in_time, partition_key};
use crate::{
    PointRead, ReadOptions, RowsRead, ScanPosition, ScanRead, Snapshot, StoreError, StoreErrorKind,
    TokenRange,
};

/// Snapshot of the reference store. Without a `snapshot`, each read sees the current state.
pub(super) struct MemorySnapshot {
    store: MemoryStore,
    snapshot: Option<Arc<State>>,
}

/// Rows that a read has collected so far, and the limits at which it stops.
struct Reading<'a> {
    table: &'a Table,
    options: &'a ReadOptions,
    limit: usize,
    read: RowsRead,
}

impl<'a> Reading<'a> {
    fn new(table: &'a Table, options: &'a ReadOptions, limit: u32) -> Self {
        let rows = RowSet::new(table.columns().len());
        Self {
            table,
            options,
            limit: limit as usize,
            read: RowsRead {
                rows,
                ..RowsRead::default()
            },
        }
    }

    /// Returns whether the read has reached a limit.
    fn is_full(&self) -> bool {
        let rows = self.read.rows.len();
        rows == self.limit || (rows > 0 && self.read.bytes >= self.options.max_bytes)
    }

    fn push(&mut self, partition: &[Vec<u8>], statics: &[Option<&[u8]>], row: Option<&LiveRow<'_>>) {
        let nulls = |columns: &[Column]| vec![None; columns.len()];
        let (clustering, regular) = match row {
            Some(row) => (row.clustering.iter().collect(), row.cells.clone()),
            None => (nulls(self.table.clustering()), nulls(self.table.regular())),
        };
        let partition = partition.iter().map(|part| Some(part.as_slice()));
        let statics = statics.iter().copied();
        let cells: Cells = partition
            .chain(clustering)
            .chain(statics)
            .chain(regular)
            .collect();
        self.read.bytes += cells.byte_len() as u64;
        self.read.rows.push_row(cells.as_row());
        if self.options.stamps {
            self.read.stamps.push(row.map_or(0, |row| row.stamp));
            let ends = row.and_then(|row| row.ends_in_seconds);
            self.read.ends_in_seconds.push(ends);
        }
    }

    fn finish(mut self) -> RowsRead {
        self.read.exhausted = !self.is_full();
        self.read
    }
}

impl MemorySnapshot {
    pub(super) fn new(store: MemoryStore, snapshot: Option<Arc<State>>) -> Self {
        Self { store, snapshot }
    }

    fn contents(&self, table: &Table, options: &ReadOptions) -> Result<Arc<Contents>, StoreError> {
        in_time(options.timeout)?;
        match &self.snapshot {
            Some(state) => state.contents(table).cloned(),
            None => self.store.lock().contents(table).cloned(),
        }
    }

    fn now(&self) -> i64 {
        self.store.environment.now_micros()
    }

    fn read_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.store.limits.check_slice(slice)?;
        let contents = self.contents(&slice.table, options)?;
        let mut reading = Reading::new(&slice.table, options, slice.limit);
        let key = partition_key(&slice.partition);
        if let Some(partition) = contents.partitions.get(&key) {
            let now = self.now();
            let statics = partition.live_statics(now);
            let mut rows = partition.live_rows(&slice.table, now);
            rows.retain(|row| {
                !lies_before(&slice.table, row.clustering, &slice.from)
                    && lies_before(&slice.table, row.clustering, &slice.to)
            });
            if slice.direction == ReadDirection::Backward {
                rows.reverse();
            }
            for row in &rows {
                if reading.is_full() {
                    break;
                }
                reading.push(&key, &statics, Some(row));
            }
        }
        Ok(reading.finish())
    }
}

#[async_trait]
impl Snapshot for MemorySnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.read_slice(slice, options)
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        (!self.store.limits.remote).then(|| self.read_slice(slice, options))
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.store.limits.check_point(read)?;
        let slice = Slice {
            table: read.table.clone(),
            partition: read.partition.clone(),
            from: Bound::Before(read.clustering.clone()),
            to: Bound::After(read.clustering.clone()),
            direction: ReadDirection::Forward,
            limit: 1,
        };
        let mut found = self.read_slice(&slice, options)?;
        found.exhausted = true;
        Ok(found)
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.store.limits.check_partition(table, partition)?;
        let contents = self.contents(table, options)?;
        let mut rows = RowSet::new(table.statics().len());
        if let Some(found) = contents.partitions.get(&partition_key(partition)) {
            let statics = found.live_statics(self.now());
            if statics.iter().any(Option::is_some) {
                for cell in statics {
                    rows.push_cell(cell);
                }
            }
        }
        Ok(RowsRead {
            bytes: rows.byte_len() as u64,
            rows,
            exhausted: true,
            ..RowsRead::default()
        })
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        let contents = self.contents(table, &ReadOptions::default())?;
        let keys: Vec<&PartitionKey> = contents.partitions.keys().collect();
        let step = keys.len().div_ceil(pieces.max(1) as usize).max(1);
        let mut edges: Vec<Vec<u8>> = keys.into_iter().step_by(step).map(|key| join(key)).collect();
        match edges.first_mut() {
            Some(first) => first.clear(),
            None => edges.push(Vec::new()),
        }
        let ends = edges.iter().skip(1).cloned().chain([Vec::new()]);
        Ok(edges
            .iter()
            .cloned()
            .zip(ends)
            .map(|(start, end)| TokenRange { start, end })
            .collect())
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let contents = self.contents(table, options)?;
        let now = self.now();
        let mut reading = Reading::new(table, options, limit.max(1));
        let start = split(&range.start)?;
        let end = split(&range.end)?;
        let after = Position::of(table, after)?;
        let mut next = None;
        for (key, partition) in contents.partitions.range(start.max(after.partition.clone())..) {
            if !end.is_empty() && *key >= end {
                break;
            }
            let statics = partition.live_statics(now);
            for row in scanned_rows(table, partition, &statics, now) {
                let clustering = row.as_ref().map(|row| row.clustering);
                if after.covers(table, key, clustering) {
                    continue;
                }
                if reading.is_full() {
                    let read = reading.finish();
                    return Ok(ScanRead {
                        rows: read.rows,
                        next,
                        bytes: read.bytes,
                        stamps: read.stamps,
                        ends_in_seconds: read.ends_in_seconds,
                    });
                }
                reading.push(key, &statics, row.as_ref());
                next = Some(Position::at(key, clustering));
            }
        }
        let read = reading.finish();
        Ok(ScanRead {
            rows: read.rows,
            next: None,
            bytes: read.bytes,
            stamps: read.stamps,
            ends_in_seconds: read.ends_in_seconds,
        })
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let contents = self.contents(table, options)?;
        let now = self.now();
        let start = split(&range.start)?;
        let end = split(&range.end)?;
        let after = after.map(|position| split(&position.0)).transpose()?;
        let mut read = ScanRead {
            rows: RowSet::new(table.partition().len() + table.statics().len()),
            ..ScanRead::default()
        };
        for (key, partition) in contents.partitions.range(start..) {
            if !end.is_empty() && *key >= end {
                break;
            }
            let is_done = after.as_ref().is_some_and(|after| key <= after);
            let statics = partition.live_statics(now);
            if is_done || scanned_rows(table, partition, &statics, now).is_empty() {
                continue;
            }
            let parts = key.iter().map(|part| Some(part.as_slice()));
            let cells: Cells = parts.chain(statics).collect();
            read.rows.push_row(cells.as_row());
            read.bytes = read.rows.byte_len() as u64;
            if read.rows.len() >= limit as usize || read.bytes >= options.max_bytes {
                read.next = Some(ScanPosition(join(key)));
                break;
            }
        }
        Ok(read)
    }
}

/// Returns the rows of a partition for a scan. If the partition has only static cells, returns one `None`.
fn scanned_rows<'a>(
    table: &Table,
    partition: &'a Partition,
    statics: &[Option<&[u8]>],
    now: i64,
) -> Vec<Option<LiveRow<'a>>> {
    let rows = partition.live_rows(table, now);
    if rows.is_empty() && statics.iter().any(Option::is_some) {
        return vec![None];
    }
    rows.into_iter().map(Some).collect()
}

/// Position at which a scan stopped: after a row, or after a partition without rows.
struct Position {
    partition: PartitionKey,
    clustering: Option<Cells>,
}

impl Position {
    fn at(partition: &PartitionKey, clustering: Option<&Cells>) -> ScanPosition {
        let mut parts = partition.clone();
        let clustering = clustering.iter().flat_map(|cells| cells.iter());
        parts.extend(clustering.map(|cell| cell.expect("key cells are not null").to_vec()));
        ScanPosition(join(&parts))
    }

    fn of(table: &Table, position: Option<&ScanPosition>) -> Result<Self, StoreError> {
        let mut partition = position.map_or(Ok(Vec::new()), |position| split(&position.0))?;
        let rest = partition.split_off(table.partition().len().min(partition.len()));
        let cells: Cells = rest.iter().map(|part| Some(part.as_slice())).collect();
        Ok(Self {
            partition,
            clustering: (cells.len() == table.clustering().len()).then_some(cells),
        })
    }

    fn covers(&self, table: &Table, partition: &PartitionKey, clustering: Option<&Cells>) -> bool {
        if self.partition != *partition {
            return *partition < self.partition;
        }
        match (&self.clustering, clustering) {
            (Some(after), Some(clustering)) => table.compare_clustering(clustering, after).is_le(),
            (None, Some(_)) => false,
            (_, None) => true,
        }
    }
}

/// Encodes byte strings as one byte string: the length (4 bytes, big-endian) and the bytes of each.
fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u32).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

fn split(mut bytes: &[u8]) -> Result<PartitionKey, StoreError> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let invalid = || {
            StoreError::new(
                StoreErrorKind::Invalid,
                "the position does not belong to this store",
            )
        };
        let (length, rest) = bytes.split_first_chunk().ok_or_else(invalid)?;
        let part = rest.split_at_checked(u32::from_be_bytes(*length) as usize);
        let (part, rest) = part.ok_or_else(invalid)?;
        parts.push(part.to_vec());
        bytes = rest;
    }
    Ok(parts)
}
