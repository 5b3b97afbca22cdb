//! Splits buckets before a load, to make room for its rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_store::{PartitionWrite, StoreError};

use super::BucketedStore;
use super::writes::row;
use crate::error::PiecesError;
use crate::limits::MAX_ROOMS_AT_ONCE;
use crate::place::{Place, PlaceId};
use crate::room::Coming;
use crate::samples::Became;

impl BucketedStore {
    /// Splits the buckets that the rows of a load would make too large. Each row of `sample` represents
    /// `each` rows of the load.
    pub(super) async fn room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        time: Duration,
    ) -> Result<(), StoreError> {
        let making = self.room_in_pieces(sample, each);
        // If the time is up, the splitter continues the unfinished split.
        match tokio::time::timeout(time, making).await {
            Ok(made) => made,
            Err(_) => Err(PiecesError::out_of_time(None).into()),
        }
    }

    async fn room_in_pieces(&self, sample: Vec<PartitionWrite>, each: u32) -> Result<(), StoreError> {
        let mut places: BTreeMap<PlaceId, (Arc<Place>, Vec<Coming>)> = BTreeMap::new();
        for write in sample {
            let Some(bucketed) = self.bucketed(&write.table)? else {
                continue;
            };
            // Time buckets have fixed edges, so they need no splits.
            if bucketed.pieced.times.is_some() {
                continue;
            }
            let partition = self
                .pieces()
                .await?
                .partition(&bucketed.pieced, write.partition)?;
            let place = &partition.place;
            let (_, coming) = places
                .entry(Arc::clone(&place.id))
                .or_insert_with(|| (Arc::clone(place), Vec::new()));
            let floor = bucketed.pieced.floor(self.shared.environment.now_micros())?;
            for mutation in write.mutations {
                let row = row(&bucketed, &partition, mutation)?;
                if row.is_below(floor.as_ref()) {
                    continue;
                }
                if let Became::Put(bytes) = row.became {
                    coming.push(Coming {
                        key: row.key,
                        bytes: bucketed.pieced.weight(bytes).saturating_mul(each.into()),
                        rows: each.into(),
                    });
                }
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        let pieces = self.pieces().await?;
        let making = places
            .values()
            .map(|(place, coming)| pieces.make_room(place, coming.clone()));
        let making: Vec<_> = making.collect();
        let making = stream::iter(making).buffer_unordered(MAX_ROOMS_AT_ONCE);
        Ok(making.try_collect::<()>().await?)
    }
}
