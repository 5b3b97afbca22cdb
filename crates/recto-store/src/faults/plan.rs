//! Kinds of faults, their rates, and the record of the faults that occurred.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::random::Random;

/// Maximum number of faults that are recorded in detail. Older faults are only counted.
pub const MAX_RECORDED_FAULTS: usize = 10_000;

/// Fault that was injected into one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The call failed before it was sent.
    Failed,
    /// The call waited before it was sent.
    Delayed,
    /// A plain write was applied twice.
    Repeated,
    /// A write was never applied, and its outcome is unknown.
    Lost,
    /// A write was applied, and its outcome is unknown.
    Unanswered,
    /// A write has an unknown outcome, and a later call applies it.
    Late,
    /// A write with an unknown outcome was applied late, at the start of a later call.
    Arrived,
    /// Some partitions of one [`Each`](crate::Atomicity::Each) write are applied, a later call applies some,
    /// and some are lost.
    Scattered,
    /// A conditional write is decided, but its outcome is unknown to the caller. Reads that are not serial
    /// miss the write until it is learned.
    Decided,
    /// A conditional write that was decided earlier became visible to all reads.
    Learned,
    /// The values that conditional writes set in a row survive the emptying of the table. They come back at a
    /// later moment, if no other value was decided meanwhile.
    Revived,
    /// A read timed out.
    ReadTimedOut,
}

/// Rates of faults: the probability of each fault per call, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRates {
    /// Rate of [`FaultKind::Failed`] for reads and writes: the call fails before it is sent.
    pub fail: f64,
    /// Rate of [`FaultKind::Delayed`] for reads and writes: the call waits before it is sent.
    pub delay: f64,
    /// Maximum duration of a delay.
    pub max_delay: Duration,
    /// Rate of [`FaultKind::Repeated`]: a plain write is applied twice.
    pub repeat: f64,
    /// Rate of [`FaultKind::Lost`]: a write is never applied, and its outcome is unknown.
    pub lose: f64,
    /// Rate of [`FaultKind::Unanswered`]: a write is applied, and its outcome is unknown.
    pub unanswered: f64,
    /// Rate of [`FaultKind::Late`]: a write has an unknown outcome and is applied later. For writes of
    /// several partitions without a common atomicity, it is the rate of [`FaultKind::Scattered`].
    pub late: f64,
    /// Probability, at each call, that one late write is applied. Also the probability that one decided
    /// conditional write becomes visible to all reads.
    pub arrive: f64,
    /// Rate of [`FaultKind::Decided`]: reads that are not serial miss a conditional write at first.
    pub decide: f64,
    /// Rate of [`FaultKind::Revived`]: at each emptying, for each row that conditional writes set.
    pub revive: f64,
    /// Rate of [`FaultKind::ReadTimedOut`]: a read times out.
    pub read_timeout: f64,
}

impl FaultRates {
    /// All rates are 0, so that no faults occur.
    pub const NONE: Self = Self::all(0.0);

    /// Returns rates in which every fault has the probability `rate`, and delays do not occur. `rate` should
    /// be at most 0.15, because one write can have up to five faults, whose probabilities add up.
    pub const fn all(rate: f64) -> Self {
        Self {
            fail: rate,
            delay: 0.0,
            max_delay: Duration::from_millis(5),
            repeat: rate,
            lose: rate,
            unanswered: rate,
            late: rate,
            arrive: rate,
            decide: rate,
            revive: rate,
            read_timeout: rate,
        }
    }
}

/// Fault that occurred in a call, for the report of a failed test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Index of the call among all calls of the wrapper, from 1.
    pub call: u64,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Description of the call and its table.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: {:?}: {}", self.call, self.kind, self.what)
    }
}

/// Fault that was chosen for one call. `Normal`: no fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Normal,
    Fail,
    Repeat,
    Lose,
    Unanswered,
    Late,
    Decide,
}

/// Seeded chooser of faults, which also records them.
pub(super) struct Plan {
    pub(super) rates: FaultRates,
    random: Random,
    calls: u64,
    counts: BTreeMap<FaultKind, u64>,
    recorded: VecDeque<Fault>,
}

impl Plan {
    pub(super) fn new(seed: u64, rates: FaultRates) -> Self {
        Self {
            rates,
            random: Random::new(seed),
            calls: 0,
            counts: BTreeMap::new(),
            recorded: VecDeque::new(),
        }
    }

    pub(super) fn begin_call(&mut self) {
        self.calls += 1;
    }

    pub(super) fn record(&mut self, kind: FaultKind, what: &str) {
        *self.counts.entry(kind).or_default() += 1;
        if self.recorded.len() == MAX_RECORDED_FAULTS {
            self.recorded.pop_front();
        }
        self.recorded.push_back(Fault {
            call: self.calls,
            kind,
            what: what.to_owned(),
        });
    }

    pub(super) fn counts(&self) -> BTreeMap<FaultKind, u64> {
        self.counts.clone()
    }

    pub(super) fn recorded(&self) -> Vec<Fault> {
        self.recorded.iter().cloned().collect()
    }

    pub(super) fn chance(&mut self, rate: f64) -> bool {
        self.random.chance(rate)
    }

    /// Returns a random index below `end`, which must not be 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    pub(super) fn delay(&mut self) -> Option<Duration> {
        let fraction = self.random.below(1000) as f64 / 1000.0;
        self.random
            .chance(self.rates.delay)
            .then(|| self.rates.max_delay.mul_f64(fraction))
    }

    /// Chooses the fault of a write with one random number, so that the rates of all faults add up.
    pub(super) fn fate(&mut self, conditional: bool) -> Fate {
        let rates = self.rates;
        let fates = [
            (Fate::Fail, rates.fail),
            (Fate::Lose, rates.lose),
            (Fate::Unanswered, rates.unanswered),
            (Fate::Late, rates.late),
            if conditional {
                (Fate::Decide, rates.decide)
            } else {
                (Fate::Repeat, rates.repeat)
            },
        ];
        let mut drawn = self.random.below(1 << 20) as f64 / f64::from(1 << 20);
        for (fate, rate) in fates {
            if drawn < rate {
                return fate;
            }
            drawn -= rate;
        }
        Fate::Normal
    }
}
