//! Context of all modules: the store, its tables and limits, clocks, randomness, and retries.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Environment, Table};
use recto_protocol::queues::{Clock, Micros, Protocol};
use recto_store::{
    Limits, ReadOptions, Store, StoreError, StoreErrorKind, TableOutcome, TableState, WriteOptions,
};

use crate::error::Result;
use crate::group_commit::InFlightCommits;
use crate::ring_cache::RingCache;
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

/// Time on the monotonic clock until which a caller waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    monotonic_nanos: u64,
}

/// Store of the queues, with its tables, the clocks and the limits that its requests use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct QueueContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) tables: Tables,
    pub(crate) protocol: Protocol,
    /// Time limit of a request, without the wait of a receive.
    pub(crate) request_timeout: Duration,
    /// Conditional writes in progress, which share commits (group commit).
    pub(crate) commits: Arc<InFlightCommits>,
    /// Ring of body tables (used in rotation), as this process knows it.
    pub(crate) ring: Arc<RingCache>,
    /// True if the store has the tables of queues. False if the store was opened only to read and
    /// lacks a table.
    pub(crate) has_tables: bool,
}

impl QueueContext {
    pub(crate) fn new(store: Arc<dyn Store>, environment: Environment, request_timeout: Duration) -> Self {
        let is_alone = !store.limits().remote;
        let protocol = Protocol::default().carrying(committed_bytes(&store.limits()));
        Self {
            store,
            environment,
            tables: Tables::new(),
            protocol: if is_alone { protocol.alone() } else { protocol },
            request_timeout,
            commits: Arc::default(),
            ring: Arc::default(),
            has_tables: true,
        }
    }

    /// Returns whether another process may change the data that this process caches.
    pub(crate) fn is_shared(&self) -> bool {
        self.store.limits().remote
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

    /// Returns the tables that are created when queues are first opened. The result does not
    /// include body tables of the ring (tables that are used in rotation).
    fn tables_to_create(&self) -> Vec<Table> {
        let tables = self.tables.of(self.has_ring());
        tables.iter().map(|table| Table::clone(table)).collect()
    }

    /// Compares the tables that queues need with the tables of the store.
    pub(crate) async fn compare_tables(&self) -> Result<Vec<TableState>> {
        Ok(self.store.compare_tables(&self.tables_to_create()).await?)
    }

    /// Creates the tables of versioned cells (rows changed by compare-and-set), which hold all
    /// decisions. Each table must be created only once: a second table of the same name would lose
    /// decisions.
    pub(crate) async fn create_tables(&self) -> Result<()> {
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

    /// Returns the options for reads of versioned cells (rows changed by compare-and-set). The
    /// read returns the result of every decided conditional write.
    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            consistency: self.store.serial_consistency(),
            max_bytes: MAX_READ_BYTES,
            ..body_options()
        }
    }

    /// Reads a table of versioned cells (rows changed by compare-and-set). Retries if the node does
    /// not know the table yet, because the table was just created. Tables of versioned cells are never dropped.
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

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}
