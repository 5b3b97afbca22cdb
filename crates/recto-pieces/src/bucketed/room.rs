//! Makes room for rows that are about to be loaded into tables that are kept in buckets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_store::{PartitionWrite, StoreError};

use super::BucketedStore;
use super::addresses::Call;
use super::writes::row;
use crate::error::PiecesError;
use crate::limits::MAX_ROOMS_AT_ONCE;
use crate::place::{Place, PlaceId};
use crate::room::Coming;
use crate::samples::Became;
use crate::transacted::Transacted;

impl BucketedStore {
    /// Makes room for the rows of a load. Each row of `sample` represents `each` rows.
    pub(super) async fn room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        time: Duration,
    ) -> Result<(), StoreError> {
        let making = async {
            match self.writing() {
                Some(engine) => self.room_in_counted(engine, sample, each).await,
                None => self.room_in_pieces(sample, each).await,
            }
        };
        // A timeout may leave an unfinished split, which the splitter continues.
        match tokio::time::timeout(time, making).await {
            Ok(made) => made,
            Err(_) => Err(PiecesError::out_of_time(None).into()),
        }
    }

    /// Makes room on stores where transactions move rows.
    async fn room_in_counted(
        &self,
        engine: &Transacted,
        sample: Vec<PartitionWrite>,
        each: u32,
    ) -> Result<(), StoreError> {
        let call = Call {
            plain: sample,
            ..Call::default()
        };
        let coming = self.addresses(&call)?.sampled(each);
        let making = coming
            .iter()
            .map(|(place, rows)| engine.make_room_for(place, rows));
        let making: Vec<_> = making.collect();
        let making = stream::iter(making).buffer_unordered(MAX_ROOMS_AT_ONCE);
        Ok(making.try_collect::<()>().await?)
    }

    /// Makes room on stores where samples estimate the sizes of buckets.
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
