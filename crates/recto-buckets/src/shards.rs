//! Shards of buckets (a bucket may be stored in several partitions). Merges the shards of one
//! bucket in reads, and makes scans find a partition whose first shard is empty.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, RowSet, Slice};
use recto_protocol::buckets::limits::LONG_LIFE_MS;
use recto_protocol::buckets::{Bucket, Key, Shard};
use recto_store::{ReadOptions, RowsRead, Snapshot, StoreError, StoreErrorKind};

use crate::copying::clustering_of;
use crate::limits::{MAX_MARKED_ROOTS, MAX_SHARD_ROUNDS, MAX_SHARDS_AT_ONCE};
use crate::place::PlaceId;
use crate::samples::Became;
use crate::tables::PiecedTable;
use crate::writer::RowWrite;

/// Number of standard deviations by which the number of rows requested from a shard exceeds the shard's
/// mean share of a page. With this number, one page of several thousand needs a second request.
const DEVIATIONS: f64 = 4.0;

impl PiecedTable {
    /// Returns the number of columns of the partition key that a query names. The bucket column
    /// follows these columns.
    pub(crate) fn key_columns(&self) -> usize {
        self.table.partition().len() - 1 - usize::from(self.shards.are_several())
    }

    /// Returns the partition key under which the store has a shard of a bucket.
    pub(crate) fn shard_partition(&self, bucket: Cells, shard: Shard) -> Cells {
        if !self.shards.are_several() {
            return bucket;
        }
        // The shard column is a signed integer, but the number of shards is too small for a
        // negative number.
        let number = shard.0.to_be_bytes();
        bucket.iter().chain(std::iter::once(Some(&number[..]))).collect()
    }

    /// Splits the key of a store's partition into the partition that a query names, the bucket and the
    /// shard. For a negative number, which is invalid, the result has a number that no bucket or shard gets.
    pub(crate) fn parted(&self, cells: &Cells) -> (Cells, (Bucket, Shard)) {
        let mut cells = cells.iter();
        let partition = cells.by_ref().take(self.key_columns()).collect();
        let bucket = cells.next().flatten().and_then(|cell| cell.try_into().ok());
        // A table without shards has no cell after the bucket, so the shard is 0.
        let shard = cells.next().flatten().and_then(|cell| cell.try_into().ok());
        let bucket = Bucket(bucket.map_or(0, u64::from_be_bytes));
        (partition, (bucket, Shard(shard.map_or(0, u32::from_be_bytes))))
    }

    /// Returns whether a row or a partition of the table is in the store's partition in which scans find the logical
    /// partition: the first shard of bucket 0.
    pub(crate) fn is_met_in(&self, partition: RowRef<'_>) -> bool {
        let bucket = partition.get(self.key_columns());
        let is_first = |shard: Option<&[u8]>| shard == Some(&0_u32.to_be_bytes()[..]);
        let is_first_shard = !self.shards.are_several() || is_first(partition.get(self.key_columns() + 1));
        bucket == Some(&0_u64.to_be_bytes()[..]) && is_first_shard
    }
}

/// Returns the number of slices of buckets to read concurrently, at most `most`. Each slice needs one request for each
/// shard.
pub(crate) fn at_once(pieced: &PiecedTable, most: usize) -> usize {
    let shards = pieced.shards.count() as usize;
    if shards > 1 {
        (MAX_SHARDS_AT_ONCE / shards).clamp(1, most.max(1))
    } else {
        most
    }
}

/// Returns the rows of a slice of a bucket from all of its shards, as [`Snapshot::slice`] does. The
/// partition of the slice has no shard. All shards are read concurrently. The function requests from each
/// shard the number of rows that it is likely to have in the slice. The returned number of bytes includes
/// rows that were read after the last returned row.
///
/// # Errors
/// A shard cannot be read.
pub(crate) async fn slice(
    snapshot: &dyn Snapshot,
    pieced: &PiecedTable,
    slice: &Slice,
    options: &ReadOptions,
) -> Result<RowsRead, StoreError> {
    if !pieced.shards.are_several() {
        return snapshot.slice(slice, options).await;
    }
    if let Some(shard) = only_shard(pieced, slice)? {
        return snapshot.slice(&in_shard(pieced, slice, shard), options).await;
    }
    let mut merge = Merge::new(pieced, slice);
    let read = async {
        for _ in 0..MAX_SHARD_ROUNDS {
            merge.ask(snapshot, options).await?;
            if merge.is_enough(options.max_bytes) {
                break;
            }
        }
        Ok(merge.done())
    };
    match tokio::time::timeout(options.timeout, read).await {
        Ok(read) => read,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Timeout,
            "the shards of a bucket did not all answer in time",
        )),
    }
}

