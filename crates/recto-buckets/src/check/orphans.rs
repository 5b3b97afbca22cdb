//! Stage of the check for samples of buckets or shards that have no rows. The stage of rows does
//! not visit such buckets and shards.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::Bound;
use recto_protocol::buckets::{Bucket, Span};
use recto_store::ScanRead;

use super::routes::counts;
use super::{BucketCheck, SuspectKind};
use crate::error::Result;
use crate::limits::{MAX_LOOKS_AT_ONCE, MAX_STEP_TIME, MAX_SUSPECTS};
use crate::place::{PieceStore, Place};
use crate::samples::Dated;

impl BucketCheck {
    /// Checks the samples of buckets.
    pub(super) async fn check_samples(&mut self, read: &ScanRead) -> Result<()> {
        let name = self.table().name().as_bytes();
        let of_table = read.rows.iter().filter(|row| row.get(0) == Some(name));
        let places = of_table.filter_map(|row| {
            // Skip samples whose partition key cannot be decoded.
            let partition = self.bucketed.pieced.partition_of(row.get(1)?).ok()?;
            let bucket = u64::from_be_bytes(row.get(2)?.try_into().ok()?);
            Some((self.place(partition).ok()?, Bucket(bucket)))
        });
        let places: Vec<_> = places.collect();
        let looks = places
            .iter()
            .map(|(place, bucket)| self.engine.samples_without_rows(place, *bucket));
        let looks: Vec<_> = looks.collect();
        let looks = stream::iter(looks).buffered(MAX_LOOKS_AT_ONCE);
        let looks: Vec<Vec<Dated>> = looks.try_collect().await?;
        for ((place, bucket), samples) in places.into_iter().zip(looks) {
            for dated in samples.into_iter().filter(counts).take(MAX_SUSPECTS) {
                let clustering = place.pieced.clustering_of_key(&dated.sample.key);
                let lies = (bucket, place.pieced.shards.of(&dated.sample.key));
                self.suspect(SuspectKind::Sample, &place, lies, (dated.sample.key, clustering));
            }
        }
        Ok(())
    }
}

impl PieceStore {
    /// Returns the samples (stored keys and sizes of some rows) of a bucket whose shards have no
    /// rows.
    async fn samples_without_rows(&self, place: &Arc<Place>, bucket: Bucket) -> Result<Vec<Dated>> {
        let mut empty = BTreeSet::new();
        for shard in place.pieced.shards.all() {
            if !self.has_rows(place, (bucket, shard), &Span::all()).await? {
                empty.insert(shard);
            }
        }
        if empty.is_empty() {
            return Ok(Vec::new());
        }
        let (all, deadline) = ((Bound::start(), Bound::end()), self.deadline(MAX_STEP_TIME));
        let mut samples = self.samples_between(place, bucket, all, deadline).await?;
        samples.retain(|dated| empty.contains(&place.pieced.shards.of(&dated.sample.key)));
        Ok(samples)
    }
}
