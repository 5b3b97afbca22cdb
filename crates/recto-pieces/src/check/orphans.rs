//! Stage of the check for samples of buckets or shards that have no rows. The stage of rows does
//! not visit such buckets and shards.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::Bound;
use recto_protocol::buckets::{Bucket, Span};
use recto_store::TokenRange;

use super::judge::counts;
use super::position::Next;
use super::{BucketCheck, CheckStep};
use crate::error::Result;
use crate::limits::{MAX_LISTED_PARTITIONS, MAX_LOOKS_AT_ONCE, MAX_SUSPECTS};
use crate::place::Place;
use crate::samples::Dated;

impl BucketCheck {
    pub(super) async fn samples(&mut self, rows: u32, step: &mut CheckStep) -> Result<Option<Next>> {
        let pieces = self.engine.clone();
        let own = Arc::clone(&pieces.tables.samples);
        let after = self.position.after.take().map(|next| next.scan);
        let limit = rows.min(MAX_LISTED_PARTITIONS as u32);
        let read = self
            .ask(|snapshot, options| {
                let (own, after) = (Arc::clone(&own), after.clone());
                async move {
                    let range = TokenRange::whole();
                    snapshot
                        .scan_partitions(&own, &range, after.as_ref(), limit, &options)
                        .await
                }
            })
            .await?;
        step.read = read.rows.len() as u64;
        let name = self.table().name().as_bytes();
        let of_table = read.rows.iter().filter(|row| row.get(0) == Some(name));
        let places = of_table.filter_map(|row| {
            // Skip samples whose partition key cannot be decoded.
            let partition = self.bucketed.pieced.partition_of(row.get(1)?).ok()?;
            let place = Place::new(&self.bucketed.pieced, partition).ok()?;
            let bucket = u64::from_be_bytes(row.get(2)?.try_into().ok()?);
            Some((Arc::new(place), Bucket(bucket)))
        });
        let places: Vec<_> = places.collect();
        let looks = places
            .iter()
            .map(|(place, bucket)| self.without_rows(place, *bucket));
        let looks: Vec<_> = looks.collect();
        let looks = stream::iter(looks).buffered(MAX_LOOKS_AT_ONCE);
        let looks: Vec<Vec<Dated>> = looks.try_collect().await?;
        for ((place, bucket), samples) in places.into_iter().zip(looks) {
            for dated in samples.into_iter().filter(counts).take(MAX_SUSPECTS) {
                let clustering = place.pieced.clustering_of_key(&dated.sample.key);
                let lies = (bucket, place.pieced.shards.of(&dated.sample.key));
                self.suspect(&place, lies, (dated.sample.key, clustering), true);
            }
        }
        Ok(read.next.map(|scan| Next { scan, open: None }))
    }

    /// Returns the samples (stored keys and sizes of some rows) of a bucket whose shards have no
    /// rows.
    async fn without_rows(&self, place: &Arc<Place>, bucket: Bucket) -> Result<Vec<Dated>> {
        let pieces = &self.engine;
        let mut empty = BTreeSet::new();
        for shard in place.pieced.shards.all() {
            if !pieces.has_rows(place, (bucket, shard), &Span::all()).await? {
                empty.insert(shard);
            }
        }
        if empty.is_empty() {
            return Ok(Vec::new());
        }
        let all = (Bound::start(), Bound::end());
        let samples = pieces.samples_between(place, bucket, all, self.deadline());
        let mut samples = samples.await?;
        samples.retain(|dated| empty.contains(&place.pieced.shards.of(&dated.sample.key)));
        Ok(samples)
    }
}
