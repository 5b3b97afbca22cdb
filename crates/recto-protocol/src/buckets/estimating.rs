//! Estimated number of rows of many ranges, from the content of a few of them.
//!
//! The content of each range was recorded when the range was split off, and there are sums of these records. Rows were
//! added and removed since. So some ranges are drawn at random, and the total of the records is corrected by the error
//! of the drawn ranges. The cost does not depend on the number of ranges.

use crate::buckets::directory::Figures;

/// Error of one additional drawn range that the estimate assumes, as a multiple of the mean content of a range. If `n`
/// drawn ranges are as recorded, the others need not be: with a chance of 5 in 100, three of `n` other ranges are not.
const UNSEEN: f64 = 1.5;

/// Error of the record of a drawn range.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Drawn {
    /// Number of rows beyond the record, for each range from which this one was drawn.
    pub rows: f64,
    /// Variance of the number of rows beyond the record, for each range from which this one was drawn.
    pub variance: f64,
}

/// Adjacent ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Several {
    /// Number of ranges.
    pub pieces: u64,
    /// Total of their records.
    pub recorded: Figures,
}

impl Drawn {
    /// Returns the error of the record of one range, given the record and the content.
    pub fn one(recorded: Figures, found: Figures) -> Self {
        let one = Several { pieces: 1, recorded };
        Self::of(one, one, recorded, found)
    }

    /// Returns the error of one range that was drawn from ranges with a stored sum. `summed` are these ranges as they
    /// were summed up, and `now` are these ranges by their current records.
    pub fn of(summed: Several, now: Several, recorded: Figures, found: Figures) -> Self {
        let off = |summed_up: u64, now_recorded: u64, recorded: u64, found: u64| {
            let of_all = now.pieces as f64 * (found as f64 - recorded as f64);
            (now_recorded as f64 - summed_up as f64 + of_all) / summed.pieces.max(1) as f64
        };
        Self {
            rows: off(summed.recorded.rows, now.recorded.rows, recorded.rows, found.rows),
            variance: off(
                summed.recorded.rows_variance,
                now.recorded.rows_variance,
                recorded.rows_variance,
                found.rows_variance,
            ),
        }
    }
}

/// Returns the estimated number of rows of ranges from which `drawn` were drawn, each with the same chance.
/// `are_distinct`: no range was drawn twice.
pub fn corrected(all: Several, drawn: &[Drawn], are_distinct: bool) -> Figures {
    let recorded = (all.recorded.rows as f64, all.recorded.rows_variance as f64);
    if all.pieces == 0 {
        return Figures::default();
    }
    let (pieces, count) = (all.pieces as f64, drawn.len().max(1) as f64);
    let mean = |of: fn(&Drawn) -> f64| drawn.iter().map(of).sum::<f64>() / count;
    let off = mean(|drawn| drawn.rows);
    let rows = (recorded.0 + pieces * off).max(0.0);
    let unseen = UNSEEN * rows.max(recorded.0) / pieces;
    let squares = drawn.iter().map(|drawn| (drawn.rows - off).powi(2));
    let spread = (squares.sum::<f64>() + unseen * unseen) / count;
    let left_out = if are_distinct {
        (1.0 - count / pieces).max(0.0)
    } else {
        1.0
    };
    let of_draws = pieces * pieces * spread / count * left_out;
    // The drawn ranges may correct the recorded variance downward, even below zero, so the result
    // is at least half the recorded variance.
    let of_samples = (recorded.1 + pieces * mean(|drawn| drawn.variance)).max(recorded.1 / 2.0);
    Figures {
        rows: whole(rows),
        rows_variance: whole(of_draws + of_samples),
        ..Figures::default()
    }
}

#[expect(clippy::cast_sign_loss, reason = "it is not negative")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
