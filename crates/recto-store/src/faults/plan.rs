//! Which faults there are, how often they happen, and the record of those that did.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::random::Random;

/// Faults kept in the record; older ones are only counted.
pub const MAX_RECORDED_FAULTS: usize = 10_000;

/// A fault that was injected into one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The call failed before anything was sent.
    Failed,
    /// The call waited before it was sent.
    Delayed,
    /// A plain write was applied twice.
    Repeated,
    /// A write was never applied, and its outcome is unknown.
    Lost,
    /// A write was applied, and its outcome is unknown.
    Unanswered,
    /// A write is applied at some later moment, and its outcome is unknown.
    Late,
    /// A write that was late is applied now.
    Arrived,
    /// Of the partitions of one [`Each`](crate::Atomicity::Each) some are applied, some are late, some are lost.
    Scattered,
    /// A conditional write is decided, its outcome is unknown, and reads that are not serial miss
    /// it until it is learned.
    Decided,
    /// A decided conditional write is learned now.
    Learned,
    /// What conditional writes had set in a row of a table outlives the table's emptying, and is there again at some
    /// later moment, if nothing was decided in its place.
    Revived,
    /// A read timed out.
    ReadTimedOut,
}

/// How often each fault happens: the probability per call, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRates {
    /// [`FaultKind::Failed`], for reads and writes.
    pub fail: f64,
    /// [`FaultKind::Delayed`], for reads and writes.
    pub delay: f64,
    /// The longest such delay.
    pub max_delay: Duration,
    /// [`FaultKind::Repeated`].
    pub repeat: f64,
    /// [`FaultKind::Lost`].
    pub lose: f64,
    /// [`FaultKind::Unanswered`].
    pub unanswered: f64,
    /// [`FaultKind::Late`]; for writes of several partitions each for itself
    /// [`FaultKind::Scattered`].
    pub late: f64,
    /// At each call, the probability that one late write arrives and one decided one is learned.
    pub arrive: f64,
    /// [`FaultKind::Decided`], conditional writes only.
    pub decide: f64,
    /// At each emptying, for each row that conditional writes set: [`FaultKind::Revived`].
    pub revive: f64,
    /// [`FaultKind::ReadTimedOut`].
    pub read_timeout: f64,
}

impl FaultRates {
    /// No faults.
    pub const NONE: Self = Self::all(0.0);

    /// Every fault with the probability `rate`, without delays. A write has up to five fates
    /// beside success, so `rate` should be at most 0.15.
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

/// A fault that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The number of the call it happened in, from 1.
    pub call: u64,
    /// What happened.
    pub kind: FaultKind,
    /// To what: the call and the table.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: {:?}: {}", self.call, self.kind, self.what)
    }
}

/// What becomes of one write.
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

/// Draws faults and records them.
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

    /// An index below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    pub(super) fn delay(&mut self) -> Option<Duration> {
        let fraction = self.random.below(1000) as f64 / 1000.0;
        self.random
            .chance(self.rates.delay)
            .then(|| self.rates.max_delay.mul_f64(fraction))
    }

    /// What becomes of a write; one draw, so that the rates add up.
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
