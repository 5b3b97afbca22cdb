//! Sizes of buckets, and the sampling that they need.
//!
//! No process counts rows. Each row is *sampled* with a chance proportional to its bytes, and a bucket is
//! split at its k-th sample (article 004). In the mean, there are B bytes between two samples, so a bucket
//! has kB bytes. Rows arrive independently of each other. The bytes of a bucket are therefore distributed
//! like B times Gamma(k, 1), for any sizes of rows. B follows from the target size, and from the chance with
//! which a bucket may exceed it.
//!
//! For rows of one size, the distribution is known exactly: the number of rows of a bucket has a negative binomial
//! distribution ([`RowsPerBucket`]).

#[cfg(feature = "statistics")]
use statrs::function::{
    beta::beta_reg,
    gamma::{gamma_ur, ln_gamma},
};

use crate::buckets::growing::FULL;
use crate::buckets::sampling::{MAX_DELETED_ROW_BYTES, Sampling};

/// Bytes that each row counts in addition to its cells.
pub const ROW_BYTES: u64 = 64;
/// Minimum target size of a bucket, in bytes.
pub const MIN_TARGET_BYTES: u64 = 64 << 10;
/// Maximum target size of a bucket, in bytes: ten times the recommended size of a partition of Cassandra.
pub const MAX_TARGET_BYTES: u64 = 1 << 30;
/// Minimum chance (0 to 1) with which a bucket may exceed its target size. The chance that a disk fails in
/// the same time is much greater.
pub const MIN_EPSILON: f64 = 1e-15;
/// Maximum chance (0 to 1) with which a bucket may exceed its target size.
pub const MAX_EPSILON: f64 = 0.1;
/// Maximum number of samples of a bucket.
pub const MAX_SAMPLES: u32 = 1_024;
/// Minimum chance of a row to be sampled. With a smaller chance, floating point cannot represent the distribution of
/// the number of rows.
pub const MIN_CHANCE: f64 = 1e-9;
/// Default chance (0 to 1) with which a bucket may exceed its target size.
pub const DEFAULT_EPSILON: f64 = 1e-6;

/// Minimum mean size of a bucket, as a share of its target size, if the user does not set the number of
/// samples.
const MEAN_FILL: f64 = 0.375;
/// Maximum number of rows of a bucket up to which every row is sampled. In such a bucket, the number of
/// samples is the number of rows.
pub const MAX_SAMPLED_EACH: u64 = 128;
/// Wanted number of samples of a bucket whose maximum number of rows is greater than [`MAX_SAMPLED_EACH`].
const SAMPLES_OF_ROWS: u32 = 16;

/// Number of times that a search halves an interval. After that, floating point cannot divide the interval
/// further.
const HALVINGS: u32 = 200;

/// Reason why bucket sizes cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizingError {
    /// This build lacks the feature `statistics`, which the computation needs.
    #[error("this build of Recto cannot size buckets")]
    NotBuiltIn,
    /// The target size is too small or too large.
    #[error("`target` is {said} bytes; the range is {MIN_TARGET_BYTES} to {MAX_TARGET_BYTES}")]
    Target {
        /// Requested target size, in bytes.
        said: u64,
    },
    /// The chance to exceed the target is outside its limits. A smaller chance could not be verified.
    #[error("`epsilon` is {said:e}; the range is {MIN_EPSILON:e} to {MAX_EPSILON}")]
    Epsilon {
        /// Requested chance.
        said: f64,
    },
    /// The number of samples is too small or too large.
    #[error("`samples` is {said}; the range is 1 to {MAX_SAMPLES}")]
    Samples {
        /// Requested number of samples.
        said: u32,
    },
    /// The chance to be sampled is not from 0 to 1, or is too small for the computation.
    #[error("`chance` is {said:e}; the range is {MIN_CHANCE:e} to 1")]
    Chance {
        /// Chance of a row to be sampled.
        said: f64,
    },
    /// The largest row is so large, compared with the target size, that every such row would be sampled.
    #[error("`target` is {target} bytes, which is too small for rows of {row} bytes: use at least {least}")]
    Row {
        /// Requested target size, in bytes.
        target: u64,
        /// Counted size of the largest row, in bytes.
        row: u64,
        /// Minimum target size for such rows, in bytes.
        least: u64,
    },
}

