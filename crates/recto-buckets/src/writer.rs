//! Writes of rows, alone or in a group.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Cells;
use recto_protocol::buckets::{Bucket, Floor, Key, Operation as Kind, Sampling, Shard};
use recto_store::{Atomicity, Mutation, Operation, PartitionWrite, Stamp, WriteOptions};

use crate::copies::Taken;
use crate::directory::Seek;
use crate::error::Result;
use crate::place::{Deadline, Partition};
use crate::samples::Became;
use crate::tables::{PiecedTable, counted, mutation};

/// Change of one row: its clustering key, and the new cells or the deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// Clustering key of the row: the cells of all clustering columns.
    pub clustering: Cells,
    /// Kind of the change (put, patch or delete), with the new cells.
    pub change: Change,
}

/// Kind of the change of a row. The engine also writes the counted size of the row, and ignores a
/// cell that the caller gives for the column of the counted size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Writes the row, as [`Operation::Put`] does.
    Put {
        /// Cells of all regular columns.
        cells: Cells,
        /// True if the new row replaces an existing row.
        replace: bool,
        /// Lifetime in whole seconds. `None`: unlimited.
        ttl_seconds: Option<u32>,
    },
    /// Sets some columns of the row, as [`Operation::Patch`] does. If a row is patched twice during a split,
    /// the earlier patch can be lost, because a split copies a row as a whole, with its newest timestamp.
    Patch {
        /// Indexes of the regular columns to set.
        columns: Vec<u16>,
        /// New cells of the columns in `columns`, in the same order.
        cells: Cells,
        /// Lifetime of the cells in whole seconds. `None`: unlimited.
        ttl_seconds: Option<u32>,
    },
    /// Deletes the row.
    Delete,
}

/// Write of a row to a partition, in progress.
#[derive(Clone)]
pub(crate) struct RowWrite {
    pub(crate) partition: Partition,
    pub(crate) key: Key,
    /// Shard (one of several partitions) of each bucket in which the row is stored.
    pub(crate) shard: Shard,
    pub(crate) operation: Operation,
    pub(crate) became: Became,
    pub(crate) stamp: Stamp,
    pub(crate) ttl_seconds: Option<u32>,
    /// Index of the write in the caller's group that contains the row. Rows with the same index and
    /// the same bucket are sent as one write.
    pub(crate) number: usize,
}

/// Writes that the caller groups, with their atomicity and options.
pub(crate) struct Group {
    pub(crate) rows: Vec<RowWrite>,
    /// Writes of the caller to tables that are not kept in buckets.
    pub(crate) others: Vec<PartitionWrite>,
    /// Atomicity of the writes to the first bucket of each row. During a split, a row is also
    /// written to further buckets. Each partition of a further bucket is written on its own,
    /// without atomicity.
    pub(crate) atomicity: Atomicity,
    pub(crate) since: MapFreshness,
    pub(crate) options: WriteOptions,
}

/// Latest time at which a cached range map may have been read, so that a write may use it. A newer
/// range map may name a bucket without a deletion that has a newer timestamp than the write. The
/// write would then reappear in that bucket, although the deletion was acknowledged before the
/// range map was read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MapFreshness {
    /// The range map must have been read before the timestamps of the rows were assigned.
    Stamps,
    /// The range map must have been read before this time of the monotonic clock, in nanoseconds.
    /// At this time, the data was read on which the write is based.
    ///
    /// A deletion may use any range map: it has the timestamp at which the row was found. A writer
    /// that later puts the row at an older timestamp relies on older data.
    Looked(u64),
    /// The write may use any range map, because it counts as made at the time when it is sent.
    Sent,
}

impl MapFreshness {
    /// Returns whether the write of a row may use a cached range map.
    pub(crate) fn allows(self, copy: &Taken, row: &RowWrite) -> bool {
        match self {
            Self::Stamps => copy.stamp < row.stamp,
            Self::Looked(nanos) => copy.heard_nanos <= nanos || row.kind() == Kind::Delete,
            Self::Sent => true,
        }
    }
}

impl Group {
    /// Returns whether the group may continue with a newer range map after its rows moved to other
    /// buckets. This is true for a load, which sends the same rows with the same timestamps at each
    /// attempt, and for deletions of rows that were read.
    pub(crate) fn may_go_on(&self) -> bool {
        match self.since {
            MapFreshness::Stamps => false,
            MapFreshness::Looked(_) => self.rows.iter().all(|row| row.kind() == Kind::Delete),
            MapFreshness::Sent => true,
        }
    }
}

