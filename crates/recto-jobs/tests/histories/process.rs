//! A process that has the queues open, on a store that outlives it, and clocks that stand still until they are told.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_jobs::{DeadLetters, QueueStore, Shard, ShardOptions};
use recto_model::Environment;
use recto_model::environment::Source;
use recto_queue::{Address, Micros, Place, Seq, Shard as ShardNumber, Tenure};
use recto_store::Store;
use recto_store::memory::MemoryStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Few enough for many segments.
pub(crate) const SEGMENT_MESSAGES: Seq = 4;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Some day in 2026.
const START_MICROS: Micros = 1_767_225_600_000_000;

/// A store, and the time.
pub(crate) struct World {
    clocks: Arc<Clocks>,
    kept: Kept,
}

enum Kept {
    Memory(Arc<dyn Store>),
    /// In this folder.
    Embedded(TempDir),
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
        let kept = Kept::Memory(Arc::new(MemoryStore::new(environment)));
        Self { clocks, kept }
    }

    pub(crate) fn on_embedded() -> Self {
        Self {
            clocks: Arc::default(),
            kept: Kept::Embedded(tempfile::tempdir().unwrap()),
        }
    }

    pub(crate) fn advance(&self, micros: Micros) {
        self.clocks.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Opens the store, as a process that knows nothing of it.
    pub(crate) fn open(&self, is_ordered: bool, most_attempts: Option<u16>) -> Process {
        let environment = Environment::new(Shared(Arc::clone(&self.clocks)));
        let store: Arc<dyn Store> = match &self.kept {
            Kept::Memory(store) => Arc::clone(store),
            Kept::Embedded(folder) => {
                let path: PathBuf = folder.path().join("store");
                EmbeddedStore::open(path, EmbeddedOptions::default(), environment.clone()).unwrap()
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let queues = runtime.block_on(QueueStore::open(store, environment, REQUEST_TIMEOUT));
        let queues = queues.unwrap().with_segments_of(SEGMENT_MESSAGES);
        let address = |place| Address {
            place: Place(place),
            shard: ShardNumber(0),
        };
        let (main, dead) = (
            queues.shard(address(1), Tenure(1)),
            queues.shard(address(2), Tenure(1)),
        );
        let to = (address(2), Tenure(1));
        main.set_options(ShardOptions {
            is_ordered,
            dead_letters: most_attempts.map(|attempts| DeadLetters { attempts, to }),
            ..main.options()
        });
        Process { main, dead, runtime }
    }
}

/// What is under way ends when it is dropped, wherever it is.
pub(crate) struct Process {
    pub(crate) main: Shard,
    pub(crate) dead: Shard,
    pub(crate) runtime: Runtime,
}
