//! The arithmetic beside exact sums, and beside buckets that were drawn.

use bigdecimal::{BigDecimal, ToPrimitive};
use num_bigint::BigInt;

use crate::sizing::{MAX_EPSILON, MIN_EPSILON, MIN_TARGET_BYTES, RowsPerBucket, Sizing, SizingError};

/// Relative errors that are taken.
const NEAR: f64 = 1e-9;

fn assert_near(seen: f64, exact: f64) {
    assert!(
        (seen - exact).abs() <= NEAR * exact,
        "{seen:e}, and exactly {exact:e}"
    );
}

/// Chances of how many of `rows` rows are sampled of which each is the `of`th: whole numbers, of `of`^`rows`.
struct Exact {
    ways: Vec<BigInt>,
    all: BigInt,
}

impl Exact {
    fn new(rows: u32, of: u32) -> Self {
        let others: Vec<BigInt> = powers(of - 1, rows);
        let mut binomial = BigInt::from(1);
        let mut ways = Vec::new();
        for sampled in 0..=rows {
            ways.push(&binomial * &others[(rows - sampled) as usize]);
            binomial = binomial * (rows - sampled) / (sampled + 1);
        }
        Self {
            ways,
            all: powers(of, rows).pop().unwrap(),
        }
    }

    fn chance(&self, sampled: std::ops::Range<usize>) -> f64 {
        let ways: BigInt = self.ways[sampled].iter().sum();
        let share = BigDecimal::from(ways).with_prec(40) / BigDecimal::from(self.all.clone()).with_prec(40);
        share.to_f64().unwrap()
    }
}

fn powers(base: u32, most: u32) -> Vec<BigInt> {
    std::iter::successors(Some(BigInt::from(1)), |power| Some(power * base))
        .take(most as usize + 1)
        .collect()
}

#[test]
fn tails_are_exact_sums_as_far_as_they_reach() {
    for (samples, of, rows) in [
        (1, 2, 30),
        (2, 8, 9),
        (16, 32, 100),
        (16, 32, 2_000),
        (40, 64, 41),
        (40, 64, 3_000),
    ] {
        let exact = Exact::new(rows, of);
        let buckets = RowsPerBucket::new(samples, 1.0 / f64::from(of)).unwrap();
        let samples = samples as usize;
        assert_near(buckets.more_than(rows.into()), exact.chance(0..samples));
        assert_near(
            buckets.fewer_than(u64::from(rows) + 1),
            exact.chance(samples..rows as usize + 1),
        );
        let one_more = buckets.more_than(u64::from(rows) - 1) - buckets.more_than(rows.into());
        assert!((buckets.exactly(rows.into()) - one_more).abs() < 1e-12);
    }
}

#[test]
fn the_numbers_of_article_004_are_what_is_said_of_them() {
    let buckets = RowsPerBucket::new(40, 1.0 / 512.0).unwrap();
    assert_eq!(buckets.mean().round(), 20_480.0);
    assert_eq!(buckets.deviation().round(), 3_235.0);
    let outside = |least, most| buckets.fewer_than(least) + buckets.more_than(most);
    assert_eq!(format!("{:.2e}", outside(4_200, 58_000)), "1.92e-15");
    assert_eq!(format!("{:.2e}", outside(12_000, 32_000)), "2.09e-3");
    assert_eq!(format!("{:.2e}", buckets.fewer_than(12_000)), "1.13e-3");
    assert_eq!(format!("{:.2e}", buckets.more_than(32_000)), "9.60e-4");
    assert_eq!(format!("{:.5}", buckets.more_than(20_000)), "0.53846");
}

/// P(Gamma(k, 1) > x) for whole k: that fewer than k events of a Poisson process are seen until x.
fn gamma_tail(samples: u32, x: f64) -> f64 {
    let terms = (0..samples).scan((-x).exp(), |term, event| {
        let now = *term;
        *term *= x / f64::from(event + 1);
        Some(now)
    });
    terms.sum()
}

#[test]
fn a_bucket_is_larger_than_its_target_with_the_chance_that_was_asked_for() {
    for epsilon in [MIN_EPSILON, 1e-12, 1e-9, 1e-6, 1e-3, MAX_EPSILON] {
        let sizing = Sizing::new(100_000_000, 100, epsilon).unwrap();
        let quantile = (100_000_000.0 - 100.0) / sizing.bytes_per_sample();
        assert_near(gamma_tail(sizing.samples(), quantile), epsilon);
        // Rows that are small beside B are as bytes.
        let more = sizing.rows(100).unwrap().more_than(1_000_000);
        assert!(
            more <= epsilon && more > 0.9 * epsilon,
            "{more:e} for {epsilon:e}"
        );
        assert!(sizing.mean_bytes() >= 0.374 * 100e6);
    }
}

#[test]
fn the_usual_chances_take_few_samples() {
    let samples = |epsilon| Sizing::new(10_000_000, 1_000, epsilon).unwrap().samples();
    assert_eq!([1e-3, 1e-6, 1e-9, 1e-15].map(samples), [7, 16, 26, 46]);
}

#[test]
fn larger_rows_make_smaller_buckets_and_never_larger_ones() {
    for row in [10, 1_000, 50_000, 200_000] {
        let sizing = Sizing::new(10_000_000, row, 1e-6).unwrap();
        let rows = sizing.rows(row).unwrap();
        assert!(rows.more_than(10_000_000 / row) <= 1e-6, "rows of {row} bytes");
    }
}

#[test]
fn a_quantile_is_where_the_chance_is_reached() {
    let buckets = RowsPerBucket::new(16, 1.0 / 235.0).unwrap();
    for share in [0.0, 1e-6, 0.001, 0.5, 0.999, 0.999_999] {
        let rows = buckets.quantile(share);
        assert!(1.0 - buckets.more_than(rows) >= share, "{share}");
        assert!(rows == 16 || 1.0 - buckets.more_than(rows - 1) < share, "{share}");
    }
    let every = RowsPerBucket::new(16, 1.0).unwrap();
    assert_eq!(
        (every.quantile(0.5), every.mean(), every.deviation()),
        (16, 16.0, 0.0)
    );
    assert_eq!(
        (every.exactly(16), every.exactly(17), every.exactly(15)),
        (1.0, 0.0, 0.0)
    );
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let small = Sizing::new(MIN_TARGET_BYTES - 1, 10, 1e-6);
    assert_eq!(
        small,
        Err(SizingError::Target {
            said: MIN_TARGET_BYTES - 1
        })
    );
    for epsilon in [0.0, 1e-16, 0.5, 1.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            Sizing::new(10_000_000, 10, epsilon),
            Err(SizingError::Epsilon { .. })
        ));
    }
    for samples in [0, 1_025] {
        assert_eq!(
            Sizing::with_samples(10_000_000, 10, 1e-6, samples),
            Err(SizingError::Samples { said: samples })
        );
    }
    for chance in [0.0, -0.5, 1.5, f64::NAN] {
        assert!(matches!(
            RowsPerBucket::new(40, chance),
            Err(SizingError::Chance { .. })
        ));
    }
    let Err(SizingError::Row { least, .. }) = Sizing::new(10_000_000, 300_000, 1e-6) else {
        panic!("rows that are too large");
    };
    assert!(Sizing::new(least, 300_000, 1e-6).is_ok());
    assert!(Sizing::new(least - 1, 300_000, 1e-6).is_err());
}
