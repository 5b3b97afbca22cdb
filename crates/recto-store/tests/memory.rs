//! The reference store passes the suite, with snapshots and as if it were remote.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use recto_model::Environment;
use recto_model::environment::Source;
use recto_store::conformance::Bench;
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::{Limits, Store};

/// A clock that tests move.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Source for Clock {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.now_micros().unsigned_abs() * 1000
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

struct MemoryBench {
    clock: Clock,
    store: MemoryStore,
}

#[async_trait]
impl Bench for MemoryBench {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn reopen(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn wait(&self, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).unwrap();
        self.clock.0.fetch_add(micros, Ordering::SeqCst);
    }
}

async fn bench(remote: bool) -> MemoryBench {
    let clock = Clock(Arc::new(AtomicI64::new(1_700_000_000_000_000)));
    let limits = Limits {
        remote,
        ..DEFAULT_LIMITS
    };
    let store = MemoryStore::with_limits(Environment::new(clock.clone()), limits);
    MemoryBench { clock, store }
}

mod snapshots {
    use super::bench;
    recto_store::conformance_suite!(bench(false));
}

mod remote {
    use super::bench;
    recto_store::conformance_suite!(bench(true));
}
