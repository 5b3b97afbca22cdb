//! Splits of buckets in advance for rows that are about to be loaded: for each buffer by a sample of its rows, or once
//! for the whole file ([`survey`](super::survey)).

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

/// Sample of the rows that are about to be loaded.
pub(super) struct Sampled {
    /// Rows in key order, of each collection.
    pub(super) buffer: Arc<Buffer>,
    /// The sample has one of each `step` rows of the buffer.
    pub(super) step: usize,
    /// Number of rows that each row of the sample represents.
    pub(super) each: u32,
}

/// Task that splits buckets for one buffer after another, until it is dropped. It works for a buffer while the one
/// before is written.
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
                // Ignore errors here, because the load reports them when it writes the rows.
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
        // The abort is safe, because a later split of the bucket finishes a
        // split that is half done.
        self.0.abort();
    }
}

impl ChunkWriter {
    /// Splits the buckets of the store's tables for rows of which `sampled` is a sample. If that fails, the rows are
    /// written anyway, and the buckets are split later.
    ///
    /// # Errors
    /// The writes of the rows cannot be created.
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

/// Parameters of a sample of a buffer's rows.
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
    /// Returns the writes of some of a collection's rows to tables that have buckets.
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
            // All rows of a collection go to the same tables, so the first row shows whether
            // any table has buckets.
            if start == 0 && !writes.iter().any(is_in_buckets) {
                break;
            }
            sample.extend(writes.into_iter().filter(is_in_buckets));
        }
        Ok(sample)
    }
}
