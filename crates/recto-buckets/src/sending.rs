//! Writes rows to their buckets. Executes the actions of `recto_protocol::buckets::Writing` for several rows at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use recto_protocol::buckets::{Bucket, Key, Shard, Unrouted, WriteAction, WriteEvent, Writing};
use recto_store::{Atomicity, Operation, PartitionWrite, Stamp, WriteOptions};

use crate::copies::Taken;
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::notices::Notice;
use crate::place::{Deadline, PieceStore, PlaceId, Undone};
use crate::samples::{self, Became};
use crate::tables::mutation;
use crate::writer::{Ended, Group, Guess, RowWrite};

impl PieceStore {
    /// Writes the rows of a group to all buckets that take them, and the group's writes to tables
    /// without buckets.
    ///
    /// # Errors
    /// - The store rejects a write.
    /// - The writes were not done in time, or their outcome is unknown. The kind of the error says
    ///   which.
    pub(crate) async fn write_group(&self, group: &Group, deadline: Deadline) -> Result<Ended> {
        let living = self.living(&group.rows);
        let way = Way {
            pieces: self,
            group,
            guesses: &[],
            living: &living,
            deadline,
        };
        if let Some(straight) = way.straight() {
            return way.go_straight(straight).await;
        }
        let alone = group.rows.len() == 1 && group.others.is_empty();
        // Do not guess the buckets of several rows in an atomic group. If this process died after a
        // wrong guess, no process would repeat the group.
        let may_guess = alone || group.atomicity == Atomicity::Each;
        let guess = |(row, living): (&RowWrite, &Option<Taken>)| {
            let is_unknown = may_guess && living.is_none();
            is_unknown.then(|| row.guess(group.since)).flatten()
        };
        let guesses: Vec<_> = group.rows.iter().zip(&living).map(guess).collect();
        let way = Way {
            guesses: &guesses,
            ..way
        };
        // Allocate this large future on the heap, because most rows take the direct path above and
        // do not need it.
        way.drive().boxed().await
    }

    /// Returns the range maps that the rows may use without a read. Consecutive rows of one partition share one lookup.
    fn living(&self, rows: &[RowWrite]) -> Vec<Option<Taken>> {
        let now = self.clock();
        let mut living: Vec<Option<Taken>> = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| {
                let is_as_good = row.may_go_as(&rows[before]);
                living[before].as_ref().filter(|_| is_as_good)
            });
            let has_it = |taken: &&Taken| taken.directory().piece_of(&row.key).is_some() && taken.lives(now);
            let found = match before.filter(has_it) {
                Some(taken) => Some(taken.clone()),
                None => row.living(),
            };
            living.push(found);
        }
        living
    }
}

/// Row that is written to a single bucket with no further writes, by a cached range map that has not
/// expired.
struct Straight<'g> {
    row: &'g RowWrite,
    taken: &'g Taken,
    machine: Writing,
    bucket: Bucket,
}

/// Write of a group of changes, in progress.
#[derive(Clone, Copy)]
struct Way<'g> {
    pieces: &'g PieceStore,
    group: &'g Group,
    guesses: &'g [Option<Guess>],
    living: &'g [Option<Taken>],
    deadline: Deadline,
}

/// Progress of the write of a group of changes.
struct State {
    actions: VecDeque<(usize, WriteAction)>,
    /// Range map that each row uses, by the index of the row. `None`: not read yet.
    copies: Vec<Option<Taken>>,
    /// Rows that wait for a range map. True if the range map must be read again, although one is cached.
    waiting: Vec<(usize, bool)>,
    writes: Vec<(usize, BTreeSet<Bucket>)>,
    strays: Strays,
    /// True if some writes may already be stored, so that errors must report an unknown outcome.
    is_on_its_way: bool,
    is_sent: bool,
    /// Number of rows of the group whose outcome is known.
    over: usize,
    /// True if the caller must repeat the write of some rows with newer timestamps.
    is_moved: bool,
    /// Rows of the group, by index, that are skipped because they are below the retention bound.
    left_out: BTreeSet<usize>,
    refused: Option<Unrouted>,
}

