//! Splitter: handles notices (requests for work in partitions), executes the steps of each split,
//! and continues splits that other processes left unfinished.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use recto_protocol::buckets::limits::{MAX_CUT_EDGES, MAX_WINDOW_PIECES};
use recto_protocol::buckets::{
    Bucket, ClearAction, ClearEvent, Clearing, Copying, Cut, Decision, Directory, Join, Key, Room,
    SplitAction, SplitEvent, Splitting, Version,
};

use crate::directory::Seek;
use crate::error::Result;
use crate::growth::{Bucketful, Wanted, growth_of, span_of};
use crate::joins::JoinReason;
use crate::limits::{MAX_COPIES_AT_ONCE, MAX_JOBS, MAX_PATIENCE, MAX_PATIENT_PAUSE, MAX_STEP_TIME};
use crate::notices::{Notice, Noticed};
use crate::place::{Partition, PieceStore, Place};
use crate::samples::Dated;

/// Minimum interval between two checks of the clock during a wait.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);
/// Maximum pause before this process continues a split of another process. The unit is the short lifetime
/// of a range map, which applies during splits.
const PATIENT_LIVES: u32 = 15;
/// Divisor of the maximum size of a mutation: the edges of splits may fill this part of one conditional
/// write.
const EDGES_OF_A_MUTATION: usize = 4;

