//! Rows that are written, alone or together with others.

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

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// All of its clustering columns.
    pub clustering: Cells,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a row. What it counts as is written beside, whatever cell is given for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is there, as in [`Operation::Put`].
    Put {
        /// All regular columns.
        cells: Cells,
        /// Whether it takes the place of a row that is there.
        replace: bool,
        /// How long it lives, in whole seconds; none: for ever.
        ttl_seconds: Option<u32>,
    },
    /// Some columns of it are set, as in [`Operation::Patch`]. A row is copied whole at its newest stamp: of patches that are made at
    /// once the later one may stand alone.
    Patch {
        /// Which regular columns.
        columns: Vec<u16>,
        /// Their cells, in the same order.
        cells: Cells,
        /// How long they live, in whole seconds; none: for ever.
        ttl_seconds: Option<u32>,
    },
    /// It is deleted.
    Delete,
}

/// A row on its way.
#[derive(Clone)]
pub(crate) struct RowWrite {
    pub(crate) partition: Partition,
    pub(crate) key: Key,
    /// Which of a bucket's it goes to.
    pub(crate) shard: Shard,
    pub(crate) operation: Operation,
    pub(crate) became: Became,
    pub(crate) stamp: Stamp,
    pub(crate) ttl_seconds: Option<u32>,
    /// Rows of one number that go to one bucket are one write.
    pub(crate) number: usize,
}

/// What is written together.
pub(crate) struct Group {
    pub(crate) rows: Vec<RowWrite>,
    /// Of tables that are not kept in pieces.
    pub(crate) others: Vec<PartitionWrite>,
    /// Of what goes to further buckets each partition is written for itself.
    pub(crate) atomicity: Atomicity,
    pub(crate) since: Since,
    pub(crate) options: WriteOptions,
}

/// What a copy of a directory must be older than, for a write to go by it: a deletion that was acknowledged before the
/// copy, and which the write is older than, may not have gone everywhere where the copy says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Since {
    /// The stamps of the write.
    Stamps,
    /// When it was read, by the clock that never goes back, what the write rests on. What is deleted at the stamp that it was
    /// found at goes wherever deletions go, whenever that became known: whoever puts it later at an older stamp does so by
    /// something older.
    Looked(u64),
    /// Nothing: the write is taken for one that is made when it is sent.
    Sent,
}

impl Since {
    /// Whether a row may go by a copy.
    pub(crate) fn allows(self, copy: &Taken, row: &RowWrite) -> bool {
        match self {
            Self::Stamps => copy.stamp < row.stamp,
            Self::Looked(nanos) => copy.heard_nanos <= nanos || row.kind() == Kind::Delete,
            Self::Sent => true,
        }
    }
}

impl Group {
    /// Whether it goes on by a newer copy where rows came to lie elsewhere. Who loads gives the same rows the same stamps, whenever
    /// it sends them.
    pub(crate) fn may_go_on(&self) -> bool {
        match self.since {
            Since::Stamps => false,
            Since::Looked(_) => self.rows.iter().all(|row| row.kind() == Kind::Delete),
            Since::Sent => true,
        }
    }
}

/// Where a row is written to beside the reading of the directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    pub(crate) bucket: Bucket,
    /// By what rows are sampled there.
    pub(crate) sampling: Sampling,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All who read from now on see it.
    Done,
    /// It is to be begun again, at newer stamps.
    Moved {
        /// Whether any of it may be there, or come.
        is_sent: bool,
    },
}

impl RowWrite {
    /// The row that becomes this, with what it counts as.
    ///
    /// # Errors
    /// Its key is none of the table's.
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

    /// Whether it is put below a floor.
    pub(crate) fn is_below(&self, floor: Option<&Floor>) -> bool {
        self.kind() == Kind::Put && floor.is_some_and(|floor| floor.hides(&self.key))
    }

    /// Whether it may go by the copy that another row goes by, where that has its key. A deletion asks for no entry of a registry, and for no
    /// floor: what it goes by says nothing to who puts a row.
    pub(crate) fn may_go_as(&self, other: &Self) -> bool {
        let is_registered = self.partition.place.pieced.times.is_none()
            || self.kind() == Kind::Delete
            || other.kind() == Kind::Put;
        is_registered && Arc::ptr_eq(&self.partition.place, &other.partition.place)
    }

    /// What it may go by at once.
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

    /// What it may go by, read if need be; `is_anew`: in any case.
    ///
    /// # Errors
    /// It cannot be read in time, or is damaged.
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

    /// Where a window begins that has it, by what was known last: rows of one wait for it together.
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

    /// The bucket that takes it, as far as it was known last, where no copy of the directory lives; and by what rows are sampled
    /// there.
    pub(crate) fn guess(&self, since: Since) -> Option<Guess> {
        let (pieces, place) = (&self.partition.pieces, &self.partition.place);
        if place.pieced.times.is_some() {
            return None;
        }
        let Some(last) = pieces.copies.last(&place.id, &self.seek()) else {
            // Most partitions were never cut.
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
        // Bucket 0 took everything once, and so did not come to take this later than the write was made.
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

    /// A write to a bucket that does nothing yet.
    pub(crate) fn nothing_to(&self, bucket: Bucket) -> PartitionWrite {
        let place = &self.partition.place;
        PartitionWrite {
            table: Arc::clone(&place.pieced.table),
            partition: place.shard_partition(bucket, self.shard),
            mutations: Vec::new(),
        }
    }
}

/// What is written to each bucket.
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
    /// Writes a row, or deletes it: its stamp, when all who read from now on see it.
    ///
    /// # Errors
    /// It is none of the table's; the store refuses it; it was not done in time, or is of unknown outcome, as the kind says.
    pub async fn write(&self, change: &RowChange, time: Duration) -> Result<Stamp> {
        let deadline = self.pieces.deadline(time);
        let mut may_be_there = false;
        loop {
            let stamp = (self.pieces.stamps)();
            let group = Group {
                rows: vec![RowWrite::new(self.clone(), change.clone(), stamp)?],
                others: Vec::new(),
                atomicity: Atomicity::Each,
                since: Since::Stamps,
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
