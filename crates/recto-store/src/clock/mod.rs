//! Guards against a wrong clock: a process deletes expired data only if other evidence confirms its clock.
//!
//! Retention compares the local clock with stored times. A process whose clock is ahead would delete data
//! that other processes wrote and confirmed. A process whose clock is behind deletes too late, which loses
//! nothing.
//!
//! A store with nodes compares the local clock with the clocks of the nodes ([`ComparedClock`]). A store on
//! this machine has no other clock, and records the time instead ([`RecordedClock`]).

mod compared;
mod recorded;

use std::time::Duration;

use async_trait::async_trait;

use crate::StoreError;

pub use compared::{ClockReading, ComparedClock, compare_clocks};
pub use recorded::RecordedClock;

const SECOND_MICROS: i64 = 1_000_000;
const DAY_MICROS: i64 = 86_400 * SECOND_MICROS;

/// Decides whether the local clock is trusted to delete data. A store has one guard, which all code that
/// deletes expired data shares.
#[async_trait]
pub trait ClockGuard: Send + Sync {
    /// Compares the local clock with the clocks of nodes, if the last comparison is older than 30 seconds or
    /// the clock was set since then. Does nothing in a store without nodes.
    async fn compare(&self, timeout: Duration) {
        let _ = timeout;
    }

    /// Returns whether the local clock is trusted to delete data that is kept for `retention`.
    fn allows(&self, retention: Duration) -> bool;

    /// Returns whether the local clock is trusted to give writes their timestamps. On a store with nodes, a
    /// clock that is more than five seconds ahead of all nodes that answered is not trusted. With its
    /// timestamps, the store would ignore later writes of other processes.
    ///
    /// The call waits for a comparison of the clocks only if none was made yet, or if the clock was set since
    /// then. It waits at most a second. A clock that could not be compared is trusted.
    async fn may_stamp(&self) -> bool {
        true
    }

    /// Records the time in a store without nodes, at most once an hour. `shortest` is the shortest retention
    /// of the data in the store.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn record(&self, shortest: Duration, timeout: Duration) -> Result<(), StoreError> {
        let _ = (shortest, timeout);
        Ok(())
    }

    /// Returns the state of the local clock by the last comparison, for data whose shortest retention is `shortest`.
    fn status(&self, shortest: Option<Duration>) -> ClockStatus;

    /// Accepts the time of the local clock as correct from now on, and returns it in microseconds since 1970.
    ///
    /// # Errors
    /// `Invalid` if the store compares the clock with those of its nodes. Other kinds if the store cannot be
    /// written.
    async fn confirm(&self, timeout: Duration) -> Result<i64, StoreError>;
}

/// Result of comparing the local clock with the evidence: the clocks of nodes, or the time that the store
/// recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockState {
    /// The clock agrees with the evidence, or there is no evidence yet.
    #[default]
    Agrees,
    /// The clock differs from the clock of a node by more than two seconds. The process still deletes expired
    /// data.
    Differs,
    /// The clock is more than five seconds ahead of the clock of a node. The process deletes no expired data.
    AheadOfNodes,
    /// No node returned its clock. The process deletes no expired data.
    NotCompared,
    /// The clock is too far ahead of the time that the store recorded. The process deletes no data with a
    /// short retention.
    AheadOfRecord,
}

/// State of the local clock, for monitoring a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockStatus {
    /// Result of comparing the local clock with the clocks of nodes, or with the recorded time.
    pub state: ClockState,
    /// Microseconds by which the local clock is ahead of the evidence; negative if it is behind. `None` if
    /// there is no evidence.
    pub ahead_micros: Option<i64>,
    /// True if the clock is so far ahead of all nodes that it must not give writes their timestamps: see
    /// [`ClockGuard::may_stamp`].
    pub refuses_stamps: bool,
}

