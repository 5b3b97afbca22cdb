//! Clock that tests set, and a store that uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use recto_model::Environment;
use recto_model::environment::Source;
use recto_store::Store;
use recto_store::conformance::Bench;

/// Clock whose time a test sets, in microseconds since 1970. Clones share the time.
#[derive(Clone)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Creates a clock that does not advance by itself.
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_000_000)))
    }

    /// Returns an environment with this clock.
    pub fn environment(&self) -> Environment {
        Environment::new(self.clone())
    }
}

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

/// Provider of the store under test, for the conformance suite. Its store uses the clock of the test, so that
/// waits take no time.
pub struct ClockBench {
    pub clock: Clock,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Bench for ClockBench {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn reopen(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn wait(&self, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).unwrap();
        self.clock.0.fetch_add(micros, Ordering::SeqCst);
    }
}
