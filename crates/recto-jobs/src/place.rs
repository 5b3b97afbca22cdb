//! The store of queues, as all of their shards share it.

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

use crate::bell::Bell;
use crate::common::Common;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::registry::RegistryGround;
use crate::ring::{Keeper, KnownRing};
use crate::rounds::Ground as _;
use crate::shard::Shard;
use crate::tables::Tables;
use crate::trains::Trains;

/// How long one request to the store may take; whoever waits may wait for several.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Bytes of a log that are read at once: about as many as a whole one has.
const MAX_READ_BYTES: u64 = 32 << 20;
/// Bytes of a commit that are left to the register, and to what says where all that stands.
const REGISTER_BYTES: usize = 64 << 10;
/// About how long to wait before a request is sent for the second time; each further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// About the longest such wait.
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// How often making a table is tried, and reading one that a node has not heard of yet.
const MAX_TABLE_ATTEMPTS: u32 = 10;

/// What somebody uses: each is known once.
#[derive(Default)]
struct Known {
    /// By where they are and by which use of their place.
    shards: BTreeMap<(Address, Tenure), Weak<Shard>>,
    commons: BTreeMap<(Place, Tenure), Weak<Common>>,
}

/// Until when somebody waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    monotonic_nanos: u64,
}

/// A store that queues lie in: shared by all of them.
#[derive(Clone)]
pub struct QueueStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) tables: Tables,
    pub(crate) protocol: Protocol,
    /// How long a request may take, the waiting of a receive not counted.
    pub(crate) request_timeout: Duration,
    /// Conditional writes that are under way.
    pub(crate) trains: Arc<Trains>,
    /// What is heard of other processes, if there may be any.
    pub(crate) bell: Arc<Bell>,
    /// What is known of the ring, if there is one.
    pub(crate) ring: Arc<KnownRing>,
    /// Whether the store has the tables of queues. Not where it was only looked at, and had none.
    pub(crate) has_tables: bool,
    known: Arc<Mutex<Known>>,
}

impl QueueStore {
    /// Takes a store, and makes the tables that it does not have: once in a process, since where no other process changes what
    /// is stored, what is known of it is not read again. A request to a queue may take `request_timeout`, the waiting
    /// of a receive not counted.
    ///
    /// # Errors
    /// A table cannot be made, or one of its name is there as another.
    pub async fn open(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        let open = Self::of(store, environment, request_timeout);
        open.store.check_decisions()?;
        open.make_first().await?;
        open.begin().await
    }

