//! Tests of estimates from samples. Checks that the estimates are unbiased, and that error
//! intervals contain the true value, for rows of very different sizes and with deletions.

use super::{SAMPLING, usually};
use crate::buckets::sampling::hash;
use crate::buckets::sizing::counted_bytes;
use crate::buckets::{Sample, Sampling};

/// Sizes of the cells of a row, in bytes. Half of the rows are small, and half are large.
const CELLS_BYTES: [u64; 2] = [20, 2_000];

/// Returns a bucket with `rows` rows: its samples, and its true number and bytes of rows. If `gone`
/// is not 0, one of `gone` rows is deleted.
fn bucket(sampling: Sampling, number: u64, rows: u64, gone: u64) -> (Vec<Sample>, f64, f64) {
    let (mut samples, mut count, mut bytes) = (Vec::new(), 0.0, 0.0);
    for row in 0..rows {
        let key = [number.to_be_bytes(), row.to_be_bytes()].concat();
        let of_row = counted_bytes(CELLS_BYTES[usize::from(row % 2 == 1)]);
        let is_gone = gone > 0 && (row / 2) % gone == 0;
        let hash = hash(&key);
        if sampling.is_sampled(hash, of_row) {
            assert!(sampling.marks_gone(hash), "who deletes it marks it");
            samples.push(Sample {
                key,
                bytes: of_row,
                is_gone,
            });
        }
        if !is_gone {
            count += 1.0;
            bytes += of_row as f64;
        }
    }
    (samples, count, bytes)
}

/// Returns two values for rows, and two for bytes: the mean error of the estimates as a fraction of
/// the true value, and the share of buckets whose error interval contains the true value.
fn seen(sampling: Sampling, rows: u64, gone: u64) -> [(f64, f64); 2] {
    let buckets = 400 * u64::from(usually(1, 10));
    let mut off = [0.0, 0.0];
    let mut held = [0.0, 0.0];
    for number in 0..buckets {
        let (samples, count, bytes) = bucket(sampling, number, rows, gone);
        let figures = sampling.estimate(&samples);
        let said = [
            (figures.rows, figures.rows_error(), count),
            (figures.bytes, figures.bytes_error(), bytes),
        ];
        for (index, (estimate, error, truth)) in said.into_iter().enumerate() {
            let difference = estimate as f64 - truth;
            off[index] += difference / truth / buckets as f64;
            held[index] += f64::from(u8::from(difference.abs() <= error as f64)) / buckets as f64;
        }
    }
    [0, 1].map(|index| (off[index], held[index]))
}

/// Returns sampling parameters that know the mean size of a row.
fn with_mean() -> Sampling {
    Sampling {
        mean: counted_bytes(1_010),
        ..SAMPLING
    }
}

#[test]
fn estimates_are_unbiased_and_their_intervals_hold_the_truth() {
    for gone in [0, 3] {
        let [rows, bytes] = seen(with_mean(), 16_000, gone);
        eprintln!(
            "rows off by {:.4}, held in {:.3}; bytes off by {:.4}, held in {:.3}",
            rows.0, rows.1, bytes.0, bytes.1
        );
        for (off, held) in [rows, bytes] {
            assert!(off.abs() < 0.03, "{off}");
            assert!(held >= 0.93, "{held}");
        }
    }
}

#[test]
fn by_bytes_alone_samples_say_little_of_how_many_rows_there_are() {
    let by_bytes_alone = Sampling { mean: 84, ..SAMPLING };
    let [narrow, wide] = [with_mean(), by_bytes_alone].map(|sampling| {
        let (samples, ..) = bucket(sampling, 0, 16_000, 0);
        sampling.estimate(&samples).rows_error()
    });
    assert!(wide > 2 * narrow, "{wide} and {narrow}");
}

#[test]
fn figures_are_exact_for_rows_as_large_as_a_unit() {
    let sampling = Sampling { unit: 84, mean: 84 };
    let (samples, count, bytes) = bucket(sampling, 0, 1_000, 7);
    let figures = sampling.estimate(&samples);
    assert_eq!((figures.rows as f64, figures.bytes as f64), (count, bytes));
    assert_eq!((figures.rows_error(), figures.bytes_error()), (0, 0));
    assert!(sampling.is_sampled(u64::MAX, 84));
}

#[test]
fn samples_of_pieces_add() {
    let sampling = with_mean();
    let (samples, ..) = bucket(sampling, 1, 8_000, 0);
    let (first, second) = samples.split_at(samples.len() / 2);
    let sum = sampling.estimate(first).plus(sampling.estimate(second));
    let all = sampling.estimate(&samples);
    assert!(sum.rows.abs_diff(all.rows) <= 1 && sum.bytes.abs_diff(all.bytes) <= 1);
    assert!(sum.rows_variance >= all.rows_variance);
}

/// Checks that the hash of keys never changes, because every process and release must sample the
/// same rows.
#[test]
fn the_hash_is_as_ever() {
    assert_eq!(hash(b""), 0x2d06_8005_38d3_94c2);
    assert!(!SAMPLING.is_sampled(hash(b""), 84));
}

#[test]
fn no_samples_do_not_say_that_nothing_is_there() {
    let figures = SAMPLING.estimate(&[]);
    assert_eq!((figures.rows, figures.bytes), (0, 0));
    assert!(figures.rows_error() > 1_000 && figures.bytes_error() > 1_000);
}
