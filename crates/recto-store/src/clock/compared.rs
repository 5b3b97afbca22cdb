//! Guard against a wrong local clock for stores with nodes: compares the local clock with the clocks of the
//! nodes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_model::Environment;
use tokio::sync::Mutex as AsyncMutex;

use super::{ClockState, ClockStatus, micros};
use crate::StoreError;

/// Difference between the local clock and the clock of a node above which a process warns.
const MAX_DIFFERENCE: Duration = Duration::from_secs(2);
/// Maximum difference between the clocks of machines with a time service. A process whose clock is further
/// ahead of one node deletes no expired data. If it is further ahead of all nodes, the process also gives
/// writes no timestamps.
const MAX_AHEAD: Duration = Duration::from_secs(5);
/// Time after which a comparison with the clocks of the nodes is too old, and is repeated.
const LASTS: Duration = Duration::from_secs(30);
/// Maximum difference between the advance of the local wall clock and the time elapsed since the last
/// comparison. A larger difference means that the wall clock was set, and clocks are compared again.
const MAX_DRIFT: Duration = Duration::from_secs(1);

/// Difference between the local clock and the clock of one node of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Microseconds by which the local clock is ahead; negative if it is behind.
    pub ahead_micros: i64,
    /// Maximum error of `ahead_micros`: half of the round trip.
    pub error_micros: i64,
}

impl ClockReading {
    fn is_far_ahead(self) -> bool {
        self.ahead_micros.saturating_sub(self.error_micros) > micros(MAX_AHEAD)
    }

    fn differs(self) -> bool {
        let least = self
            .ahead_micros
            .saturating_abs()
            .saturating_sub(self.error_micros);
        least > micros(MAX_DIFFERENCE)
    }
}