    /// The same of a store that has their tables; none: it has not, and nothing is made.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub async fn open_there(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Option<Self>> {
        let open = Self::of(store, environment, request_timeout);
        let states = open.store.compare_tables(&open.first()).await?;
        if states.iter().all(|state| *state == TableState::Missing) {
            return Ok(None);
        }
        open.store.check_decisions()?;
        if states.iter().any(|state| *state != TableState::AsAsked) {
            // Whoever made them was cut off; or they are another program's, as is said then.
            open.make_first().await?;
        }
        open.begin().await.map(Some)
    }

    async fn begin(self) -> Result<Self> {
        if self.has_ring() {
            Keeper::new(&self).begin().await?;
        }
        Ok(self)
    }

    /// The tables that there are from the beginning, but those of the ring.
    fn first(&self) -> Vec<Table> {
        let tables = self.tables.of(self.has_ring());
        tables.iter().map(|table| Table::clone(table)).collect()
    }

    /// What holds for all queues of a store, if anybody has said so or made a queue, and nothing is made for that.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_options(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Option<StoreOptions>> {
        let queues = Self::look(store, environment, request_timeout).await?;
        let registry = RegistryGround { queues }.read(None).await?;
        Ok(registry.said_options())
    }

    /// The tables that a store has once its queues were opened.
    pub fn first_tables(has_ring: bool) -> Vec<Arc<Table>> {
        let tables = Tables::new();
        let mut first = tables.of(has_ring);
        let ring = Ring::absent().next().filter(|_| has_ring);
        first.extend(ring.map(|number| tables.bodies(number)));
        first
    }

    /// Takes a store to look at what queues it has, and makes nothing. One without their tables has none, and is not asked again.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn look(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        let open = Self::of(store, environment, request_timeout);
        let states = open.store.compare_tables(&open.first()).await?;
        // Before all are made nobody has made a queue.
        let has_tables = !states.contains(&TableState::Missing);
        Ok(Self { has_tables, ..open })
    }

    fn of(store: Arc<dyn Store>, environment: Environment, request_timeout: Duration) -> Self {
        let is_alone = !store.limits().remote;
        let protocol = Protocol::default().carrying(committed_bytes(&store.limits()));
        Self {
            store,
            environment,
            tables: Tables::new(),
            protocol: if is_alone { protocol.alone() } else { protocol },
            request_timeout,
            trains: Arc::default(),
            bell: Arc::default(),
            ring: Arc::default(),
            has_tables: true,
            known: Arc::default(),
        }
    }

    /// Whether bodies lie in tables that are emptied whole, in turn; otherwise they go with their segments.
    pub(crate) fn has_ring(&self) -> bool {
        !self.store.limits().transactions
    }

    /// Compares clocks if that was not done lately.
    pub(crate) async fn compare_clocks(&self) {
        if let Some(guard) = self.store.clock_guard() {
            guard.compare(self.clock_time()).await;
        }
    }

    /// Returns whether the local clock may delete messages of a queue with this retention.
    pub(crate) fn may_expire(&self, retention_seconds: u32) -> bool {
        let retention = Duration::from_secs(retention_seconds.into());
        let guard = self.store.clock_guard();
        guard.is_none_or(|guard| guard.allows(retention))
    }

    /// Records the time in a store that has no other clock, for queues with this retention at least. A failure is left to
    /// the next turn of the upkeep.
    pub(crate) async fn record_time(&self, retention_seconds: u32) {
        let shortest = Duration::from_secs(retention_seconds.into());
        if let Some(guard) = self.store.clock_guard() {
            let _ = guard.record(shortest, self.clock_time()).await;
        }
    }

    /// Returns how long a request may wait for the guard of the clock.
    fn clock_time(&self) -> Duration {
        self.request_timeout.min(REQUEST_TIME)
    }

    /// With segments of so few messages.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_segments_of(mut self, messages: recto_protocol::queues::Seq) -> Self {
        self.protocol = self.protocol.with_segments_of(messages);
        self
    }

    /// That goes by such limits.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_limits(mut self, limits: impl FnOnce(Protocol) -> Protocol) -> Self {
        self.protocol = limits(self.protocol);
        self
    }

    /// Makes the tables that there are from the beginning. What is decided lies in them, so that each must be made once.
    async fn make_first(&self) -> Result<()> {
        let tables = self.first();
        self.until_made(|| self.store.create_tables_once(&tables)).await
    }

    /// Makes a table of bodies.
    pub(crate) async fn make(&self, table: &Table) -> Result<()> {
        self.until_made(|| self.store.create_table(table)).await
    }

    async fn until_made<F>(&self, make: impl Fn() -> F) -> Result<()>
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

    /// The shard at this address, of the queue that has its place by this use: what is known of it is shared by all who use it
    /// here.
    pub(crate) fn shard(&self, address: Address, tenure: Tenure) -> Arc<Shard> {
        let mut known = self.known();
        if let Some(shard) = known.shards.get(&(address, tenure)).and_then(Weak::upgrade) {
            return shard;
        }
        let shard = Arc::new(Shard::new(
            self,
            address,
            tenure,
            known.common(address.place, tenure),
        ));
        // So that it grows with what is used, and not with what ever was.
        known.shards.retain(|_, shard| shard.strong_count() > 0);
        known.shards.insert((address, tenure), Arc::downgrade(&shard));
        shard
    }

    /// The shards at this address that are known here, whichever queue had its place.
    pub(crate) fn known_at(&self, address: Address) -> Vec<Arc<Shard>> {
        let known = self.known();
        let here = (address, Tenure::default())..=(address, Tenure(u64::MAX));
        let here = known.shards.range(here);
        here.filter_map(|(_, shard)| shard.upgrade()).collect()
    }

    /// Wakes one of those who wait at each of these shards: something may have come.
    pub(crate) fn wake(&self, is_woken: impl Fn(Address) -> bool) {
        let known = self.known();
        let woken = known.shards.iter().filter(|((address, _), _)| is_woken(*address));
        let woken: Vec<_> = woken.filter_map(|(_, shard)| shard.upgrade()).collect();
        drop(known);
        for shard in woken {
            shard.wakes();
        }
    }

    /// The shard at this address, of the newest queue there that is known here.
    pub(crate) fn shard_at(&self, address: Address) -> Arc<Shard> {
        let newest = self
            .known_at(address)
            .into_iter()
            .max_by_key(|shard| shard.tenure);
        newest.unwrap_or_else(|| self.shard(address, Tenure::default()))
    }

    /// What the clocks show.
    pub(crate) fn clock(&self) -> Clock {
        Clock {
            wall: self.environment.now_micros(),
            monotonic: Micros::try_from(self.environment.continuous_nanos() / 1_000).unwrap_or(Micros::MAX),
        }
    }

    /// So long from now.
    pub(crate) fn deadline(&self, time: Duration) -> Deadline {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Deadline {
            monotonic_nanos: self.environment.monotonic_nanos().saturating_add(nanos),
        }
    }

    /// How long it is until then.
    pub(crate) fn left(&self, deadline: Deadline) -> Duration {
        let now_nanos = self.environment.monotonic_nanos();
        Duration::from_nanos(deadline.monotonic_nanos.saturating_sub(now_nanos))
    }

    /// A number that nothing else has.
    pub(crate) fn random(&self) -> u128 {
        u128::from_be_bytes(self.environment.random())
    }

    /// A number below that, or 0.
    pub(crate) fn drawn_below(&self, end: usize) -> usize {
        let drawn = u16::from_be_bytes(self.environment.random());
        usize::from(drawn) % end.max(1)
    }

    /// How registers are read: as every conditional write that was decided left them.
    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            consistency: self.store.serial_consistency(),
            max_bytes: MAX_READ_BYTES,
            ..body_options()
        }
    }

    /// Writes bodies plainly, again until they are written. Whoever waits for that has a deadline, and drops this then.
    ///
    /// # Errors
    /// The store does not take it.
    pub(crate) async fn write(&self, writes: Vec<PartitionWrite>) -> Result<Written> {
        let mut attempt = 1;
        loop {
            let sent = self
                .store
                .write_many(writes.clone(), Atomicity::Each, write_options());
            match sent.await {
                Ok(WriteOutcome::Done | WriteOutcome::Counted(_)) => return Ok(Written::Done),
                Ok(WriteOutcome::Refused(error)) | Err(error) if is_unknown(&error) => {
                    let table = writes.first().map_or("", |write| write.table.name());
                    if self.is_dropped(table).await? {
                        return Ok(Written::TableGone);
                    }
                }
                Ok(WriteOutcome::Refused(error)) => return Err(error.into()),
                Ok(WriteOutcome::Conflict(_)) => {
                    let message = "the store took a body for a row of its own";
                    return Err(QueueError::new(QueueErrorKind::Store, message));
                }
                Err(error) if !is_passing(&error) => return Err(error.into()),
                Ok(WriteOutcome::Unknown(_)) | Err(_) => {}
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    /// Whether a table of bodies that a node [does not know](is_unknown) was dropped, as the ring says. A node that was away knows none
    /// either that was made meanwhile, until it hears of it.
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

    /// Reads, again if the node that is asked has not heard yet of a register's table, which was made just now: none is ever dropped.
    pub(crate) async fn until_heard<T, F>(&self, read: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, StoreError>>,
    {
        let mut attempt = 1;
        loop {
            match read().await {
                Err(error) if is_unknown(&error) && attempt < MAX_TABLE_ATTEMPTS => {
                    self.pause(attempt).await;
                    attempt += 1;
                }
                read => return Ok(read?),
            }
        }
    }

    /// Waits before an attempt that follows so many: longer each time, and never for just as long as others do.
    pub(crate) async fn pause(&self, attempts: u32) {
        let longest = FIRST_PAUSE
            .saturating_mul(1 << attempts.saturating_sub(1).min(16))
            .min(MAX_PAUSE);
        let [drawn] = self.environment.random();
        tokio::time::sleep(longest.mul_f64(0.5 + f64::from(drawn) / 512.0)).await;
    }
}

impl Known {
    /// What the shards share of the queue that has this place by this use of it.
    fn common(&mut self, place: Place, tenure: Tenure) -> Arc<Common> {
        if let Some(common) = self.commons.get(&(place, tenure)).and_then(Weak::upgrade) {
            return common;
        }
        self.commons.retain(|_, common| common.strong_count() > 0);
        let common = Arc::<Common>::default();
        self.commons.insert((place, tenure), Arc::downgrade(&common));
        common
    }
}

/// What became of writing bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// They are there.
    Done,
    /// The table was dropped.
    TableGone,
}

/// Whether the node that was asked does not know the table.
pub(crate) fn is_unknown(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Table
}

/// Bytes of messages, and what they take beside, that one commit of a store has room for.
pub(crate) fn committed_bytes(limits: &Limits) -> u64 {
    let most = if limits.transactions {
        limits.mutation_bytes.min(limits.batch_bytes)
    } else {
        limits.mutation_bytes
    };
    most.saturating_sub(REGISTER_BYTES) as u64
}

/// Whether a request that failed so may succeed when it is sent again.
pub(crate) fn is_passing(error: &StoreError) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::Unavailable | StoreErrorKind::Timeout
    )
}

/// How bodies are read.
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
