//! Room for rows that are about to be loaded into tables that are kept in buckets.

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
    /// Makes room for rows of which these are a sample, each of which stands for so many.
    pub(super) async fn room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        time: Duration,
    ) -> Result<(), StoreError> {
        if self.transacted().is_some() {
            return Ok(());
        }
        let mut places: BTreeMap<PlaceId, (Arc<Place>, Vec<Coming>)> = BTreeMap::new();
        for write in sample {
            let Some(bucketed) = self.bucketed(&write.table)? else {
                continue;
            };
            let partition = self
                .pieces()
                .await?
                .partition(&bucketed.pieced, write.partition)?;
            let place = &partition.place;
            let (_, coming) = places
                .entry(Arc::clone(&place.id))
                .or_insert_with(|| (Arc::clone(place), Vec::new()));
            for mutation in write.mutations {
                let row = row(&bucketed, &partition, mutation)?;
                if let Became::Put(bytes) = row.became {
                    coming.push(Coming {
                        key: row.key,
                        bytes: bytes.saturating_mul(each.into()),
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
        // What is half done then is gone on with by who cuts.
        match tokio::time::timeout(time, making.try_collect::<()>()).await {
            Ok(made) => Ok(made?),
            Err(_) => Err(PiecesError::out_of_time(None).into()),
        }
    }
}