/// Assumed bucket of a row. The row is written to this bucket while the range map is read, which
/// saves one round trip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    pub(crate) bucket: Bucket,
    /// Sampling (chance that a row is sampled) in the assumed bucket.
    pub(crate) sampling: Sampling,
}

/// Result of the write of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The write is complete: each later read sees it.
    Done,
    /// The rows moved to other buckets. The caller must repeat the write with newer timestamps.
    Moved {
        /// True if some rows may be stored, now or later.
        is_sent: bool,
    },
}

impl RowWrite {
    /// Returns the write for a change of a row. The write also stores the row's size that counts
    /// for its bucket.
    ///
    /// # Errors
    /// The key is not a key of the table.
    pub(crate) fn new(partition: Partition, change: RowChange, stamp: Stamp) -> Result<Self> {
        let key = partition.place.key(&change.clustering)?;
        let (operation, became, ttl_seconds) = operation(&partition.place.pieced, change);
        Ok(Self {
            shard: partition.place.pieced.shards.of(&key),
            partition,
            key,
            operation,
            became,
            stamp,
            ttl_seconds,
            number: 0,
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.became {
            Became::Put(_) => Kind::Put,
            Became::Gone => Kind::Delete,
        }
    }

    pub(crate) fn seek(&self) -> Seek {
        Seek::At(self.key.clone())
    }

    /// Returns whether the write puts a row below the retention bound, so that the row is too old
    /// to be kept.
    pub(crate) fn is_below(&self, floor: Option<&Floor>) -> bool {
        self.kind() == Kind::Put && floor.is_some_and(|floor| floor.hides(&self.key))
    }

    /// Returns whether this row may use the cached range map of the row `other`, if the map contains its
    /// key. In a table with time buckets, a put may not use the range map of a deletion: a deletion needs
    /// neither a registry entry nor the retention bound, so its range map may lack them.
    pub(crate) fn may_go_as(&self, other: &Self) -> bool {
        let is_registered = self.partition.place.pieced.times.is_none()
            || self.kind() == Kind::Delete
            || other.kind() == Kind::Put;
        is_registered && Arc::ptr_eq(&self.partition.place, &other.partition.place)
    }

    /// Returns the cached range map that the row may use, or `None` if the range map must be read.
    pub(crate) fn living(&self) -> Option<Taken> {
        let place = &self.partition.place;
        match &place.pieced.times {
            None => self.partition.living(&self.seek()),
            Some(times) => {
                let known = self
                    .partition
                    .pieces
                    .known_bucket(place, times, &self.key, self.kind());
                known.ok().flatten()
            }
        }
    }

    /// Returns the range map that the row may use, and reads the range map if necessary. If
    /// `is_anew` is true, always reads it.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn take(&self, is_anew: bool, deadline: Deadline) -> Result<Taken> {
        let (partition, seek) = (&self.partition, self.seek());
        match &partition.place.pieced.times {
            None if is_anew => partition.read_copy(&seek, deadline).await,
            None => partition.take(&seek, deadline).await,
            Some(times) => {
                let pieces = &partition.pieces;
                pieces
                    .register(&partition.place, times, &self.key, is_anew, deadline)
                    .await
            }
        }
    }

    /// Returns the start of the last known window (part) of the range map that contains the row.
    /// Rows of the same window share one read of the range map.
    pub(crate) fn window(&self) -> Option<Key> {
        let place = &self.partition.place;
        match &place.pieced.times {
            None => {
                let last = self.partition.pieces.copies.last(&place.id, &self.seek())?;
                Some(last.directory().pieces.first()?.start.clone())
            }
            Some(times) => times.bucket_of(&self.key).ok().map(|bucket| bucket.start),
        }
    }

    /// Returns the last known bucket of the row, with its sampling, for a write before the range
    /// map is read. If no range map is known, returns bucket 0. Returns `None` if a valid range map
    /// is cached, or if no single bucket is safe.
    pub(crate) fn guess(&self, since: MapFreshness) -> Option<Guess> {
        let (pieces, place) = (&self.partition.pieces, &self.partition.place);
        if place.pieced.times.is_some() {
            return None;
        }
        let Some(last) = pieces.copies.last(&place.id, &self.seek()) else {
            // If no range map is known, guess bucket 0, because most partitions were never split.
            return Some(Guess {
                bucket: Bucket(0),
                sampling: place.pieced.sampling,
            });
        };
        if last.lives(pieces.clock()) {
            return None;
        }
        let takers = last.directory().takers(&self.key, self.kind(), pieces.protocol);
        let takers = takers.ok()?;
        let piece = last.directory().piece_of(&self.key)?;
        let only = takers.first().filter(|_| takers.len() == 1)?;
        // A guess of bucket 0 is safe: bucket 0 takes all rows of a partition from the beginning,
        // so it has each deletion that is newer than the write.
        let is_safe = *only == Bucket(0) || since.allows(&last, self);
        is_safe.then_some(Guess {
            bucket: *only,
            sampling: piece.sampling,
        })
    }

    pub(crate) fn mutation(&self) -> Mutation {
        mutation(self.operation.clone(), self.stamp, self.ttl_seconds)
    }

    pub(crate) fn write_to(&self, bucket: Bucket, mutation: Mutation) -> PartitionWrite {
        PartitionWrite {
            mutations: vec![mutation],
            ..self.nothing_to(bucket)
        }
    }

    /// Returns a write to a bucket that contains no mutations yet.
    pub(crate) fn nothing_to(&self, bucket: Bucket) -> PartitionWrite {
        let place = &self.partition.place;
        PartitionWrite {
            table: Arc::clone(&place.pieced.table),
            partition: place.shard_partition(bucket, self.shard),
            mutations: Vec::new(),
        }
    }
}

/// Returns the operation to send to each bucket, its effect on the row's sample, and the lifetime
/// in seconds.
fn operation(pieced: &PiecedTable, change: RowChange) -> (Operation, Became, Option<u32>) {
    let clustering = change.clustering;
    let row = pieced.row_column();
    match change.change {
        Change::Put {
            cells,
            replace,
            ttl_seconds,
        } => {
            let others = cells.iter().enumerate().filter(|(index, _)| *index != row);
            let (bytes, counted) = counted(&clustering, others.map(|(_, cell)| cell));
            let each = cells.iter().enumerate();
            let cells = each.map(|(index, cell)| if index == row { Some(&counted[..]) } else { cell });
            let put = Operation::Put {
                cells: cells.collect(),
                clustering,
                replace,
            };
            (put, Became::Put(bytes), ttl_seconds)
        }
        Change::Patch {
            columns,
            cells,
            ttl_seconds,
        } => {
            let others = columns.iter().zip(cells.iter());
            let others: Vec<_> = others
                .filter(|(column, _)| usize::from(**column) != row)
                .collect();
            let kept = || others.iter().map(|(_, cell)| *cell);
            let (bytes, counted) = counted(&clustering, kept());
            let columns = others.iter().map(|(column, _)| **column);
            let patch = Operation::Patch {
                columns: columns.chain([row as u16]).collect(),
                cells: kept().chain([Some(&counted[..])]).collect(),
                clustering,
            };
            (patch, Became::Put(bytes), ttl_seconds)
        }
        Change::Delete => (Operation::DeleteRow { clustering }, Became::Gone, None),
    }
}

impl Partition {
    /// Writes or deletes a row. Returns its timestamp after each later read sees the change.
    ///
    /// # Errors
    /// - The row does not fit the table.
    /// - The store rejects the write.
    /// - The write was not done in time, or its outcome is unknown. The kind of the error says which.
    pub async fn write(&self, change: &RowChange, time: Duration) -> Result<Stamp> {
        let deadline = self.pieces.deadline(time);
        let mut may_be_there = false;
        loop {
            let stamp = (self.pieces.stamps)();
            let group = Group {
                rows: vec![RowWrite::new(self.clone(), change.clone(), stamp)?],
                others: Vec::new(),
                atomicity: Atomicity::Each,
                since: MapFreshness::Stamps,
                options: WriteOptions::default(),
            };
            match self.pieces.write_group(&group, deadline).await {
                Ok(Ended::Done) => return Ok(stamp),
                Ok(Ended::Moved { is_sent }) => may_be_there |= is_sent,
                Err(error) if may_be_there => return Err(error.in_doubt()),
                Err(error) => return Err(error),
            }
        }
    }
}