/// Local clock, and its last comparison with the clocks of nodes. The comparison decides whether this process
/// may delete expired data and give timestamps.
#[derive(Debug)]
pub struct ComparedClock {
    environment: Environment,
    last: Mutex<Option<Comparison>>,
    /// Lock that a task holds while it compares the clocks, so that concurrent callers share one comparison.
    comparing: AsyncMutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct Comparison {
    wall_micros: i64,
    monotonic_nanos: u64,
    status: ClockStatus,
}

impl ComparedClock {
    /// Creates a guard for the clock of `environment`. No comparison was made yet.
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            last: Mutex::default(),
            comparing: AsyncMutex::default(),
        }
    }

    /// Compares the local clock with the clocks of nodes, if the last comparison is older than 30 seconds or
    /// the clock was set since then. `read` must return the differences within `timeout`. Concurrent callers
    /// share one comparison.
    pub async fn compare<F>(&self, timeout: Duration, read: F)
    where
        F: Future<Output = Result<Vec<ClockReading>, StoreError>>,
    {
        if self.fresh().is_some() {
            return;
        }
        let Ok(_one_compares) = tokio::time::timeout(timeout, self.comparing.lock()).await else {
            return;
        };
        if self.fresh().is_some() {
            return;
        }
        let status = match read.await {
            Ok(readings) => status_of(&readings),
            Err(_) => ClockStatus {
                state: ClockState::NotCompared,
                ..ClockStatus::default()
            },
        };
        *self.last() = Some(Comparison {
            wall_micros: self.environment.now_micros(),
            monotonic_nanos: self.environment.monotonic_nanos(),
            status,
        });
    }

    /// Returns whether the local clock may give timestamps to writes, according to the last comparison. If a
    /// comparison is due, runs the argument `compare`, which must call [`Self::compare`], in its own task.
    /// The call waits for this task only if no comparison was made yet, or if the clock was set since then.
    /// It waits at most `wait`.
    pub async fn may_stamp<F>(&self, wait: Duration, compare: impl FnOnce() -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let fresh = self.fresh();
        if fresh.is_none() {
            let is_old = (*self.last()).is_some_and(|comparison| !self.was_set_since(comparison));
            if !is_old {
                let _ = tokio::time::timeout(wait, tokio::spawn(compare())).await;
            } else if self.comparing.try_lock().is_ok() {
                tokio::spawn(compare());
            }
        }
        !self.status().refuses_stamps
    }

    /// Returns whether the last comparison permits this process to delete expired data. Returns `false` if
    /// there is no recent comparison.
    pub fn allows(&self) -> bool {
        let may_delete = |comparison: Comparison| {
            let state = comparison.status.state;
            matches!(state, ClockState::Agrees | ClockState::Differs)
        };
        self.fresh().is_some_and(may_delete)
    }

    /// Returns the result of the last comparison. If the clocks were never compared, returns the default,
    /// [`ClockState::Agrees`].
    pub fn status(&self) -> ClockStatus {
        let last = *self.last();
        last.map(|comparison| comparison.status).unwrap_or_default()
    }

    fn fresh(&self) -> Option<Comparison> {
        let comparison = (*self.last())?;
        let is_fresh = self.elapsed_since(comparison) < LASTS && !self.was_set_since(comparison);
        is_fresh.then_some(comparison)
    }

    fn elapsed_since(&self, comparison: Comparison) -> Duration {
        let now_nanos = self.environment.monotonic_nanos();
        Duration::from_nanos(now_nanos.saturating_sub(comparison.monotonic_nanos))
    }

    fn was_set_since(&self, comparison: Comparison) -> bool {
        let wall_elapsed = self.environment.now_micros() - comparison.wall_micros;
        let drift = wall_elapsed.abs_diff(micros(self.elapsed_since(comparison)));
        drift >= MAX_DRIFT.as_micros() as u64
    }

    fn last(&self) -> MutexGuard<'_, Option<Comparison>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn status_of(readings: &[ClockReading]) -> ClockStatus {
    let mut ahead = readings.iter().map(|reading| reading.is_far_ahead());
    // Refuse timestamps only if this clock is ahead of every node. A single node whose clock is behind must
    // not stop all writes.
    let refuses_stamps = !readings.is_empty() && ahead.clone().all(|is_far| is_far);
    let state = if ahead.any(|is_far| is_far) {
        ClockState::AheadOfNodes
    } else if readings.iter().any(|reading| reading.differs()) {
        ClockState::Differs
    } else {
        ClockState::Agrees
    };
    let ahead = readings.iter().map(|reading| reading.ahead_micros);
    let ahead_micros = match state {
        // Report how far this clock is ahead of a node, because that stops deletions. The clock of another
        // node may differ more in the other direction.
        ClockState::AheadOfNodes => ahead.max(),
        _ => ahead.max_by_key(|ahead| ahead.saturating_abs()),
    };
    ClockStatus {
        state,
        ahead_micros,
        refuses_stamps,
    }
}

