//! Histograms for metrics, which count values without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the ranges in histograms of durations, in seconds.
pub(crate) const SECONDS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// Upper bounds of the ranges in histograms of rows read per row returned.
pub(crate) const ROWS_PER_ROW: &[f64] = &[1.0, 1.1, 1.5, 2.0, 5.0, 10.0, 100.0, 1_000.0, 10_000.0];
/// Number of units in a sum per 1. Sums are integers in millionths, because atomic counters are
/// integers.
const SUM_SCALE: f64 = 1e6;

/// Histogram for metrics: the number of values in each range, and the sum of all values.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// Number of values in each range. The last element, beyond those of `bounds`, counts values
    /// above all bounds.
    counts: Vec<AtomicU64>,
    sum_millionths: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_millionths: AtomicU64::new(0),
        }
    }

    /// Counts a value, which must not be negative.
    #[allow(clippy::cast_sign_loss)] // values are times and ratios, which are not negative
    pub(crate) fn observe(&self, value: f64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        let millionths = (value * SUM_SCALE) as u64;
        self.sum_millionths.fetch_add(millionths, Ordering::Relaxed);
    }

    /// Returns each bound with the number of values up to the bound. The last entry has no bound,
    /// and the number of all values.
    pub(crate) fn cumulative(&self) -> Vec<(Option<f64>, u64)> {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let mut total = 0;
        bounds
            .zip(&self.counts)
            .map(|(bound, count)| {
                total += count.load(Ordering::Relaxed);
                (bound, total)
            })
            .collect()
    }

    pub(crate) fn sum(&self) -> f64 {
        self.sum_millionths.load(Ordering::Relaxed) as f64 / SUM_SCALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_bound_are_below_it() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 2.0, 2.1] {
            histogram.observe(value);
        }
        assert_eq!(
            histogram.cumulative(),
            [(Some(1.0), 2), (Some(2.0), 4), (None, 5)]
        );
        assert!((histogram.sum() - 7.1).abs() < 1e-9);
    }
}
