//! Stores of the tests. In tests with virtual time, their clocks follow the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::environment::Source;
use recto_model::{Cells, Environment, RowRef, Table};
use recto_protocol::queues::limits::REST_MICROS;
use recto_protocol::queues::{Place, Protocol, Seq, Tenure};
use recto_queues::{DeadLetters, Destination, QueueStore, Queues, ShardOptions, Shards};
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::{
    Atomicity, Cas, CasCondition, CasOutcome, Limits, Mutation, Operation, PartitionWrite, ReadOptions,
    RowAddress, Stamp, Store, WriteOptions, WriteOutcome,
};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::keyspace;
use crate::watched::{Watch, Watched};

const PLACE: Place = Place(7);
const DEAD: Place = Place(8);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Start of the virtual clocks: a day in 2026, in microseconds.
const START_MICROS: i64 = 1_767_225_600_000_000;

/// Store of a test, and the resources that it needs.
pub(crate) struct Bed {
    store: Arc<dyn Store>,
    environment: Environment,
    /// Number of shards of the queues.
    shards: u16,
    /// Time in microseconds by which the test has advanced the clocks. `None`: time is virtual.
    skipped: Option<Arc<AtomicU64>>,
    /// Faults to inject into the store, and counters of its requests.
    pub(crate) watch: Arc<Watch>,
    _folder: Option<TempDir>,
}

fn cells(cells: &[Vec<u8>]) -> Cells {
    cells.iter().map(|cell| Some(&cell[..])).collect()
}

impl Bed {
    fn new(inner: Arc<dyn Store>, environment: Environment, folder: Option<TempDir>) -> Self {
        let watch = Arc::<Watch>::default();
        let store = Watched {
            inner,
            watch: Arc::clone(&watch),
        };
        Self {
            store: Arc::new(store),
            environment,
            shards: 1,
            skipped: None,
            watch,
            _folder: folder,
        }
    }

    /// Opens a queue as a new process, without cached data.
    pub(crate) async fn open(&self) -> Shards {
        self.open_store().await.shards(PLACE, Tenure(1), self.shards)
    }

    /// Opens a queue, and the dead-letter queue to which messages go after `attempts` receives.
    pub(crate) async fn open_with_dead_letters(&self, attempts: u16) -> (Shards, Shards) {
        let store = self.open_store().await;
        let (shard, dead) = (
            store.shards(PLACE, Tenure(1), self.shards),
            store.shards(DEAD, Tenure(1), self.shards),
        );
        let to = Destination {
            place: DEAD,
            tenure: Tenure(1),
            shards: self.shards,
        };
        shard.set_options(ShardOptions {
            dead_letters: Some(DeadLetters { attempts, to }),
            ..shard.options()
        });
        (shard, dead)
    }

    pub(crate) async fn open_queues(&self) -> Queues {
        let (store, environment) = (Arc::clone(&self.store), self.environment.clone());
        Queues::open(store, environment, REQUEST_TIMEOUT).await.unwrap()
    }

    /// Returns the store as another process uses it, with faults and counters of its own.
    pub(crate) fn for_another_process(&self) -> Self {
        Self {
            shards: self.shards,
            skipped: self.skipped.clone(),
            ..Self::new(Arc::clone(&self.store), self.environment.clone(), None)
        }
    }

    /// Opens the queues without maintenance.
    pub(crate) async fn open_without_maintenance(&self) -> Queues {
        let (store, environment) = (Arc::clone(&self.store), self.environment.clone());
        Queues::open_read_only(store, environment, REQUEST_TIMEOUT)
            .await
            .unwrap()
    }

    /// Opens the queues with changed limits of the protocol.
    pub(crate) async fn open_queues_with(&self, limits: impl FnOnce(Protocol) -> Protocol) -> Queues {
        Queues::from_store(self.open_store().await.with_limits(limits))
            .await
            .unwrap()
    }

    /// Sets the number of shards of the queues.
    pub(crate) fn with_shards(self, shards: u16) -> Self {
        Self { shards, ..self }
    }

