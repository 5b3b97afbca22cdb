//! Layer over a store that divides its partitions into buckets, or keeps them whole.

use std::sync::Arc;
use std::time::Duration;

use recto_buckets::list::{Listing, Partitions, PartitionsPosition, Seek};
use recto_buckets::{BucketedStore, Mended, RetainedStore};
use recto_model::{Cells, Environment, Table};
use recto_store::{Store, StoreError};

use crate::stamps::Stamps;

/// Layer between the collections and a store, which divides partitions into buckets or keeps them whole.
#[derive(Clone)]
pub(crate) enum PartitionStore {
    /// For stores without transactions. The layer divides partitions into buckets, because a partition
    /// that grows too large slows such a store down.
    Buckets(BucketedStore),
    /// For stores with transactions. The layer keeps each partition whole.
    Whole(RetainedStore),
}

impl PartitionStore {
    /// Returns the layer over a store. The layer's own writes get write timestamps from `stamps`, like all
    /// other writes of this process. Returns `None` if the store manages buckets itself.
    ///
    /// # Errors
    /// The retention bounds of the store cannot be read.
    pub(crate) async fn over(
        store: &Arc<dyn Store>,
        environment: &Environment,
        stamps: &Arc<Stamps>,
    ) -> Result<Option<Self>, StoreError> {
        if store.keeps_buckets() {
            return Ok(None);
        }
        let (store, environment) = (Arc::clone(store), environment.clone());
        let stamps = Arc::clone(stamps);
        let next = Arc::new(move || stamps.next());
        Ok(Some(if store.limits().transactions {
            Self::Whole(RetainedStore::open(store, environment, next).await?)
        } else {
            Self::Buckets(BucketedStore::over(store, environment, next))
        }))
    }

    /// Returns this layer as a store for the layers above it.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Buckets(store) => Arc::new(store.clone()),
            Self::Whole(store) => Arc::new(store.clone()),
        }
    }

    /// Returns the store with buckets, or `None` if this layer keeps partitions whole.
    pub(crate) fn buckets(&self) -> Option<&BucketedStore> {
        match self {
            Self::Buckets(store) => Some(store),
            Self::Whole(_) => None,
        }
    }

    /// Returns whether the row counts of listed buckets are exact. In a store with buckets, they are
    /// estimated from samples.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Self::Whole(_))
    }

    /// Stops the background work of this process, such as splits and the deletion of expired rows.
    pub(crate) fn stop_upkeep(&self) {
        match self {
            Self::Buckets(store) => store.stop_upkeep(),
            Self::Whole(store) => store.stop_upkeep(),
        }
    }

    /// Returns whether a row with the key `clustering` is below the retention bound of its table (keys below
    /// the bound are deleted). A write of such a row is rejected.
    pub(crate) fn is_late(&self, table: &Arc<Table>, clustering: &Cells) -> Result<bool, StoreError> {
        match self {
            Self::Buckets(store) => store.is_late(table, clustering),
            Self::Whole(store) => store.is_late(table, clustering),
        }
    }

    /// Returns whether reads hide a row because it is below the retention bound, or will hide it soon. A
    /// repair cannot write a hidden row.
    pub(crate) async fn is_hidden(
        &self,
        table: &Arc<Table>,
        (partition, clustering): (Cells, &Cells),
        time: Duration,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Buckets(store) => store.is_hidden(table, (partition, clustering), time).await,
            Self::Whole(store) => store.is_late(table, clustering),
        }
    }

    /// Encodes a clustering key, whole or its first cells. Encoded keys have the table's order, byte by byte.
    pub(crate) fn key_of(&self, table: &Arc<Table>, clustering: &Cells) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Buckets(store) => store.key_of(table, clustering),
            Self::Whole(store) => store.key_of(table, clustering),
        }
    }

    /// Lists at most `most` consecutive buckets of a partition. `seek` selects the buckets from a key on, or
    /// the buckets before a bound.
    pub(crate) async fn list_buckets(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        seek: Seek,
        most: usize,
    ) -> Result<Listing, StoreError> {
        match self {
            Self::Buckets(store) => store.list_buckets(table, partition, seek, most).await,
            Self::Whole(store) => store.list_buckets(table, partition, seek, most).await,
        }
    }

    /// Lists at most `most` buckets of a partition, around the bucket that contains `key`.
    pub(crate) async fn list_buckets_around(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        key: Vec<u8>,
        most: usize,
    ) -> Result<Listing, StoreError> {
        match self {
            Self::Buckets(store) => store.list_buckets_around(table, partition, key, most).await,
            Self::Whole(store) => store.list_buckets_around(table, partition, key, most).await,
        }
    }

    /// Lists at most `most` partitions of a table from `position` on, in the store's own order.
    pub(crate) async fn list_partitions(
        &self,
        table: &Arc<Table>,
        position: PartitionsPosition,
        most: usize,
    ) -> Result<Partitions, StoreError> {
        match self {
            Self::Buckets(store) => store.list_partitions(table, position, most).await,
            Self::Whole(store) => store.list_partitions(table, position, most).await,
        }
    }

    /// Splits the oversized buckets of a partition, if the store has buckets, and deletes rows below the
    /// retention bound. If `clears` is true, also waits an hour and then clears the buckets that splits no
    /// longer use.
    pub(crate) async fn mend(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        clears: bool,
    ) -> Result<Mended, StoreError> {
        match self {
            Self::Buckets(store) => store.mend(table, partition, clears).await,
            Self::Whole(store) => store.mend(table, partition).await,
        }
    }

    /// Does the work of [`mend`](Self::mend) for all partitions of a table. Calls `told` with the result
    /// for each partition. Returns the number of rows that an embedded store deleted.
    pub(crate) async fn mend_all(
        &self,
        table: &Arc<Table>,
        clears: bool,
        told: &(dyn Fn(Mended) + Send + Sync),
    ) -> Result<u64, StoreError> {
        match self {
            Self::Buckets(store) => store.mend_all(table, clears, told).await.map(|()| 0),
            Self::Whole(store) => store.mend_all(table, told).await,
        }
    }
}