/// Returns the counted size of a row whose cells have this number of bytes.
pub fn counted_bytes(cells_bytes: u64) -> u64 {
    cells_bytes.saturating_add(ROW_BYTES)
}

/// Sizing of buckets by bytes: the number of samples at which a bucket is split, and the sizes that follow
/// from it.
///
/// ```
/// use recto_protocol::buckets::sizing::Sizing;
///
/// let sizing = Sizing::new(10_000_000, 1_000, 1e-6)?;
/// assert_eq!((sizing.samples(), sizing.bytes_per_sample().round()), (16, 234_631.0));
/// assert_eq!(sizing.mean_bytes().round(), 3_754_103.0);
/// # Ok::<(), recto_protocol::buckets::sizing::SizingError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizing {
    samples: u32,
    bytes_per_sample: f64,
}

/// Sizing of buckets by rows: the number of samples at which a bucket with a maximum number of rows is
/// checked.
///
/// Each row is sampled with the same chance. A bucket that is not full according to its samples exceeds the maximum
/// number of rows with at most the chance epsilon. A bucket that is full is counted, and split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowSizing {
    samples: u32,
    rows_per_sample: f64,
}

impl RowSizing {
    /// Returns the sizing for buckets of at most this number of rows. `epsilon` is the chance with which a
    /// bucket may have more rows.
    ///
    /// # Errors
    /// `epsilon` is outside its limits.
    pub fn new(rows: u64, epsilon: f64) -> Result<Self, SizingError> {
        check_epsilon(epsilon)?;
        if rows <= MAX_SAMPLED_EACH {
            // Each row is sampled, so a bucket with the maximum number of rows has as many samples.
            // A bucket is full at `FULL` times the wanted number of samples.
            let samples = count((rows as f64 / FULL).floor());
            return Ok(Self {
                samples: samples.max(1),
                rows_per_sample: 1.0,
            });
        }
        let full = count(f64::from(SAMPLES_OF_ROWS) * FULL);
        Ok(Self {
            samples: SAMPLES_OF_ROWS,
            rows_per_sample: rows as f64 / gamma_quantile(full, epsilon),
        })
    }

    /// Returns the wanted number of samples of a bucket.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the sampling parameters of the buckets. Each row counts as if it had the size that a
    /// [deletion](MAX_DELETED_ROW_BYTES) assumes, so that all rows have the same chance to be sampled.
    pub fn sampling(&self) -> Sampling {
        let unit = self.rows_per_sample * MAX_DELETED_ROW_BYTES as f64;
        Sampling {
            unit: whole(unit),
            mean: MAX_DELETED_ROW_BYTES,
        }
    }
}

impl Sizing {
    /// Returns the sizing for buckets that exceed `target_bytes` with at most the chance `epsilon`. The counted size of
    /// a row is at most `largest_row_bytes`. The number of samples is the minimum with which buckets have at least ⅜ of
    /// the target in the mean.
    ///
    /// # Errors
    /// A value is outside the limits of this module, or the target is too small for its rows.
    pub fn new(target_bytes: u64, largest_row_bytes: u64, epsilon: f64) -> Result<Self, SizingError> {
        check_epsilon(epsilon)?;
        let is_enough = |samples: &u32| f64::from(*samples) / gamma_quantile(*samples, epsilon) >= MEAN_FILL;
        let samples = (1..MAX_SAMPLES).find(is_enough).unwrap_or(MAX_SAMPLES);
        Self::with_samples(target_bytes, largest_row_bytes, epsilon, samples)
    }

