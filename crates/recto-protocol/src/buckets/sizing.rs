//! Computation of bucket sizes, and of the sampling of rows that gives these sizes.
//!
//! No process counts rows. Each row is *sampled* with a chance proportional to its bytes, and a
//! bucket is split at its k-th sample. The mean distance of two samples is B bytes, so a bucket has
//! about kB bytes. Because rows are sampled independently, the bytes of a bucket are distributed
//! like B times Gamma(k, 1), for any sizes of rows. B follows from the target size, and from the
//! accepted chance that a bucket exceeds it.
//!
//! For rows of one size, the exact distribution is known: the number of rows in a bucket has a
//! negative binomial distribution ([`RowsPerBucket`]).

#[cfg(feature = "statistics")]
use statrs::function::{
    beta::beta_reg,
    gamma::{gamma_ur, ln_gamma},
};

use crate::buckets::growing::FULL;
use crate::buckets::sampling::{MAX_DELETED_ROW_BYTES, Sampling};

/// Bytes that are added to the cells of each row, to count its storage overhead.
pub const ROW_BYTES: u64 = 64;
/// Minimum target size (maximum size with rare exceptions) of a bucket, in bytes.
pub const MIN_TARGET_BYTES: u64 = 64 << 10;
/// Maximum target size (maximum size with rare exceptions) of a bucket, in bytes: ten times the
/// recommended maximum of a Cassandra partition.
pub const MAX_TARGET_BYTES: u64 = 1 << 30;
/// Minimum of epsilon: the accepted chance (0 to 1) that a bucket exceeds its target size. A disk
/// failure is much more likely than this.
pub const MIN_EPSILON: f64 = 1e-15;
/// Maximum of epsilon: the accepted chance (0 to 1) that a bucket exceeds its target size.
pub const MAX_EPSILON: f64 = 0.1;
/// Maximum number of samples at which a bucket is split.
pub const MAX_SAMPLES: u32 = 1_024;
/// Minimum chance (0 to 1) that a row is sampled. With a smaller chance, floating point cannot
/// represent the distribution of the number of rows.
pub const MIN_CHANCE: f64 = 1e-9;
/// Default of epsilon: the accepted chance (0 to 1) that a bucket exceeds its target size.
pub const DEFAULT_EPSILON: f64 = 1e-6;

/// Minimum mean size of a bucket, as a share of its target size. It determines the number of
/// samples if the user does not set it.
const MEAN_FILL: f64 = 0.375;
/// Greatest row limit of a bucket (in rows) with which every row is sampled, so that samples count
/// rows exactly.
pub const MAX_SAMPLED_EACH: u64 = 128;
/// Target number of samples of a bucket whose row limit is greater than [`MAX_SAMPLED_EACH`].
const SAMPLES_OF_ROWS: u32 = 16;

/// Number of bisection steps of a search. More steps cannot divide a floating-point interval
/// further.
const HALVINGS: u32 = 200;

/// Reason why bucket sizes cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizingError {
    /// This build lacks the feature `statistics`, which the computation needs.
    #[error("this build of Recto cannot size buckets")]
    NotBuiltIn,
    /// The target size of a bucket is too small or too large.
    #[error("`target` is {said} bytes; the range is {MIN_TARGET_BYTES} to {MAX_TARGET_BYTES}")]
    Target {
        /// Requested target size, in bytes.
        said: u64,
    },
    /// Epsilon, the accepted chance to exceed the target size, is outside its limits.
    #[error("`epsilon` is {said:e}; the range is {MIN_EPSILON:e} to {MAX_EPSILON}")]
    Epsilon {
        /// Requested epsilon.
        said: f64,
    },
    /// The number of samples at which a bucket is split is 0 or too large.
    #[error("`samples` is {said}; the range is 1 to {MAX_SAMPLES}")]
    Samples {
        /// Requested number of samples of a bucket.
        said: u32,
    },
    /// The chance of a row to be sampled is greater than 1, or too small for the computation.
    #[error("`chance` is {said:e}; the range is {MIN_CHANCE:e} to 1")]
    Chance {
        /// Chance of a row to be sampled.
        said: f64,
    },
    /// The target size is too small for the largest row: such a row would always be sampled, but
    /// count as fewer bytes.
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

/// Returns the counted size of a row, in bytes: the bytes of its cells plus [`ROW_BYTES`].
pub fn counted_bytes(cells_bytes: u64) -> u64 {
    cells_bytes.saturating_add(ROW_BYTES)
}

/// Sizing of buckets by bytes: the number of samples at which a bucket is split, and the bytes per
/// sample. Buckets exceed a target size with at most a given chance.
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

/// Sizing of buckets by rows: the number of samples at which the rows of a bucket are counted, and
/// the rows per sample.
///
/// Each row is sampled with the same chance. A bucket whose samples do not show that it is full
/// exceeds its maximum number of rows with at most the chance epsilon. If the samples show a full
/// bucket, its rows are counted, and the bucket is split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowSizing {
    samples: u32,
    rows_per_sample: f64,
}