    async fn open_store(&self) -> QueueStore {
        let (store, environment) = (Arc::clone(&self.store), self.environment.clone());
        QueueStore::open(store, environment, REQUEST_TIMEOUT)
            .await
            .unwrap()
    }

    /// Opens the queue with segments that take at most `messages` messages.
    pub(crate) async fn open_with_segments_of(&self, messages: Seq) -> Shards {
        let store = self.open_store().await.with_segments_of(messages);
        store.shards(PLACE, Tenure(1), self.shards)
    }

    /// Returns the number of rows of a table.
    pub(crate) async fn count_rows(&self, table: &str) -> usize {
        let table = self.table(table).await;
        self.rows(&table).await.len()
    }

    async fn table(&self, name: &str) -> Arc<Table> {
        let tables = self.store.list_tables().await.unwrap();
        Arc::new(tables.into_iter().find(|one| one.name() == name).unwrap())
    }

    /// Returns the cells of each row of a table.
    async fn rows(&self, table: &Arc<Table>) -> Vec<Vec<Vec<u8>>> {
        let snapshot = self.store.snapshot().unwrap();
        let mut rows = Vec::new();
        for range in snapshot.token_ranges(table, 1).await.unwrap() {
            let mut after = None;
            loop {
                let options = ReadOptions::default();
                let read = snapshot.scan(table, &range, after.as_ref(), 1_000, &options);
                let read = read.await.unwrap();
                let cells = |row: RowRef<'_>| {
                    let cells = row.iter().map(|cell| cell.unwrap_or_default().to_vec());
                    cells.collect::<Vec<_>>()
                };
                rows.extend(read.rows.iter().map(cells));
                after = read.next;
                if after.is_none() {
                    break;
                }
            }
        }
        rows
    }

    /// Deletes all message bodies, and nothing else.
    pub(crate) async fn lose_bodies(&self) {
        let tables = self.store.list_tables().await.unwrap();
        let mut bodies = tables
            .iter()
            .filter(|table| table.name().starts_with("recto_queue_body_"));
        let table = Arc::new(bodies.next().unwrap().clone());
        for row in self.rows(&table).await {
            let keys = table.partition().len();
            let clustering = cells(&row[keys..table.key_len()]);
            let delete = Mutation {
                operation: Operation::DeleteRow { clustering },
                stamp: Some(Stamp(2)),
                ttl_seconds: None,
            };
            let write = PartitionWrite {
                table: Arc::clone(&table),
                partition: cells(&row[..keys]),
                mutations: vec![delete],
            };
            let written = self
                .store
                .write_many(vec![write], Atomicity::Each, WriteOptions::default());
            assert!(matches!(written.await, Ok(WriteOutcome::Done)));
        }
    }

    /// Returns the content of the only head (shard manifest) in the store, for `restore_head`.
    pub(crate) async fn head(&self) -> Vec<Vec<u8>> {
        let table = self.table("recto_queue_shard").await;
        self.rows(&table).await.remove(0)
    }

    /// Restores an earlier content of the only head (shard manifest).
    pub(crate) async fn restore_head(&self, head: &[Vec<u8>]) {
        let table = self.table("recto_queue_shard").await;
        let now = self.head().await;
        let keys = table.key_len();
        let cas = Cas {
            table,
            partition: cells(&head[..keys]),
            conditions: vec![CasCondition {
                row: RowAddress::Row(Cells::new()),
                column: 1,
                expected: Some(now[keys + 1].clone()),
            }],
            mutations: vec![Mutation {
                operation: Operation::Put {
                    clustering: Cells::new(),
                    cells: cells(&head[keys..]),
                    replace: true,
                },
                stamp: None,
                ttl_seconds: None,
            }],
        };
        let outcome = self.store.cas(cas, WriteOptions::default()).await.unwrap();
        assert!(matches!(outcome, CasOutcome::Applied));
    }

    /// Returns whether the store has a ring of body tables, which are emptied in rotation.
    pub(crate) fn has_ring(&self) -> bool {
        !self.store.limits().transactions
    }

    /// Advances the clocks. If time is virtual, the function sleeps. Otherwise the clocks jump, and
    /// the maintenance does not run during the skipped time.
    pub(crate) async fn pass(&self, time: Duration) {
        match &self.skipped {
            Some(skipped) => drop(skipped.fetch_add(whole_micros(time), Ordering::Relaxed)),
            None => tokio::time::sleep(time).await,
        }
    }

    /// Returns the time for which the versioned cells (rows changed by compare-and-set) of a
    /// released segment are not reused.
    pub(crate) fn rest(&self) -> Duration {
        if self.store.limits().remote {
            Duration::from_micros(REST_MICROS.unsigned_abs())
        } else {
            Duration::ZERO
        }
    }

    /// Returns the number of references to the store outside this value.
    pub(crate) fn users(&self) -> usize {
        Arc::strong_count(&self.store) - 1
    }

    /// Sets whether the store rejects all changes of heads.
    pub(crate) fn holds_heads(&self, holds: bool) {
        self.watch.holds_heads.store(holds, Ordering::Relaxed);
    }
}

