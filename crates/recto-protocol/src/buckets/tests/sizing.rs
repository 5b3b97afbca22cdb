//! Tests of bucket sizes. Compares the computed chances with exact sums, and with simulated
//! buckets.

use bigdecimal::ToPrimitive;
use num_bigint::BigInt;

use crate::buckets::sizing::{
    MAX_EPSILON, MAX_SAMPLES, MAX_TARGET_BYTES, MIN_CHANCE, MIN_EPSILON, MIN_TARGET_BYTES, RowsPerBucket,
    Sizing, SizingError,
};

/// Maximum relative error of a computed chance.
const NEAR: f64 = 1e-9;

fn assert_near(seen: f64, exact: f64) {
    assert!(
        (seen - exact).abs() <= NEAR * exact,
        "{seen:e}, and exactly {exact:e}"
    );
}

/// Counts the cases of sampling `rows` rows, each with the chance 1/`of`. Returns the number
/// of the `of`^`rows` equally likely cases that sample fewer than `samples` rows, and the number of those
/// that sample at least `samples` rows.
fn cases(rows: u32, samples: u32, of: u32) -> (BigInt, BigInt) {
    let mut ways = BigInt::from(of - 1).pow(rows);
    let mut fewer = BigInt::from(0);
    for sampled in 0..samples.min(rows + 1) {
        fewer += &ways;
        ways = ways * (rows - sampled) / ((sampled + 1) * (of - 1));
    }
    let as_many = BigInt::from(of).pow(rows) - &fewer;
    (fewer, as_many)
}

/// Returns the share of `these` in `these` + `others`, with full floating-point precision.
fn share(these: &BigInt, others: &BigInt) -> f64 {
    let all = these + others;
    let digits = i32::try_from(64 + all.bits() - these.bits()).unwrap();
    let scaled: BigInt = (these << digits) / all;
    // Scale in two steps, because the whole power of 2 may be too small for floating point.
    scaled.to_f64().unwrap() * 2f64.powi(-digits / 2) * 2f64.powi(digits / 2 - digits)
}

#[test]
fn tails_are_exact_sums_as_far_as_they_reach() {
    for (samples, of, rows) in [
        (1, 2, 30),
        (2, 8, 9),
        (3, 7, 100),
        (16, 32, 100),
        (16, 32, 2_000),
        (40, 64, 41),
        (40, 64, 3_000),
        // Chances that floating point cannot represent exactly.
        (16, 999, 3_000),
        (16, 10_007, 500_000),
        (5, 1_000_003, 200),
        // Cases far beyond real ones, with chances of 1e-227, 1e-75, 1e-213 and 1e-274.
        (1_024, 64, 20_000),
        (1_024, 64, 110_000),
        (1_024, 2, 1_100),
        (40, 512, 400_000),
    ] {
        let (fewer, as_many) = cases(rows, samples, of);
        let buckets = RowsPerBucket::new(samples, 1.0 / f64::from(of)).unwrap();
        assert_near(buckets.more_than(rows.into()), share(&fewer, &as_many));
        assert_near(buckets.fewer_than(u64::from(rows) + 1), share(&as_many, &fewer));
        // The last row of a bucket is always sampled: it is the sample at which the bucket is
        // split.
        let last = cases(rows - 1, samples, of).0 * of - &fewer;
        let exactly = share(&last, &(fewer + as_many - &last));
        assert_near(buckets.exactly(rows.into()), exactly);
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
    for rows in [4_199, 11_999, 20_000, 32_000, 58_000] {
        let (fewer, as_many) = cases(rows, 40, 512);
        assert_near(buckets.more_than(rows.into()), share(&fewer, &as_many));
        assert_near(buckets.fewer_than(u64::from(rows) + 1), share(&as_many, &fewer));
    }
}

/// Returns P(Gamma(k, 1) > x) for k = `samples`: the chance that a Poisson process has fewer than k
/// events until x. Sums the terms from the last, which is the largest, downward.
fn gamma_tail(samples: u32, x: f64) -> f64 {
    let last: f64 = (1..samples).map(|event| (x / f64::from(event)).ln()).sum();
    let shares = (1..samples).rev().scan(1.0, |term, event| {
        *term *= f64::from(event) / x;
        Some(*term)
    });
    (last - x).exp() * (1.0 + shares.sum::<f64>())
}

#[test]
fn exceeds_the_target_with_the_given_probability() {
    for epsilon in [MIN_EPSILON, 1e-12, 1e-9, 1e-6, 1e-3, MAX_EPSILON] {
        let sizing = Sizing::new(100_000_000, 100, epsilon).unwrap();
        let quantile = (100_000_000.0 - 100.0) / sizing.bytes_per_sample();
        assert_near(gamma_tail(sizing.samples(), quantile), epsilon);
        for samples in [1, 2, 3, 300, MAX_SAMPLES] {
            let sizing = Sizing::with_samples(1 << 30, 100, epsilon, samples).unwrap();
            let quantile = f64::from((1 << 30) - 100) / sizing.bytes_per_sample();
            assert_near(gamma_tail(samples, quantile), epsilon);
        }
        // Small rows, compared with the target size, behave like single bytes, so the chance is
        // close to `epsilon`.
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
fn rejects_and_names_invalid_parameters() {
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
    for chance in [0.0, -0.5, 1.5, MIN_CHANCE / 2.0, f64::NAN] {
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
    // Every valid sizing has a distribution of rows, even the one with the smallest chance to
    // sample a row.
    let fewest = Sizing::with_samples(MAX_TARGET_BYTES, 0, MAX_EPSILON, 1).unwrap();
    assert!(fewest.rows(1).is_ok());
}