impl State {
    fn new(rows: usize) -> Self {
        Self {
            actions: VecDeque::new(),
            copies: vec![None; rows],
            waiting: Vec::new(),
            writes: Vec::new(),
            strays: Strays::new(),
            is_on_its_way: rows == 0,
            is_sent: false,
            over: 0,
            is_moved: false,
            left_out: BTreeSet::new(),
            refused: None,
        }
    }

    /// Skips a row below the retention bound of a table that skips such rows. If the row was
    /// already sent to a guessed bucket, the deletion of misplaced rows removes it there.
    fn leave_out(&mut self, row: usize) {
        if !self.is_on_its_way {
            self.writes.retain(|(other, _)| *other != row);
            self.writes.push((row, BTreeSet::new()));
        }
        self.left_out.insert(row);
        self.over += 1;
    }
}

/// Result of a request that was sent to the store.
enum Heard {
    /// Rows (by index) that waited for the same range map, whether the map had to be read again,
    /// and the map. The map contains at least the key of the first row.
    Copy(Vec<usize>, bool, Result<Taken>),
    Written(std::result::Result<(), Undone>),
}

type PendingRequests<'g> = FuturesUnordered<BoxFuture<'g, Heard>>;

/// Deletions of misplaced rows, and of their samples (stored keys and sizes), by partition.
type Strays = BTreeMap<(PlaceId, Bucket, Shard), [PartitionWrite; 2]>;

/// Writes of a group of changes, grouped by partition, ready to be sent to the store.
#[derive(Default)]
struct Sending {
    /// Writes of the samples (stored keys and sizes) of rows that are put or patched.
    samples: BTreeMap<(PlaceId, Bucket), PartitionWrite>,
    /// Grown buckets, each with the index of a row. After the samples are stored, each bucket is
    /// queued for a check whether it must be split.
    noticed: BTreeMap<(PlaceId, Bucket), usize>,
    first: BTreeMap<(usize, PlaceId, Bucket, Shard), PartitionWrite>,
    further: BTreeMap<(usize, PlaceId, Bucket, Shard), PartitionWrite>,
    /// Writes of root marks, which let scans find partitions whose first shard may be empty.
    roots: BTreeMap<PlaceId, PartitionWrite>,
    /// Deletions of the samples (stored keys and sizes) of rows that are deleted.
    gone: BTreeMap<(PlaceId, Bucket), PartitionWrite>,
}

