//! One write of a row, into the buckets that take it: what `recto_buckets::Writing` says is done here.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use recto_buckets::{
    Bucket, DirectoryCopy, Key, Operation as Kind, Sampling, Unrouted, WriteAction, WriteEvent, Writing,
};
use recto_model::Cells;
use recto_store::{Mutation, Operation, PartitionWrite, Stamp};

use crate::directory::Seek;
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::notices::Notice;
use crate::place::{Deadline, Partition, Undone};
use crate::samples::{self, Became};
use crate::tables::{counted, mutation};

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

/// A write on its way.
struct Way<'p> {
    partition: &'p Partition,
    key: Key,
    operation: Operation,
    became: Became,
    ttl_seconds: Option<u32>,
    /// By what rows are sampled in the bucket that was guessed.
    guessed: Sampling,
    deadline: Deadline,
}

/// What was asked for is there.
enum Heard {
    Copy(Result<DirectoryCopy>),
    Written(std::result::Result<(), Undone>),
}

impl Partition {
    /// Writes a row, or deletes it: its stamp, when all who read from now on see it.
    ///
    /// # Errors
    /// It is none of the table's; the store refuses it; it was not done in time, or is of unknown outcome, as the kind says.
    pub async fn write(&self, change: &RowChange, time: Duration) -> Result<Stamp> {
        let key = self.place.key(&change.clustering)?;
        let seek = Seek::At(key.clone());
        let (operation, became, ttl_seconds) = self.operation(change);
        let kind = match became {
            Became::Put(_) => Kind::Put,
            Became::Gone => Kind::Delete,
        };
        let guess = self.guess(&seek, &key, kind);
        let way = Way {
            partition: self,
            key: key.clone(),
            operation,
            became,
            ttl_seconds,
            guessed: guess.map_or(self.place.pieced.sampling, |(_, sampling)| sampling),
            deadline: self.pieces.deadline(time),
        };
        let guess = guess.map(|(bucket, _)| bucket);
        let machine = Writing::new(key, kind, guess, self.pieces.protocol);
        way.drive(machine, guess.is_some(), &seek).await
    }

    /// What is written to each bucket.
    fn operation(&self, change: &RowChange) -> (Operation, Became, Option<u32>) {
        let (pieced, clustering) = (&self.place.pieced, change.clustering.clone());
        let row = pieced.row_column();
        match &change.change {
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
                    replace: *replace,
                };
                (put, Became::Put(bytes), *ttl_seconds)
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
                (patch, Became::Put(bytes), *ttl_seconds)
            }
            Change::Delete => (Operation::DeleteRow { clustering }, Became::Gone, None),
        }
    }

    /// The bucket that takes it, as far as it was known last, where no copy of the directory lives; and by what rows are sampled
    /// there.
    fn guess(&self, seek: &Seek, key: &[u8], kind: Kind) -> Option<(Bucket, Sampling)> {
        let (pieces, id) = (&self.pieces, &self.place.id);
        let Some(last) = pieces.copies.last(id, seek) else {
            // Most partitions were never cut.
            return Some((Bucket(0), self.place.pieced.sampling));
        };
        if last.lives(pieces.clock()) {
            return None;
        }
        let takers = last.directory().takers(key, kind, pieces.protocol).ok()?;
        let piece = last.directory().piece_of(key)?;
        let only = takers.first().filter(|_| takers.len() == 1)?;
        Some((*only, piece.sampling))
    }
}

