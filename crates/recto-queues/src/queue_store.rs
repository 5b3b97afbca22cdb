//! Store of queues: opens its tables, and creates handles to the shards of its queues.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Environment, Table};
use recto_protocol::queues::{Place, Ring, StoreOptions, Tenure};
use recto_store::{Store, TableState};

use crate::cas_loop::RegisterBackend as _;
use crate::context::QueueContext;
use crate::error::Result;
use crate::register_tables::registry::RegistryBackend;
use crate::shard::ShardCache;
use crate::shards::Shards;
use crate::table_recycling::TableRecycler;
use crate::tables::Tables;

/// Store that holds queues, with the data that all queues of this process share. Cheap to clone.
#[derive(Clone)]
pub struct QueueStore {
    pub(crate) shards: Arc<ShardCache>,
}

impl QueueStore {
    /// Opens the queues of a store, and creates missing tables. `request_timeout` is the time limit of a
    /// request to a queue, without the wait of a receive.
    ///
    /// Open a store only once in a process. If no other process can change the stored data, cached data is
    /// never read again, so a second handle would not see changes by the first handle.
    ///
    /// # Errors
    /// A table cannot be created, or another table has its name.
    pub async fn open(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        let context = QueueContext::new(store, environment, request_timeout);
        context.store.check_decisions()?;
        context.create_tables().await?;
        Self::begin(context).await
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
        let context = QueueContext::new(store, environment, request_timeout);
        let states = context.compare_tables().await?;
        if states.iter().all(|state| *state == TableState::Missing) {
            return Ok(None);
        }
        context.store.check_decisions()?;
        if states.iter().any(|state| *state != TableState::AsAsked) {
            // Some tables are missing or different. If their creation was interrupted, `create_tables`
            // completes it. If they belong to another program, `create_tables` fails.
            context.create_tables().await?;
        }
        Self::begin(context).await.map(Some)
    }

    async fn begin(context: QueueContext) -> Result<Self> {
        let shards = ShardCache::new(context);
        if shards.context.has_ring() {
            TableRecycler::new(&shards).begin().await?;
        }
        Ok(Self { shards })
    }

    /// Returns the options that apply to all queues of a store. Returns `None` if they were never set and no
    /// queue was created. Creates nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_options(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Option<StoreOptions>> {
        let open = Self::open_read_only(store, environment, request_timeout).await?;
        let context = open.shards.context.clone();
        let registry = RegistryBackend { context }.read(None).await?;
        Ok(registry.said_options())
    }

    /// Returns the tables that a store has after its queues were opened for the first time.
    pub fn first_tables(has_ring: bool) -> Vec<Arc<Table>> {
        let tables = Tables::new();
        let mut first = tables.of(has_ring);
        let ring = Ring::absent().next().filter(|_| has_ring);
        first.extend(ring.map(|number| tables.bodies(number)));
        first
    }

    /// Opens a store to inspect its queues, and creates nothing. A store without the tables of queues has no
    /// queues, and this handle does not check again whether they were created.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_read_only(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        let context = QueueContext::new(store, environment, request_timeout);
        let states = context.compare_tables().await?;
        // A queue can exist only if all tables exist, so a store that lacks one of them has no
        // queues.
        let has_tables = !states.contains(&TableState::Missing);
        let shards = ShardCache::new(QueueContext {
            has_tables,
            ..context
        });
        Ok(Self { shards })
    }

    /// Sets the maximum number of messages of a segment, for tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_segments_of(self, messages: recto_protocol::queues::Seq) -> Self {
        self.with_limits(|protocol| protocol.with_segments_of(messages))
    }

    /// Returns the store with the limits of the queue protocol changed by `limits`, for tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_limits(
        self,
        limits: impl FnOnce(recto_protocol::queues::Protocol) -> recto_protocol::queues::Protocol,
    ) -> Self {
        let context = self.shards.context.clone();
        let protocol = limits(context.protocol);
        let shards = ShardCache::new(QueueContext { protocol, ..context });
        Self { shards }
    }

    /// Returns a handle to the messages of a queue with `count` shards (at least one). The registry
    /// slot `place` and the epoch `tenure` (use of the slot by one queue) identify the queue.
    pub fn shards(&self, place: Place, tenure: Tenure, count: u16) -> Shards {
        Shards::new(&self.shards, place, tenure, count)
    }
}
