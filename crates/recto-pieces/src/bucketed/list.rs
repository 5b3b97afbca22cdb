//! What is in buckets as who looks after the store sees it; and mending it by hand.

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

/// Partitions that are kept in buckets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partitions {
    /// Their keys, and each as a whole.
    pub partitions: Vec<(Cells, Summary)>,
    /// Where further ones are; none: there are none.
    pub next: Option<PartitionsPosition>,
}

/// Where a list of partitions goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionsPosition {
    /// Behind this position of a scan; none: at its beginning.
    pub after: Option<ScanPosition>,
    /// And behind so many partitions that come then.
    pub skipped: u32,
}

impl BucketedStore {
    /// Whether what is listed is counted, and not estimated by samples.
    pub fn counts(&self) -> bool {
        self.transacted().is_some()
    }

    /// What was done for buckets in this process, since the store was opened.
    pub fn bucket_metrics(&self) -> BucketMetrics {
        match &self.shared.engine {
            Engine::Transacted(engine) => engine.metrics(),
            Engine::Pieces(pieces) => pieces.get().map(PieceStore::metrics).unwrap_or_default(),
        }
    }

    /// How a place in the order of a table that is kept in buckets is encoded: by the first cells of a clustering key.
    ///
    /// # Errors
    /// They are none of the table's; it is not kept in buckets.
    pub fn key_of(&self, table: &Arc<Table>, clustering: &Cells) -> Result<Key, StoreError> {
        Ok(self.in_buckets(table)?.pieced.key(clustering.as_row())?)
    }

    /// The buckets of a partition, from where it is sought on, [`MAX_LISTED_PIECES`] at most.
    ///
    /// # Errors
    /// The table is not kept in buckets; the store cannot be read in time, or is damaged.
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

    /// The buckets around the one that has a key: about as many before it as behind.
    ///
    /// # Errors
    /// As of [`list_buckets`](Self::list_buckets).
    pub async fn list_buckets_around(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        key: Key,
        most: usize,
    ) -> Result<Listing, StoreError> {
        let most = most.clamp(1, MAX_LISTED_PIECES);
        let behind = self.list_buckets(table, partition, Seek::At(key), most).await?;
        // As many before it as behind, or more where there are fewer behind.
        let wanted = most - behind.pieces.len().min(most - most / 2);
        let Some(edge) = behind.before.clone().filter(|_| wanted > 0) else {
            return Ok(behind);
        };
        let before = Seek::Before(Some(edge));
        let before = self.list_buckets(table, partition, before, wanted).await?;
        Ok(before.followed_by(behind, most))
    }

    /// Partitions of a table, [`MAX_LISTED_PARTITIONS`] at most, in the store's own order. There may be fewer than were asked for, with more to
    /// come.
    ///
    /// # Errors
    /// As of [`list_buckets`](Self::list_buckets).
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

    /// Cuts what is too large in a partition, goes on with what was left half done, and, if it `clears`, waits for an hour and clears what
    /// was left.
    ///
    /// # Errors
    /// The table is not kept in buckets; something cannot be read or written in time: what was done before that stays so.
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

    /// The same of all partitions of a table; `told` hears of each.
    ///
    /// # Errors
    /// As of [`mend`](Self::mend).
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

    /// Drops what is not kept any more in all partitions of a table: in each where that can be done.
    pub(super) async fn retain_all(&self, bucketed: &Bucketed) -> Result<(), StoreError> {
        let mut all = pin!(self.all_keys(&bucketed.logical));
        while let Some(keys) = all.try_next().await? {
            let retained: Vec<_> = keys
                .into_iter()
                .map(|partition| self.retain(bucketed, partition))
                .collect();
            let retained = stream::iter(retained).buffer_unordered(MAX_RETAINED_AT_ONCE);
            // Others are not to wait for one that fails.
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

    /// The keys of all partitions, as many at once as are listed at most.
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

    /// The keys of partitions. A scan meets further buckets, too, so that it may have to go on for long.
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
            let message = format!("table {} is not kept in buckets", table.name());
            StoreError::new(recto_store::StoreErrorKind::Invalid, message)
        })
    }
}
