//! How many writes of a bulk are in flight: as many as nodes answer quickly.
//!
//! A node that is sent more than it can do does not refuse it: it keeps what waits in memory, until it
//! does nothing but look for some, and is taken for dead. What tells before that is the time that answers
//! take. So more is sent while they come quickly, and half as much as soon as one is slow, fails, or
//! comes only when asked again: as TCP does. A small or busy node is then loaded slowly, and no node
//! more slowly than it could be: with twice as much in flight each write would just wait twice as long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many writes are in flight at first.
const FIRST_IN_FLIGHT: usize = 8;
/// Up to how many it is raised by one with every quick answer; beyond, by one with every round of them.
const STEEP_IN_FLIGHT: usize = 32;
/// An answer that takes longer is slow.
const SLOW: Duration = Duration::from_millis(100);

/// How many writes of all bulks together may be in flight.
#[derive(Debug)]
pub(crate) struct Pace {
    most: usize,
    state: Mutex<State>,
    sending: AtomicUsize,
}

/// A write that is in flight until this is dropped.
pub(crate) struct Sending<'a>(&'a AtomicUsize);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct State {
    in_flight: usize,
    /// Quick answers since it was last raised.
    quick: usize,
    /// Whether no answer was slow yet.
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

    /// Whether one more may be sent now. A bulk that has none in flight need not ask.
    pub(crate) fn has_room(&self) -> bool {
        self.sending.load(Ordering::Relaxed) < self.lock().in_flight
    }

    /// Counts a write that is about to be sent.
    pub(crate) fn send(&self) -> Sending<'_> {
        self.sending.fetch_add(1, Ordering::Relaxed);
        Sending(&self.sending)
    }

    /// Takes note of a write that was sent and ended; `is_well`: at the first attempt.
    pub(crate) fn note(&self, sent_at_nanos: u64, ended_at_nanos: u64, is_well: bool) {
        let mut state = self.lock();
        let took = Duration::from_nanos(ended_at_nanos.saturating_sub(sent_at_nanos));
        if !is_well || took > SLOW {
            // What was in flight then tells of the same moment.
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
        // The state is whole between any two notes, so a panic elsewhere does not spoil it.
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
    fn what_is_in_flight_takes_room_until_it_ends() {
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
