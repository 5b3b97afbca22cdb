//! Store of queues: the store, tables, clocks and caches that all shards share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use recto_model::{Environment, Table};
use recto_protocol::queues::{
    Address, BodyTable, Clock, Micros, Phase, Place, Protocol, Ring, StoreOptions, Tenure,
};
use recto_store::{
    Atomicity, Limits, PartitionWrite, ReadOptions, Store, StoreError, StoreErrorKind, TableOutcome,
    TableState, WriteOptions, WriteOutcome,
};

use crate::cas_loop::RegisterBackend as _;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::group_commit::InFlightCommits;
use crate::local_queue::LocalQueue;
use crate::notifier::Notifier;
use crate::registry::RegistryBackend;
use crate::shard::Shard;
use crate::table_recycling::{RingCache, TableRecycler};
use crate::tables::Tables;

/// Time limit of one request to the store. An operation on a queue may need several requests.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Maximum number of bytes that one read of a versioned cell (row changed by compare-and-set)
/// returns: about the size of a whole log.
const MAX_READ_BYTES: u64 = 32 << 20;
/// Number of bytes of a commit that are reserved for the versioned cell (row changed by
/// compare-and-set) and for the keys of all rows.
const REGISTER_BYTES: usize = 64 << 10;
/// Average wait before the first retry of a request to the store. Each further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// Average maximum wait before a retry of a request to the store.
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of attempts to create a table, or to read a table that a node does not know yet.
const MAX_TABLE_ATTEMPTS: u32 = 10;

/// Shards that this process uses, each with one shared instance, and the data of their queues.
#[derive(Default)]
struct Known {
    /// Shards by address, and by the epoch of their registry slot (one use of the slot by a queue).
    shards: BTreeMap<(Address, Tenure), Weak<Shard>>,
    queues: BTreeMap<(Place, Tenure), Weak<LocalQueue>>,
}

/// Time on the monotonic clock until which a caller waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    monotonic_nanos: u64,
}

