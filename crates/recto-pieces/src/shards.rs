//! Where buckets have shards: those of one bucket are read as one, and scans meet a partition whose first shard is empty.

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

/// By how many standard deviations more rows are asked of each shard than it has of a page in the mean, so that one of some thousands of
/// pages is asked for twice.
const DEVIATIONS: f64 = 4.0;

impl PiecedTable {
    /// How many columns of its partition key are those that a query names; the bucket stands behind them.
    pub(crate) fn key_columns(&self) -> usize {
        self.table.partition().len() - 1 - usize::from(self.shards.are_several())
    }

    /// The partition of the store that is a shard of a bucket.
    pub(crate) fn shard_partition(&self, bucket: Cells, shard: Shard) -> Cells {
        if !self.shards.are_several() {
            return bucket;
        }
        // There are not so many that it would be less than none.
        let number = shard.0.to_be_bytes();
        bucket.iter().chain(std::iter::once(Some(&number[..]))).collect()
    }

    /// The key of a partition as queries name it, and which shard of which bucket one is, as the store has it. A number below zero, which is none of
    /// a bucket or a shard, is one that is never given.
    pub(crate) fn parted(&self, cells: &Cells) -> (Cells, (Bucket, Shard)) {
        let mut cells = cells.iter();
        let partition = cells.by_ref().take(self.key_columns()).collect();
        let bucket = cells.next().flatten().and_then(|cell| cell.try_into().ok());
        // Behind the bucket of what has no shards there is nothing.
        let shard = cells.next().flatten().and_then(|cell| cell.try_into().ok());
        let bucket = Bucket(bucket.map_or(0, u64::from_be_bytes));
        (partition, (bucket, Shard(shard.map_or(0, u32::from_be_bytes))))
    }

    /// Whether a row of the table, or a partition of it, lies where scans meet the partition that a query names: in bucket 0, and the first
    /// shard of it.
    pub(crate) fn is_met_in(&self, partition: RowRef<'_>) -> bool {
        let bucket = partition.get(self.key_columns());
        let is_first = |shard: Option<&[u8]>| shard == Some(&0_u32.to_be_bytes()[..]);
        let is_first_shard = !self.shards.are_several() || is_first(partition.get(self.key_columns() + 1));
        bucket == Some(&0_u64.to_be_bytes()[..]) && is_first_shard
    }
}

/// How many slices of buckets are read side by side, of so many that may be: each is as many requests as there are shards.
pub(crate) fn at_once(pieced: &PiecedTable, most: usize) -> usize {
    let shards = pieced.shards.count() as usize;
    if shards > 1 {
        (MAX_SHARDS_AT_ONCE / shards).clamp(1, most.max(1))
    } else {
        most
    }
}

/// The rows of a slice of a bucket, as [`Snapshot::slice`] returns them, of whichever shards they lie in; the slice's partition is without
/// the shard. All shards are asked side by side for as many rows as each of them should have of the slice. What was read of a shard behind the last row that
/// is returned counts in the bytes.
///
/// # Errors
/// One of them cannot be read.
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

/// A slice of one of the shards.
pub(crate) fn in_shard(pieced: &PiecedTable, slice: &Slice, shard: Shard) -> Slice {
    Slice {
        partition: pieced.shard_partition(slice.partition.clone(), shard),
        ..slice.clone()
    }
}

/// The shard that has the only row that can be in a slice; none: there may be several.
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

/// Rows of all shards on their way into one order.
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

/// A shard, and how far it was read.
struct Source {
    /// What is left to be read of it.
    rest: Slice,
    last: Option<Key>,
    is_exhausted: bool,
}

/// A row that was read: its key, by which answer it came, and where it stands there.
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

    /// Whether one key stands behind another in the direction of the reading.
    fn is_behind(&self, key: &Key, other: &Key) -> bool {
        if self.is_backward() {
            key < other
        } else {
            key > other
        }
    }

    /// How many rows it is known of that no other stands before: those up to where all shards were read that have more.
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

    /// Asks the shards of which it is not known what they have before the last row that is wanted: first for their share, then for all that is
    /// missing.
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
            // The slice has so many at most.
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
        // What came of one shard runs already.
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

/// How many rows are asked of each shard, where so many are wanted of all.
#[expect(clippy::cast_sign_loss, reason = "it is not less than none")]
fn share(wanted: usize, shards: usize) -> usize {
    let mean = wanted as f64 / shards.max(1) as f64;
    let share = mean + DEVIATIONS * mean.sqrt() + 2.0;
    (share.ceil() as usize).clamp(1, wanted)
}

/// Partitions that this process has marked, so that scans meet them whichever of their shards have rows; and when it did, in milliseconds since the
/// machine was started. They are marked anew after some time, as another table of the same name may be there by then.
#[derive(Debug, Default)]
pub(crate) struct Roots(Mutex<HashMap<PlaceId, u64>>);

impl Roots {
    /// Whether a row that goes to a bucket may be the only one of its partition, where scans do not meet it.
    pub(crate) fn is_to_be_marked(&self, now_ms: u64, row: &RowWrite, bucket: Bucket) -> bool {
        let is_met = row.shard == Shard(0) || bucket != Bucket(0) || row.became == Became::Gone;
        !is_met && !self.knows(&row.partition.place.id, now_ms)
    }

    fn knows(&self, id: &PlaceId, now_ms: u64) -> bool {
        let marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at_ms = marked.get(id);
        at_ms.is_some_and(|at_ms| now_ms.saturating_sub(*at_ms) < LONG_LIFE_MS)
    }

    /// These are marked.
    pub(crate) fn are_marked(&self, now_ms: u64, ids: impl Iterator<Item = PlaceId>) {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            if marked.len() >= MAX_MARKED_ROOTS {
                marked.clear();
            }
            marked.insert(id, now_ms);
        }
    }

    /// A table is not there any more.
    pub(crate) fn forget(&self, table: &str) {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marked.retain(|id, _| id.0 != table);
    }
}