/// Returns the slice restricted to one shard.
pub(crate) fn in_shard(pieced: &PiecedTable, slice: &Slice, shard: Shard) -> Slice {
    Slice {
        partition: pieced.shard_partition(slice.partition.clone(), shard),
        ..slice.clone()
    }
}

/// Returns the shard of the only row that a slice can contain, or `None` if the slice can contain several rows.
fn only_shard(pieced: &PiecedTable, slice: &Slice) -> Result<Option<Shard>, StoreError> {
    match (&slice.from, &slice.to) {
        (Bound::Before(from), Bound::After(to))
            if from == to && from.len() == pieced.table().clustering().len() =>
        {
            Ok(Some(pieced.shards.of(&pieced.key(from.as_row())?)))
        }
        _ => Ok(None),
    }
}

/// Merge of the rows of all shards of a bucket, in the order of their keys.
struct Merge<'m> {
    pieced: &'m PiecedTable,
    slice: &'m Slice,
    sources: Vec<Source>,
    reads: Vec<RowsRead>,
    found: Vec<Found>,
    bytes: u64,
    round_trips: u32,
    statements: u32,
    tombstones: u64,
}

/// Shard, and the progress of the read of its rows.
struct Source {
    /// Part of the slice that is not read yet.
    rest: Slice,
    last: Option<Key>,
    is_exhausted: bool,
}

/// Row that was read: its key, the index of the read that returned it, and its index in the result
/// of this read.
struct Found {
    key: Key,
    read: usize,
    row: usize,
}

impl<'m> Merge<'m> {
    fn new(pieced: &'m PiecedTable, slice: &'m Slice) -> Self {
        let source = |shard| Source {
            rest: in_shard(pieced, slice, shard),
            last: None,
            is_exhausted: false,
        };
        Self {
            pieced,
            slice,
            sources: pieced.shards.all().map(source).collect(),
            reads: Vec::new(),
            found: Vec::new(),
            bytes: 0,
            round_trips: 0,
            statements: 0,
            tombstones: 0,
        }
    }

    fn is_backward(&self) -> bool {
        self.slice.direction == ReadDirection::Backward
    }

    /// Returns whether `key` is behind `other` in the direction of the read.
    fn is_behind(&self, key: &Key, other: &Key) -> bool {
        if self.is_backward() {
            key < other
        } else {
            key > other
        }
    }

    /// Returns the number of rows at the beginning of `found` that are final, because no unread row
    /// can come before them. A row is final if every unfinished shard was read up to the position
    /// of the row.
    fn settled(&self) -> usize {
        let mut settled = self.found.len();
        for source in self.sources.iter().filter(|source| !source.is_exhausted) {
            let Some(last) = &source.last else { return 0 };
            settled = settled.min(
                self.found
                    .partition_point(|found| !self.is_behind(&found.key, last)),
            );
        }
        settled
    }

    fn limit(&self) -> usize {
        self.slice.limit as usize
    }

    fn is_enough(&self, max_bytes: u64) -> bool {
        let settled = self.settled();
        settled >= self.limit()
            || self.sources.iter().all(|source| source.is_exhausted)
            || (self.bytes >= max_bytes && settled > 0)
    }

    /// Requests rows from the shards that may have unread rows before the last requested row. The first
    /// call requests the mean share of each shard, and later calls request all missing rows.
    async fn ask(&mut self, snapshot: &dyn Snapshot, options: &ReadOptions) -> Result<(), StoreError> {
        let missing = self.limit().saturating_sub(self.settled()).max(1);
        let most = if self.reads.is_empty() {
            share(missing, self.sources.len())
        } else {
            missing
        };
        let last = self.limit().saturating_sub(1);
        let wanted = self.found.get(last).map(|found| &found.key);
        let is_asked = |source: &Source| {
            let reaches = source.last.as_ref().zip(wanted);
            let is_there = reaches.is_some_and(|(last, wanted)| !self.is_behind(wanted, last));
            !source.is_exhausted && !is_there
        };
        let asked: Vec<usize> = (0..self.sources.len())
            .filter(|source| is_asked(&self.sources[*source]))
            .collect();
        let left = options.max_bytes.saturating_sub(self.bytes);
        let options = ReadOptions {
            max_bytes: (left / (asked.len() as u64).max(1)).max(1),
            ..*options
        };
        for source in &asked {
            // The cast loses nothing: `most` does not exceed the limit of the slice, which has 32
            // bits.
            self.sources[*source].rest.limit = most as u32;
        }
        let answers = asked
            .iter()
            .map(|source| snapshot.slice(&self.sources[*source].rest, &options));
        let answers = join_all(answers).await;
        let mut round_trips = 0;
        for (source, answer) in asked.into_iter().zip(answers) {
            let answer = answer?;
            round_trips = round_trips.max(answer.round_trips);
            self.take(source, answer)?;
        }
        self.round_trips += round_trips;
        // Sort, because the rows are ordered only within each shard.
        self.found.sort_by(|one, other| one.key.cmp(&other.key));
        if self.is_backward() {
            self.found.reverse();
        }
        Ok(())
    }