impl PieceStore {
    /// Splits grown buckets, continues unfinished splits and removes old buckets, until the future
    /// is dropped. Other processes continue the work that it leaves unfinished. Run this method
    /// once in a process. A failed job is retried for some time. After that, the next read or write
    /// of the partition requests the job again.
    pub async fn work(&self) {
        let mut jobs: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(()) = jobs.next() => {}
                noticed = self.notices.next(), if jobs.len() < MAX_JOBS => {
                    jobs.push(self.job(noticed).boxed());
                }
            }
        }
    }

    async fn job(&self, noticed: Noticed) {
        let (place, key) = (&noticed.place, &noticed.key);
        // Ignore an error, because the next visit to the partition creates the notice again.
        let _ = match noticed.notice {
            Notice::Grown(bucket) => self.grown(place, (bucket, key.clone())).await,
            Notice::HalfDone => self.at_rest(place, key).await.map(drop),
            Notice::ToClear => self.clear(place, key).await,
            Notice::Calm => self.calm(place, key).await,
            Notice::Sparse if place.pieced.times.is_some() => {
                self.unregister_empty(place, key).await.map(drop)
            }
            Notice::Sparse => self.join(place, key, JoinReason::FewRows).await.map(drop),
            Notice::Tombstones => self.join(place, key, JoinReason::Tombstones).await.map(drop),
        };
        self.notices.is_over(&noticed);
    }

    /// Makes the splits that are due in a bucket that may have grown, and in the other grown
    /// buckets of its partition. The cached range map decides whether a split is due. When no other
    /// split is under way, the decision is repeated with the current range map.
    async fn grown(&self, place: &Arc<Place>, first: (Bucket, Key)) -> Result<()> {
        let others = self.notices.take_grown(&place.id);
        let grown = std::iter::once(first).chain(others).collect();
        self.cut_grown(place, grown).await.map(drop)
    }

    /// Makes the splits that are due in the buckets `grown`, and returns the number of splits. Each
    /// bucket is given with one of its keys.
    pub(crate) async fn cut_grown(&self, place: &Arc<Place>, grown: Vec<(Bucket, Key)>) -> Result<usize> {
        let partition = Partition {
            pieces: self.clone(),
            place: Arc::clone(place),
        };
        let (mut due, mut version) = (Vec::new(), 0);
        for (bucket, key) in grown {
            let (seek, deadline) = (Seek::At(key.clone()), self.deadline(MAX_STEP_TIME));
            let copy = partition.take(&seek, deadline).await?;
            if let Some(wanted) = self.wanted(place, copy.directory(), bucket).await? {
                due.push((bucket, key, Some(wanted)));
                version = copy.directory().version;
            }
        }
        let Some((_, key, _)) = due.first() else {
            return Ok(0);
        };
        let key = key.clone();
        let Some(directory) = self.at_rest(place, &key).await? else {
            return Ok(0);
        };
        let (mut cuts, mut is_hot) = (Vec::new(), false);
        for (bucket, key, wanted) in due {
            if directory.piece_of(&key).is_none() {
                // The key is in a window of the range map that was not read, so queue the bucket
                // again.
                self.notices.add(place, Notice::Grown(bucket), &key);
                continue;
            }
            let wanted = match wanted.filter(|_| directory.version == version) {
                Some(wanted) => Some(wanted),
                None => self.wanted(place, &directory, bucket).await?,
            };
            if let Some(wanted) = wanted {
                is_hot |= wanted.is_hot;
                cuts.push(wanted.cut);
            }
        }
        if cuts.is_empty() {
            return Ok(0);
        }
        let count = cuts.len();
        let changes = Changes {
            cuts,
            is_hot,
            ..Changes::default()
        };
        self.split(place, &key, directory, changes).await?;
        Ok(count)
    }

    /// Returns the split that is due in a bucket, by its sampled rows, if any.
    async fn wanted(&self, place: &Place, directory: &Directory, bucket: Bucket) -> Result<Option<Wanted>> {
        let Some((span, sampling)) = span_of(directory, bucket) else {
            self.counters.looked(&place.id, bucket, false);
            return Ok(None);
        };
        let deadline = self.deadline(MAX_STEP_TIME);
        let samples = self.samples(place, bucket, &span, deadline).await?;
        let now_ms = self.clock().wall_ms;
        let pieced = &place.pieced;
        let wanted = |samples: &[Dated], keys: Option<&[Key]>| {
            let growth = growth_of(pieced, samples, sampling, directory, now_ms, self.protocol);
            let bucketful = Bucketful {
                pieced,
                span: &span,
                sampling,
                samples,
                keys,
                now_ms,
                growth,
            };
            bucketful.wanted()
        };
        let estimate = sampling.estimate(samples.iter().map(|dated| &dated.sample));
        let is_too_large = pieced.size.is_exceeded(estimate);
        self.counters.looked(&place.id, bucket, is_too_large);
        if wanted(&samples, None).is_none() {
            return Ok(None);
        }
        let held = self.hold(place, bucket, sampling, samples).await?;
        let found = wanted(&held, None);
        if pieced.counted_rows().is_none() || !found.as_ref().is_some_and(|found| found.is_full) {
            return Ok(found);
        }
        let keys = self.keys(place, bucket, &span).await?;
        Ok(match keys {
            Some(keys) => wanted(&held, Some(keys.as_slice())),
            None => found,
        })
    }

    /// Waits until no split is under way at the key, and returns the range map by a serial read.
    /// Gives other processes time to finish their splits, and continues a split that no other
    /// process continues. Returns `None` if that takes too long.
    pub(crate) async fn at_rest(&self, place: &Arc<Place>, key: &Key) -> Result<Option<Directory>> {
        let mut seen: Option<(Version, Duration)> = None;
        for _ in 0..MAX_PATIENCE {
            let directory = self.directory_at(place, key).await?;
            if !directory.is_being_cut() {
                return Ok(Some(directory));
            }
            let step = Duration::from_millis(directory.longest_ms + self.protocol.standstill_ms);
            let patience = match seen {
                Some((version, patience)) if version == directory.version => patience,
                _ => step + self.drawn_patience(),
            };
            if patience.is_zero() {
                self.split(place, key, directory, Changes::default()).await?;
                continue;
            }
            let pause = patience.min(step);
            self.wait(pause).await;
            seen = Some((directory.version, patience.saturating_sub(pause)));
        }
        Ok(None)
    }

    /// Makes splits and joins in the range map `read`, which was just read, or continues unfinished ones, until
    /// the end. If another process has changed the range map first, these changes are dropped: the changes
    /// that are due then follow from the new range map. Returns false if the changes were dropped.
    pub(crate) async fn split(
        &self,
        place: &Arc<Place>,
        key: &Key,
        read: Directory,
        changes: Changes,
    ) -> Result<bool> {
        let Changes { cuts, joins, is_hot } = changes;
        let mut is_decided = cuts.is_empty() && joins.is_empty();
        let (is_join, mut is_dropped) = (!joins.is_empty(), false);
        let machine = Splitting::new(cuts, is_hot, self.room(), self.protocol);
        let mut machine = machine.with_joins(joins);
        let mut known = read.clone();
        let mut read = Some(read);
        let mut action = machine.step(SplitEvent::Begin);
        let (mut touched, mut attempts) = (Vec::new(), 0);
        loop {
            let event = match action {
                SplitAction::Read => {
                    let version = known.version;
                    known = match read.take() {
                        Some(read) => read,
                        None => self.directory_at(place, key).await?,
                    };
                    if !is_decided && known.version != version {
                        // The version changed, perhaps by an earlier write of this split whose
                        // outcome is unknown. Continue from the stored range map.
                        is_decided = true;
                        machine = Splitting::new([], is_hot, self.room(), self.protocol);
                        machine.step(SplitEvent::Begin);
                    }
                    SplitEvent::Read(known.clone())
                }
                SplitAction::MarkRoot => {
                    self.write_step(place.pieced.mark_root(&place.partition, (self.stamps)()))
                        .await?;
                    SplitEvent::RootMarked
                }
                SplitAction::Cas { put, .. } => {
                    let decision = self.decide(place, &known, (&put, &[]), &mut attempts).await?;
                    if decision == Decision::Applied {
                        is_decided = true;
                        let made = put.next_bucket.0.saturating_sub(known.next_bucket.0);
                        if is_join && made > 0 {
                            self.counters.joined(count_new(&known, &put));
                        } else {
                            self.counters.made(made);
                        }
                        touched.extend(being_cut(&known));
                        known = put;
                        touched.extend(being_cut(&known));
                    } else if decision == Decision::Refused && !is_decided {
                        is_dropped = true;
                        break;
                    }
                    SplitEvent::Decided(decision)
                }
                SplitAction::Wait { ms } => {
                    self.wait(Duration::from_millis(ms)).await;
                    SplitEvent::Waited
                }
                SplitAction::Copy(copies) => {
                    self.copy_all(place, &known, &copies).await?;
                    SplitEvent::Copied
                }
                SplitAction::Over => break,
            };
            action = machine.step(event);
        }
        // Rows may have arrived during the split, and perhaps no later write checks the buckets, so
        // queue the split buckets for another check.
        touched.sort_unstable();
        touched.dedup();
        for key in &touched {
            if let Some(piece) = known.piece_of(key) {
                self.notices.add(place, Notice::Grown(piece.roles.read), key);
            }
        }
        self.notices.look(place, &known);
        if !known.is_whole() || known.pieces.len() > MAX_WINDOW_PIECES {
            // Ignore an error, because readers check block sums (cached totals of key ranges) and
            // can do without them.
            let _ = self.sum_up(place, &touched).await;
        }
        Ok(!is_dropped)
    }

    /// Returns the limits of one conditional write of a split.
    pub(crate) fn room(&self) -> Room {
        Room {
            pieces: MAX_CUT_EDGES,
            bytes: self.store.limits().mutation_bytes / EDGES_OF_A_MUTATION,
        }
    }

    /// Lengthens the lifetime of cached range maps again, if the range map of the partition has not
    /// changed for a while.
    pub(crate) async fn calm(&self, place: &Arc<Place>, key: &Key) -> Result<()> {
        let before = self.directory_at(place, key).await?;
        self.patient_pause(self.longest_patience()).await;
        let now = self.directory_at(place, key).await?;
        if now.version == before.version && !now.is_being_cut() {
            return self.split(place, key, now, Changes::default()).await.map(drop);
        }
        Ok(())
    }

    /// Removes the old buckets that splits no longer use, one hour after the split.
    pub(crate) async fn clear(&self, place: &Place, key: &Key) -> Result<()> {
        let mut machine = Clearing::new(self.protocol);
        let mut known = Directory::absent(place.pieced.sampling, self.protocol);
        let mut action = machine.step(ClearEvent::Begin);
        let mut attempts = 0;
        loop {
            let event = match action {
                ClearAction::Read => {
                    // Read a window around the key: an inner edge between two windows would otherwise stay.
                    let deadline = self.deadline(MAX_STEP_TIME);
                    known = self.read_around(place, key, deadline).await?.0;
                    ClearEvent::Read(known.clone())
                }
                ClearAction::Wait { ms } => {
                    self.patient_pause(Duration::from_millis(ms)).await;
                    ClearEvent::Waited
                }
                ClearAction::Copy(copies) => {
                    self.copy_all(place, &known, &copies).await?;
                    ClearEvent::Copied
                }
                ClearAction::Delete(left) => {
                    for (bucket, span) in &left {
                        self.delete(place, *bucket, span).await?;
                    }
                    ClearEvent::Deleted
                }
                ClearAction::Cas { put, gone, .. } => {
                    // Remove block sums (cached totals of key ranges) before and after the key
                    // ranges: a block must never begin at an edge that no longer exists.
                    self.forget_sums(place, &gone).await?;
                    let decision = self.decide(place, &known, (&put, &gone), &mut attempts).await?;
                    self.forget_sums(place, &gone).await?;
                    if decision == Decision::Applied {
                        if !gone.is_empty() && !put.is_whole() {
                            let left: Vec<Key> = put.pieces.iter().map(|piece| piece.start.clone()).collect();
                            // Ignore an error, because readers check block sums (cached totals of
                            // key ranges) and can do without them.
                            let _ = self.sum_up(place, &left).await;
                        }
                        known = put;
                    }
                    ClearEvent::Decided(decision)
                }
                ClearAction::Over => return Ok(()),
            };
            action = machine.step(event);
        }
    }

    /// Sends one conditional write of a range map. Pauses if the write was not applied, or if its outcome
    /// is unknown.
    pub(crate) async fn decide(
        &self,
        place: &Place,
        before: &Directory,
        put: (&Directory, &[Key]),
        attempts: &mut u32,
    ) -> Result<Decision> {
        let time = self.deadline(MAX_STEP_TIME);
        let timeout = self.request_time(time).unwrap_or_default();
        let decision = self.change_directory(place, before, put, timeout).await?;
        if decision == Decision::Applied {
            *attempts = 0;
        } else {
            *attempts += 1;
            self.pause(*attempts).await;
        }
        Ok(decision)
    }

    async fn directory_at(&self, place: &Place, key: &Key) -> Result<Directory> {
        let (seek, deadline) = (Seek::At(key.clone()), self.deadline(MAX_STEP_TIME));
        self.read_directory(place, &seek, true, deadline).await
    }

    async fn copy_all(&self, place: &Place, known: &Directory, copies: &[Copying]) -> Result<()> {
        let place = &self.as_stored(place).await?;
        let copied = copies.iter().map(|copying| {
            let piece = known.piece_of(&copying.span.start);
            let sampling = piece.map(|piece| {
                let newer = piece.next_sampling.unwrap_or(piece.sampling);
                if copying.to > piece.roles.read {
                    newer
                } else {
                    piece.sampling
                }
            });
            self.copy(place, copying, sampling.unwrap_or(place.pieced.sampling))
        });
        let copied: Vec<_> = copied.collect();
        let copied = stream::iter(copied).buffered(MAX_COPIES_AT_ONCE);
        copied.try_collect().await
    }

    /// Waits for `least` plus a random time, so that several processes that wait for the same event
    /// do not act at once.
    async fn patient_pause(&self, least: Duration) {
        self.wait(least + self.drawn_patience()).await;
    }

    fn drawn_patience(&self) -> Duration {
        self.longest_patience().mul_f64(self.drawn())
    }

    fn longest_patience(&self) -> Duration {
        let lives = Duration::from_millis(self.protocol.short_life_ms) * PATIENT_LIVES;
        lives.min(MAX_PATIENT_PAUSE)
    }

    /// Waits for the duration `time`, by the clock that also counts while the machine is suspended.
    pub(crate) async fn wait(&self, time: Duration) {
        let begun = self.environment.continuous_nanos();
        loop {
            let waited = Duration::from_nanos(self.environment.continuous_nanos().saturating_sub(begun));
            let left = time.saturating_sub(waited);
            if left.is_zero() {
                return;
            }
            // The clock also counts while the machine is suspended, but timers do not. Therefore sleep for
            // only a part of the time, and then read the clock again.
            tokio::time::sleep((left / 8).max(SHORTEST_SLEEP)).await;
        }
    }
}

