//! On which of its shards a process works on a queue: no shard is anybody's, and who finds that another process was quicker goes
//! elsewhere. So processes come to be apart without knowing of each other, and one that is gone holds up nobody.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::totals::Counter;

/// For how long a process begins to receive at one shard, however much there is, before it begins at the next: so none is passed
/// over for good.
const STAY_NANOS: u64 = 1_000_000_000;

/// How often another process was quicker in a shard.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// With an append.
    pub(crate) appends: Counter,
    /// With a claim, or what was done with one.
    pub(crate) claims: Counter,
}

/// The shard, of those of a queue, to which a process goes first.
#[derive(Debug, Default)]
pub(crate) struct Affinity(Mutex<Option<Stay>>);

#[derive(Debug, Clone, Copy)]
struct Stay {
    shard: usize,
    /// Those that were known when it came.
    losses: u64,
    since_nanos: u64,
}

/// The shards that there are to choose from, and the time.
pub(crate) struct Choice<L, D> {
    /// How many there are: one at least.
    pub(crate) count: usize,
    /// What was lost in one.
    pub(crate) losses: L,
    /// Another number each time.
    pub(crate) draw: D,
    pub(crate) now_nanos: u64,
}

impl Affinity {
    fn stay(&self) -> MutexGuard<'_, Option<Stay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is: where it was, unless something was lost there since; any other one then.
    pub(crate) fn shard<L: Fn(usize) -> u64, D: Fn() -> usize>(&self, choice: &Choice<L, D>) -> usize {
        let mut stay = self.stay();
        let shard = match *stay {
            None => (choice.draw)() % choice.count,
            Some(here) if (choice.losses)(here.shard) == here.losses => return here.shard,
            Some(here) if choice.count == 1 => here.shard,
            Some(here) => (here.shard + 1 + (choice.draw)() % (choice.count - 1)) % choice.count,
        };
        *stay = Some(choice.stay(shard));
        shard
    }

    /// The same, of one that goes round: after a while it is at the next one.
    pub(crate) fn next_shard<L: Fn(usize) -> u64, D: Fn() -> usize>(&self, choice: &Choice<L, D>) -> usize {
        let shard = self.shard(choice);
        let mut stay = self.stay();
        match *stay {
            Some(here) if choice.now_nanos.saturating_sub(here.since_nanos) >= STAY_NANOS => {
                let next = (here.shard + 1) % choice.count;
                *stay = Some(choice.stay(next));
                next
            }
            _ => shard,
        }
    }

    /// There is something at that shard: it is there from now on.
    pub(crate) fn goes_to<L: Fn(usize) -> u64, D: Fn() -> usize>(&self, shard: usize, choice: &Choice<L, D>) {
        let mut stay = self.stay();
        if stay.is_none_or(|here| here.shard != shard) {
            *stay = Some(choice.stay(shard));
        }
    }
}

impl<L: Fn(usize) -> u64, D: Fn() -> usize> Choice<L, D> {
    fn stay(&self, shard: usize) -> Stay {
        Stay {
            shard,
            losses: (self.losses)(shard),
            since_nanos: self.now_nanos,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Four shards, what was lost in each, and the time.
    fn at(losses: [u64; 4], now_nanos: u64) -> Choice<impl Fn(usize) -> u64, impl Fn() -> usize> {
        let drawn = Cell::new(0);
        Choice {
            count: 4,
            losses: move |shard: usize| losses[shard],
            draw: move || drawn.replace(drawn.get() + 1),
            now_nanos,
        }
    }

    #[test]
    fn it_stays_until_another_was_quicker_there() {
        let affinity = Affinity::default();
        assert_eq!(affinity.shard(&at([0; 4], 0)), 0);
        assert_eq!(affinity.shard(&at([0, 7, 7, 7], STAY_NANOS * 10)), 0);
        let left = affinity.shard(&at([1, 7, 7, 7], 0));
        assert_ne!(left, 0);
        // What was lost there before it came says nothing.
        assert_eq!(affinity.shard(&at([1, 7, 7, 7], 0)), left);
    }

    #[test]
    fn who_receives_goes_round() {
        let affinity = Affinity::default();
        let begins = |turn| affinity.next_shard(&at([0; 4], turn * STAY_NANOS / 2));
        let begun: Vec<_> = (0..9).map(begins).collect();
        assert_eq!(begun, [0, 0, 1, 1, 2, 2, 3, 3, 0]);
        affinity.goes_to(2, &at([0; 4], STAY_NANOS * 4));
        assert_eq!(begins(9), 2);
        // To have something there again is no reason to stay for longer.
        affinity.goes_to(2, &at([0; 4], STAY_NANOS * 5));
        assert_eq!(begins(10), 3);
    }

    #[test]
    fn the_only_one_is_never_left() {
        let affinity = Affinity::default();
        let only = |losses| Choice {
            count: 1,
            losses: move |_| losses,
            draw: || 3,
            now_nanos: losses * STAY_NANOS,
        };
        for losses in 0..3 {
            assert_eq!(affinity.shard(&only(losses)), 0);
            assert_eq!(affinity.next_shard(&only(losses)), 0);
        }
    }
}
