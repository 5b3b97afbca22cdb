//! Lists buckets for an operator of a store, and repairs them on demand.

use std::pin::pin;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use recto_model::{Cells, Table};
use recto_protocol::buckets::Key;
use recto_store::{ReadOptions, ScanPosition, Store, StoreError, TokenRange};

use super::tables::Bucketed;
use super::{BucketedStore, Engine};
use crate::counters::BucketMetrics;
use crate::limits::{
    MAX_LIST_SCANS, MAX_LISTED_AT_ONCE, MAX_LISTED_PARTITIONS, MAX_LISTED_PIECES, MAX_MENDED_AT_ONCE,
    MAX_RETAINED_AT_ONCE,
};
use crate::list::{Listing, Seek, Summary};
use crate::mend::Mended;
use crate::place::{PieceStore, Place};

/// List of partitions that are kept in buckets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partitions {
    /// Keys of the partitions, each with its summary.
    pub partitions: Vec<(Cells, Summary)>,
    /// Position of the next partitions. `None`: no partitions follow.
    pub next: Option<PartitionsPosition>,
}

/// Position in a list of partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionsPosition {
    /// Position of the scan. `None`: its beginning.
    pub after: Option<ScanPosition>,
    /// Number of partitions to skip after this position.
    pub skipped: u32,
}

impl BucketedStore {
    /// Returns whether listed numbers are counted. Otherwise they are estimated from samples.
    pub fn counts(&self) -> bool {
        self.transacted().is_some()
    }

    /// Returns the counters of this process since the store was opened.
    pub fn bucket_metrics(&self) -> BucketMetrics {
        match &self.shared.engine {
            Engine::Transacted(engine) => engine.metrics(),
            Engine::Pieces(pieces) => pieces.get().map(PieceStore::metrics).unwrap_or_default(),
        }
    }

    /// Returns the encoded form of the first cells of a clustering key, which is a position in the order of the table.
    ///
    /// # Errors
    /// - The cells do not belong to the table.
    /// - The table is not kept in buckets.
    pub fn key_of(&self, table: &Arc<Table>, clustering: &Cells) -> Result<Key, StoreError> {
        Ok(self.in_buckets(table)?.pieced.key(clustering.as_row())?)
    }

    /// Lists buckets of a partition from a position on, at most [`MAX_LISTED_PIECES`].
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
        if let Some(engine) = self.transacted() {
            let place = Place::new(&bucketed.pieced, partition.clone())?;
            return Ok(engine.list(&place, seek, most).await?);
        }
        let pieces = self.pieces().await?;
        let partition = pieces.partition(&bucketed.pieced, partition.clone())?;
        Ok(partition.list(seek, most).await?)
    }

    /// Lists the buckets around the bucket that contains a key: about the same number before it and behind it.
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
        let most = most.clamp(1, MAX_LISTED_PIECES);
        let behind = self.list_buckets(table, partition, Seek::At(key), most).await?;
        // If few buckets follow the key, list more buckets before the key.
        let wanted = most - behind.pieces.len().min(most - most / 2);
        let Some(edge) = behind.before.clone().filter(|_| wanted > 0) else {
            return Ok(behind);
        };
        let before = Seek::Before(Some(edge));
        let before = self.list_buckets(table, partition, before, wanted).await?;
        Ok(before.followed_by(behind, most))
    }

    /// Lists partitions of a table in the store's own order, at most [`MAX_LISTED_PARTITIONS`]. The result may have
    /// fewer partitions than requested although more follow.
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
        let most = most.clamp(1, MAX_LISTED_PARTITIONS);
        let (keys, next) = self.partition_keys(table, position, most).await?;
        let looks = keys.into_iter().map(|partition| {
            let bucketed = &bucketed;
            async move {
                let summary = self.summary(bucketed, &partition).await?;
                Ok::<_, StoreError>((partition, summary))
            }
        });
        let looks: Vec<_> = looks.collect();
        let partitions = stream::iter(looks).buffered(MAX_LISTED_AT_ONCE).try_collect();
        Ok(Partitions {
            partitions: partitions.await?,
            next,
        })
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
        if let Some(engine) = self.writing() {
            let place = Place::new(&bucketed.pieced, partition.clone())?;
            return Ok(engine.mend(&Arc::new(place)).await?);
        }
        let pieces = self.pieces().await?;
        let partition = pieces.partition(&bucketed.pieced, partition.clone())?;
        Ok(partition.mend(bucketed.pieced.size, clears).await?)
    }

    /// Repairs all partitions of a table as [`mend`](Self::mend) does. Calls `told` with the result of each partition.
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

    /// Removes data below the retention bound in all partitions of a table. Skips partitions where this fails.
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
        match self.transacted() {
            Some(engine) => engine.retain(&place).await?,
            None => self.pieces().await?.retain(&place).await?,
        }
        Ok(())
    }

    async fn summary(&self, bucketed: &Bucketed, partition: &Cells) -> Result<Summary, StoreError> {
        if let Some(engine) = self.transacted() {
            let place = Place::new(&bucketed.pieced, partition.clone())?;
            return Ok(engine.summary(&place).await?);
        }
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
            let keys = self.partition_keys(table, position, MAX_LISTED_PARTITIONS);
            keys.await.map(Some)
        })
    }

    /// Returns keys of partitions. The scan also meets further buckets of partitions, so it may take long to find
    /// enough keys.
    async fn partition_keys(
        &self,
        table: &Arc<Table>,
        mut position: PartitionsPosition,
        most: usize,
    ) -> Result<(Vec<Cells>, Option<PartitionsPosition>), StoreError> {
        let (snapshot, mut keys) = (self.snapshot()?, Vec::new());
        for _ in 0..MAX_LIST_SCANS {
            let (range, options) = (TokenRange::whole(), ReadOptions::default());
            let limit = MAX_LISTED_PARTITIONS as u32;
            let read = snapshot
                .scan_partitions(table, &range, position.after.as_ref(), limit, &options)
                .await?;
            let room = most - keys.len();
            let met = read.rows.iter().skip(position.skipped as usize);
            keys.extend(met.take(room).map(|row| row.to_cells()));
            let taken = position.skipped as usize + room;
            if read.rows.len() > taken {
                position.skipped = taken as u32;
                return Ok((keys, Some(position)));
            }
            let Some(next) = read.next else {
                return Ok((keys, None));
            };
            position = PartitionsPosition {
                after: Some(next),
                skipped: 0,
            };
            if keys.len() == most {
                break;
            }
        }
        Ok((keys, Some(position)))
    }

    pub(crate) fn in_buckets(&self, table: &Arc<Table>) -> Result<Arc<Bucketed>, StoreError> {
        self.bucketed(table)?.ok_or_else(|| {
            let message = format!("table {} has no buckets", table.name());
            StoreError::new(recto_store::StoreErrorKind::Invalid, message)
        })
    }
}
