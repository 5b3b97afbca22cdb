//! Simulated processes that share a store without transactions, in virtual time. A test can delay
//! the requests of a process, or make them fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto::store::{
    Atomicity, Cas, CasOutcome, Limits, PartitionWrite, PointRead, ReadOptions, RowsRead, Snapshot, Store,
    StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};
use recto::{Environment, OpenOptions, Recto};
use recto_model::Slice;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock::{Clock, Clocks};
use super::gate::Gate;

/// Limits of the store in memory, which make it behave like Cassandra.
const LIMITS: Limits = Limits {
    remote: true,
    leaves_tombstones: true,
    sees_conflicts: false,
    transactions: false,
    ..DEFAULT_LIMITS
};

pub(crate) fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

/// Shared store in memory, which the methods open in new simulated processes.
pub(crate) struct World {
    start: Instant,
    memory: Arc<dyn Store>,
}

impl World {
    pub(crate) fn new() -> Self {
        let start = Instant::now();
        let environment = Environment::new(Clocks(Arc::new(Clock::new(start, 0, 0))));
        let memory = Arc::new(MemoryStore::with_limits(environment, LIMITS));
        Self { start, memory }
    }

    /// Opens the store in a new process whose clock is off by `off_micros`.
    pub(crate) async fn process(&self, seed: u64, off_micros: i64) -> (Recto, Arc<Doors>) {
        self.process_with(seed, off_micros, OpenOptions::new()).await
    }

    /// Opens the store in a new process with the request timeout `time`.
    pub(crate) async fn process_within(&self, seed: u64, time: Duration) -> (Recto, Arc<Doors>) {
        self.process_with(seed, 0, OpenOptions::new().request_timeout(time))
            .await
    }

    async fn process_with(&self, seed: u64, off_micros: i64, options: OpenOptions) -> (Recto, Arc<Doors>) {
        let clock = Arc::new(Clock::new(self.start, off_micros, seed));
        let gate = Gate::new(Arc::clone(&self.memory), seed);
        let doors = Arc::new(Doors {
            store: Arc::new(gate.clone()),
            gate,
            shut: Arc::default(),
        });
        let options = options.environment(Environment::new(Clocks(clock)));
        let store = Arc::clone(&doors) as Arc<dyn Store>;
        (Recto::with_store(store, options).await.unwrap(), doors)
    }

    /// Returns the number of rows of the table named `name`.
    pub(crate) async fn rows_of(&self, name: &str) -> usize {
        let tables = self.memory.list_tables().await.unwrap();
        let table = Arc::new(tables.into_iter().find(|table| table.name() == name).unwrap());
        let snapshot = self.memory.snapshot().unwrap();
        let mut rows = 0;
        for range in snapshot.token_ranges(&table, 1).await.unwrap() {
            let options = ReadOptions::default();
            let read = snapshot
                .scan(&table, &range, None, 10_000, &options)
                .await
                .unwrap();
            assert!(read.next.is_none());
            rows += read.rows.len();
        }
        rows
    }
}

/// Kind of store requests that a test can delay or make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Writes of rows without a condition.
    Writes,
    /// Conditional writes with which a process registers itself, or renews its registration.
    Registrations,
    /// Reads of the table with the given name.
    Reads(&'static str),
}

/// Connection of one process to the store, through which a test can delay requests or make them
/// fail.
pub(crate) struct Doors {
    store: Arc<dyn Store>,
    pub(crate) gate: Gate,
    shut: Arc<Shut>,
}

/// Kinds of requests that are currently delayed (`held`) or fail (`failing`).
#[derive(Default)]
struct Shut {
    held: Mutex<Vec<Door>>,
    failing: Mutex<Vec<Door>>,
    opens: Notify,
}

impl Doors {
    /// Delays requests of the given kind until [`open`](Self::open) is called.
    pub(crate) fn hold(&self, door: Door) {
        self.shut.held.lock().unwrap().push(door);
    }

    /// Makes requests of the given kind fail, as if too few replicas were alive.
    pub(crate) fn fail(&self, door: Door) {
        self.shut.failing.lock().unwrap().push(door);
    }

    /// Lets all requests pass, including the delayed ones.
    pub(crate) fn open(&self) {
        self.shut.held.lock().unwrap().clear();
        self.shut.failing.lock().unwrap().clear();
        self.shut.opens.notify_waiters();
    }
}

impl Shut {
    async fn pass(&self, door: Door) -> Result<(), StoreError> {
        loop {
            let opens = self.opens.notified();
            if !self.held.lock().unwrap().contains(&door) {
                break;
            }
            opens.await;
        }
        if self.failing.lock().unwrap().contains(&door) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "shut"));
        }
        Ok(())
    }

    async fn pass_read(&self, table: &str) -> Result<(), StoreError> {
        let reads = |door: &Door| matches!(door, Door::Reads(of) if *of == table);
        let held = self.held.lock().unwrap().iter().copied().find(reads);
        let failing = self.failing.lock().unwrap().iter().copied().find(reads);
        match held.or(failing) {
            Some(door) => self.pass(door).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl StoreWrapper for Doors {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.shut.pass(Door::Writes).await?;
        self.store.write_many(writes, atomicity, options).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        if cas.table.name() == "recto_writers" {
            self.shut.pass(Door::Registrations).await?;
        }
        self.store.cas(cas, options).await
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(Reads {
            shut: Arc::clone(&self.shut),
            snapshot,
        })
    }
}

struct Reads {
    shut: Arc<Shut>,
    snapshot: Arc<dyn Snapshot>,
}

#[async_trait]
impl SnapshotWrapper for Reads {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.shut.pass_read(slice.table.name()).await?;
        self.snapshot.slice(slice, options).await
    }

    async fn on_get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.shut.pass_read(read.table.name()).await?;
        self.snapshot.get(read, options).await
    }
}

/// Waits until `holds` returns true, for at most five minutes of virtual time.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not come");
}
