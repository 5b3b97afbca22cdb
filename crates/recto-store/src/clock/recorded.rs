//! Guard against a wrong local clock for a store without nodes: compares the clock with the time that the
//! store recorded.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_model::Environment;

use super::{ClockState, ClockStatus, DAY_MICROS, SECOND_MICROS, micros};

/// Divisor of the retention: the clock may be ahead by a tenth of the retention. Data is therefore deleted
/// too early by at most a tenth of its retention.
pub(super) const RETENTION_PARTS: i64 = 10;
/// Minimum time between two records of the clock's time in the store, in microseconds.
const RECORD_MICROS: i64 = 3_600 * SECOND_MICROS;

/// Local clock, and the evidence for its time. The evidence is the time that the store contained when this
/// process opened it, plus the time elapsed since then. Later records of this process are not evidence for
/// its own clock.
#[derive(Debug)]
pub struct RecordedClock {
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Time according to the evidence when the store was opened, or when the clock was confirmed, in
    /// microseconds since 1970.
    since_micros: i64,
    since_nanos: u64,
    /// Time that the store contains now, in microseconds since 1970. `None` if the store contains no time.
    recorded_micros: Option<i64>,
    /// Shortest retention that any caller of `due` passed.
    shortest: Option<Duration>,
}

impl RecordedClock {
    /// Returns the guard for a store that contains the time `recorded_micros`, in microseconds since 1970. If
    /// the store contains no time, the current time of the clock is the evidence.
    pub fn new(environment: Environment, recorded_micros: Option<i64>) -> Self {
        let state = State {
            since_micros: recorded_micros.unwrap_or_else(|| environment.now_micros()),
            since_nanos: environment.continuous_nanos(),
            recorded_micros,
            shortest: None,
        };
        Self {
            environment,
            state: Mutex::new(state),
        }
    }

    /// Returns whether the clock may delete data with this `retention`. A clock that is ahead of the evidence
    /// by at most a day, or by at most a tenth of the retention, may delete the data.
    pub fn allows(&self, retention: Duration) -> bool {
        self.ahead_micros() <= DAY_MICROS.max(micros(retention) / RETENTION_PARTS)
    }

    /// Returns the state of the clock for data whose shortest retention is `shortest`.
    pub fn status(&self, shortest: Option<Duration>) -> ClockStatus {
        let is_allowed = shortest.is_none_or(|shortest| self.allows(shortest));
        ClockStatus {
            state: if is_allowed {
                ClockState::Agrees
            } else {
                ClockState::AheadOfRecord
            },
            ahead_micros: Some(self.ahead_micros()),
            refuses_stamps: false,
        }
    }

    /// Returns the time to record now, or `None` if less than an hour has passed since the last record.
    /// `shortest` is the shortest retention of the caller's data. The result is the clock's own time if the
    /// clock may delete the data of all callers so far. Otherwise, the result is the time of the evidence.
    pub fn due(&self, shortest: Duration) -> Option<i64> {
        let shortest = {
            let mut state = self.state();
            let least = state.shortest.map_or(shortest, |least| least.min(shortest));
            state.shortest = Some(least);
            least
        };
        let time = if self.allows(shortest) {
            self.environment.now_micros()
        } else {
            self.evidence_micros()
        };
        self.if_due(time)
    }

    /// Returns the time by which data may be deleted that expires at a fixed time, and not after a retention. This
    /// is the time of the clock, or the time of the evidence if the clock is ahead of it by more than a day.
    pub fn trusted_micros(&self) -> i64 {
        if self.ahead_micros() <= DAY_MICROS {
            self.environment.now_micros()
        } else {
            self.evidence_micros()
        }
    }

    /// Returns the [trusted time](Self::trusted_micros) if it is to be recorded now, or `None` if less than an
    /// hour has passed since the last record.
    pub fn due_trusted(&self) -> Option<i64> {
        self.if_due(self.trusted_micros())
    }

    fn if_due(&self, time: i64) -> Option<i64> {
        let is_due = |recorded| time.saturating_sub(recorded) >= RECORD_MICROS;
        self.state().recorded_micros.is_none_or(is_due).then_some(time)
    }

    /// Notes that the store now contains the time `micros`, in microseconds since 1970.
    pub fn set_recorded(&self, micros: i64) {
        self.state().recorded_micros = Some(micros);
    }

    /// Accepts the clock as correct: makes `micros` the evidence for its time. The caller has just read this
    /// time from the clock and stored it.
    pub fn set_confirmed(&self, micros: i64) {
        let since_nanos = self.environment.continuous_nanos();
        let mut state = self.state();
        *state = State {
            since_micros: micros,
            since_nanos,
            recorded_micros: Some(micros),
            shortest: state.shortest,
        };
    }

    fn ahead_micros(&self) -> i64 {
        self.environment
            .now_micros()
            .saturating_sub(self.evidence_micros())
    }

