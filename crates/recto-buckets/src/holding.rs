//! Comparison of samples (stored keys and sizes of some rows) with their rows, to find outdated
//! samples. A writer that replaces a large row by a smaller one does not know that the large row
//! was sampled. Without the comparison, the outdated sample would count as long as the bucket
//! exists.

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
    /// Returns the samples of a bucket with the current sizes of their rows. A sample is outdated if its
    /// row was written again since, and the current row would not be sampled. Outdated samples are
    /// deleted. The deletion has the timestamp of the sample, so that a newer sample is kept.
    ///
    /// If there are more than [`MAX_HELD_SAMPLES`] samples, returns them unchanged: such a full bucket is
    /// split, and the samples of its parts are compared later.
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
                // Keep the sample of a missing row, because the row may still arrive. An old
                // timestamp proves nothing, because a load writes all its rows at the timestamp of
                // the load.
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

/// Returns the counted size of a row, computed from all of its cells. The stored size may be too small:
/// the writer of a patch knows only some cells. If the stored size is larger, returns it instead: the row
/// may have columns that this process does not know.
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
