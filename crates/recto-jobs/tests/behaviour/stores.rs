//! The stores that queues lie in, with clocks that go by with the time of sleeping tasks where that is virtual.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_jobs::{DeadLetters, QueueStore, Queues, Shard, ShardOptions};
use recto_model::Environment;
use recto_model::environment::Source;
use recto_queue::{Address, Place, Shard as ShardNumber, Tenure};
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::{Limits, ReadOptions, Store};
use tempfile::TempDir;
use tokio::time::Instant;

const ADDRESS: Address = Address {
    place: Place(7),
    shard: ShardNumber(0),
};
const DEAD: Address = Address {
    place: Place(8),
    shard: ShardNumber(0),
};
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Some day in 2026.
const START_MICROS: i64 = 1_767_225_600_000_000;

/// A store, and what holds it.
pub(crate) struct Bed {
    store: Arc<dyn Store>,
    environment: Environment,
    _folder: Option<TempDir>,
}

impl Bed {
    /// A shard, as a process that just came knows it: nothing of it.
    pub(crate) async fn open(&self) -> Shard {
        self.open_store().await.shard(ADDRESS, Tenure(1))
    }

    /// The same, and the queue where its dead letters go after so many attempts.
    pub(crate) async fn open_with_dead_letters(&self, attempts: u16) -> (Shard, Shard) {
        let store = self.open_store().await;
        let (shard, dead) = (store.shard(ADDRESS, Tenure(1)), store.shard(DEAD, Tenure(1)));
        let to = (DEAD, Tenure(1));
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

    async fn open_store(&self) -> QueueStore {
        let (store, environment) = (Arc::clone(&self.store), self.environment.clone());
        QueueStore::open(store, environment, REQUEST_TIMEOUT)
            .await
            .unwrap()
    }

    /// The rows of a table.
    pub(crate) async fn count_rows(&self, table: &str) -> usize {
        let tables = self.store.list_tables().await.unwrap();
        let table = Arc::new(tables.into_iter().find(|one| one.name() == table).unwrap());
        let snapshot = self.store.snapshot().unwrap();
        let mut count = 0;
        for range in snapshot.token_ranges(&table, 1).await.unwrap() {
            let mut after = None;
            loop {
                let options = ReadOptions::default();
                let read = snapshot.scan(&table, &range, after.as_ref(), 1_000, &options);
                let read = read.await.unwrap();
                count += read.rows.len();
                after = read.next;
                if after.is_none() {
                    break;
                }
            }
        }
        count
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
    Bed {
        store: Arc::new(MemoryStore::with_limits(environment.clone(), limits)),
        environment,
        _folder: None,
    }
}

pub(crate) fn embedded() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::system();
    let path = folder.path().join("store");
    let store = EmbeddedStore::open(path, EmbeddedOptions::default(), environment.clone());
    Bed {
        store: store.unwrap(),
        environment,
        _folder: Some(folder),
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