impl ClockStatus {
    /// Returns a warning for logs and monitoring: the difference, and its effect on the process.
    ///
    /// ```
    /// use recto_store::clock::{ClockState, ClockStatus};
    ///
    /// let status = ClockStatus { state: ClockState::AheadOfNodes, ahead_micros: Some(180_000_000), ..Default::default() };
    /// assert_eq!(
    ///     status.warning().unwrap(),
    ///     "the clock of this machine is 180.0 s ahead of the clock of a node: this process deletes no expired data"
    /// );
    /// assert_eq!(ClockStatus::default().warning(), None);
    /// ```
    pub fn warning(&self) -> Option<String> {
        let ahead = self.ahead_micros.unwrap_or_default();
        let tenths = ahead.unsigned_abs() / 100_000;
        let seconds = format!("{}.{} s", tenths / 10, tenths % 10);
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        let differs = format!("the clock of this machine is {seconds} {side} the clock of a node");
        match self.state {
            ClockState::Agrees => None,
            ClockState::Differs => Some(differs),
            ClockState::AheadOfNodes if self.refuses_stamps => Some(format!(
                "{differs}: this process deletes no expired data, and rejects writes to append and overwrite \
                 collections"
            )),
            ClockState::AheadOfNodes => Some(format!("{differs}: this process deletes no expired data")),
            ClockState::NotCompared => {
                Some("no node reported its clock: this process deletes no expired data".to_owned())
            }
            ClockState::AheadOfRecord => {
                let days = ahead / DAY_MICROS;
                let unit = if days == 1 { "day" } else { "days" };
                let least = recorded::RETENTION_PARTS.saturating_mul(ahead) / DAY_MICROS;
                Some(format!(
                    "the clock of this machine is {days} {unit} ahead of the time that the store recorded: \
                     queues and collections that keep data for less than {least} days delete no old data"
                ))
            }
        }
    }

    /// Returns advice for the user about the [warning](Self::warning). `None` if the clock agrees with the
    /// evidence.
    pub fn hint(&self) -> Option<&'static str> {
        match self.state {
            ClockState::Agrees => None,
            ClockState::Differs | ClockState::AheadOfNodes => {
                Some("synchronize the clocks of this machine and of the nodes with NTP")
            }
            ClockState::NotCompared => Some("check with `nodetool status` that the nodes are up"),
            ClockState::AheadOfRecord => Some(
                "if the clock is right, stop the process that has the store open, and run `recto queue \
                 confirm-clock`; otherwise set the clock",
            ),
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use recto_model::Environment;
    use recto_model::environment::Source;

    use super::*;

    /// Wall clock and monotonic clock, whose times a test sets.
    #[derive(Debug, Clone, Default)]
    pub(super) struct Clocks {
        wall_micros: Arc<AtomicI64>,
        monotonic_nanos: Arc<AtomicU64>,
    }

    impl Clocks {
        pub(super) fn environment(&self) -> Environment {
            Environment::new(self.clone())
        }

        /// Advances the monotonic clock by `seconds` and the wall clock by `wall_seconds`.
        pub(super) fn pass(&self, seconds: i64, wall_seconds: i64) {
            let nanos = seconds.unsigned_abs() * 1_000_000_000;
            self.monotonic_nanos.fetch_add(nanos, Ordering::Relaxed);
            self.wall_micros
                .fetch_add(wall_seconds * SECOND_MICROS, Ordering::Relaxed);
        }
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

    #[test]
    fn warns_of_each_state_with_a_hint() {
        for (state, seconds, warning) in [
            (ClockState::Agrees, 1, None),
            (ClockState::Differs, -3, Some("3.0 s behind the clock of a node")),
            (ClockState::AheadOfNodes, 6, Some("6.0 s ahead of the clock")),
            (ClockState::NotCompared, 0, Some("no node reported its clock")),
            (ClockState::AheadOfRecord, 86_400, Some("1 day ahead")),
            (ClockState::AheadOfRecord, 3 * 86_400, Some("3 days ahead")),
            (ClockState::AheadOfRecord, 3 * 86_400, Some("less than 30 days")),
        ] {
            let status = ClockStatus {
                state,
                ahead_micros: Some(seconds * SECOND_MICROS),
                ..ClockStatus::default()
            };
            let said = status.warning();
            assert_eq!(said.is_some(), warning.is_some(), "{status:?}");
            assert_eq!(status.hint().is_some(), warning.is_some(), "{status:?}");
            let said = said.unwrap_or_default();
            assert!(said.contains(warning.unwrap_or_default()), "{said}");
        }
    }
}
