//! Who cuts: looks at what was noticed, and takes each cut through its steps, or goes on with one that was left half done.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use recto_buckets::{
    ClearAction, ClearEvent, Clearing, Copying, Cut, Decision, Directory, Key, SplitAction, SplitEvent,
    Splitting, Version,
};

use crate::directory::Seek;
use crate::error::Result;
use crate::growth::{Bucketful, Wanted, growth_of, span_of};
use crate::limits::{MAX_JOBS, MAX_PATIENCE, MAX_PATIENT_PAUSE, MAX_STEP_TIME};
use crate::notices::{Notice, Noticed};
use crate::place::{Partition, PieceStore, Place};

/// Who waits looks at its clock no more often.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);

impl PieceStore {
    /// Cuts what has grown, goes on with what was left half done, and clears what was left, until it is dropped: whoever
    /// comes there later goes on with what it was at. It is to be run once in a process. What fails is tried again for some time, and is then left to who
    /// notices it next.
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
        let place = &noticed.place;
        // What failed is there to be noticed again.
        let _ = match noticed.notice {
            Notice::Grown(_) | Notice::HalfDone => self.grown(&noticed).await,
            Notice::ToClear => self.clear(place, &noticed.key).await,
            Notice::Calm => self.calm(place, &noticed.key).await,
        };
        self.notices.is_over(&noticed);
    }

    /// Lets who cuts there be done with that, or goes on with it; and makes the cut that is due then.
    async fn grown(&self, noticed: &Noticed) -> Result<()> {
        let (place, key) = (&noticed.place, &noticed.key);
        let mut before: Option<Version> = None;
        for _ in 0..MAX_PATIENCE {
            let directory = self.directory_at(place, key).await?;
            if directory.is_being_cut() {
                if before == Some(directory.version) {
                    self.split(place, key, None, false).await?;
                }
                before = Some(directory.version);
                let longest = directory.longest_ms + self.protocol.standstill_ms;
                self.patient_pause(Duration::from_millis(longest)).await;
                continue;
            }
            let Notice::Grown(bucket) = noticed.notice else {
                return Ok(());
            };
            let Some((span, sampling)) = span_of(&directory, bucket) else {
                return Ok(());
            };
            let samples = self
                .samples(place, bucket, &span, self.deadline(MAX_STEP_TIME))
                .await?;
            let now_ms = self.clock().wall_ms;
            let pieced = &place.pieced;
            let growth = growth_of(pieced, &samples, sampling, &directory, now_ms, self.protocol);
            let bucketful = Bucketful {
                pieced,
                span: &span,
                sampling,
                samples: &samples,
                now_ms,
                max_edges_bytes: self.store.limits().mutation_bytes / 4,
                growth,
            };
            let Some(Wanted { cut, is_hot }) = bucketful.wanted() else {
                return Ok(());
            };
            return self.split(place, key, Some(cut), is_hot).await;
        }
        Ok(())
    }

    /// Runs a cut, or what is left of one, to its end.
    async fn split(&self, place: &Arc<Place>, key: &Key, cut: Option<Cut>, is_hot: bool) -> Result<()> {
        let mut machine = Splitting::new(cut, is_hot, self.protocol);
        let mut known = Directory::absent(place.pieced.sampling, self.protocol);
        let mut action = machine.step(SplitEvent::Begin);
        let mut touched = Vec::new();
        let mut attempts = 0;
        loop {
            let event = match action {
                SplitAction::Read => {
                    known = self.directory_at(place, key).await?;
                    SplitEvent::Read(known.clone())
                }
                SplitAction::MarkRoot => {
                    self.write_step(place.pieced.mark_root(&place.partition, (self.stamps)()))
                        .await?;
                    SplitEvent::RootMarked
                }
                SplitAction::Cas { put, .. } => {
                    let decision = self.decide(place, &known, &put, &mut attempts).await?;
                    if decision == Decision::Applied {
                        touched.extend(being_cut(&known));
                        known = put;
                        touched.extend(being_cut(&known));
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
        // What came meanwhile is looked at: nobody may come there any more.
        for key in touched {
            if let Some(piece) = known.piece_of(&key) {
                self.notices.add(place, Notice::Grown(piece.roles.read), &key);
            }
        }
        self.notices.look(place, &known);
        Ok(())
    }

    /// Copies live longer again where nothing was changed for a while.
    async fn calm(&self, place: &Arc<Place>, key: &Key) -> Result<()> {
        let before = self.directory_at(place, key).await?;
        self.patient_pause(MAX_PATIENT_PAUSE).await;
        let now = self.directory_at(place, key).await?;
        if now.version == before.version && !now.is_being_cut() {
            return self.split(place, key, None, false).await;
        }
        Ok(())
    }

    /// Clears what was left, much later.
    async fn clear(&self, place: &Place, key: &Key) -> Result<()> {
        let mut machine = Clearing::new(self.protocol);
        let mut known = Directory::absent(place.pieced.sampling, self.protocol);
        let mut action = machine.step(ClearEvent::Begin);
        let mut attempts = 0;
        loop {
            let event = match action {
                ClearAction::Read => {
                    known = self.directory_at(place, key).await?;
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
                ClearAction::Cas { put, .. } => {
                    ClearEvent::Decided(self.decide(place, &known, &put, &mut attempts).await?)
                }
                ClearAction::Over => return Ok(()),
            };
            action = machine.step(event);
        }
    }

    /// One conditional write; after one that was not applied, or may be, some time goes by.
    async fn decide(
        &self,
        place: &Place,
        before: &Directory,
        put: &Directory,
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
        for copying in copies {
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
                .await?;
        }
        Ok(())
    }

    /// So long, and a time that is drawn beside: others wait for the same.
    async fn patient_pause(&self, least: Duration) {
        self.wait(least + MAX_PATIENT_PAUSE.mul_f64(self.drawn())).await;
    }

    /// Waits so long by the clock that counts since the machine was started.
    async fn wait(&self, time: Duration) {
        let begun = self.environment.continuous_nanos();
        loop {
            let waited = Duration::from_nanos(self.environment.continuous_nanos().saturating_sub(begun));
            let left = time.saturating_sub(waited);
            if left.is_zero() {
                return;
            }
            // It goes on while the machine is suspended, and timers do not.
            tokio::time::sleep((left / 8).max(SHORTEST_SLEEP)).await;
        }
    }
}

/// A key of each piece that is being cut.
fn being_cut(directory: &Directory) -> impl Iterator<Item = Key> {
    let pieces = directory.pieces.iter().filter(|piece| !piece.roles.is_at_rest());
    pieces.map(|piece| piece.start.clone())
}

impl Partition {
    /// Has who cuts look at all buckets of the partition, and at what was left half done or to be cleared there: how many
    /// buckets it has.
    ///
    /// # Errors
    /// Its directory cannot be read.
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

    /// The directory as it was last decided, or the first window of it.
    ///
    /// # Errors
    /// It cannot be read in time, or is damaged.
    pub async fn directory(&self, time: Duration) -> Result<Directory> {
        let (first, deadline) = (Seek::At(Key::new()), self.pieces.deadline(time));
        self.pieces
            .read_directory(&self.place, &first, true, deadline)
            .await
    }
}