impl<'g> Way<'g> {
    /// Prepares the direct path, which most rows take: a single row, and a cached range map that names a
    /// single bucket. Returns `None` if the write needs more steps, or if the range map does not allow
    /// this path.
    fn straight(&self) -> Option<Straight<'g>> {
        let ([row], [], [Some(taken)]) = (&self.group.rows[..], &self.group.others[..], self.living) else {
            return None;
        };
        let now = self.pieces.clock();
        let mut machine = Writing::new(row.key.clone(), row.kind(), None, self.pieces.protocol);
        let takes = machine.step(WriteEvent::Begin, now);
        let goes = machine.step(WriteEvent::Copy(taken.copy.clone()), now);
        let is_plain = takes == [WriteAction::Take] && goes == [WriteAction::Stamp];
        if !is_plain || !self.group.since.allows(taken, row) {
            return None;
        }
        let writes = machine.step(WriteEvent::Stamped(row.stamp.0), now);
        let [WriteAction::Write { buckets, .. }] = &writes[..] else {
            return None;
        };
        let bucket = *buckets.first().filter(|_| buckets.len() == 1)?;
        let sampling = samples::sampling_in(taken.directory().piece_of(&row.key)?, bucket);
        let is_sampled = sampling.is_some_and(|sampling| samples::is_changed(&row.key, row.became, sampling));
        let has_more = is_sampled || self.pieces.roots.is_to_be_marked(now.boot_ms, row, bucket);
        (!has_more).then_some(Straight {
            row,
            taken,
            machine,
            bucket,
        })
    }

    /// Writes the row by the direct path (one write, no further steps). If the range map has
    /// expired after the write, continues with the steps of a general write.
    async fn go_straight(&self, straight: Straight<'g>) -> Result<Ended> {
        let Straight { row, bucket, .. } = straight;
        let mut machine = straight.machine;
        let send = |timeout| {
            let options = WriteOptions {
                timeout,
                ..self.group.options
            };
            self.pieces
                .store
                .write(row.write_to(bucket, row.mutation()), options)
        };
        let sent = self.pieces.write_again(self.deadline, send).await;
        sent.map_err(Undone::told)?;
        let actions = machine.step(WriteEvent::Written, self.pieces.clock());
        if matches!(actions[..], [WriteAction::Acknowledge(_)]) {
            return Ok(Ended::Done);
        }
        let mut state = State {
            actions: actions.into_iter().map(|action| (0, action)).collect(),
            copies: vec![Some(straight.taken.clone())],
            is_on_its_way: true,
            is_sent: true,
            ..State::new(1)
        };
        self.go_on(vec![machine], &mut state, FuturesUnordered::new())
            .boxed()
            .await
    }

    async fn drive(&self) -> Result<Ended> {
        let rows = &self.group.rows;
        let machine = |(row, guess): (&RowWrite, &Option<Guess>)| {
            let guess = guess.map(|guess| guess.bucket);
            Writing::new(row.key.clone(), row.kind(), guess, self.pieces.protocol)
        };
        let mut machines: Vec<_> = rows.iter().zip(self.guesses).map(machine).collect();
        let mut state = State::new(rows.len());
        let asked: PendingRequests<'_> = FuturesUnordered::new();
        if rows.is_empty() {
            asked.push(self.send(Sending::default()).map(Heard::Written).boxed());
        }
        for row in 0..rows.len() {
            self.step(&mut machines, &mut state, row, WriteEvent::Begin);
        }
        self.go_on(machines, &mut state, asked).await
    }

    /// Executes actions until the outcome of each row is known.
    async fn go_on<'s>(
        &'s self,
        mut machines: Vec<Writing>,
        state: &mut State,
        mut asked: PendingRequests<'s>,
    ) -> Result<Ended> {
        let rows = &self.group.rows;
        loop {
            while let Some((row, action)) = state.actions.pop_front() {
                if let Some(event) = self.act(state, row, action)? {
                    self.step(&mut machines, state, row, event);
                }
            }
            self.ask(state, &asked);
            // A row may not use the range map that was read. If no write was sent yet, end here: the
            // caller's retry reads all range maps again.
            if state.is_moved && !state.is_on_its_way && asked.is_empty() {
                return Ok(Ended::Moved { is_sent: false });
            }
            if !state.is_on_its_way && state.writes.len() == rows.len() {
                state.is_on_its_way = true;
                let sending = self.sending(&state.writes, &state.copies);
                asked.push(self.send(sending).map(Heard::Written).boxed());
            }
            if state.over == rows.len() && state.is_sent {
                return self.ends(state).await;
            }
            match asked.next().await {
                Some(Heard::Copy(of, is_anew, Ok(taken))) => {
                    self.take(&mut machines, state, (of, is_anew), &taken);
                }
                Some(Heard::Written(Ok(()))) => {
                    state.is_sent = true;
                    for row in 0..rows.len() {
                        if !state.left_out.contains(&row) {
                            self.step(&mut machines, state, row, WriteEvent::Written);
                        }
                    }
                }
                Some(Heard::Copy(_, _, Err(error))) if state.is_on_its_way => return Err(error.in_doubt()),
                Some(Heard::Copy(_, _, Err(error))) => return Err(error),
                Some(Heard::Written(Err(undone))) => return Err(undone.told()),
                None => return Err(PiecesError::out_of_time(None)),
            }
        }
    }

    fn step(&self, machines: &mut [Writing], state: &mut State, row: usize, event: WriteEvent) {
        let further = machines[row].step(event, self.pieces.clock());
        state
            .actions
            .extend(further.into_iter().map(|action| (row, action)));
    }

    /// Executes an action of the protocol for a row. Returns the resulting event if it happens at
    /// once.
    fn act(&self, state: &mut State, row: usize, action: WriteAction) -> Result<Option<WriteEvent>> {
        match action {
            WriteAction::Take | WriteAction::Read => {
                // A first request may use a range map that another task has cached since. A
                // repeated request needs a new read.
                let is_first = state.copies[row].is_none();
                let of = &self.group.rows[row];
                let looks = || self.living[row].clone().or_else(|| of.living());
                let living = is_first.then(looks).flatten();
                if let Some(taken) = living {
                    let event = WriteEvent::Copy(taken.copy.clone());
                    state.copies[row] = Some(taken);
                    return Ok(Some(event));
                }
                state.waiting.push((row, !is_first));
            }
            WriteAction::Stamp if state.is_on_its_way || !self.is_older(row, state.copies[row].as_ref()) => {
                state.is_moved = true;
                state.over += 1;
            }
            WriteAction::Stamp => return Ok(Some(WriteEvent::Stamped(self.group.rows[row].stamp.0))),
            WriteAction::Write { buckets, .. } => state.writes.push((row, buckets)),
            WriteAction::Remove { bucket, stamp } => self.is_stray(state, row, bucket, Stamp(stamp)),
            WriteAction::Acknowledge(_) => state.over += 1,
            WriteAction::Refuse(Unrouted::BelowFloor)
                if self.group.rows[row].partition.place.pieced.leaves_out_late =>
            {
                state.leave_out(row);
            }
            WriteAction::Refuse(unrouted) if state.is_on_its_way => {
                state.refused = Some(unrouted);
                state.over += 1;
            }
            WriteAction::Refuse(unrouted) => return Err(refused(unrouted)),
        }
        Ok(None)
    }

    /// Requests the range maps for which rows wait. Rows that were in the same window (part) at its
    /// last read share one request.
    fn ask<'s>(&'s self, state: &mut State, asked: &PendingRequests<'s>) {
        let mut groups: BTreeMap<(PlaceId, Option<Key>, bool), Vec<usize>> = BTreeMap::new();
        for (row, is_anew) in state.waiting.drain(..) {
            let of = &self.group.rows[row];
            let id = &of.partition.place.id;
            let group = (Arc::clone(id), of.window(), is_anew);
            groups.entry(group).or_default().push(row);
        }
        for ((_, _, is_anew), rows) in groups {
            asked.push(self.copy(rows, is_anew).boxed());
        }
    }

    async fn copy(&self, rows: Vec<usize>, is_anew: bool) -> Heard {
        let copy = self.group.rows[rows[0]].take(is_anew, self.deadline).await;
        Heard::Copy(rows, is_anew, copy)
    }

    /// Gives a range map to the rows that waited for it. Rows of another window (part) wait for
    /// that window.
    fn take(
        &self,
        machines: &mut [Writing],
        state: &mut State,
        (rows, is_anew): (Vec<usize>, bool),
        taken: &Taken,
    ) {
        for row in rows {
            if taken.directory().piece_of(&self.group.rows[row].key).is_none() {
                state.waiting.push((row, is_anew));
                continue;
            }
            state.copies[row] = Some(taken.clone());
            self.step(machines, state, row, WriteEvent::Copy(taken.copy.clone()));
        }
    }

    /// Returns whether a row may use a range map. A row without a range map is written to a guessed
    /// bucket. The guess is compared with the range map as soon as the range map is read.
    fn is_older(&self, row: usize, copy: Option<&Taken>) -> bool {
        copy.is_none_or(|copy| self.group.since.allows(copy, &self.group.rows[row]))
    }

    /// Ends the write after all writes are done and the outcome of each row is known.
    async fn ends(&self, state: &mut State) -> Result<Ended> {
        self.remove(std::mem::take(&mut state.strays)).await;
        match state.refused {
            Some(unrouted) => Err(refused(unrouted).in_doubt()),
            None if state.is_moved => Ok(Ended::Moved { is_sent: true }),
            None => Ok(Ended::Done),
        }
    }

    /// Groups the writes of rows, of their samples and of root marks by the partition of the store
    /// to which they go.
    fn sending(&self, writes: &[(usize, BTreeSet<Bucket>)], copies: &[Option<Taken>]) -> Sending {
        let mut sending = Sending::default();
        let now_ms = self.pieces.clock().boot_ms;
        // Keep the order of the rows: if the group writes a row twice, this is the order of the
        // timestamps.
        for (number, buckets) in writes {
            let row = &self.group.rows[*number];
            let place = &row.partition.place;
            let piece = copies[*number].as_ref();
            let piece = piece.and_then(|copy| copy.directory().piece_of(&row.key));
            for (index, bucket) in buckets.iter().enumerate() {
                let at = (Arc::clone(&place.id), *bucket);
                let sampling = match piece {
                    Some(piece) => samples::sampling_in(piece, *bucket),
                    None => self.guesses[*number].map(|guess| guess.sampling),
                };
                let change =
                    |sampling| samples::change(&row.key, row.became, sampling, row.stamp, row.ttl_seconds);
                if let Some(change) = sampling.and_then(change) {
                    let write = self.pieces.samples_write(place, *bucket, vec![change]);
                    if row.became == Became::Gone {
                        add(&mut sending.gone, at.clone(), write);
                    } else {
                        sending.noticed.insert(at.clone(), *number);
                        add(&mut sending.samples, at.clone(), write);
                    }
                }
                let to = if index == 0 {
                    &mut sending.first
                } else {
                    &mut sending.further
                };
                if self.pieces.roots.is_to_be_marked(now_ms, row, *bucket) {
                    let mark = || place.pieced.mark_root(&place.partition, row.stamp);
                    sending.roots.entry(Arc::clone(&place.id)).or_insert_with(mark);
                }
                let at = (row.number, at.0, at.1, row.shard);
                let writes = to.entry(at).or_insert_with(|| row.nothing_to(*bucket));
                writes.mutations.push(row.mutation());
            }
        }
        sending
    }

    /// Sends the writes. A sample is written before its row and deleted after its row, so that each stored
    /// row has its sample at all times.
    async fn send(&self, sending: Sending) -> std::result::Result<(), Undone> {
        let write = |write| self.pieces.write(write, self.deadline);
        let now_ms = self.pieces.clock().boot_ms;
        let together = sending.first.into_values();
        let together: Vec<PartitionWrite> = together.chain(self.group.others.iter().cloned()).collect();
        let further: Vec<PartitionWrite> = sending.further.into_values().collect();
        self.check(&together, &further)?;
        let before = sending
            .samples
            .into_values()
            .chain(sending.roots.values().cloned());
        all_done(before.map(write)).await?;
        self.pieces.roots.are_marked(now_ms, sending.roots.into_keys());
        for ((_, bucket), row) in sending.noticed {
            let row = &self.group.rows[row];
            let place = &row.partition.place;
            self.pieces.notices.add(place, Notice::Grown(bucket), &row.key);
        }
        let how = (self.group.atomicity, self.group.options);
        let together = self.pieces.write_together(together, how, self.deadline);
        let has_further = !further.is_empty();
        let further =
            self.pieces
                .write_together(further, (Atomicity::Each, self.group.options), self.deadline);
        let further = has_further.then(|| further.boxed());
        all_done(std::iter::once(together.boxed()).chain(further)).await?;
        // Ignore errors of the deletions of samples. A sample without a row only causes an earlier
        // split of its bucket.
        drop(join_all(sending.gone.into_values().map(write)).await);
        Ok(())
    }

    /// Checks the rows against the limits of the store, in the form in which they are sent. The number of
    /// the bucket makes them larger than they were when the caller's write was checked. The check comes
    /// before the samples are written, so that a rejected write leaves no samples behind.
    fn check(
        &self,
        together: &[PartitionWrite],
        further: &[PartitionWrite],
    ) -> std::result::Result<(), Undone> {
        let store = &self.pieces.store;
        let limits = store.limits();
        let is_logged = together.len() > 1 && self.group.atomicity == Atomicity::Logged;
        let mut all = together.iter().chain(further);
        all.try_for_each(|write| store.check_partition(&write.table, &write.partition))
            .and_then(|()| limits.check_writes(together, is_logged))
            .and_then(|()| limits.check_writes(further, false))
            .map_err(|error| Undone {
                error: error.into(),
                may_be_done: false,
            })
    }

    /// Schedules the deletion of a row in a bucket where it does not belong.
    fn is_stray(&self, state: &mut State, row: usize, bucket: Bucket, stamp: Stamp) {
        let row = &self.group.rows[row];
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
        match state.strays.entry((Arc::clone(&place.id), bucket, row.shard)) {
            std::collections::btree_map::Entry::Vacant(there) => {
                there.insert(writes);
            }
            std::collections::btree_map::Entry::Occupied(mut there) => {
                for (there, write) in there.get_mut().iter_mut().zip(writes) {
                    there.mutations.extend(write.mutations);
                }
            }
        }
    }

    /// Removes misplaced rows, in one attempt. If the removal fails, reads still ignore misplaced
    /// rows.
    async fn remove(&self, strays: Strays) {
        let Some(timeout) = self.pieces.request_time(self.deadline) else {
            return;
        };
        let options = WriteOptions {
            timeout,
            ..WriteOptions::default()
        };
        let sent = strays.into_values().flatten();
        let sent = sent.map(|write| self.pieces.store.write(write, options));
        drop(join_all(sent).await);
    }
}

