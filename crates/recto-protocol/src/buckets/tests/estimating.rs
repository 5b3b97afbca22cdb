//! Tests of the estimated number of rows, which is corrected by a few checked ranges.

use crate::buckets::estimating::Several;
use crate::buckets::{Drawn, Figures, corrected};

/// Deterministic pseudorandom numbers from 0 to 1.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[expect(clippy::cast_sign_loss, reason = "it is no less than 0")]
    fn below(&mut self, most: usize) -> usize {
        (self.next() * most as f64) as usize
    }
}

const ROUNDS: usize = 2_000;
const DRAWN: usize = 64;

#[expect(clippy::cast_sign_loss, reason = "rows are not less than none")]
fn rows(rows: f64) -> Figures {
    Figures {
        rows: rows.round() as u64,
        ..Figures::default()
    }
}

/// Returns in how many of 100 estimates the error interval contains the true number of rows. Each
/// range is given by its recorded and its present number of rows.
fn covered(pieces: &[(f64, f64)], are_distinct: bool) -> f64 {
    let mut draws = Draws(0x9E37_79B9_7F4A_7C15);
    let of = |of: fn(&(f64, f64)) -> f64| pieces.iter().map(|piece| of(piece).round()).sum::<f64>();
    let (recorded, now) = (of(|piece| piece.0), of(|piece| piece.1));
    let all = Several {
        pieces: pieces.len() as u64,
        recorded: rows(recorded),
    };
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    let holds = |_: &usize| {
        let drawn: Vec<Drawn> = (0..DRAWN.min(pieces.len()))
            .map(|count| {
                let from = if are_distinct { count } else { 0 };
                let at = from + draws.below(order.len() - from);
                order.swap(from, at);
                let piece = pieces[order[from]];
                Drawn::one(rows(piece.0), rows(piece.1))
            })
            .collect();
        let figures = corrected(all, &drawn, are_distinct);
        (figures.rows as f64 - now).abs() <= figures.rows_error() as f64
    };
    let held = (0..ROUNDS).filter(holds).count();
    held as f64 * 100.0 / ROUNDS as f64
}

#[test]
fn intervals_cover_changes_since_the_last_record() {
    let mut draws = Draws(7);
    let mut of = |count: usize, now: &mut dyn FnMut(f64, f64) -> f64| -> Vec<(f64, f64)> {
        let piece = |_| {
            let recorded = 500.0 + 500.0 * draws.next();
            (recorded, now(recorded, draws.next()))
        };
        (0..count).map(piece).collect()
    };
    let mut shapes: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for count in [70, 250, 5_000] {
        shapes.push((format!("{count} as recorded"), of(count, &mut |was, _| was)));
        shapes.push((
            format!("{count} that grew"),
            of(count, &mut |was, drawn| was + 700.0 * drawn),
        ));
        shapes.push((format!("{count} not recorded"), {
            let mut pieces = of(count, &mut |was, _| was);
            for piece in &mut pieces {
                piece.0 = 0.0;
            }
            pieces
        }));
        for gone in [0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.3, 0.9] {
            let now = &mut |was, drawn| if drawn < gone { 0.0 } else { was };
            shapes.push((format!("{count}, {gone} of them deleted"), of(count, now)));
        }
    }
    for (shape, pieces) in shapes {
        for are_distinct in [true, false] {
            let covered = covered(&pieces, are_distinct);
            assert!(
                covered >= 93.0,
                "{shape}, distinct: {are_distinct}: {covered} of 100"
            );
        }
    }
}

#[test]
fn all_that_is_looked_at_is_as_it_is_found() {
    let pieces: Vec<_> = (0..20)
        .map(|piece| (rows(10.0), rows(f64::from(piece))))
        .collect();
    let all = Several {
        pieces: 20,
        recorded: rows(200.0),
    };
    let drawn: Vec<_> = pieces.iter().map(|(was, now)| Drawn::one(*was, *now)).collect();
    assert_eq!(corrected(all, &drawn, true), rows(190.0));
    assert_eq!(
        corrected(Several::default(), &[], true),
        Figures::default(),
        "of nothing"
    );
    let blind = corrected(all, &[], true);
    assert!(blind.rows == 200 && blind.rows_error() >= 200, "{blind:?}");
}

#[test]
fn extrapolates_splits_since_the_last_sum() {
    let several = |pieces, of| Several {
        pieces,
        recorded: rows(of),
    };
    // After the sum was stored, two ranges of 50 rows each were split into four ranges of 40 recorded rows
    // each. Each of the four ranges now contains 45 rows.
    let drawn = Drawn::of(several(2, 100.0), several(4, 160.0), rows(40.0), rows(45.0));
    let all = several(20, 1_000.0);
    let figures = corrected(all, &[drawn; 64], false);
    assert_eq!(figures.rows, 1_800);
}