/// Store that holds queues, with the data that all queues of this process share.
#[derive(Clone)]
pub struct QueueStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) tables: Tables,
    pub(crate) protocol: Protocol,
    /// Time limit of a request, without the wait of a receive.
    pub(crate) request_timeout: Duration,
    /// Conditional writes in progress, which share commits (group commit).
    pub(crate) commits: Arc<InFlightCommits>,
    /// Notifier, by which processes learn of messages that other processes sent.
    pub(crate) notifier: Arc<Notifier>,
    /// Ring of body tables (used in rotation), as this process knows it.
    pub(crate) ring: Arc<RingCache>,
    /// True if the store has the tables of queues. False if the store was opened by
    /// [`poll`](Self::look) and lacks a table.
    pub(crate) has_tables: bool,
    known: Arc<Mutex<Known>>,
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
        let open = Self::new(store, environment, request_timeout);
        open.store.check_decisions()?;
        open.create_tables().await?;
        open.begin().await
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
        let open = Self::new(store, environment, request_timeout);
        let states = open.store.compare_tables(&open.tables_to_create()).await?;
        if states.iter().all(|state| *state == TableState::Missing) {
            return Ok(None);
        }
        open.store.check_decisions()?;
        if states.iter().any(|state| *state != TableState::AsAsked) {
            // Some tables are missing or different. If their creation was interrupted, `create_tables` completes
            // it. If they belong to another program, `create_tables` fails.
            open.create_tables().await?;
        }
        open.begin().await.map(Some)
    }

    async fn begin(self) -> Result<Self> {
        if self.has_ring() {
            TableRecycler::new(&self).begin().await?;
        }
        Ok(self)
    }

    /// Returns the tables that are created when queues are first opened. The result does not
    /// include body tables of the ring (tables that are used in rotation).
    fn tables_to_create(&self) -> Vec<Table> {
        let tables = self.tables.of(self.has_ring());
        tables.iter().map(|table| Table::clone(table)).collect()
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
        let queues = Self::open_read_only(store, environment, request_timeout).await?;
        let registry = RegistryBackend { queues }.read(None).await?;
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
        let open = Self::new(store, environment, request_timeout);
        let states = open.store.compare_tables(&open.tables_to_create()).await?;
        // A queue can exist only if all tables exist, so a store that lacks one of them has no
        // queues.
        let has_tables = !states.contains(&TableState::Missing);
        Ok(Self { has_tables, ..open })
    }

    fn new(store: Arc<dyn Store>, environment: Environment, request_timeout: Duration) -> Self {
        let is_alone = !store.limits().remote;
        let protocol = Protocol::default().carrying(committed_bytes(&store.limits()));
        Self {
            store,
            environment,
            tables: Tables::new(),
            protocol: if is_alone { protocol.alone() } else { protocol },
            request_timeout,
            commits: Arc::default(),
            notifier: Arc::default(),
            ring: Arc::default(),
            has_tables: true,
            known: Arc::default(),
        }
    }

    /// Returns whether bodies are stored in the ring: tables that are used in rotation, and emptied
    /// as a whole. A store without the ring deletes bodies with their segments.
    pub(crate) fn has_ring(&self) -> bool {
        !self.store.limits().transactions
    }

    /// Compares the local clock with the store's clocks, unless they were compared recently.
    pub(crate) async fn compare_clocks(&self) {
        if let Some(guard) = self.store.clock_guard() {
            guard.compare(self.clock_time()).await;
        }
    }

    /// Returns whether the local clock is reliable enough to delete messages after this retention.
    pub(crate) fn may_expire(&self, retention_seconds: u32) -> bool {
        let retention = Duration::from_secs(retention_seconds.into());
        let guard = self.store.clock_guard();
        guard.is_none_or(|guard| guard.allows(retention))
    }

    /// Records the current time in a store that has no clock of its own. `retention_seconds` is the shortest
    /// retention of its queues. After a failure, the next maintenance run tries again.
    pub(crate) async fn record_time(&self, retention_seconds: u32) {
        let shortest = Duration::from_secs(retention_seconds.into());
        if let Some(guard) = self.store.clock_guard() {
            let _ = guard.record(shortest, self.clock_time()).await;
        }
    }

    /// Returns the maximum time for a comparison of the clocks, or for recording the current time.
    fn clock_time(&self) -> Duration {
        self.request_timeout.min(REQUEST_TIME)
    }

    /// Sets the maximum number of messages of a segment, for tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_segments_of(mut self, messages: recto_protocol::queues::Seq) -> Self {
        self.protocol = self.protocol.with_segments_of(messages);
        self
    }

    /// Returns the store with the limits of the queue protocol changed by `limits`, for tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_limits(mut self, limits: impl FnOnce(Protocol) -> Protocol) -> Self {
        self.protocol = limits(self.protocol);
        self
    }

    /// Creates the tables of versioned cells (rows changed by compare-and-set), which hold all
    /// decisions. Each table must be created only once: a second table of the same name would lose
    /// decisions.
    async fn create_tables(&self) -> Result<()> {
        let tables = self.tables_to_create();
        self.retry_creation(|| self.store.create_tables_once(&tables))
            .await
    }

    /// Creates a table of message bodies.
    pub(crate) async fn create_body_table(&self, table: &Table) -> Result<()> {
        self.retry_creation(|| self.store.create_table(table)).await
    }

    async fn retry_creation<F>(&self, make: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = std::result::Result<TableOutcome, StoreError>>,
    {
        let mut attempt = 1;
        loop {
            let error = match make().await {
                Ok(TableOutcome::Done) => return Ok(()),
                Ok(TableOutcome::Unknown(error)) => error,
                Err(error) => return Err(error.into()),
            };
            if attempt == MAX_TABLE_ATTEMPTS {
                return Err(error.into());
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shard at `address`, for the queue that used the registry slot in the epoch
    /// `tenure`. All users in this process share the shard and its cached data.
    pub(crate) fn shard(&self, address: Address, tenure: Tenure) -> Arc<Shard> {
        let mut known = self.known();
        if let Some(shard) = known.shards.get(&(address, tenure)).and_then(Weak::upgrade) {
            return shard;
        }
        let shard = Arc::new(Shard::new(
            self,
            address,
            tenure,
            known.queue(address.place, tenure),
        ));
        // Remove unused entries, so that the size of the map depends on the shards in use, and not
        // on all shards that were ever used.
        known.shards.retain(|_, shard| shard.strong_count() > 0);
        known.shards.insert((address, tenure), Arc::downgrade(&shard));
        shard
    }

    /// Returns the shards of this process at `address`, of all queues that have used the registry
    /// slot.
    pub(crate) fn cached_at(&self, address: Address) -> Vec<Arc<Shard>> {
        let known = self.known();
        let here = (address, Tenure::default())..=(address, Tenure(u64::MAX));
        let here = known.shards.range(here);
        here.filter_map(|(_, shard)| shard.upgrade()).collect()
    }

    /// Wakes one waiting receiver of each selected shard, because a message may have become available.
    pub(crate) fn wake(&self, is_woken: impl Fn(Address) -> bool) {
        let known = self.known();
        let woken = known.shards.iter().filter(|((address, _), _)| is_woken(*address));
        let woken: Vec<_> = woken.filter_map(|(_, shard)| shard.upgrade()).collect();
        drop(known);
        for shard in woken {
            shard.wake_receiver();
        }
    }

    /// Returns the shard at `address`, for the newest queue with this registry slot that the
    /// process knows.
    pub(crate) fn shard_at(&self, address: Address) -> Arc<Shard> {
        let newest = self
            .cached_at(address)
            .into_iter()
            .max_by_key(|shard| shard.tenure);
        newest.unwrap_or_else(|| self.shard(address, Tenure::default()))
    }

    /// Returns the current times of the wall clock and of the monotonic clock.
    pub(crate) fn clock(&self) -> Clock {
        Clock {
            wall: self.environment.now_micros(),
            monotonic: Micros::try_from(self.environment.continuous_nanos() / 1_000).unwrap_or(Micros::MAX),
        }
    }

    /// Returns the deadline that ends after the duration `time`.
    pub(crate) fn deadline(&self, time: Duration) -> Deadline {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Deadline {
            monotonic_nanos: self.environment.monotonic_nanos().saturating_add(nanos),
        }
    }

    /// Returns the remaining time until a deadline, at least 0.
    pub(crate) fn time_left(&self, deadline: Deadline) -> Duration {
        let now_nanos = self.environment.monotonic_nanos();
        Duration::from_nanos(deadline.monotonic_nanos.saturating_sub(now_nanos))
    }

    /// Returns a random number of 128 bits, for use as a unique identifier.
    pub(crate) fn random(&self) -> u128 {
        u128::from_be_bytes(self.environment.random())
    }

    /// Returns a random number below `end`, or 0 if `end` is 0.
    pub(crate) fn random_below(&self, end: usize) -> usize {
        let drawn = u16::from_be_bytes(self.environment.random());
        usize::from(drawn) % end.max(1)
    }

    /// Returns the options for reads of versioned cells (rows changed by compare-and-set). Such a
    /// read sees every conditional write that was decided.
    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            consistency: self.store.serial_consistency(),
            max_bytes: MAX_READ_BYTES,
            ..body_options()
        }
    }

    /// Writes bodies by plain writes, and retries until they are written. The caller has a deadline, at which it drops
    /// the future.
    ///
    /// # Errors
    /// The store rejects the writes.
    pub(crate) async fn write(&self, writes: Vec<PartitionWrite>) -> Result<Written> {
        let mut attempt = 1;
        loop {
            let sent = self
                .store
                .write_many(writes.clone(), Atomicity::Each, write_options());
            match sent.await {
                Ok(WriteOutcome::Done | WriteOutcome::Counted(_)) => return Ok(Written::Done),
                Ok(WriteOutcome::Refused(error)) | Err(error) if is_unknown_table(&error) => {
                    let table = writes.first().map_or("", |write| write.table.name());
                    if self.is_dropped(table).await? {
                        return Ok(Written::TableGone);
                    }
                }
                Ok(WriteOutcome::Refused(error)) => return Err(error.into()),
                Ok(WriteOutcome::Conflict(_)) => {
                    let message = "the store mistook a message body for one of its own rows";
                    return Err(QueueError::new(QueueErrorKind::Store, message));
                }
                Err(error) if !is_temporary(&error) => return Err(error.into()),
                Ok(WriteOutcome::Unknown(_)) | Err(_) => {}
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    /// Returns whether a body table that a node [does not know](is_unknown_table) was dropped, according
    /// to the ring of body tables. A node that was down does not know the tables that were created
    /// in the meantime, either, until it learns of them.
    pub(crate) async fn is_dropped(&self, table: &str) -> Result<bool> {
        if !self.has_ring() {
            return Ok(true);
        }
        let ring = self.read_ring().await?;
        let is_kept = |(number, phase): (&BodyTable, &Phase)| {
            *phase != Phase::Retired && self.tables.bodies(*number).name() == table
        };
        Ok(!ring.tables().iter().any(is_kept))
    }

    /// Reads a table of versioned cells (rows changed by compare-and-set). Retries if the node does
    /// not know the table yet, because the table was just created. Such tables are never dropped.
    pub(crate) async fn retry_unknown_table<T, F>(&self, read: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, StoreError>>,
    {
        let mut attempt = 1;
        loop {
            match read().await {
                Err(error) if is_unknown_table(&error) && attempt < MAX_TABLE_ATTEMPTS => {
                    self.pause(attempt).await;
                    attempt += 1;
                }
                read => return Ok(read?),
            }
        }
    }

    /// Waits after a number of failed attempts. The wait grows with that number, and is random, so that
    /// processes do not retry at the same time.
    pub(crate) async fn pause(&self, attempts: u32) {
        let longest = FIRST_PAUSE
            .saturating_mul(1 << attempts.saturating_sub(1).min(16))
            .min(MAX_PAUSE);
        let [drawn] = self.environment.random();
        tokio::time::sleep(longest.mul_f64(0.5 + f64::from(drawn) / 512.0)).await;
    }
}

impl Known {
    /// Returns the data that the shards of a queue share. `place` is the queue's registry slot, and
    /// `tenure` the epoch (use of the slot by one queue).
    fn queue(&mut self, place: Place, tenure: Tenure) -> Arc<LocalQueue> {
        if let Some(queue) = self.queues.get(&(place, tenure)).and_then(Weak::upgrade) {
            return queue;
        }
        self.queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::<LocalQueue>::default();
        self.queues.insert((place, tenure), Arc::downgrade(&queue));
        queue
    }
}

/// Outcome of a write of message bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The bodies are written.
    Done,
    /// The bodies are not written: their table was dropped.
    TableGone,
}

/// Returns whether the node that executed the request does not know the table.
pub(crate) fn is_unknown_table(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Table
}

/// Returns the maximum number of bytes of messages, with their overhead, in one commit of a store.
pub(crate) fn committed_bytes(limits: &Limits) -> u64 {
    let most = if limits.transactions {
        limits.mutation_bytes.min(limits.batch_bytes)
    } else {
        limits.mutation_bytes
    };
    most.saturating_sub(REGISTER_BYTES) as u64
}

/// Returns whether the failure is temporary, so that a retry of the request may succeed.
pub(crate) fn is_temporary(error: &StoreError) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::Unavailable | StoreErrorKind::Timeout
    )
}

/// Returns the options for reads of message bodies.
pub(crate) fn body_options() -> ReadOptions {
    ReadOptions {
        timeout: REQUEST_TIME,
        ..ReadOptions::default()
    }
}

pub(crate) fn write_options() -> WriteOptions {
    WriteOptions {
        timeout: REQUEST_TIME,
        ..WriteOptions::default()
    }
}
