//! Rows on their way into their buckets: what `recto_buckets::Writing` says is done here, for several rows at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use recto_buckets::{Bucket, Key, Operation as Kind, Sampling, Unrouted, WriteAction, WriteEvent, Writing};
use recto_model::Cells;
use recto_store::{Atomicity, Mutation, Operation, PartitionWrite, Stamp, WriteOptions};

use crate::copies::Taken;
use crate::directory::Seek;
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::notices::Notice;
use crate::place::{Deadline, Partition, PieceStore, PlaceId, Undone};
use crate::samples::{self, Became};
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
    pub(crate) operation: Operation,
    pub(crate) became: Became,
    pub(crate) stamp: Stamp,
    pub(crate) ttl_seconds: Option<u32>,
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
    /// When it was read, by the clock that never goes back, what the write rests on.
    Looked(u64),
    /// Nothing: the write is taken for one that is made when it is sent.
    Sent,
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
            partition,
            key,
            operation,
            became,
            stamp,
            ttl_seconds,
        })
    }

    fn kind(&self) -> Kind {
        match self.became {
            Became::Put(_) => Kind::Put,
            Became::Gone => Kind::Delete,
        }
    }

    fn seek(&self) -> Seek {
        Seek::At(self.key.clone())
    }

    /// The bucket that takes it, as far as it was known last, where no copy of the directory lives; and by what rows are sampled
    /// there.
    fn guess(&self) -> Option<(Bucket, Sampling)> {
        let (pieces, place) = (&self.partition.pieces, &self.partition.place);
        let Some(last) = pieces.copies.last(&place.id, &self.seek()) else {
            // Most partitions were never cut.
            return Some((Bucket(0), place.pieced.sampling));
        };
        if last.lives(pieces.clock()) {
            return None;
        }
        let takers = last.directory().takers(&self.key, self.kind(), pieces.protocol);
        let takers = takers.ok()?;
        let piece = last.directory().piece_of(&self.key)?;
        let only = takers.first().filter(|_| takers.len() == 1)?;
        Some((*only, piece.sampling))
    }

    fn mutation(&self) -> Mutation {
        mutation(self.operation.clone(), self.stamp, self.ttl_seconds)
    }

    fn write_to(&self, bucket: Bucket, mutation: Mutation) -> PartitionWrite {
        let place = &self.partition.place;
        PartitionWrite {
            table: Arc::clone(&place.pieced.table),
            partition: place.bucket_partition(bucket),
            mutations: vec![mutation],
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

impl PieceStore {
    /// Writes rows to all buckets that take them, and what else is to be written with them.
    ///
    /// # Errors
    /// The store refuses it; it was not done in time, or is of unknown outcome, as the kind says.
    pub(crate) async fn write_group(&self, group: &Group, deadline: Deadline) -> Result<Ended> {
        let alone = group.rows.first().filter(|_| group.rows.len() == 1);
        let guess = alone
            .filter(|_| group.others.is_empty())
            .and_then(RowWrite::guess);
        let way = Way {
            pieces: self,
            group,
            guessed: guess.map(|(_, sampling)| sampling),
            deadline,
        };
        let machine = |row: &RowWrite| {
            let guess = guess.map(|(bucket, _)| bucket);
            Writing::new(row.key.clone(), row.kind(), guess, self.protocol)
        };
        way.drive(group.rows.iter().map(machine).collect()).await
    }
}

/// A group on its way.
struct Way<'g> {
    pieces: &'g PieceStore,
    group: &'g Group,
    /// By what rows are sampled in the bucket that was guessed.
    guessed: Option<Sampling>,
    deadline: Deadline,
}

/// What was asked for is there.
enum Heard {
    /// A copy for the row of this number.
    Copy(usize, Result<Taken>),
    Written(std::result::Result<(), Undone>),
}

/// What is sent to the store.
#[derive(Default)]
struct Sending {
    /// Of rows that are written.
    samples: BTreeMap<(PlaceId, Bucket), PartitionWrite>,
    /// What is noticed when the samples are there: of which rows.
    noticed: BTreeMap<(PlaceId, Bucket), usize>,
    first: BTreeMap<(PlaceId, Bucket), PartitionWrite>,
    further: BTreeMap<(PlaceId, Bucket), PartitionWrite>,
    /// Samples of rows that are deleted.
    gone: BTreeMap<(PlaceId, Bucket), PartitionWrite>,
}

impl Sending {
    fn add(
        to: &mut BTreeMap<(PlaceId, Bucket), PartitionWrite>,
        at: (PlaceId, Bucket),
        write: PartitionWrite,
    ) {
        match to.entry(at) {
            std::collections::btree_map::Entry::Vacant(there) => {
                there.insert(write);
            }
            std::collections::btree_map::Entry::Occupied(mut there) => {
                there.get_mut().mutations.extend(write.mutations);
            }
        }
    }
}

impl Way<'_> {
    async fn drive(&self, mut machines: Vec<Writing>) -> Result<Ended> {
        let rows = &self.group.rows;
        let mut actions = VecDeque::new();
        for (row, machine) in machines.iter_mut().enumerate() {
            let begun = machine.step(WriteEvent::Begin, self.pieces.clock());
            actions.extend(begun.into_iter().map(|action| (row, action)));
        }
        let mut copies: Vec<Option<Taken>> = vec![None; rows.len()];
        let mut writes: Vec<(usize, BTreeSet<Bucket>)> = Vec::new();
        let mut asked: FuturesUnordered<BoxFuture<'_, Heard>> = FuturesUnordered::new();
        // Whether any of it may be there already, and is to be taken for that.
        let (mut is_sent, mut is_on_its_way, mut done) = (false, rows.is_empty(), 0);
        if rows.is_empty() {
            asked.push(self.send(Sending::default()).map(Heard::Written).boxed());
        }
        loop {
            while let Some((row, action)) = actions.pop_front() {
                let event = match action {
                    // A copy of this process is as good, where it is the first one that is gone by.
                    WriteAction::Take | WriteAction::Read if copies[row].is_none() => {
                        let Some(taken) = rows[row].partition.living(&rows[row].seek()) else {
                            asked.push(self.copy(row, false).boxed());
                            continue;
                        };
                        heard(row, taken, &mut copies)
                    }
                    WriteAction::Take | WriteAction::Read => {
                        asked.push(self.copy(row, true).boxed());
                        continue;
                    }
                    WriteAction::Stamp if is_on_its_way || !self.is_older(row, copies[row].as_ref()) => {
                        return Ok(Ended::Moved {
                            is_sent: is_on_its_way,
                        });
                    }
                    WriteAction::Stamp => WriteEvent::Stamped(rows[row].stamp.0),
                    WriteAction::Write { buckets, .. } => {
                        writes.push((row, buckets));
                        continue;
                    }
                    WriteAction::Remove { bucket, stamp } => {
                        self.remove(&rows[row], bucket, Stamp(stamp)).await;
                        continue;
                    }
                    WriteAction::Acknowledge(_) => {
                        done += 1;
                        continue;
                    }
                    WriteAction::Refuse(unrouted) if is_on_its_way => {
                        return Err(refused(unrouted).in_doubt());
                    }
                    WriteAction::Refuse(unrouted) => return Err(refused(unrouted)),
                };
                let further = machines[row].step(event, self.pieces.clock());
                actions.extend(further.into_iter().map(|action| (row, action)));
            }
            if !is_on_its_way && writes.len() == rows.len() {
                is_on_its_way = true;
                let sending = self.sending(&writes, &copies);
                asked.push(self.send(sending).map(Heard::Written).boxed());
            }
            if done == rows.len() && is_sent {
                return Ok(Ended::Done);
            }
            match asked.next().await {
                Some(Heard::Copy(row, Ok(taken))) => {
                    let event = heard(row, taken, &mut copies);
                    let further = machines[row].step(event, self.pieces.clock());
                    actions.extend(further.into_iter().map(|action| (row, action)));
                }
                Some(Heard::Written(Ok(()))) => {
                    is_sent = true;
                    for (row, machine) in machines.iter_mut().enumerate() {
                        let further = machine.step(WriteEvent::Written, self.pieces.clock());
                        actions.extend(further.into_iter().map(|action| (row, action)));
                    }
                }
                Some(Heard::Copy(_, Err(error))) if is_on_its_way => return Err(error.in_doubt()),
                Some(Heard::Copy(_, Err(error))) => return Err(error),
                Some(Heard::Written(Err(undone))) if undone.may_be_done => {
                    return Err(undone.error.in_doubt());
                }
                Some(Heard::Written(Err(undone))) => return Err(undone.error),
                None => return Err(PiecesError::out_of_time(None)),
            }
        }
    }

    async fn copy(&self, row: usize, is_read: bool) -> Heard {
        let partition = &self.group.rows[row].partition;
        let seek = self.group.rows[row].seek();
        let copy = if is_read {
            partition.read_copy(&seek, self.deadline).await
        } else {
            partition.take(&seek, self.deadline).await
        };
        Heard::Copy(row, copy)
    }

    /// Whether a row may go by a copy. What was guessed is held to the directory when it is there.
    fn is_older(&self, row: usize, copy: Option<&Taken>) -> bool {
        let Some(copy) = copy else { return true };
        match self.group.since {
            Since::Stamps => copy.stamp < self.group.rows[row].stamp,
            Since::Looked(nanos) => copy.heard_nanos <= nanos,
            Since::Sent => true,
        }
    }

    /// What goes where.
    fn sending(&self, writes: &[(usize, BTreeSet<Bucket>)], copies: &[Option<Taken>]) -> Sending {
        let mut sending = Sending::default();
        // In their order, which is that of their stamps where one row is written twice.
        for (number, buckets) in writes {
            let row = &self.group.rows[*number];
            let place = &row.partition.place;
            let piece = copies[*number].as_ref();
            let piece = piece.and_then(|copy| copy.directory().piece_of(&row.key));
            for (index, bucket) in buckets.iter().enumerate() {
                let at = (Arc::clone(&place.id), *bucket);
                let sampling = match piece {
                    Some(piece) => samples::sampling_in(piece, *bucket),
                    None => self.guessed,
                };
                let change =
                    |sampling| samples::change(&row.key, row.became, sampling, row.stamp, row.ttl_seconds);
                if let Some(change) = sampling.and_then(change) {
                    let write = self.pieces.samples_write(place, *bucket, vec![change]);
                    if row.became == Became::Gone {
                        Sending::add(&mut sending.gone, at.clone(), write);
                    } else {
                        sending.noticed.insert(at.clone(), *number);
                        Sending::add(&mut sending.samples, at.clone(), write);
                    }
                }
                let to = if index == 0 {
                    &mut sending.first
                } else {
                    &mut sending.further
                };
                Sending::add(to, at, row.write_to(*bucket, row.mutation()));
            }
        }
        sending
    }

    /// Samples come before rows and go behind them, so that none is there that is not counted.
    async fn send(&self, sending: Sending) -> std::result::Result<(), Undone> {
        let write = |write| self.pieces.write(write, self.deadline);
        all_done(sending.samples.into_values().map(write)).await?;
        for ((_, bucket), row) in sending.noticed {
            let row = &self.group.rows[row];
            let place = &row.partition.place;
            self.pieces.notices.add(place, Notice::Grown(bucket), &row.key);
        }
        let together = sending
            .first
            .into_values()
            .chain(self.group.others.iter().cloned());
        let how = (self.group.atomicity, self.group.options);
        let together = self.pieces.write_together(together.collect(), how, self.deadline);
        let further = sending.further.into_values().map(write).map(FutureExt::boxed);
        all_done(std::iter::once(together.boxed()).chain(further)).await?;
        // What fails leaves a sample without a row, which goes when the samples are held to their rows.
        drop(join_all(sending.gone.into_values().map(write)).await);
        Ok(())
    }

    /// Removes what lies where it does not belong, once: if that fails, it is hidden there.
    async fn remove(&self, row: &RowWrite, bucket: Bucket, stamp: Stamp) {
        let (Operation::Put { clustering, .. } | Operation::Patch { clustering, .. }) = &row.operation else {
            return;
        };
        let delete = |clustering| mutation(Operation::DeleteRow { clustering }, stamp, None);
        let sample = std::iter::once(Some(&row.key[..])).collect();
        let place = &row.partition.place;
        let writes = [
            row.write_to(bucket, delete(clustering.clone())),
            self.pieces.samples_write(place, bucket, vec![delete(sample)]),
        ];
        let Some(timeout) = self.pieces.request_time(self.deadline) else {
            return;
        };
        let options = WriteOptions {
            timeout,
            ..WriteOptions::default()
        };
        let sent = writes.map(|write| self.pieces.store.write(write, options));
        drop(join_all(sent).await);
    }
}

/// The copy that a row goes by from now on.
fn heard(row: usize, taken: Taken, copies: &mut [Option<Taken>]) -> WriteEvent {
    let event = WriteEvent::Copy(taken.copy.clone());
    copies[row] = Some(taken);
    event
}

/// Waits for all; an error of them, which says whether any of it may be there.
async fn all_done<F>(writes: impl Iterator<Item = F>) -> std::result::Result<(), Undone>
where
    F: Future<Output = std::result::Result<(), Undone>>,
{
    let ended = join_all(writes).await;
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

fn refused(unrouted: Unrouted) -> PiecesError {
    match unrouted {
        Unrouted::BelowFloor => PiecesError::new(PiecesErrorKind::BelowFloor, unrouted.to_string())
            .with_hint("keep more, or write only what is kept"),
        Unrouted::OutsideWindow => PiecesError::new(PiecesErrorKind::Store, unrouted.to_string()),
    }
}
