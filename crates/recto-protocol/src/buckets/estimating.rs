//! How many rows many pieces have together, when a few of them are looked at.
//!
//! What each piece held when it was cut off is recorded, with sums of that; rows came and went since. So some pieces are drawn, and
//! what is recorded of all of them is corrected by how far it is off in those: that costs the same however many there are.

use crate::buckets::directory::Figures;

/// It is reckoned as if one piece more had been drawn, of which so many times what a piece holds in the mean is not as it is recorded. Of
/// `n` pieces that are as they are recorded it does not follow that all are: with a chance of 5 in 100 three of `n` others are not.
const UNSEEN: f64 = 1.5;

/// By how much a drawn piece is off.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Drawn {
    /// How many more rows there are than is recorded, for each piece that it was drawn from.
    pub rows: f64,
    /// The same of their variance.
    pub variance: f64,
}

/// Pieces beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Several {
    /// How many.
    pub pieces: u64,
    /// What is recorded of them.
    pub recorded: Figures,
}

impl Drawn {
    /// One piece, as it is recorded and as it is.
    pub fn one(recorded: Figures, found: Figures) -> Self {
        let one = Several { pieces: 1, recorded };
        Self::of(one, one, recorded, found)
    }

    /// One of several pieces that were summed up, and are these by now.
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

/// How many rows pieces have of which these were drawn, each with the same chance. `are_distinct`: none of them twice.
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
    // What is left of a sum of variances is not less than nothing, whatever was drawn.
    let of_samples = (recorded.1 + pieces * mean(|drawn| drawn.variance)).max(recorded.1 / 2.0);
    Figures {
        rows: whole(rows),
        rows_variance: whole(of_draws + of_samples),
        ..Figures::default()
    }
}

#[expect(clippy::cast_sign_loss, reason = "it is no less than 0")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