    fn evidence_micros(&self) -> i64 {
        let State {
            since_micros,
            since_nanos,
            ..
        } = *self.state();
        let elapsed = self.environment.continuous_nanos().saturating_sub(since_nanos);
        since_micros.saturating_add(micros(Duration::from_nanos(elapsed)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::tests::Clocks;

    const DAY: Duration = Duration::from_secs(86_400);
    const DAY_SECONDS: i64 = 86_400;
    const HOUR_SECONDS: i64 = 3_600;

    #[test]
    fn allows_a_day_or_a_tenth_of_the_retention() {
        for (ahead_days, retention_days, is_allowed) in [
            (-365, 1, true),
            (0, 1, true),
            (1, 1, true),
            (2, 1, false),
            (2, 20, true),
            (2, 19, false),
            (365, 365, false),
        ] {
            let clocks = Clocks::default();
            let clock = RecordedClock::new(clocks.environment(), Some(0));
            // The monotonic clock measured 30 days. Measured time is evidence too, so only the other
            // `ahead_days` count as a difference.
            clocks.pass(30 * DAY_SECONDS, (30 + ahead_days) * DAY_SECONDS);
            let retention = DAY * retention_days;
            assert_eq!(
                clock.allows(retention),
                is_allowed,
                "{ahead_days} {retention_days}"
            );
            let status = clock.status(Some(retention));
            assert_eq!(status.state == ClockState::Agrees, is_allowed);
            assert_eq!(status.ahead_micros, Some(ahead_days * DAY_MICROS));
            assert_eq!(clock.status(None).state, ClockState::Agrees);
        }
    }

    #[test]
    fn records_its_own_time_only_while_it_may_delete() {
        let clocks = Clocks::default();
        let clock = RecordedClock::new(clocks.environment(), None);
        let other = RecordedClock::new(clocks.environment(), None);
        assert_eq!(clock.due(DAY), Some(0), "a store without a record begins one");
        clock.set_recorded(0);
        clocks.pass(HOUR_SECONDS - 1, HOUR_SECONDS - 1);
        assert_eq!(clock.due(DAY), None);
        clocks.pass(1, DAY_SECONDS);
        let wall = (HOUR_SECONDS - 1 + DAY_SECONDS) * SECOND_MICROS;
        assert_eq!(clock.due(DAY), Some(wall));
        clock.set_recorded(wall);
        assert_eq!(clock.due(DAY), None);
        // A time that the clock recorded itself does not confirm a later jump of the clock.
        clocks.pass(0, DAY_SECONDS);
        assert!(!clock.allows(DAY));
        assert_eq!(clock.due(DAY), None);
        clocks.pass(2 * DAY_SECONDS, 2 * DAY_SECONDS);
        let evidence = (2 * DAY_SECONDS + HOUR_SECONDS) * SECOND_MICROS;
        assert_eq!(clock.due(DAY), Some(evidence));
        // The shortest retention that any caller of `due` passed decides, here one day.
        assert_eq!(clock.due(30 * DAY), Some(evidence));
        // A retention of 30 days permits a difference of three days, so the clock records its own
        // time.
        let wall = (4 * DAY_SECONDS + HOUR_SECONDS - 1) * SECOND_MICROS;
        assert_eq!(other.due(30 * DAY), Some(wall));
    }

    #[test]
    fn trusts_a_confirmed_clock_and_no_later_jump() {
        let clocks = Clocks::default();
        let clock = RecordedClock::new(clocks.environment(), Some(0));
        clocks.pass(0, 365 * DAY_SECONDS);
        assert!(!clock.allows(DAY));
        clock.set_confirmed(365 * DAY_MICROS);
        assert!(clock.allows(DAY));
        assert_eq!(clock.due(DAY), None);
        clocks.pass(0, 2 * DAY_SECONDS);
        assert!(!clock.allows(DAY));
        clocks.pass(0, -2 * DAY_SECONDS);
        assert!(clock.allows(DAY));
    }

    #[test]
    fn trusts_the_evidence_if_the_clock_is_far_ahead() {
        let clocks = Clocks::default();
        let clock = RecordedClock::new(clocks.environment(), Some(0));
        clocks.pass(HOUR_SECONDS, HOUR_SECONDS + DAY_SECONDS);
        let wall = (HOUR_SECONDS + DAY_SECONDS) * SECOND_MICROS;
        assert_eq!(clock.due_trusted(), Some(wall));
        clock.set_recorded(wall);
        assert_eq!(clock.due_trusted(), None);
        clocks.pass(HOUR_SECONDS, 365 * DAY_SECONDS);
        assert_eq!(clock.trusted_micros(), 2 * HOUR_SECONDS * SECOND_MICROS);
        assert_eq!(clock.due_trusted(), None);
    }
}
