//! Room in buckets for rows that are about to be loaded: for each buffer, by rows that are there anyway, or once for the whole file
//! ([`survey`](super::survey)).

use std::sync::Arc;

use recto_store::{PartitionWrite, Stamp};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::buffer::{Buffer, Chunk, WriteSizes};
use super::pipeline::{Coming, blocking};
use super::plan::LoadPlan;
use super::whole::Writing;
use super::write::ChunkWriter;
use crate::catalog::Recorded;
use crate::error::Result;
use crate::room::{MAX_ROOM_TIME, ROOM_EACH};
use crate::viewed::Viewed;

/// Some of the rows that are about to be loaded.
pub(super) struct Sampled {
    /// In key order, of each collection.
    pub(super) buffer: Arc<Buffer>,
    /// Of so many of the buffer one is taken.
    pub(super) step: usize,
    /// For how many rows each of these stands.
    pub(super) each: u32,
}

/// Makes room for buffers, one after the other, until it is dropped: for one while that before it is written.
pub(super) struct Rooms(AbortHandle);

impl Rooms {
    pub(super) fn begin(writer: Arc<ChunkWriter>, mut coming: mpsc::Receiver<Coming>) -> Self {
        let making = tokio::spawn(async move {
            while let Some(Coming { buffer, room }) = coming.recv().await {
                let sampled = Sampled {
                    buffer,
                    step: ROOM_EACH as usize,
                    each: ROOM_EACH,
                };
                // What cannot be made of the rows is met when they are written.
                drop(writer.make_room(&sampled).await);
                drop(sampled);
                let _ = room.send(());
            }
        });
        Self(making.abort_handle())
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        // What is half done then is gone on with by who cuts.
        self.0.abort();
    }
}

impl ChunkWriter {
    /// Has the store make room for rows of which these are some, where tables are kept in buckets. Where it fails rows are written all the same, and
    /// cut later.
    ///
    /// # Errors
    /// What is written of the rows cannot be made.
    pub(super) async fn make_room(&self, sampled: &Sampled) -> Result<()> {
        for number in 0..self.plan.targets.len() {
            let viewed = self.plan.targets[number].core.viewed_now()?;
            let (plan, buffer) = (Arc::clone(&self.plan), Arc::clone(&sampled.buffer));
            let step = sampled.step;
            let (sizes, stamp, held) = (self.sizes, self.stamp, self.shared.held());
            let now = self.shared.environment.now_micros();
            let sample = blocking(move || {
                let sample = Sample {
                    plan: &plan,
                    buffer: &buffer,
                    viewed: viewed.as_deref(),
                    recorded: &held.recorded,
                    sizes,
                    stamp,
                    now,
                };
                sample.writes(number, step)
            });
            let sample = sample.await?;
            if !sample.is_empty() {
                let made = self.shared.store.make_room(sample, sampled.each, MAX_ROOM_TIME);
                drop(made.await);
            }
        }
        Ok(())
    }
}

/// What a sample of a buffer's rows is made with.
struct Sample<'a> {
    plan: &'a LoadPlan,
    buffer: &'a Buffer,
    viewed: Option<&'a Viewed>,
    recorded: &'a Recorded,
    sizes: WriteSizes,
    stamp: Stamp,
    now: i64,
}

impl Sample<'_> {
    /// What is written to tables in buckets of some of the rows of a collection.
    fn writes(&self, target: usize, step: usize) -> Result<Vec<PartitionWrite>> {
        let mut sample = Vec::new();
        let rows = self.buffer.entries_of(target);
        for start in (0..rows).step_by(step) {
            let chunk = Chunk {
                target,
                start,
                end: start + 1,
                bytes: 0,
            };
            let writes = match self.viewed {
                None => self.buffer.writes(self.plan, chunk, self.sizes, self.stamp),
                Some(viewed) => {
                    let writing = Writing::new(&self.plan.targets[target], viewed, self.recorded, self.now);
                    writing.writes(self.buffer, chunk, self.stamp, None)?.writes
                }
            };
            let is_in_buckets = |write: &PartitionWrite| write.table.options().buckets.is_some();
            // All rows of a collection go to the same tables.
            if start == 0 && !writes.iter().any(is_in_buckets) {
                break;
            }
            sample.extend(writes.into_iter().filter(is_in_buckets));
        }
        Ok(sample)
    }
}