    fn take(&mut self, source: usize, answer: RowsRead) -> Result<(), StoreError> {
        let (table, read) = (self.pieced.table(), self.reads.len());
        for (number, row) in answer.rows.iter().enumerate() {
            let key = self.pieced.key(clustering_of(table, row).as_row())?;
            self.found.push(Found {
                key,
                read,
                row: number,
            });
        }
        let is_backward = self.is_backward();
        let source = &mut self.sources[source];
        source.is_exhausted = answer.exhausted;
        if let Some(last) = answer.rows.iter().next_back() {
            let cells = clustering_of(table, last);
            source.last = Some(self.pieced.key(cells.as_row())?);
            if is_backward {
                source.rest.to = Bound::Before(cells);
            } else {
                source.rest.from = Bound::After(cells);
            }
        }
        self.bytes += answer.bytes;
        self.statements += answer.statements;
        self.tombstones += answer.tombstones;
        self.reads.push(answer);
        Ok(())
    }

    fn done(&self) -> RowsRead {
        let count = self.settled().min(self.limit());
        let is_all = count == self.found.len() && self.sources.iter().all(|source| source.is_exhausted);
        let mut done = RowsRead {
            rows: RowSet::new(self.pieced.table().columns().len()),
            exhausted: is_all,
            bytes: self.bytes,
            round_trips: self.round_trips,
            statements: self.statements,
            tombstones: self.tombstones,
            ..RowsRead::default()
        };
        for found in &self.found[..count] {
            let read = &self.reads[found.read];
            done.rows.push_row(read.rows.row(found.row));
            done.stamps.extend(read.stamps.get(found.row));
            done.ends_in_seconds.extend(read.ends_in_seconds.get(found.row));
        }
        done
    }
}

/// Returns the number of rows to request from each shard, to get `wanted` rows from all shards
/// together.
#[expect(clippy::cast_sign_loss, reason = "it is not negative")]
fn share(wanted: usize, shards: usize) -> usize {
    let mean = wanted as f64 / shards.max(1) as f64;
    let share = mean + DEVIATIONS * mean.sqrt() + 2.0;
    (share.ceil() as usize).clamp(1, wanted)
}

/// Partitions that this process has marked, with the time of the mark in milliseconds since the start of
/// the machine. A mark in bucket 0 lets scans find a partition whose first shard has no rows. The process
/// repeats a mark after some time, because the table may have been dropped and created again.
#[derive(Debug, Default)]
pub(crate) struct Roots(Mutex<HashMap<PlaceId, u64>>);

impl Roots {
    /// Returns whether a partition must be marked before the write of a row, because the row may be
    /// the only row of the partition, in a shard where scans do not find it.
    pub(crate) fn is_to_be_marked(&self, now_ms: u64, row: &RowWrite, bucket: Bucket) -> bool {
        let is_met = row.shard == Shard(0) || bucket != Bucket(0) || row.became == Became::Gone;
        !is_met && !self.knows(&row.partition.place.id, now_ms)
    }

    fn knows(&self, id: &PlaceId, now_ms: u64) -> bool {
        let marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at_ms = marked.get(id);
        at_ms.is_some_and(|at_ms| now_ms.saturating_sub(*at_ms) < LONG_LIFE_MS)
    }

    /// Records that this process has written the root marks of partitions, by which scans find
    /// them.
    pub(crate) fn are_marked(&self, now_ms: u64, ids: impl Iterator<Item = PlaceId>) {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            if marked.len() >= MAX_MARKED_ROOTS {
                marked.clear();
            }
            marked.insert(id, now_ms);
        }
    }

    /// Removes the recorded partitions of a dropped table.
    pub(crate) fn forget(&self, table: &str) {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marked.retain(|id, _| id.0 != table);
    }
}