    /// Returns the sizing with this number of samples of a bucket. With more samples, the sizes of buckets differ less,
    /// and more samples are written.
    ///
    /// # Errors
    /// Same errors as [`Sizing::new`], or the number of samples is outside its limits.
    pub fn with_samples(
        target_bytes: u64,
        largest_row_bytes: u64,
        epsilon: f64,
        samples: u32,
    ) -> Result<Self, SizingError> {
        check_epsilon(epsilon)?;
        check_samples(samples)?;
        if !(MIN_TARGET_BYTES..=MAX_TARGET_BYTES).contains(&target_bytes) {
            return Err(SizingError::Target { said: target_bytes });
        }
        // A row larger than `bytes_per_sample` would always be sampled, but would count only as
        // `bytes_per_sample` bytes. Therefore `bytes_per_sample` must be at least the size of the largest
        // row.
        let quantile = gamma_quantile(samples, epsilon);
        let least = largest_row_bytes as f64 * (1.0 + quantile);
        if (target_bytes as f64) < least {
            return Err(SizingError::Row {
                target: target_bytes,
                row: largest_row_bytes,
                least: whole(least.ceil()),
            });
        }
        Ok(Self {
            samples,
            bytes_per_sample: (target_bytes - largest_row_bytes) as f64 / quantile,
        })
    }

    /// Returns the number of the sample at which a bucket is split (k).
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the mean number of bytes per sample (B).
    pub fn bytes_per_sample(&self) -> f64 {
        self.bytes_per_sample
    }

    /// Returns the mean size of a bucket, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        f64::from(self.samples) * self.bytes_per_sample
    }

    /// Returns the distribution of the number of rows of buckets whose rows all have the counted size `row_bytes`.
    ///
    /// # Errors
    /// `row_bytes` is greater than the size of rows for which the sizing is valid.
    pub fn rows(&self, row_bytes: u64) -> Result<RowsPerBucket, SizingError> {
        RowsPerBucket::new(self.samples, row_bytes as f64 / self.bytes_per_sample)
    }
}

/// Distribution of the number of rows of a bucket that is split at its k-th sample, if each row is sampled
/// with the same chance. It is a negative binomial distribution.
///
/// The computed chances are exact to nine digits, however small they are, if buckets have at most a million
/// rows. Each factor of ten in the number of rows costs one digit.
///
/// Example of article 004: one row of 512 is sampled in the mean, and the bucket is split at the 40th sample.
///
/// ```
/// use recto_protocol::buckets::sizing::RowsPerBucket;
///
/// let rows = RowsPerBucket::new(40, 1.0 / 512.0)?;
/// assert_eq!(rows.mean(), 20_480.0);
/// assert_eq!(format!("{:.5}", rows.more_than(20_000)), "0.53846");
/// # Ok::<(), recto_protocol::buckets::sizing::SizingError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowsPerBucket {
    samples: u32,
    chance: f64,
}

impl RowsPerBucket {
    /// Returns the distribution for a bucket that is split at this number of samples, if each row is sampled with this
    /// chance.
    ///
    /// # Errors
    /// The number of samples is outside its limits, or the chance is greater than 1 or less than [`MIN_CHANCE`].
    pub fn new(samples: u32, chance: f64) -> Result<Self, SizingError> {
        check_samples(samples)?;
        if !(MIN_CHANCE..=1.0).contains(&chance) {
            return Err(SizingError::Chance { said: chance });
        }
        Ok(Self { samples, chance })
    }

    /// Returns the number of the sample at which a bucket is split (k).
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the chance of a row to be sampled.
    pub fn chance(&self) -> f64 {
        self.chance
    }

    /// Returns the mean number of rows of a bucket.
    pub fn mean(&self) -> f64 {
        f64::from(self.samples) / self.chance
    }

    /// Returns the standard deviation of the number of rows of a bucket.
    pub fn deviation(&self) -> f64 {
        (f64::from(self.samples) * (1.0 - self.chance)).sqrt() / self.chance
    }