/// Adds a write to the pending writes of its partition.
fn add<At: Ord>(to: &mut BTreeMap<At, PartitionWrite>, at: At, write: PartitionWrite) {
    match to.entry(at) {
        std::collections::btree_map::Entry::Vacant(there) => {
            there.insert(write);
        }
        std::collections::btree_map::Entry::Occupied(mut there) => {
            there.get_mut().mutations.extend(write.mutations);
        }
    }
}

/// Waits for all writes. If any of them failed, returns one of the errors, and whether some writes may be
/// stored.
async fn all_done<F>(writes: impl Iterator<Item = F>) -> std::result::Result<(), Undone>
where
    F: Future<Output = std::result::Result<(), Undone>>,
{
    let ended = join_all(writes).await;
    let is_done_anywhere = ended.iter().any(std::result::Result::is_ok);
    let undone = ended.into_iter().filter_map(std::result::Result::err);
    // Any of the errors may be returned, but the result must say whether some writes may be stored.
    let undone = undone.max_by_key(|undone| undone.may_be_done);
    undone.map_or(Ok(()), |undone| {
        Err(Undone {
            may_be_done: undone.may_be_done || is_done_anywhere,
            ..undone
        })
    })
}

/// Returns the error for a row that has no bucket.
pub(crate) fn refused(unrouted: Unrouted) -> PiecesError {
    match unrouted {
        Unrouted::BelowFloor => PiecesError::new(PiecesErrorKind::BelowFloor, unrouted.to_string())
            .with_hint("write only rows within the retention time, or raise `keep`"),
        Unrouted::OutsideWindow => PiecesError::new(PiecesErrorKind::Store, unrouted.to_string()),
    }
}
