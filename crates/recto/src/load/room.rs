//! Splits of buckets before a load. A sample of the whole file ([`survey`](super::survey)) shows which
//! buckets would become too large.

use std::sync::Arc;

use recto_store::{PartitionWrite, Stamp};

use super::buffer::{Buffer, Chunk, WriteSizes};
use super::pipeline::blocking;
use super::plan::LoadPlan;
use super::whole::Writing;
use super::write::ChunkWriter;
use crate::catalog::Recorded;
use crate::error::Result;
use crate::room::MAX_ROOM_TIME;
use crate::viewed::Viewed;

/// Sample of the rows that are about to be loaded.
pub(super) struct Sampled {
    /// Rows of the sample in key order, for each collection.
    pub(super) buffer: Arc<Buffer>,
    /// Interval between the sampled rows of `buffer`: the sample contains one of each `step` rows.
    pub(super) step: usize,
    /// Number of rows of the file that each row of the sample represents.
    pub(super) each: u32,
}

impl ChunkWriter {
    /// Splits buckets (partitions of a table) that would become too large with the rows that
    /// `sampled` represents. If a split fails, the rows are written anyway, and the store splits
    /// the buckets later.
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

/// Parameters for the creation of the writes of sampled rows.
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
    /// Returns the writes of one of each `step` rows of the collection with index `target`. Leaves
    /// out writes to tables without buckets.
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