/// Changes of a range map that [`PieceStore::split`] makes together.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) cuts: Vec<Cut>,
    pub(crate) joins: Vec<Join>,
    /// True if the partition grows so fast that it will soon be split again.
    pub(crate) is_hot: bool,
}

/// Returns the number of key ranges that have another destination after a change than before it.
fn count_new(before: &Directory, after: &Directory) -> u64 {
    let pieces = before.pieces.iter().zip(&after.pieces);
    pieces
        .filter(|(before, after)| before.roles.destination() != after.roles.destination())
        .count() as u64
}

/// Returns the first key of each key range that is being split.
fn being_cut(directory: &Directory) -> impl Iterator<Item = Key> {
    let pieces = directory.pieces.iter().filter(|piece| !piece.roles.is_at_rest());
    pieces.map(|piece| piece.start.clone())
}

impl Partition {
    /// Queues all buckets of the partition for a check by the splitter, as well as unfinished splits and old buckets.
    /// Returns the number of key ranges.
    ///
    /// # Errors
    /// The range map cannot be read.
    pub async fn look(&self, time: Duration) -> Result<usize> {
        let deadline = self.pieces.deadline(time);
        let (mut seek, mut buckets) = (Some(Seek::At(Key::new())), 0);
        while let Some(next) = seek {
            let window = self
                .pieces
                .read_directory(&self.place, &next, true, deadline)
                .await?;
            for piece in &window.pieces {
                self.pieces
                    .notices
                    .add(&self.place, Notice::Grown(piece.roles.read), &piece.start);
                buckets += 1;
            }
            self.pieces.notices.look(&self.place, &window);
            seek = window.end.map(Seek::At);
        }
        Ok(buckets)
    }

    /// Returns the range map by a serial read, or its first window (part).
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub async fn directory(&self, time: Duration) -> Result<Directory> {
        self.window(Key::new(), time).await
    }

    /// Returns the window (part) of the range map that contains a key, by a serial read.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub async fn window(&self, key: Key, time: Duration) -> Result<Directory> {
        let (seek, deadline) = (Seek::At(key), self.pieces.deadline(time));
        self.pieces
            .read_directory(&self.place, &seek, true, deadline)
            .await
    }
}
