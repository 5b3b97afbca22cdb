//! Process of a random history: it has the queues open. The store outlives the process, and the clocks
//! advance only on request.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::Environment;
use recto_model::environment::Source;
use recto_protocol::queues::{DeadLetters, Micros, QueueName, QueueOptions, Seq, StoreOptions};
use recto_queues::{Created, QueueStore, Queues, Shards};
use recto_store::Store;
use recto_store::memory::MemoryStore;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::keyspace;

/// Number of messages that a segment takes. The number is small, so that a history has many
/// segments.
pub(crate) const SEGMENT_MESSAGES: Seq = 4;
/// Short intervals of the ring of body tables. Most steps of time are longer, so bodies often move
/// to another table.
const SLICES: StoreOptions = StoreOptions {
    rotation_seconds: 10,
    grace_seconds: 3,
    tables: 4,
    units: 4,
};
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Start of the clocks in microseconds: a time in 2026.
const START_MICROS: Micros = 1_767_225_600_000_000;

/// Keyspace on Cassandra that all histories use, one after another. Each history has its own queues.
static CASSANDRA: LazyLock<(String, Arc<Clocks>)> =
    LazyLock::new(|| (runtime().block_on(keyspace::made()), Arc::default()));

/// Store and clocks of a history.
pub(crate) struct World {
    clocks: Arc<Clocks>,
    kept: Kept,
    /// Names of the queue and of its dead-letter queue.
    names: [String; 2],
}

enum Kept {
    Memory(Arc<dyn Store>),
    /// Embedded store in this temporary folder.
    Embedded(TempDir),
    /// Store in this keyspace of Cassandra.
    Cassandra(&'static str),
}

#[derive(Default)]
struct Clocks {
    micros: AtomicI64,
    drawn: AtomicU64,
}

struct Shared(Arc<Clocks>);

impl Source for Shared {
    fn now_micros(&self) -> i64 {
        START_MICROS + self.0.micros.load(Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.micros.load(Ordering::Relaxed).unsigned_abs() * 1_000
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.0.drawn.fetch_add(1, Ordering::Relaxed) + 1;
            let drawn = drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&drawn.to_be_bytes()[..chunk.len()]);
        }
    }
}

impl World {
    pub(crate) fn on_memory() -> Self {
        let clocks = Arc::<Clocks>::default();
        let environment = Environment::new(Shared(Arc::clone(&clocks)));
        Self::new(clocks, Kept::Memory(Arc::new(MemoryStore::new(environment))))
    }

    pub(crate) fn on_embedded() -> Self {
        Self::new(Arc::default(), Kept::Embedded(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn on_cassandra() -> Self {
        let (keyspace, clocks) = &*CASSANDRA;
        Self::new(Arc::clone(clocks), Kept::Cassandra(keyspace))
    }

    fn new(clocks: Arc<Clocks>, kept: Kept) -> Self {
        let number = clocks.drawn.fetch_add(1, Ordering::Relaxed);
        Self {
            clocks,
            kept,
            names: ["main", "dead"].map(|name| format!("{name}{number}")),
        }
    }

    pub(crate) fn advance(&self, micros: Micros) {
        self.clocks.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Opens the store as a new process, without cached data.
    pub(crate) fn open(&self, is_ordered: bool, most_attempts: Option<u16>) -> Process {
        let runtime = runtime();
        let (queues, main, dead) = runtime.block_on(self.open_queues(is_ordered, most_attempts));
        Process {
            main,
            dead,
            _queues: queues,
            runtime,
        }
    }

    async fn open_queues(&self, is_ordered: bool, most_attempts: Option<u16>) -> (Queues, Shards, Shards) {
        let environment = Environment::new(Shared(Arc::clone(&self.clocks)));
        let store: Arc<dyn Store> = match &self.kept {
            Kept::Memory(store) => Arc::clone(store),
            Kept::Embedded(folder) => {
                let path: PathBuf = folder.path().join("store");
                EmbeddedStore::open(path, EmbeddedOptions::default(), environment.clone()).unwrap()
            }
            Kept::Cassandra(keyspace) => keyspace::store(keyspace, environment.clone()).await,
        };
        let queues = QueueStore::open(store, environment, REQUEST_TIMEOUT).await;
        let queues = Queues::from_store(queues.unwrap().with_segments_of(SEGMENT_MESSAGES));
        let queues = queues.await.unwrap();
        queues.configure(SLICES).await.unwrap();
        let [main, dead] = &self.names;
        let like = QueueOptions {
            shards: 1,
            ..QueueOptions::default()
        };
        let dead_letters = most_attempts.map(|attempts| DeadLetters {
            queue: QueueName::new("queue", dead).unwrap(),
            attempts,
        });
        let dead = shards(&queues, dead, like.clone()).await;
        let options = QueueOptions {
            is_ordered,
            dead_letters,
            ..like
        };
        let main = shards(&queues, main, options).await;
        (queues, main, dead)
    }
}

/// Returns the shards of the queue with the name `name`, and creates the queue if it does not
/// exist.
async fn shards(queues: &Queues, name: &str, options: QueueOptions) -> Shards {
    match queues.create(name, options).await.unwrap() {
        Created::New(queue) | Created::Existing(queue) => queue.shards,
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Process that has the queue and its dead-letter queue open. Dropping the process ends all its
/// work at once, as a crash does.
pub(crate) struct Process {
    pub(crate) main: Shards,
    pub(crate) dead: Shards,
    _queues: Queues,
    pub(crate) runtime: Runtime,
}
