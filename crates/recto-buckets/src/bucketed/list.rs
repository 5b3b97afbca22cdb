//! Lists buckets for an operator of a store, and repairs them on demand.

use std::pin::pin;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use recto_model::{Cells, Table};
use recto_protocol::buckets::Key;
use recto_store::{Store, StoreError};

use super::BucketedStore;
use super::tables::Bucketed;
use crate::counters::BucketMetrics;
use crate::limits::{MAX_LISTED_PARTITIONS, MAX_MENDED_AT_ONCE, MAX_RETAINED_AT_ONCE};
use crate::list::{
    Listing, Partitions, PartitionsPosition, Seek, Summary, list_around, list_summaries, partition_keys,
};
use crate::mend::Mended;
use crate::place::{PieceStore, Place};

impl BucketedStore {
    /// Returns the counters of this process since the store was opened.
    pub fn bucket_metrics(&self) -> BucketMetrics {
        self.shared
            .pieces
            .get()
            .map(PieceStore::metrics)
            .unwrap_or_default()
    }

    /// Returns the encoded form of the first cells of a clustering key, which is a position in the order of the table.
    ///
    /// # Errors
    /// - The cells do not belong to the table.
    /// - The table is not kept in buckets.
    pub fn key_of(&self, table: &Arc<Table>, clustering: &Cells) -> Result<Key, StoreError> {
        Ok(self.in_buckets(table)?.pieced.key(clustering.as_row())?)
    }

    /// Lists buckets of a partition from a position on, at most
    /// [`MAX_LISTED_PIECES`](crate::limits::MAX_LISTED_PIECES).
    ///
    /// # Errors
    /// - The table is not kept in buckets.
    /// - The store cannot be read in time, or is damaged.
    pub async fn list_buckets(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        seek: Seek,
        most: usize,
    ) -> Result<Listing, StoreError> {
        let bucketed = self.in_buckets(table)?;
        let pieces = self.pieces().await?;
        let partition = pieces.partition(&bucketed.pieced, partition.clone())?;
        Ok(partition.list(seek, most).await?)
    }

    /// Lists the buckets around the bucket that contains a key: about as many before this bucket as
    /// after it.
    ///
    /// # Errors
    /// As for [`list_buckets`](Self::list_buckets).
    pub async fn list_buckets_around(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        key: Key,
        most: usize,
    ) -> Result<Listing, StoreError> {
        list_around(key, most, |seek, most| {
            self.list_buckets(table, partition, seek, most)
        })
        .await
    }

    /// Lists partitions of a table in the store's own order, at most [`MAX_LISTED_PARTITIONS`]. The result
    /// may have fewer partitions than requested, even if more follow.
    ///
    /// # Errors
    /// As for [`list_buckets`](Self::list_buckets).
    pub async fn list_partitions(
        &self,
        table: &Arc<Table>,
        position: PartitionsPosition,
        most: usize,
    ) -> Result<Partitions, StoreError> {
        let bucketed = self.in_buckets(table)?;
        let summarize = |partition| {
            let bucketed = &bucketed;
            async move {
                let summary = self.summary(bucketed, &partition).await?;
                Ok((partition, summary))
            }
        };
        list_summaries(&*self.snapshot()?, table, position, most, summarize).await
    }

    /// Splits the oversized buckets of a partition, and continues unfinished splits. If `clears`, also waits for an
    /// hour and removes old buckets.
    ///
    /// # Errors
    /// - The table is not kept in buckets.
    /// - The store cannot be read or written in time. Completed work stays.
    pub async fn mend(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        clears: bool,
    ) -> Result<Mended, StoreError> {
        let bucketed = self.in_buckets(table)?;
        let pieces = self.pieces().await?;
        let partition = pieces.partition(&bucketed.pieced, partition.clone())?;
        Ok(partition.mend(bucketed.pieced.size, clears).await?)
    }

    /// Repairs all partitions of a table as [`mend`](Self::mend) does. Calls `told` with the result for
    /// each partition.
    ///
    /// # Errors
    /// As for [`mend`](Self::mend).
    pub async fn mend_all(
        &self,
        table: &Arc<Table>,
        clears: bool,
        told: &(dyn Fn(Mended) + Send + Sync),
    ) -> Result<(), StoreError> {
        let mut all = pin!(self.all_keys(table));
        while let Some(keys) = all.try_next().await? {
            let mends = keys.iter().map(|partition| self.mend(table, partition, clears));
            let mends: Vec<_> = mends.collect();
            let mut mends = stream::iter(mends).buffer_unordered(MAX_MENDED_AT_ONCE);
            while let Some(mended) = mends.try_next().await? {
                told(mended);
            }
        }
        Ok(())
    }

    /// Removes expired data in all partitions of a table. If the removal fails for a partition,
    /// continues with the next partition.
    pub(super) async fn retain_all(&self, bucketed: &Bucketed) -> Result<(), StoreError> {
        let mut all = pin!(self.all_keys(&bucketed.logical));
        while let Some(keys) = all.try_next().await? {
            let retained: Vec<_> = keys
                .into_iter()
                .map(|partition| self.retain(bucketed, partition))
                .collect();
            let retained = stream::iter(retained).buffer_unordered(MAX_RETAINED_AT_ONCE);
            // Ignore the outcome of one partition, because a failure must not delay the other
            // partitions.
            retained.for_each(|_| async {}).await;
        }
        Ok(())
    }

    async fn retain(&self, bucketed: &Bucketed, partition: Cells) -> Result<(), StoreError> {
        let place = Arc::new(Place::new(&bucketed.pieced, partition)?);
        Ok(self.pieces().await?.retain(&place).await?)
    }

    async fn summary(&self, bucketed: &Bucketed, partition: &Cells) -> Result<Summary, StoreError> {
        let pieces = self.pieces().await?;
        let partition = pieces.partition(&bucketed.pieced, partition.clone())?;
        Ok(partition.summary(bucketed.pieced.size).await?)
    }

    /// Returns a stream of the keys of all partitions, in portions of [`MAX_LISTED_PARTITIONS`] keys.
    fn all_keys<'s>(
        &'s self,
        table: &'s Arc<Table>,
    ) -> impl Stream<Item = Result<Vec<Cells>, StoreError>> + Send + 's {
        stream::try_unfold(Some(PartitionsPosition::default()), move |next| async move {
            let Some(position) = next else { return Ok(None) };
            let snapshot = self.snapshot()?;
            let keys = partition_keys(&*snapshot, table, position, MAX_LISTED_PARTITIONS);
            keys.await.map(Some)
        })
    }

    pub(crate) fn in_buckets(&self, table: &Arc<Table>) -> Result<Arc<Bucketed>, StoreError> {
        self.bucketed(table)?.ok_or_else(|| {
            let message = format!("table {} has no buckets", table.name());
            StoreError::new(recto_store::StoreErrorKind::Invalid, message)
        })
    }
}