impl RowSizing {
    /// Returns the sizing for buckets of at most `rows` rows. `epsilon` is the accepted chance that
    /// a bucket has more rows.
    ///
    /// # Errors
    /// `epsilon` is outside its limits.
    pub fn new(rows: u64, epsilon: f64) -> Result<Self, SizingError> {
        check_epsilon(epsilon)?;
        if rows <= MAX_SAMPLED_EACH {
            // Each row is sampled, so the number of samples is the number of rows. A bucket counts
            // as full at `FULL` times the target number of samples.
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

    /// Returns the target number of samples of a bucket.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the sampling parameters of the buckets. Their mean row size makes all rows up to the
    /// size that a [deletion](MAX_DELETED_ROW_BYTES) assumes equally likely to be sampled.
    pub fn sampling(&self) -> Sampling {
        let unit = self.rows_per_sample * MAX_DELETED_ROW_BYTES as f64;
        Sampling {
            unit: whole(unit),
            mean: MAX_DELETED_ROW_BYTES,
        }
    }
}

impl Sizing {
    /// Returns the sizing for buckets that exceed `target_bytes` with at most the chance `epsilon`.
    /// The counted size of a row is at most `largest_row_bytes`. The number of samples is the
    /// minimum with which the mean bucket has at least ⅜ of the target size.
    ///
    /// # Errors
    /// A value is outside the limits of this module, or the target size is too small for the
    /// largest row.
    pub fn new(target_bytes: u64, largest_row_bytes: u64, epsilon: f64) -> Result<Self, SizingError> {
        check_epsilon(epsilon)?;
        let is_enough = |samples: &u32| f64::from(*samples) / gamma_quantile(*samples, epsilon) >= MEAN_FILL;
        let samples = (1..MAX_SAMPLES).find(is_enough).unwrap_or(MAX_SAMPLES);
        Self::with_samples(target_bytes, largest_row_bytes, epsilon, samples)
    }

    /// Returns the sizing with a given number of samples per bucket. With more samples, the sizes
    /// of buckets differ less, but more samples are stored.
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
        // `bytes_per_sample` bytes. So `bytes_per_sample` must be at least the size of the largest
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

    /// Returns k: a bucket is split at its k-th sample.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns B: the mean bytes of rows per sample.
    pub fn bytes_per_sample(&self) -> f64 {
        self.bytes_per_sample
    }

    /// Returns the mean size of a bucket, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        f64::from(self.samples) * self.bytes_per_sample
    }

    /// Returns the distribution of the number of rows in a bucket, if all rows have the counted
    /// size `row_bytes`.
    ///
    /// # Errors
    /// `row_bytes` is greater than the bytes per sample, or too small a share of them.
    pub fn rows(&self, row_bytes: u64) -> Result<RowsPerBucket, SizingError> {
        RowsPerBucket::new(self.samples, row_bytes as f64 / self.bytes_per_sample)
    }
}

/// Distribution of the number of rows in a bucket that is split at its k-th sample, if each row is
/// sampled with the same chance: a negative binomial distribution.
///
/// Chances are computed to nine digits, however small they are, if buckets have at most a million
/// rows. Each factor of ten in the number of rows costs one digit.
///
/// Example: one row of 512 is sampled on average, and the bucket is split at its 40th sample.
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
    /// Returns the distribution for buckets that are split at this number of samples, if each row
    /// is sampled with the chance `chance`.
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

    /// Returns k: a bucket is split at its k-th sample.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the chance (0 to 1) of a row to be sampled.
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

    /// Returns the chance (0 to 1) that a bucket has more than `rows` rows: fewer than k of `rows`
    /// rows are sampled.
    pub fn more_than(&self, rows: u64) -> f64 {
        let samples = f64::from(self.samples);
        if rows < self.samples.into() {
            return 1.0;
        }
        beta_reg(rows as f64 - samples + 1.0, samples, 1.0 - self.chance)
    }

    /// Returns the chance (0 to 1) that a bucket has fewer than `rows` rows: at least k of `rows` -
    /// 1 rows are sampled.
    pub fn fewer_than(&self, rows: u64) -> f64 {
        let samples = f64::from(self.samples);
        if rows <= self.samples.into() {
            return 0.0;
        }
        beta_reg(samples, rows as f64 - samples, self.chance)
    }

    /// Returns the chance (0 to 1) that a bucket has exactly `rows` rows.
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

    /// Returns the smallest number of rows that a bucket does not exceed with the chance `share` (0
    /// to 1).
    pub fn quantile(&self, share: f64) -> u64 {
        // End the search 60 standard deviations above the mean: the chance of a greater number of
        // rows is too small for floating point.
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

/// Stand-ins for functions of the crate `statrs` in builds without it. `check_built_in` fails
/// before any of them is called.
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

/// Returns the value that a variable with the distribution Gamma(`shape`, 1) exceeds with the
/// chance `upper`.
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
