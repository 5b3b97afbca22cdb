//! Choice of the rows to sample, and estimates of a bucket's content from its samples.
//!
//! The key of a row decides whether the row is sampled. Retries and copies of a row are therefore
//! sampled alike, and no process counts rows. A row is sampled with a chance p proportional to its
//! bytes, but at least the chance of a mean row of the previous bucket. Otherwise one small row
//! that happens to be sampled would represent thousands of rows. A sample represents 1/p rows.

use xxhash_rust::xxh3::xxh3_64;

use crate::buckets::directory::Figures;

/// Sampling parameters of a bucket. They never change while the bucket exists, so every process
/// that writes or copies a row decides alike whether the row is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// Bytes of rows for each sample, approximately. A row of at least this size is always sampled.
    pub unit: u64,
    /// Mean size of a row in the previous bucket, in bytes. Smaller rows are sampled with the
    /// chance of a row of this size.
    pub mean: u64,
}

/// Maximum size of a row, in bytes, whose deletion surely marks its sample as deleted. A deletion
/// does not know the size of its row, so the sample of a larger row may still count as present.
pub const MAX_DELETED_ROW_BYTES: u64 = 64 << 10;
/// Number of standard deviations for an error bound that holds in 95 of 100 cases.
const DEVIATIONS: f64 = 1.96;
const TWO_TO_64: u128 = 1 << 64;

/// Returns the hash of a key, which decides whether its row is sampled. It never differs between
/// processes or releases.
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Stored note about one sampled row. The samples of a bucket serve to estimate its content.
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
    /// Returns whether a row is sampled. `hash` is the [`hash`] of its key, and `bytes` is its
    /// [counted size](crate::buckets::sizing::counted_bytes).
    pub fn is_sampled(self, hash: u64, bytes: u64) -> bool {
        u128::from(hash) < self.threshold(bytes)
    }

    /// Returns whether a deletion of a row also marks the row's sample as deleted. The deletion
    /// does not know the size of the row, and therefore assumes [`MAX_DELETED_ROW_BYTES`].
    pub fn marks_gone(self, hash: u64) -> bool {
        self.is_sampled(hash, MAX_DELETED_ROW_BYTES)
    }

    /// Returns the number of hashes, of 2^64, for which a row of this size is sampled. Integer
    /// arithmetic gives the same number on every machine.
    fn threshold(self, bytes: u64) -> u128 {
        let bytes = u128::from(bytes.max(self.mean).max(1));
        (bytes * TWO_TO_64 / u128::from(self.unit.max(1))).min(TWO_TO_64)
    }

    fn chance(self, bytes: u64) -> f64 {
        self.threshold(bytes) as f64 / TWO_TO_64 as f64
    }

    /// Returns the number of rows that one sampled row of this counted size represents.
    pub fn rows_for(self, bytes: u64) -> f64 {
        1.0 / self.chance(bytes)
    }

    /// Estimates the number and bytes of all rows of a bucket from its samples, with variances. The
    /// variances include one imagined sample more. Otherwise, a bucket without samples would count
    /// as surely empty.
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
            // All rows up to `mean` have the same chance to be sampled, so the samples show the
            // mean size of a row.
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
    /// Returns the sum of two estimates of different rows.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            rows_variance: self.rows_variance.saturating_add(other.rows_variance),
            bytes: self.bytes.saturating_add(other.bytes),
            bytes_variance: self.bytes_variance.saturating_add(other.bytes_variance),
        }
    }

    /// Returns the error bound of `rows` that holds in 95 of 100 cases; 0: the number is exact.
    pub fn rows_error(self) -> u64 {
        half_width(self.rows_variance)
    }

    /// Returns the error bound of `bytes` that holds in 95 of 100 cases; 0: the number is exact.
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