/// Compares the local clock with the clock of a node. `ask` returns the time of the node's clock, in
/// microseconds since 1970.
///
/// # Errors
/// The errors of `ask`.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::StoreErrorKind;
    use crate::clock::SECOND_MICROS;
    use crate::clock::tests::Clocks;

    const TIMEOUT: Duration = Duration::from_secs(5);

    /// Simulated nodes. `readings` are the seconds by which the local clock is ahead of each node. `None`:
    /// the nodes do not answer.
    struct Nodes {
        readings: Option<Vec<i64>>,
        comparisons: AtomicU64,
    }

    impl Nodes {
        fn new(readings: Option<&[i64]>) -> Self {
            Self {
                readings: readings.map(<[i64]>::to_vec),
                comparisons: AtomicU64::new(0),
            }
        }

        async fn read(&self) -> Result<Vec<ClockReading>, StoreError> {
            self.comparisons.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            let Some(readings) = &self.readings else {
                return Err(StoreError::new(StoreErrorKind::Unavailable, "away"));
            };
            let readings = readings.iter().map(|ahead| ClockReading {
                ahead_micros: ahead * SECOND_MICROS,
                error_micros: SECOND_MICROS / 1_000,
            });
            Ok(readings.collect())
        }
    }

    #[tokio::test]
    async fn rejects_a_clock_that_is_far_ahead_of_a_node() {
        use ClockState::{Agrees, AheadOfNodes, Differs, NotCompared};
        for (readings, state, ahead, refuses_stamps) in [
            (Some(&[][..]), Agrees, None, false),
            (Some(&[0, 1]), Agrees, Some(1), false),
            (Some(&[0, 4]), Differs, Some(4), false),
            (Some(&[-3_600]), Differs, Some(-3_600), false),
            (Some(&[6]), AheadOfNodes, Some(6), true),
            (Some(&[1, 6]), AheadOfNodes, Some(6), false),
            (Some(&[-200, 180]), AheadOfNodes, Some(180), false),
            (None, NotCompared, None, false),
        ] {
            let clock = ComparedClock::new(Clocks::default().environment());
            assert!(!clock.allows(), "nothing was compared");
            assert_eq!(clock.status(), ClockStatus::default());
            clock.compare(TIMEOUT, Nodes::new(readings).read()).await;
            let may_delete = matches!(state, Agrees | Differs);
            assert_eq!(clock.allows(), may_delete, "{readings:?}");
            let ahead_micros = ahead.map(|ahead: i64| ahead * SECOND_MICROS);
            let status = ClockStatus {
                state,
                ahead_micros,
                refuses_stamps,
            };
            assert_eq!(clock.status(), status, "{readings:?}");
        }
    }

    #[tokio::test]
    async fn compares_again_after_a_while_and_when_the_clock_was_set() {
        let clocks = Clocks::default();
        let clock = ComparedClock::new(clocks.environment());
        let nodes = Nodes::new(Some(&[0]));
        for (seconds, wall_seconds, comparisons) in
            [(0, 0, 1), (20, 20, 1), (11, 11, 2), (1, 180, 3), (1, -180, 4)]
        {
            clocks.pass(seconds, wall_seconds);
            clock.compare(TIMEOUT, nodes.read()).await;
            assert!(clock.allows());
            assert_eq!(nodes.comparisons.load(Ordering::Relaxed), comparisons);
        }
    }

    #[tokio::test]
    async fn compares_once_for_callers_at_the_same_time() {
        let clock = ComparedClock::new(Clocks::default().environment());
        let nodes = Nodes::new(Some(&[0]));
        let compare = || clock.compare(TIMEOUT, nodes.read());
        tokio::join!(compare(), compare(), compare());
        assert!(clock.allows());
        assert_eq!(nodes.comparisons.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn waits_for_another_caller_for_its_own_time_only() {
        let clock = ComparedClock::new(Clocks::default().environment());
        let nodes = Nodes::new(Some(&[0]));
        tokio::select! {
            biased;
            () = clock.compare(TIMEOUT, std::future::pending()) => unreachable!("nothing ends it"),
            () = clock.compare(Duration::from_millis(1), nodes.read()) => {}
        }
        assert!(!clock.allows());
        assert_eq!(nodes.comparisons.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_only_for_a_first_comparison_before_it_stamps() {
        let clocks = Clocks::default();
        let clock = Arc::new(ComparedClock::new(clocks.environment()));
        let compare = |ahead_seconds: i64, takes: Duration| {
            let clock = Arc::clone(&clock);
            move || async move {
                let nodes = Nodes::new(Some(&[ahead_seconds]));
                let read = async {
                    tokio::time::sleep(takes).await;
                    nodes.read().await
                };
                clock.compare(TIMEOUT, read).await;
            }
        };
        let (wait, quick, slow) = (
            Duration::from_secs(1),
            Duration::from_millis(1),
            Duration::from_secs(3),
        );
        assert!(
            clock.may_stamp(wait, compare(3_600, slow)).await,
            "not compared in time"
        );
        tokio::time::sleep(slow).await;
        assert!(
            !clock.may_stamp(wait, compare(0, quick)).await,
            "the last comparison is fresh"
        );
        // After the local clock is corrected, the next comparison allows timestamps again.
        clocks.pass(1, -3_600);
        assert!(clock.may_stamp(wait, compare(0, quick)).await);
        // The last comparison is older than 30 seconds. `may_stamp` uses its result nevertheless, and does
        // not wait for the next comparison.
        clocks.pass(31, 31);
        assert!(clock.may_stamp(wait, compare(3_600, quick)).await);
        tokio::time::sleep(slow).await;
        assert!(!clock.may_stamp(wait, compare(0, quick)).await);
    }
}
