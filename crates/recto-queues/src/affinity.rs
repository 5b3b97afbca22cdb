//! Choice of the shard (part of a queue) in which a process sends or begins to receive. No process
//! owns a shard. A process that loses a conditional write to another process leaves the shard.
//! Processes therefore spread over the shards without knowing of each other, and a process that
//! ends blocks no other process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::totals::Counter;

/// Time after which the receives of a process begin at the next shard of the queue, in nanoseconds.
/// The process changes the shard even if the current one has more messages, so that no shard
/// starves.
const STAY_NANOS: u64 = 1_000_000_000;

/// Number of conditional writes to a shard that failed in this process because another process
/// wrote first.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    /// Number of appends to the shard's logs that failed, for example because another process wrote
    /// first, or because the shard was full.
    pub(crate) appends: Counter,
    /// Number of failed conditional writes of segment states, which record claimed and acknowledged
    /// messages.
    pub(crate) claims: Counter,
}

/// Shard of a queue at which this process currently sends, or begins to receive. `None`: no shard was chosen
/// yet.
#[derive(Debug, Default)]
pub(crate) struct Affinity(Mutex<Option<CurrentShard>>);

#[derive(Debug, Clone, Copy)]
struct CurrentShard {
    shard: usize,
    /// Number of failed writes in the shard when the process chose it. When the number has risen,
    /// the process leaves the shard.
    conflicts: u64,
    since_nanos: u64,
}

/// Input of the choice of a shard (part of a queue): the shards to choose from, and the time.
pub(crate) struct ShardChoice<L, D> {
    /// Number of shards (parts) of the queue, at least 1.
    pub(crate) count: usize,
    /// Function that returns the number of failed conditional writes in a shard.
    pub(crate) conflicts: L,
    /// Function that returns a random number.
    pub(crate) draw: D,
    pub(crate) now_nanos: u64,
}

impl Affinity {
    fn stay(&self) -> MutexGuard<'_, Option<CurrentShard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shard of this process. After a conditional write failed there because of another process,
    /// the process moves to a random other shard.
    pub(crate) fn shard<L: Fn(usize) -> u64, D: Fn() -> usize>(&self, choice: &ShardChoice<L, D>) -> usize {
        let mut stay = self.stay();
        let shard = match *stay {
            None => (choice.draw)() % choice.count,
            Some(here) if (choice.conflicts)(here.shard) == here.conflicts => return here.shard,
            Some(here) if choice.count == 1 => here.shard,
            Some(here) => (here.shard + 1 + (choice.draw)() % (choice.count - 1)) % choice.count,
        };
        *stay = Some(choice.stay(shard));
        shard
    }

    /// Returns the shard of this process, or the next shard after [`STAY_NANOS`]. Moves to a random
    /// other shard after lost writes, as [`shard`](Self::shard) does.
    pub(crate) fn next_shard<L: Fn(usize) -> u64, D: Fn() -> usize>(
        &self,
        choice: &ShardChoice<L, D>,
    ) -> usize {
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

    /// Makes a shard the current shard of this process, because messages were found there.
    pub(crate) fn set_shard<L: Fn(usize) -> u64, D: Fn() -> usize>(
        &self,
        shard: usize,
        choice: &ShardChoice<L, D>,
    ) {
        let mut stay = self.stay();
        if stay.is_none_or(|here| here.shard != shard) {
            *stay = Some(choice.stay(shard));
        }
    }
}

impl<L: Fn(usize) -> u64, D: Fn() -> usize> ShardChoice<L, D> {
    fn stay(&self, shard: usize) -> CurrentShard {
        CurrentShard {
            shard,
            conflicts: (self.conflicts)(shard),
            since_nanos: self.now_nanos,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns the input for a choice among four shards. `conflicts` has the number of failed writes
    /// in each shard.
    fn at(conflicts: [u64; 4], now_nanos: u64) -> ShardChoice<impl Fn(usize) -> u64, impl Fn() -> usize> {
        let drawn = Cell::new(0);
        ShardChoice {
            count: 4,
            conflicts: move |shard: usize| conflicts[shard],
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
        // The process stays at its new shard: writes that failed there before it came do not count.
        assert_eq!(affinity.shard(&at([1, 7, 7, 7], 0)), left);
    }

    #[test]
    fn receivers_rotate_through_the_shards() {
        let affinity = Affinity::default();
        let begins = |turn| affinity.next_shard(&at([0; 4], turn * STAY_NANOS / 2));
        let begun: Vec<_> = (0..9).map(begins).collect();
        assert_eq!(begun, [0, 0, 1, 1, 2, 2, 3, 3, 0]);
        affinity.set_shard(2, &at([0; 4], STAY_NANOS * 4));
        assert_eq!(begins(9), 2);
        // Messages at the current shard do not extend the stay, so the next receive begins at the
        // next shard.
        affinity.set_shard(2, &at([0; 4], STAY_NANOS * 5));
        assert_eq!(begins(10), 3);
    }

    #[test]
    fn the_only_one_is_never_left() {
        let affinity = Affinity::default();
        let only = |conflicts| ShardChoice {
            count: 1,
            conflicts: move |_| conflicts,
            draw: || 3,
            now_nanos: conflicts * STAY_NANOS,
        };
        for conflicts in 0..3 {
            assert_eq!(affinity.shard(&only(conflicts)), 0);
            assert_eq!(affinity.next_shard(&only(conflicts)), 0);
        }
    }
}