pub(crate) fn memory(is_remote: bool) -> Bed {
    let environment = Environment::new(Clocks {
        start: Instant::now(),
        drawn: AtomicU64::new(1),
    });
    let limits = Limits {
        remote: is_remote,
        transactions: !is_remote,
        ..DEFAULT_LIMITS
    };
    let store = MemoryStore::with_limits(environment.clone(), limits);
    Bed::new(Arc::new(store), environment, None)
}

pub(crate) fn embedded() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let (environment, skipped) = skipping(Duration::ZERO);
    let path = folder.path().join("store");
    let store = EmbeddedStore::open(path, EmbeddedOptions::default(), environment.clone());
    Bed {
        skipped: Some(skipped),
        ..Bed::new(store.unwrap(), environment, Some(folder))
    }
}

/// Time by which the clocks of a Cassandra test begin behind the clocks of the nodes. A process expires
/// nothing while its clock is ahead of the nodes, and tests advance the clock.
const BEHIND_NODES: Duration = Duration::from_secs(86_400);

/// Returns the machine's clocks with the wall clock set back by `behind`, and the counter by which a test
/// advances them.
fn skipping(behind: Duration) -> (Environment, Arc<AtomicU64>) {
    let skipped = Arc::<AtomicU64>::default();
    let clocks = SkippingClocks {
        machine: Environment::system(),
        behind_micros: i64::try_from(whole_micros(behind)).unwrap(),
        skipped: Arc::clone(&skipped),
    };
    (Environment::new(clocks), skipped)
}

fn whole_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

/// Returns a store in a keyspace of Cassandra that this test process created.
pub(crate) async fn cassandra() -> Bed {
    let ((environment, skipped), keyspace) = (skipping(BEHIND_NODES), keyspace::made().await);
    let store = keyspace::store(&keyspace, environment.clone()).await;
    Bed {
        skipped: Some(skipped),
        ..Bed::new(store, environment, None)
    }
}

struct SkippingClocks {
    machine: Environment,
    behind_micros: i64,
    skipped: Arc<AtomicU64>,
}

impl Source for SkippingClocks {
    fn now_micros(&self) -> i64 {
        let skipped = i64::try_from(self.skipped.load(Ordering::Relaxed)).unwrap();
        self.machine.now_micros() - self.behind_micros + skipped
    }

    fn monotonic_nanos(&self) -> u64 {
        self.machine.monotonic_nanos() + 1_000 * self.skipped.load(Ordering::Relaxed)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let mut drawn = self.machine.random::<32>();
        for chunk in bytes.chunks_mut(drawn.len()) {
            chunk.copy_from_slice(&drawn[..chunk.len()]);
            drawn = self.machine.random();
        }
    }
}

struct Clocks {
    start: Instant,
    drawn: AtomicU64,
}

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        START_MICROS + i64::try_from(self.start.elapsed().as_micros()).unwrap()
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self
                .drawn
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&drawn.to_be_bytes()[..chunk.len()]);
        }
    }
}
