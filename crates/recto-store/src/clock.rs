//! A guard against a wrong clock: nothing is deleted by a clock that runs ahead of the store's own.
//!
//! Retention compares the local clock with stored times. A process whose clock is ahead would delete what others wrote
//! and confirmed. A clock that is behind deletes too late, which loses nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_model::Environment;

use crate::{Store, StoreError};

/// The difference between clocks that machines with a time service keep. Above it, nothing is deleted by time.
const MAX_AHEAD: Duration = Duration::from_secs(5);
/// Time after which clocks are compared again.
const LASTS: Duration = Duration::from_secs(30);
/// Largest difference between the local wall clock and the time that ran since the last comparison: above it, the wall
/// clock was set, and clocks are compared again.
const MAX_DRIFT: Duration = Duration::from_secs(1);

/// The local clock beside the clock of one node of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Microseconds by which the local clock is ahead; negative if it is behind.
    pub ahead_micros: i64,
    /// Largest error of that: half of the round trip.
    pub error_micros: i64,
}

impl ClockReading {
    fn is_far_ahead(self) -> bool {
        self.ahead_micros.saturating_sub(self.error_micros) > micros(MAX_AHEAD)
    }
}

/// Decides whether the local clock may delete.
#[derive(Debug)]
pub struct ClockGuard {
    environment: Environment,
    last: Mutex<Option<Comparison>>,
}

#[derive(Debug, Clone, Copy)]
struct Comparison {
    wall_micros: i64,
    monotonic_nanos: u64,
    may_delete: bool,
}

impl ClockGuard {
    /// Creates a guard that has compared no clocks yet.
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            last: Mutex::default(),
        }
    }

    /// Compares clocks if the last comparison is older than 30 seconds, and returns whether the local one may delete.
    /// It may not if a node cannot be asked.
    pub async fn check(&self, store: &dyn Store) -> bool {
        if let Some(comparison) = self.fresh() {
            return comparison.may_delete;
        }
        let readings = store.read_clocks().await;
        let may_delete = readings.is_ok_and(|readings| !readings.into_iter().any(ClockReading::is_far_ahead));
        *self.last() = Some(Comparison {
            wall_micros: self.environment.now_micros(),
            monotonic_nanos: self.environment.monotonic_nanos(),
            may_delete,
        });
        may_delete
    }

    /// Returns whether the local clock may delete by the last comparison; `false` without a fresh one.
    pub fn allows(&self) -> bool {
        self.fresh().is_some_and(|comparison| comparison.may_delete)
    }

    fn fresh(&self) -> Option<Comparison> {
        let comparison = (*self.last())?;
        let now_nanos = self.environment.monotonic_nanos();
        let elapsed = Duration::from_nanos(now_nanos.saturating_sub(comparison.monotonic_nanos));
        let wall_elapsed = self.environment.now_micros() - comparison.wall_micros;
        let drift = wall_elapsed.abs_diff(micros(elapsed));
        let is_fresh = elapsed < LASTS && i64::try_from(drift).is_ok_and(|drift| drift < micros(MAX_DRIFT));
        is_fresh.then_some(comparison)
    }

    fn last(&self) -> MutexGuard<'_, Option<Comparison>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares the local clock with that of a node, which `ask` reads in microseconds since 1970.
///
/// # Errors
/// Those of `ask`.
pub async fn compare_clocks<F>(environment: &Environment, ask: F) -> Result<ClockReading, StoreError>
where
    F: Future<Output = Result<i64, StoreError>>,
{
    let before = environment.now_micros();
    let theirs = ask.await?;
    let after = environment.now_micros();
    let middle = before + (after - before) / 2;
    Ok(ClockReading {
        ahead_micros: middle - theirs,
        error_micros: (after - before) / 2,
    })
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use async_trait::async_trait;
    use recto_model::environment::Source;

    use super::*;
    use crate::memory::MemoryStore;
    use crate::wrapper::StoreWrapper;

    const SECOND: i64 = 1_000_000;

    /// Clocks that stand where a test puts them.
    #[derive(Debug, Clone, Default)]
    struct Clocks {
        wall_micros: Arc<AtomicI64>,
        monotonic_nanos: Arc<AtomicU64>,
    }

    impl Source for Clocks {
        fn now_micros(&self) -> i64 {
            self.wall_micros.load(Ordering::Relaxed)
        }

        fn monotonic_nanos(&self) -> u64 {
            self.monotonic_nanos.load(Ordering::Relaxed)
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    /// A store with these readings of its nodes' clocks; none: its nodes do not answer.
    struct WithClocks {
        inner: Arc<dyn Store>,
        readings: Option<Vec<i64>>,
        comparisons: AtomicU64,
    }

    #[async_trait]
    impl StoreWrapper for WithClocks {
        fn inner(&self) -> &Arc<dyn Store> {
            &self.inner
        }

        async fn on_read_clocks(&self) -> Result<Vec<ClockReading>, StoreError> {
            self.comparisons.fetch_add(1, Ordering::Relaxed);
            let readings = self.readings.iter().flatten().map(|ahead| ClockReading {
                ahead_micros: ahead * SECOND,
                error_micros: SECOND / 1_000,
            });
            match self.readings {
                Some(_) => Ok(readings.collect()),
                None => Err(StoreError::new(crate::StoreErrorKind::Unavailable, "away")),
            }
        }
    }

    fn with_clocks(readings: Option<&[i64]>) -> WithClocks {
        WithClocks {
            inner: Arc::new(MemoryStore::new(Environment::system())),
            readings: readings.map(<[i64]>::to_vec),
            comparisons: AtomicU64::new(0),
        }
    }

    #[tokio::test]
    async fn rejects_a_clock_that_is_far_ahead_of_a_node() {
        for (readings, may_delete) in [
            (Some(&[][..]), true),
            (Some(&[0, 4]), true),
            (Some(&[-3_600]), true),
            (Some(&[6]), false),
            (Some(&[0, 180]), false),
            (None, false),
        ] {
            let guard = ClockGuard::new(Environment::new(Clocks::default()));
            assert!(!guard.allows(), "nothing was compared");
            assert_eq!(
                guard.check(&with_clocks(readings)).await,
                may_delete,
                "{readings:?}"
            );
            assert_eq!(guard.allows(), may_delete, "{readings:?}");
        }
    }

    #[tokio::test]
    async fn compares_again_after_a_while_and_when_the_clock_was_set() {
        let clocks = Clocks::default();
        let guard = ClockGuard::new(Environment::new(clocks.clone()));
        let store = with_clocks(Some(&[0]));
        let pass = |seconds: i64, wall_seconds: i64| {
            let nanos = seconds.unsigned_abs() * 1_000_000_000;
            clocks.monotonic_nanos.fetch_add(nanos, Ordering::Relaxed);
            clocks
                .wall_micros
                .fetch_add(wall_seconds * SECOND, Ordering::Relaxed);
        };
        for (seconds, wall_seconds, comparisons) in
            [(0, 0, 1), (20, 20, 1), (11, 11, 2), (1, 180, 3), (1, -180, 4)]
        {
            pass(seconds, wall_seconds);
            assert!(guard.check(&store).await);
            assert_eq!(store.comparisons.load(Ordering::Relaxed), comparisons);
        }
    }
}
