//! Opening of the queues of a store, and the start of their maintenance.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Environment;
use recto_store::Store;

use crate::error::Result;
use crate::maintenance;
use crate::queue_store::QueueStore;
use crate::queues::Queues;
use crate::table_recycling::{TableRecycler, rotation};

impl Queues {
    /// Opens the queues of a store, and creates missing tables. `request_timeout` is the time limit of a
    /// request.
    ///
    /// Open a store only once in a process. If no other process can change the stored data, cached data is
    /// never read again, so a second handle would not see changes by the first handle.
    ///
    /// As long as a handle exists, periodic maintenance deletes expired messages. It also moves messages that
    /// were received too often to the dead-letter queue, and retries failed deletions of queues.
    ///
    /// # Errors
    /// A table cannot be created, or belongs to another program.
    pub async fn open(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        Self::from_store(QueueStore::open(store, environment, request_timeout).await?).await
    }

    /// Opens the queues of a store that has their tables. Returns `None`, and creates nothing, if the store
    /// has none.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub async fn open_existing(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Option<Self>> {
        match QueueStore::open_existing(store, environment, request_timeout).await? {
            Some(queues) => Self::from_store(queues).await.map(Some),
            None => Ok(None),
        }
    }

    /// Opens the queues of an opened queue store, and starts the maintenance.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn from_store(queues: QueueStore) -> Result<Self> {
        let shards = queues.shards;
        let has_ring = shards.context.has_ring();
        let recycler = has_ring.then(|| Arc::new(TableRecycler::new(&shards)));
        let (open, ended) = Self::new(shards, recycler);
        if !open.context().is_shared() {
            // In a local store, complete the deletions that an earlier process began. In a shared
            // store, the maintenance does this, so that a process that opens queues for one request
            // needs no further reads.
            open.clear_deleted().await?;
            open.record_time().await;
        }
        maintenance::begin(&open.0, ended.clone());
        if let Some(recycler) = &open.0.recycler {
            rotation::begin(Arc::clone(recycler), Arc::clone(&open.0.registry), ended);
        }
        Ok(open)
    }

    /// Opens the queues of a store to inspect them. Creates nothing, and starts no maintenance. A store without the
    /// tables of queues has no queues.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_read_only(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        let queues = QueueStore::open_read_only(store, environment, request_timeout).await?;
        Ok(Self::new(queues.shards, None).0)
    }
}