impl Way<'_> {
    async fn drive(&self, mut machine: Writing, is_guess: bool, seek: &Seek) -> Result<Stamp> {
        let pieces = &self.partition.pieces;
        let mut actions = VecDeque::from(machine.step(WriteEvent::Begin, pieces.clock()));
        let mut asked: FuturesUnordered<BoxFuture<'_, Heard>> = FuturesUnordered::new();
        let mut copy: Option<DirectoryCopy> = None;
        // Whether any of it may be there already, and is to be taken for that.
        let (mut is_sent, mut is_first) = (false, true);
        loop {
            while let Some(action) = actions.pop_front() {
                match action {
                    WriteAction::Read if !(is_guess && is_first) => {
                        asked.push(
                            self.partition
                                .read_copy(seek, self.deadline)
                                .map(Heard::Copy)
                                .boxed(),
                        );
                    }
                    // A copy of this process is as good, where it is the first one that is gone by.
                    WriteAction::Take | WriteAction::Read => {
                        is_first = false;
                        asked.push(self.partition.take(seek, self.deadline).map(Heard::Copy).boxed());
                    }
                    WriteAction::Stamp => {
                        let stamped = WriteEvent::Stamped((pieces.stamps)().0);
                        actions.extend(machine.step(stamped, pieces.clock()));
                    }
                    WriteAction::Write { buckets, stamp } => {
                        let sampled = self.sampled(copy.as_ref(), &buckets);
                        let written = self.write(sampled, Stamp(stamp));
                        asked.push(written.map(Heard::Written).boxed());
                    }
                    WriteAction::Remove { bucket, stamp } => self.remove(bucket, Stamp(stamp)).await,
                    WriteAction::Acknowledge(stamp) => return Ok(Stamp(stamp)),
                    WriteAction::Refuse(unrouted) => return Err(refused(unrouted)),
                }
            }
            let event = match asked.next().await {
                Some(Heard::Copy(Ok(read))) => {
                    copy = Some(read.clone());
                    WriteEvent::Copy(read)
                }
                Some(Heard::Written(Ok(()))) => {
                    is_sent = true;
                    WriteEvent::Written
                }
                // What else is on its way is a write then.
                Some(Heard::Copy(Err(error))) if is_sent || !asked.is_empty() => return Err(error.in_doubt()),
                Some(Heard::Copy(Err(error))) => return Err(error),
                Some(Heard::Written(Err(undone))) if is_sent || undone.may_be_done => {
                    return Err(undone.error.in_doubt());
                }
                Some(Heard::Written(Err(undone))) => return Err(undone.error),
                None => return Err(PiecesError::out_of_time(None)),
            };
            actions.extend(machine.step(event, pieces.clock()));
        }
    }

    /// By what rows are sampled in each bucket that it goes to.
    fn sampled(
        &self,
        copy: Option<&DirectoryCopy>,
        buckets: &BTreeSet<Bucket>,
    ) -> Vec<(Bucket, Option<Sampling>)> {
        let piece = copy.and_then(|copy| copy.directory().piece_of(&self.key));
        let sampling = |bucket| match piece {
            Some(piece) => samples::sampling_in(piece, bucket),
            None => Some(self.guessed),
        };
        buckets
            .iter()
            .map(|bucket| (*bucket, sampling(*bucket)))
            .collect()
    }

    /// Writes it to all of these buckets.
    async fn write(
        &self,
        buckets: Vec<(Bucket, Option<Sampling>)>,
        stamp: Stamp,
    ) -> std::result::Result<(), Undone> {
        let each = buckets
            .into_iter()
            .map(|(bucket, sampling)| self.write_to(bucket, sampling, stamp));
        let ended = join_all(each).await;
        let is_done_anywhere = ended.iter().any(std::result::Result::is_ok);
        let undone = ended.into_iter().filter_map(std::result::Result::err);
        // Which of several errors it is said with does not matter; what may be there does.
        let undone = undone.max_by_key(|undone| undone.may_be_done);
        undone.map_or(Ok(()), |undone| {
            Err(Undone {
                may_be_done: undone.may_be_done || is_done_anywhere,
                ..undone
            })
        })
    }

    /// The sample comes before the row, so that none is there that was not counted.
    async fn write_to(
        &self,
        bucket: Bucket,
        sampling: Option<Sampling>,
        stamp: Stamp,
    ) -> std::result::Result<(), Undone> {
        let (pieces, place) = (&self.partition.pieces, &self.partition.place);
        let change = |sampling| samples::change(&self.key, self.became, sampling, stamp, self.ttl_seconds);
        if let Some(change) = sampling.and_then(change) {
            let write = pieces.samples_write(place, bucket, vec![change]);
            pieces.write(write, self.deadline).await?;
            if self.became != Became::Gone {
                pieces.notices.add(place, Notice::Grown(bucket), &self.key);
            }
        }
        let row = mutation(self.operation.clone(), stamp, self.ttl_seconds);
        pieces.write(self.row_write(bucket, row), self.deadline).await
    }

    /// Removes what lies where it does not belong, once: if that fails, it is hidden there.
    async fn remove(&self, bucket: Bucket, stamp: Stamp) {
        let (pieces, place) = (&self.partition.pieces, &self.partition.place);
        let (Operation::Put { clustering, .. } | Operation::Patch { clustering, .. }) = &self.operation
        else {
            return;
        };
        let delete = |clustering| mutation(Operation::DeleteRow { clustering }, stamp, None);
        let sample = std::iter::once(Some(&self.key[..])).collect();
        let writes = [
            self.row_write(bucket, delete(clustering.clone())),
            pieces.samples_write(place, bucket, vec![delete(sample)]),
        ];
        let Some(timeout) = pieces.request_time(self.deadline) else {
            return;
        };
        let options = recto_store::WriteOptions {
            timeout,
            ..recto_store::WriteOptions::default()
        };
        let sent = writes.map(|write| pieces.store.write(write, options));
        drop(join_all(sent).await);
    }

    fn row_write(&self, bucket: Bucket, mutation: Mutation) -> PartitionWrite {
        let place = &self.partition.place;
        PartitionWrite {
            table: Arc::clone(&place.pieced.table),
            partition: place.bucket_partition(bucket),
            mutations: vec![mutation],
        }
    }
}

fn refused(unrouted: Unrouted) -> PiecesError {
    match unrouted {
        Unrouted::BelowFloor => PiecesError::new(PiecesErrorKind::BelowFloor, unrouted.to_string())
            .with_hint("keep more, or write only what is kept"),
        Unrouted::OutsideWindow => PiecesError::new(PiecesErrorKind::Store, unrouted.to_string()),
    }
}
