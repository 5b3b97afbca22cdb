//! Estimate of the number of rows in many key ranges, from the content of a few ranges.
//!
//! The store records the estimated content of each range when the range is split off, and sums of
//! these records. Later writes make the records inaccurate. The estimate therefore reads some
//! randomly chosen ranges, and corrects the recorded total by their errors. The cost does not
//! depend on the number of ranges.

use crate::buckets::directory::Figures;

/// Error of one additional, imagined range, as a multiple of the mean content of a range. The
/// estimate adds it because ranges that were not checked may have errors even if all `n` checked
/// ranges have none. At 5 % risk, up to three of `n` ranges may be wrong.
const UNSEEN: f64 = 1.5;

/// Error of the recorded content of a randomly chosen range, divided by the number of ranges from
/// which it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Drawn {
    /// Rows that the record lacks, per range of the sum (negative: the record has too many rows).
    pub rows: f64,
    /// Correction of the recorded variance of the number of rows, per range of the sum.
    pub variance: f64,
}

/// Count of adjacent key ranges, with the sum of their recorded contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Several {
    /// Number of ranges.
    pub pieces: u64,
    /// Sum of the recorded numbers of rows and bytes.
    pub recorded: Figures,
}

impl Drawn {
    /// Returns the error of the record of one range, given the recorded content and the content
    /// that was found.
    pub fn one(recorded: Figures, found: Figures) -> Self {
        let one = Several { pieces: 1, recorded };
        Self::of(one, one, recorded, found)
    }

    /// Returns the error of one range that was chosen from ranges with a stored sum. `summed`
    /// describes these ranges when the sum was stored, and `now` describes them by their current
    /// records. `recorded` is the record of the chosen range, and `found` is its content.
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

/// Returns the estimated number of rows in the ranges `all`. `drawn` has the errors of ranges that
/// were chosen from `all` at random, each with the same chance. `are_distinct` is true if no range
/// was chosen twice.
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
    // The corrected variance may be too small, or even negative. So use at least half the recorded
    // variance.
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
