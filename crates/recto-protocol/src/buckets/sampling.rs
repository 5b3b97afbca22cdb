//! Choice of sampled rows, and estimates of a bucket's content from its samples.
//!
//! The key of a row decides whether the row is sampled. Retries and copies of a row are therefore sampled
//! alike, and no process counts rows. The chance p is proportional to the bytes of the row, but at least the
//! chance of the mean row of the previous bucket. Without this minimum, one small row that happens to be
//! sampled would represent thousands of rows. A sample represents 1/p rows.

use xxhash_rust::xxh3::xxh3_64;

use crate::buckets::directory::Figures;

/// Sampling parameters of a bucket. They stay the same as long as the bucket exists, so that a process that writes a
/// row again, or copies it, samples it alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// Approximate bytes of rows for each sample: a row of this size is always sampled.
    pub unit: u64,
    /// Mean bytes of the rows of the previous bucket. Smaller rows are sampled as often as rows of this size.
    pub mean: u64,
}

/// Size of a row, in bytes, up to which a deletion always marks the row's sample as deleted. Larger rows may stay
/// counted, because a process that deletes a row does not know its size.
pub const MAX_DELETED_ROW_BYTES: u64 = 64 << 10;
/// Number of standard deviations that the error of an estimate does not exceed in 95 of 100 cases.
const DEVIATIONS: f64 = 1.96;
const TWO_TO_64: u128 = 1 << 64;

/// Returns the hash of a key, which decides whether its row is sampled. It is the same in every process and release.
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Sample of a bucket: a stored note about one sampled row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Key of the row.
    pub key: crate::buckets::Key,
    /// [Counted size](crate::buckets::sizing::counted_bytes) of the row, in bytes.
    pub bytes: u64,
    /// True if the row was deleted.
    pub is_gone: bool,
}

impl Sampling {
    /// Returns whether a row is sampled whose key has this hash. `bytes` is its
    /// [counted size](crate::buckets::sizing::counted_bytes).
    pub fn is_sampled(self, hash: u64, bytes: u64) -> bool {
        u128::from(hash) < self.threshold(bytes)
    }

    /// Returns whether a process that deletes a row marks the row's sample as deleted. The process does not
    /// know the size of the row, or whether the row was sampled.
    pub fn marks_gone(self, hash: u64) -> bool {
        self.is_sampled(hash, MAX_DELETED_ROW_BYTES)
    }

    /// Returns the number of hashes, of 2^64, for which a row is sampled. It is a whole number, so that every
    /// process and release computes the same number.
    fn threshold(self, bytes: u64) -> u128 {
        let bytes = u128::from(bytes.max(self.mean).max(1));
        (bytes * TWO_TO_64 / u128::from(self.unit.max(1))).min(TWO_TO_64)
    }

    fn chance(self, bytes: u64) -> f64 {
        self.threshold(bytes) as f64 / TWO_TO_64 as f64
    }

    /// Returns the number of rows that a sampled row of this counted size represents.
    pub fn rows_for(self, bytes: u64) -> f64 {
        1.0 / self.chance(bytes)
    }

    /// Returns the number and the bytes of all rows, estimated from their samples, with variances. The variances assume
    /// one more sample: few samples would show too little of the possible error, and no samples would suggest that
    /// there are no rows.
    pub fn estimate<'s>(self, samples: impl IntoIterator<Item = &'s Sample>) -> Figures {
        let variance = |chance: f64| (1.0 - chance) / (chance * chance);
        let (mut rows, mut bytes) = (0.0, 0.0);
        let mut rows_variance = variance(self.chance(self.mean));
        let of_one_more = rows_variance;
        let mut bytes_variance = 0.0;
        for sample in samples.into_iter().filter(|sample| !sample.is_gone) {
            let chance = self.chance(sample.bytes);
            let variance = variance(chance);
            let of_each = sample.bytes as f64;
            rows += 1.0 / chance;
            rows_variance += variance;
            bytes += of_each / chance;
            bytes_variance += of_each * of_each * variance;
        }
        let mean = match self.mean {
            // With such a large `mean`, all rows up to this size have the same chance to be sampled. The
            // samples therefore show the mean size of a row.
            MAX_DELETED_ROW_BYTES.. if rows > 0.0 => bytes / rows,
            mean => mean.max(1) as f64,
        };
        bytes_variance += mean * mean * of_one_more;
        Figures {
            rows: whole(rows),
            rows_variance: whole(rows_variance),
            bytes: whole(bytes),
            bytes_variance: whole(bytes_variance),
        }
    }
}

impl Figures {
    /// Returns the sum of the contents of two sets of rows.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            rows_variance: self.rows_variance.saturating_add(other.rows_variance),
            bytes: self.bytes.saturating_add(other.bytes),
            bytes_variance: self.bytes_variance.saturating_add(other.bytes_variance),
        }
    }

    /// Returns the error that the number of rows does not exceed in 95 of 100 cases; 0: the number is exact.
    pub fn rows_error(self) -> u64 {
        half_width(self.rows_variance)
    }

    /// Returns the error that the number of bytes does not exceed in 95 of 100 cases; 0: the number is exact.
    pub fn bytes_error(self) -> u64 {
        half_width(self.bytes_variance)
    }
}

fn half_width(variance: u64) -> u64 {
    whole((DEVIATIONS * (variance as f64).sqrt()).ceil())
}

#[expect(clippy::cast_sign_loss, reason = "sums of non-negative numbers")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
