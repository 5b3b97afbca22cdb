//! Samples are held to the rows that they are of: who writes a smaller row over a larger one does not know that there was a sample,
//! and it would count for as long as there is the bucket.

use std::sync::Arc;

use recto_model::RowRef;
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Sampling};
use recto_store::{Operation, PointRead, ReadOptions, RowsRead};

use crate::error::Result;
use crate::limits::{MAX_HELD_SAMPLES, MAX_STEP_TIME};
use crate::place::{PieceStore, Place};
use crate::samples::Dated;
use crate::tables::{PiecedTable, counted, mutation};

impl PieceStore {
    /// These samples of a bucket as their rows are now. Those whose row was written again since, and would not be sampled as it
    /// is, are deleted at their own stamps, so that one that is made meanwhile stays. More than [`MAX_HELD_SAMPLES`] are left as they are: of
    /// so full a bucket the parts are looked at that it is cut into.
    ///
    /// # Errors
    /// The rows cannot be read in time.
    pub(crate) async fn hold(
        &self,
        place: &Place,
        bucket: Bucket,
        sampling: Sampling,
        samples: Vec<Dated>,
    ) -> Result<Vec<Dated>> {
        if samples.len() > MAX_HELD_SAMPLES {
            return Ok(samples);
        }
        let rows = self.rows_of(place, bucket, &samples).await?;
        let (mut held, mut stale) = (Vec::new(), Vec::new());
        for (mut dated, read) in samples.into_iter().zip(rows) {
            let row = read.rows.iter().next().zip(read.stamps.first());
            let is_held = match row {
                Some((row, stamp)) if *stamp > dated.stamp.0 => {
                    dated.sample.bytes = bytes_of(&place.pieced, row);
                    sampling.is_sampled(hash(&dated.sample.key), dated.sample.bytes)
                }
                // One that is not there may be on its way, however old its stamp is: who loads gives rows those of the load.
                _ => true,
            };
            if is_held {
                held.push(dated);
            } else {
                let clustering = std::iter::once(Some(&dated.sample.key[..])).collect();
                stale.push(mutation(Operation::DeleteRow { clustering }, dated.stamp, None));
            }
        }
        if !stale.is_empty() {
            self.write_step(self.samples_write(place, bucket, stale)).await?;
        }
        Ok(held)
    }

    async fn rows_of(&self, place: &Place, bucket: Bucket, samples: &[Dated]) -> Result<Vec<RowsRead>> {
        let read = |dated: &Dated| {
            Ok(PointRead {
                table: Arc::clone(&place.pieced.table),
                partition: place.shard_partition(bucket, place.pieced.shards.of(&dated.sample.key)),
                clustering: place.pieced.bound(&dated.sample.key)?.cells().clone(),
            })
        };
        let reads: Result<Vec<_>> = samples.iter().map(read).collect();
        let reads = reads?;
        self.again(self.deadline(MAX_STEP_TIME), |timeout| {
            let reads = &reads;
            async move {
                let options = ReadOptions {
                    timeout,
                    stamps: true,
                    ..ReadOptions::default()
                };
                Ok(self.store.snapshot()?.get_many(reads, &options).await?)
            }
        })
        .await
    }
}

/// What a row counts as, by all that it has, as who patches one knows less; or as it says itself, if that is more: it may have columns that
/// this process does not know.
pub(crate) fn bytes_of(pieced: &PiecedTable, row: RowRef<'_>) -> u64 {
    let columns = pieced.table.columns().len();
    let regular = columns - pieced.table.regular().len()..columns;
    let clustering = pieced.table.partition().len()..pieced.table.key_len();
    let clustering = clustering.map(|column| row.get(column)).collect();
    let others = regular
        .enumerate()
        .filter(|(index, _)| *index != pieced.row_column())
        .map(|(_, column)| row.get(column));
    let (bytes, _) = counted(&clustering, others);
    bytes.max(pieced.counted_of(row).unwrap_or(0))
}
