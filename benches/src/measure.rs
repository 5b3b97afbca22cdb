//! Measurement in interleaved rounds, and medians of the rounds. Changes of the machine's speed
//! affect all contenders (compared programs) alike.

use std::time::{Duration, Instant};

/// Compared program: work that is measured in turn with the work of other contenders.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    /// Executes the work once. Returns the number of processed units, such as pages.
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

/// Measured times of one contender (compared program).
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// For each round, the time per unit of work in microseconds.
    pub(crate) micros: Vec<f64>,
}

impl Measured {
    /// Returns the median time of all rounds, in microseconds per unit.
    pub(crate) fn median(&self) -> f64 {
        median(self.micros.clone())
    }

    /// Returns the time as a multiple of the time of `other`: the median over the rounds of the
    /// ratio in a round.
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

/// Runs every contender once without measuring, and then `rounds` times in turn. Returns the times
/// of each contender, in the given order.
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
            // Rotate the order in each round, so that no contender always runs first.
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

/// Returns the median of some values, or NaN without values.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// Returns a quantile: the value below which the fraction `part` of the values is. NaN if there are
/// no values.
pub(crate) fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    // Sort by the bits, because `f64` does not implement `Ord`. Non-negative floats sort like their
    // bits.
    values.sort_by_key(|value| value.to_bits());
    values[((values.len() - 1) as f64 * part).round() as usize]
}

/// Converts a duration to microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
