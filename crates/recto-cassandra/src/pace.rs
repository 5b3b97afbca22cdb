//! Limit of the number of bulk writes in flight, adapted to the response times of the nodes.
//!
//! An overloaded node does not reject requests. It queues them in memory until it spends all its
//! time on garbage collection, and other nodes consider it dead. Response times rise before a node
//! is that overloaded. Therefore this module raises the limit while responses are fast, as TCP
//! does. It halves the limit when a response is slow, a write fails, or a write needs a retry. A
//! small or busy node gets few writes at a time. This costs no throughput: with twice the writes in
//! flight on a full node, each write would only wait twice as long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of writes in flight that a new store allows.
const FIRST_IN_FLIGHT: usize = 8;
/// Number of writes in flight below which each fast response raises the limit by one, until the
/// first slow response. Afterward, the limit rises by one only after as many fast responses as the
/// limit allows writes in flight.
const STEEP_IN_FLIGHT: usize = 32;
/// Response time above which a response counts as slow.
const SLOW: Duration = Duration::from_millis(100);

/// Limit of the number of writes in flight, over all bulk writes of the store together.
#[derive(Debug)]
pub(crate) struct Pace {
    most: usize,
    state: Mutex<State>,
    sending: AtomicUsize,
}

/// Guard of one write. The write counts as in flight until the guard is dropped.
pub(crate) struct Sending<'a>(&'a AtomicUsize);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct State {
    in_flight: usize,
    /// Number of fast responses since the limit of writes in flight last changed.
    quick: usize,
    /// True until the first slow response or failure. The limit rises faster until then.
    is_first: bool,
    slowed_at_nanos: u64,
}

impl Pace {
    pub(crate) fn new(most: usize) -> Self {
        let state = State {
            in_flight: FIRST_IN_FLIGHT.min(most),
            quick: 0,
            is_first: true,
            slowed_at_nanos: 0,
        };
        Self {
            most,
            state: Mutex::new(state),
            sending: AtomicUsize::new(0),
        }
    }

    /// Returns whether one more write may be sent now. A bulk write that has no write in flight may
    /// send one without this check.
    pub(crate) fn has_room(&self) -> bool {
        self.sending.load(Ordering::Relaxed) < self.lock().in_flight
    }

    /// Counts a write that is about to be sent. It counts as in flight until the returned guard is
    /// dropped.
    pub(crate) fn send(&self) -> Sending<'_> {
        self.sending.fetch_add(1, Ordering::Relaxed);
        Sending(&self.sending)
    }

    /// Records the end of a write, and adapts the limit to its response time. `is_well` means that
    /// the first attempt succeeded.
    pub(crate) fn note(&self, sent_at_nanos: u64, ended_at_nanos: u64, is_well: bool) {
        let mut state = self.lock();
        let took = Duration::from_nanos(ended_at_nanos.saturating_sub(sent_at_nanos));
        if !is_well || took > SLOW {
            // A write that was sent before the last slowdown reflects the same overload, so it does
            // not halve the limit again.
            if sent_at_nanos >= state.slowed_at_nanos {
                state.in_flight = (state.in_flight / 2).max(1);
                state.slowed_at_nanos = ended_at_nanos;
                state.is_first = false;
                state.quick = 0;
            }
            return;
        }
        state.quick += 1;
        let is_steep = state.is_first && state.in_flight < STEEP_IN_FLIGHT;
        if is_steep || state.quick >= state.in_flight {
            state.in_flight = (state.in_flight + 1).min(self.most);
            state.quick = 0;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Ignore the poison of the lock: each operation leaves the state consistent, so the panic
        // of another thread does no damage.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: u64 = 1_000_000;
    const SLOW_NANOS: u64 = SLOW.as_nanos() as u64 + 1;

    #[test]
    fn it_rises_while_answers_are_quick_and_halves_once_a_moment() {
        let pace = Pace::new(128);
        for round in 0..10_000 {
            pace.note(round, round + QUICK, true);
        }
        assert_eq!(pace.lock().in_flight, 128, "never more than the most");
        let now = 1_000 * QUICK;
        for _ in 0..100 {
            pace.note(now, now + SLOW_NANOS, true);
        }
        assert_eq!(pace.lock().in_flight, 64, "a hundred slow answers of one moment");
        let later = now + SLOW_NANOS;
        pace.note(later, later + QUICK, false);
        assert_eq!(pace.lock().in_flight, 32, "a failure is as bad as slowness");
        for _ in 0..32 {
            pace.note(later + QUICK, later + 2 * QUICK, true);
        }
        assert_eq!(pace.lock().in_flight, 33, "then it rises by one a round");
    }

    #[test]
    fn writes_in_flight_take_room_until_they_end() {
        let pace = Pace::new(2);
        let first = pace.send();
        assert!(pace.has_room());
        let second = pace.send();
        assert!(!pace.has_room());
        drop(first);
        assert!(pace.has_room());
        drop(second);
    }

    #[test]
    fn one_is_always_in_flight() {
        let pace = Pace::new(1);
        for moment in 0..100 {
            let now = moment * 10 * SLOW_NANOS;
            pace.note(now, now + SLOW_NANOS, false);
        }
        assert_eq!(pace.lock().in_flight, 1);
        pace.note(u64::MAX - QUICK, u64::MAX, true);
        assert_eq!(pace.lock().in_flight, 1);
    }
}