    /// Returns the chance that a bucket has more than this number of rows: fewer than k of these rows are sampled.
    pub fn more_than(&self, rows: u64) -> f64 {
        let samples = f64::from(self.samples);
        if rows < self.samples.into() {
            return 1.0;
        }
        beta_reg(rows as f64 - samples + 1.0, samples, 1.0 - self.chance)
    }

    /// Returns the chance that a bucket has fewer than this number of rows: at least k of `rows` - 1 rows are sampled.
    pub fn fewer_than(&self, rows: u64) -> f64 {
        let samples = f64::from(self.samples);
        if rows <= self.samples.into() {
            return 0.0;
        }
        beta_reg(samples, rows as f64 - samples, self.chance)
    }

    /// Returns the chance that a bucket has exactly this number of rows.
    pub fn exactly(&self, rows: u64) -> f64 {
        let (samples, others) = (f64::from(self.samples), rows as f64 - f64::from(self.samples));
        if others < 0.0 {
            return 0.0;
        }
        if self.chance >= 1.0 {
            return if others == 0.0 { 1.0 } else { 0.0 };
        }
        let ways = ln_gamma(rows as f64) - ln_gamma(samples) - ln_gamma(others + 1.0);
        (ways + samples * self.chance.ln() + others * (-self.chance).ln_1p()).exp()
    }

    /// Returns the smallest number of rows that a bucket does not exceed with the chance `share`, from 0 to
    /// 1.
    pub fn quantile(&self, share: f64) -> u64 {
        // End the search 60 standard deviations above the mean: the chance of a greater number is
        // too small for a floating-point number.
        let most = self.mean() + 60.0 * self.deviation() + 1.0;
        let (mut least, mut most) = (u64::from(self.samples), whole(most));
        while least < most {
            let middle = least + (most - least) / 2;
            if self.more_than(middle) <= 1.0 - share {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        least
    }
}

#[expect(clippy::cast_sign_loss, reason = "counts are not negative")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Stand-ins for the functions of the crate `statrs`. `check_built_in` fails before any function calls them.
#[cfg(not(feature = "statistics"))]
fn beta_reg(_: f64, _: f64, _: f64) -> f64 {
    f64::NAN
}

#[cfg(not(feature = "statistics"))]
fn gamma_ur(_: f64, _: f64) -> f64 {
    f64::NAN
}

#[cfg(not(feature = "statistics"))]
fn ln_gamma(_: f64) -> f64 {
    f64::NAN
}

fn check_built_in() -> Result<(), SizingError> {
    if cfg!(feature = "statistics") {
        Ok(())
    } else {
        Err(SizingError::NotBuiltIn)
    }
}

fn check_epsilon(epsilon: f64) -> Result<(), SizingError> {
    check_built_in()?;
    if (MIN_EPSILON..=MAX_EPSILON).contains(&epsilon) {
        Ok(())
    } else {
        Err(SizingError::Epsilon { said: epsilon })
    }
}

fn check_samples(samples: u32) -> Result<(), SizingError> {
    check_built_in()?;
    if (1..=MAX_SAMPLES).contains(&samples) {
        Ok(())
    } else {
        Err(SizingError::Samples { said: samples })
    }
}

fn count(number: f64) -> u32 {
    u32::try_from(whole(number)).unwrap_or(u32::MAX)
}

/// Returns the value that a variable with the distribution Gamma(`shape`, 1) exceeds with the chance `upper`.
fn gamma_quantile(shape: u32, upper: f64) -> f64 {
    let shape = f64::from(shape);
    // End the search 60 standard deviations above the mean, plus 60 for small shapes. The chance of
    // a greater value is less than every allowed `upper`.
    let (mut least, mut most) = (0.0, shape + 60.0 * shape.sqrt() + 60.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(least, most);
        if gamma_ur(shape, middle) > upper {
            least = middle;
        } else {
            most = middle;
        }
    }
    most
}
