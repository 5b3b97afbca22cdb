//! Room in buckets for rows that are about to be loaded: on Cassandra a cut that begins when a bucket is full takes longer than it takes to load
//! the next one, and in the embedded store calls would wait for it one after the other.

use std::sync::Arc;
use std::time::Duration;

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
use crate::viewed::Viewed;

/// Of so many rows one is told to the store.
const ROOM_EACH: u32 = 16;

/// How long a load waits for room; past that it makes do with what there is.
const MAX_ROOM_TIME: Duration = Duration::from_secs(60);

/// Makes room for buffers, one after the other, until it is dropped: for one while that before it is written.
pub(super) struct Rooms(AbortHandle);

impl Rooms {
    pub(super) fn begin(writer: Arc<ChunkWriter>, mut coming: mpsc::Receiver<Coming>) -> Self {
        let making = tokio::spawn(async move {
            while let Some(Coming { buffer, room }) = coming.recv().await {
                // What cannot be made of the rows is met when they are written.
                drop(writer.make_room(&buffer).await);
                drop(buffer);
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
    /// Has the store make room for the rows of a buffer, where tables are kept in buckets. Where it fails rows are written all the same, and
    /// cut later.
    ///
    /// # Errors
    /// What is written of the rows cannot be made.
    async fn make_room(&self, buffer: &Arc<Buffer>) -> Result<()> {
        for number in 0..self.plan.targets.len() {
            let viewed = self.plan.targets[number].core.viewed_now()?;
            let (plan, buffer) = (Arc::clone(&self.plan), Arc::clone(buffer));
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
                sample.writes(number)
            });
            let sample = sample.await?;
            if !sample.is_empty() {
                let made = self.shared.store.make_room(sample, ROOM_EACH, MAX_ROOM_TIME);
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
    fn writes(&self, target: usize) -> Result<Vec<PartitionWrite>> {
        let mut sample = Vec::new();
        let rows = self.buffer.entries_of(target);
        for start in (0..rows).step_by(ROOM_EACH as usize) {
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
