//! Test clocks that differ from the machine's clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use recto::{Environment, RecoveryPass, Recto};
use recto_model::environment::Source;

/// Time without activity after which a process is regarded as dead.
const DEAD_AFTER: Duration = Duration::from_secs(31);

/// Source of time based on the machine's clocks, with two differences: the wall clock has an
/// offset, and the monotonic clock can [`jump`](Self::jump).
#[derive(Debug, Clone, Default)]
pub(crate) struct Clocks {
    off_micros: i64,
    ahead_nanos: Arc<AtomicU64>,
}

impl Clocks {
    /// Returns clocks whose wall clock is `off_micros` microseconds ahead of the machine's.
    pub(crate) fn off_by(off_micros: i64) -> Self {
        Self {
            off_micros,
            ..Self::default()
        }
    }

    /// Moves the monotonic clock forward by `time`. The process with this clock then regards other
    /// processes as dead if they were not active in between.
    pub(crate) fn jump(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap();
        self.ahead_nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment::new(Off {
            clocks: self.clone(),
            right: Environment::system(),
        })
    }
}

/// Completes the changes of dead processes without waiting: the clocks jump by half a minute, so
/// that the inactive processes count as dead.
pub(crate) async fn recover_at_once(recto: &Recto, clocks: &Clocks) -> RecoveryPass {
    let told = |pass: &RecoveryPass| {
        if pass.watched > 0 {
            clocks.jump(DEAD_AFTER);
        }
        !pass.is_done()
    };
    recto.recover(told).await.unwrap()
}

/// Source of time whose wall clock stands at the time that a test sets, in milliseconds since 1970.
/// The other clocks are the machine's.
#[derive(Debug, Clone)]
pub(crate) struct Standing(Arc<AtomicI64>);

impl Standing {
    pub(crate) fn at(millis: i64) -> Self {
        Self(Arc::new(AtomicI64::new(millis)))
    }

    pub(crate) fn put(&self, millis: i64) {
        self.0.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment::new(self.clone())
    }
}

impl Source for Standing {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::Relaxed) * 1_000
    }

    fn monotonic_nanos(&self) -> u64 {
        Environment::system().monotonic_nanos()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| Environment::system().random::<1>()[0]);
    }
}

struct Off {
    clocks: Clocks,
    right: Environment,
}

impl Source for Off {
    fn now_micros(&self) -> i64 {
        self.right.now_micros() + self.clocks.off_micros
    }

    fn monotonic_nanos(&self) -> u64 {
        self.right.monotonic_nanos()
    }

    fn continuous_nanos(&self) -> u64 {
        self.right.continuous_nanos() + self.clocks.ahead_nanos.load(Ordering::SeqCst)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(16) {
            let drawn = self.right.random::<16>();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}
