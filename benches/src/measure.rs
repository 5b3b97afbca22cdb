//! Interleaved rounds and their medians, so that a machine whose speed drifts drifts for everyone.

use std::time::{Duration, Instant};

/// Measured in turn with others.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    /// Does its work once; how many units of it.
    pub(crate) work: Box<dyn FnMut() -> usize + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(name: &'static str, work: impl FnMut() -> usize + 'a) -> Self {
        Self {
            name,
            work: Box::new(work),
        }
    }
}

/// What a contender took.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Microseconds a unit, round by round.
    pub(crate) micros: Vec<f64>,
}

impl Measured {
    /// The median of all rounds.
    pub(crate) fn median(&self) -> f64 {
        median(self.micros.clone())
    }

    /// How many times as long it took as `other`: the median of the ratios of each round.
    pub(crate) fn over(&self, other: &Self) -> f64 {
        median(
            self.micros
                .iter()
                .zip(&other.micros)
                .map(|(one, other)| one / other)
                .collect(),
        )
    }
}

/// Lets every contender work once unmeasured and then `rounds` times, one after the other.
pub(crate) fn interleaved(contenders: &mut [Contender<'_>], rounds: usize) -> Vec<Measured> {
    let mut measured: Vec<Measured> = contenders
        .iter_mut()
        .map(|contender| {
            (contender.work)();
            Measured { micros: Vec::new() }
        })
        .collect();
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            // Whoever is first in one round is last in the next.
            let index = (turn + round) % contenders.len();
            let started = Instant::now();
            let units = (contenders[index].work)();
            assert!(units > 0, "{} did nothing", contenders[index].name);
            measured[index]
                .micros
                .push(started.elapsed().as_secs_f64() * 1e6 / units as f64);
        }
    }
    measured
}

/// The middle of some values; not a number if there are none.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value that a part of them lies below.
pub(crate) fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    // The bits of floats that are not negative have the floats' order.
    values.sort_by_key(|value| value.to_bits());
    values[((values.len() - 1) as f64 * part).round() as usize]
}

/// Microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
