//! Which rows are sampled, and what samples say of a bucket.
//!
//! A row is sampled or not by its key: retries and copies sample it alike, and nobody counts. The chance p is in proportion to the row's
//! bytes, but no less than that of the mean row of the bucket before: by bytes alone the one large row that happens to be sampled, or
//! not, would stand for thousands of small ones. A sample then stands for 1/p rows.

use xxhash_rust::xxh3::xxh3_64;

use crate::buckets::directory::Figures;

/// By what rows of a bucket are sampled: it stays the same as long as there is the bucket, so that who writes a row again
/// and who copies it sample it alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// Bytes of rows for each sample, about.
    pub unit: u64,
    /// The mean row of the bucket before, in bytes: smaller rows are sampled as often as rows of this size.
    pub mean: u64,
}

/// Rows of more bytes may stay counted when they are deleted: who deletes does not know how large a row was.
pub const MAX_DELETED_ROW_BYTES: u64 = 64 << 10;
/// How many standard deviations an estimate may be off in 95 of 100 cases.
const DEVIATIONS: f64 = 1.96;
const TWO_TO_64: u128 = 1 << 64;

/// The hash of a key by which it is decided whether its row is sampled: the same in every process and release.
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// A sampled row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its key.
    pub key: crate::buckets::Key,
    /// Its [counted size](crate::buckets::sizing::counted_bytes), in bytes.
    pub bytes: u64,
    /// Whether it was deleted.
    pub is_gone: bool,
}

impl Sampling {
    /// Whether a row is sampled whose key has this hash. `bytes` is its [counted size](crate::buckets::sizing::counted_bytes).
    pub fn is_sampled(self, hash: u64, bytes: u64) -> bool {
        u128::from(hash) < self.threshold(bytes)
    }

    /// Whether who deletes a row marks its sample as gone, without knowing how large it was or whether it was sampled.
    pub fn marks_gone(self, hash: u64) -> bool {
        self.is_sampled(hash, MAX_DELETED_ROW_BYTES)
    }

    /// Of 2^64 hashes, how many are sampled: whole numbers, so that every process and release says the same.
    fn threshold(self, bytes: u64) -> u128 {
        let bytes = u128::from(bytes.max(self.mean).max(1));
        (bytes * TWO_TO_64 / u128::from(self.unit.max(1))).min(TWO_TO_64)
    }

    fn chance(self, bytes: u64) -> f64 {
        self.threshold(bytes) as f64 / TWO_TO_64 as f64
    }

    /// How many rows a sampled one stands for that counts as so many bytes.
    pub fn rows_for(self, bytes: u64) -> f64 {
        1.0 / self.chance(bytes)
    }

    /// What samples say of all rows: how many there are, how many bytes, and the variances of that, as if there were one
    /// sample more. Few samples would say too little of how far they may be off, and none would say that nothing is there.
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
            // Each row is sampled alike, and those that are say how large rows are.
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
    /// What both hold together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            rows_variance: self.rows_variance.saturating_add(other.rows_variance),
            bytes: self.bytes.saturating_add(other.bytes),
            bytes_variance: self.bytes_variance.saturating_add(other.bytes_variance),
        }
    }

    /// By how many rows the number of rows may be off, in 95 of 100 cases; 0: it is exact.
    pub fn rows_error(self) -> u64 {
        half_width(self.rows_variance)
    }

    /// By how many bytes the number of bytes may be off, in 95 of 100 cases; 0: it is exact.
    pub fn bytes_error(self) -> u64 {
        half_width(self.bytes_variance)
    }
}

fn half_width(variance: u64) -> u64 {
    whole((DEVIATIONS * (variance as f64).sqrt()).ceil())
}

#[expect(clippy::cast_sign_loss, reason = "sums of what is no less than 0")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
