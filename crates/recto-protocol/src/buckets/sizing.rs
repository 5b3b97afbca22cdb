//! How large buckets become, and how often rows are sampled for that.
//!
//! Nobody counts rows. Each is *sampled* with a chance in proportion to its bytes, and a bucket is cut at its k-th sample
//! (article 004). Between two samples lie B bytes in the mean, so a bucket has kB; and as rows come independently of each
//! other, its bytes are distributed as B times Gamma(k, 1), whatever the sizes of the rows are. So of a target, and of the
//! chance at which a bucket may be larger, follows B.
//!
//! Rows that are all of one size are a case that is known exactly: how many a bucket has is distributed negatively
//! binomial ([`RowsPerBucket`]).

#[cfg(feature = "statistics")]
use statrs::function::{
    beta::beta_reg,
    gamma::{gamma_ur, ln_gamma},
};

use crate::buckets::growing::FULL;
use crate::buckets::sampling::{MAX_DELETED_ROW_BYTES, Sampling};

/// Bytes that a row counts as beside those of its cells.
pub const ROW_BYTES: u64 = 64;
/// The smallest target, in bytes.
pub const MIN_TARGET_BYTES: u64 = 64 << 10;
/// The largest target, in bytes: ten times what a partition of Cassandra should have.
pub const MAX_TARGET_BYTES: u64 = 1 << 30;
/// The least chance at which a bucket may be larger than its target. Far less than that a disk fails meanwhile.
pub const MIN_EPSILON: f64 = 1e-15;
/// The greatest such chance.
pub const MAX_EPSILON: f64 = 0.1;
/// The most samples of a bucket.
pub const MAX_SAMPLES: u32 = 1_024;
/// The least chance of a row to be sampled. Seldomer ones have buckets of so many rows that floating point does not
/// hold what is said of them.
pub const MIN_CHANCE: f64 = 1e-9;
/// The chance at which a bucket may be larger than its target, if nobody says another.
pub const DEFAULT_EPSILON: f64 = 1e-6;

/// Of how much of the target a bucket is in the mean, at least, where nobody says how many samples it has.
const MEAN_FILL: f64 = 0.375;
/// Buckets of no more rows than this have a sample of each: what is to be counted then are samples.
pub const MAX_SAMPLED_EACH: u64 = 128;
/// How many samples a bucket of more rows is to have.
const SAMPLES_OF_ROWS: u32 = 16;

/// How often an interval is halved: then nothing is left of it in floating point.
const HALVINGS: u32 = 200;

/// Why there is no such sizing.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizingError {
    /// The feature `statistics` is off.
    #[error("this build of Recto cannot size buckets")]
    NotBuiltIn,
    /// A target that is too small or too large.
    #[error("`target` is {said} bytes, and must be from {MIN_TARGET_BYTES} to {MAX_TARGET_BYTES}")]
    Target {
        /// What it is, in bytes.
        said: u64,
    },
    /// A chance that is none, or of which nobody could say whether it holds.
    #[error("`epsilon` is {said:e}, and must be from {MIN_EPSILON:e} to {MAX_EPSILON}")]
    Epsilon {
        /// What it is.
        said: f64,
    },
    /// Too few samples, or too many.
    #[error("`samples` is {said}, and must be from 1 to {MAX_SAMPLES}")]
    Samples {
        /// How many.
        said: u32,
    },
    /// A chance to be sampled that is none, or so small that nothing can be said of it.
    #[error("`chance` is {said:e}, and must be from {MIN_CHANCE:e} to 1")]
    Chance {
        /// What it is.
        said: f64,
    },
    /// A row that is so large beside the target that each one would be sampled.
    #[error("`target` is {target} bytes, too few for rows of {row} bytes: at least {least}")]
    Row {
        /// The target, in bytes.
        target: u64,
        /// What the largest row counts as, in bytes.
        row: u64,
        /// The target that would do, in bytes.
        least: u64,
    },
}

/// What a row counts as whose cells have so many bytes.
pub fn counted_bytes(cells_bytes: u64) -> u64 {
    cells_bytes.saturating_add(ROW_BYTES)
}

/// When a bucket is cut, and what follows from that.
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

/// When a bucket is looked at that is to have so many rows at most.
///
/// Each row is sampled with the same chance. A bucket that is not full by its samples has more rows than it may with the chance
/// epsilon at most; one that is full is counted, and cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowSizing {
    samples: u32,
    rows_per_sample: f64,
}

impl RowSizing {
    /// Buckets of so many rows.
    ///
    /// # Errors
    /// There is none: a chance that is none.
    pub fn new(rows: u64, epsilon: f64) -> Result<Self, SizingError> {
        check_epsilon(epsilon)?;
        if rows <= MAX_SAMPLED_EACH {
            // Full is who has as many samples as it may have rows.
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

    /// How many samples a bucket is to have.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// By what its rows are sampled: each counts as if it had as many bytes as [who deletes it](MAX_DELETED_ROW_BYTES) takes it
    /// to have.
    pub fn sampling(&self) -> Sampling {
        let unit = self.rows_per_sample * MAX_DELETED_ROW_BYTES as f64;
        Sampling {
            unit: whole(unit),
            mean: MAX_DELETED_ROW_BYTES,
        }
    }
}

impl Sizing {
    /// Buckets that are larger than `target_bytes` at most with the chance `epsilon`, of rows that count as
    /// `largest_row_bytes` at most: with the fewest samples by which they are ⅜ of the target in the mean.
    ///
    /// # Errors
    /// There is none: a limit of this module, or a target that is too small for its rows.
    pub fn new(target_bytes: u64, largest_row_bytes: u64, epsilon: f64) -> Result<Self, SizingError> {
        check_epsilon(epsilon)?;
        let is_enough = |samples: &u32| f64::from(*samples) / gamma_quantile(*samples, epsilon) >= MEAN_FILL;
        let samples = (1..MAX_SAMPLES).find(is_enough).unwrap_or(MAX_SAMPLES);
        Self::with_samples(target_bytes, largest_row_bytes, epsilon, samples)
    }

    /// The same with so many samples a bucket: with more of them buckets differ less, and more is written.
    ///
    /// # Errors
    /// As [`Sizing::new`]; too few samples or too many.
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
        // A row that is always sampled would count as B bytes and have more. So B is as large as the largest.
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

    /// At which sample a bucket is cut (k).
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// How many bytes there are to a sample, in the mean (B).
    pub fn bytes_per_sample(&self) -> f64 {
        self.bytes_per_sample
    }

    /// How large a bucket is, in the mean.
    pub fn mean_bytes(&self) -> f64 {
        f64::from(self.samples) * self.bytes_per_sample
    }

    /// How many rows buckets have whose rows all count as `row_bytes`.
    ///
    /// # Errors
    /// Such rows are larger than those that the sizing is for.
    pub fn rows(&self, row_bytes: u64) -> Result<RowsPerBucket, SizingError> {
        RowsPerBucket::new(self.samples, row_bytes as f64 / self.bytes_per_sample)
    }
}

/// How many rows a bucket has that is cut at a sample, if each row is sampled with the same chance: negatively binomial.
///
/// Chances are exact to nine digits, however small they are, where buckets have a million rows or fewer; each
/// tenfold more takes a digit.
///
/// As in article 004, where each 512th row is sampled, and the 40th sample cuts:
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
    /// A bucket that is cut at so many samples, of rows each of which is one with this chance.
    ///
    /// # Errors
    /// Too few samples or too many; a chance that is none, or less than [`MIN_CHANCE`].
    pub fn new(samples: u32, chance: f64) -> Result<Self, SizingError> {
        check_samples(samples)?;
        if !(MIN_CHANCE..=1.0).contains(&chance) {
            return Err(SizingError::Chance { said: chance });
        }
        Ok(Self { samples, chance })
    }

    /// At which sample a bucket is cut.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// The chance of a row to be sampled.
    pub fn chance(&self) -> f64 {
        self.chance
    }

    /// How many there are in the mean.
    pub fn mean(&self) -> f64 {
        f64::from(self.samples) / self.chance
    }

    /// The standard deviation of that.
    pub fn deviation(&self) -> f64 {
        (f64::from(self.samples) * (1.0 - self.chance)).sqrt() / self.chance
    }

    /// The chance of a bucket to have more rows: that fewer than k of so many rows are sampled.
    pub fn more_than(&self, rows: u64) -> f64 {
        let samples = f64::from(self.samples);
        if rows < self.samples.into() {
            return 1.0;
        }
        beta_reg(rows as f64 - samples + 1.0, samples, 1.0 - self.chance)
    }

    /// The chance of a bucket to have fewer rows: that k of so many, but one, are sampled.
    pub fn fewer_than(&self, rows: u64) -> f64 {
        let samples = f64::from(self.samples);
        if rows <= self.samples.into() {
            return 0.0;
        }
        beta_reg(samples, rows as f64 - samples, self.chance)
    }

    /// The chance of a bucket to have exactly so many.
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

    /// The fewest rows such that a bucket has as many at most with this chance, from 0 to 1.
    pub fn quantile(&self, share: f64) -> u64 {
        // Beyond it lies less than is left of a chance in floating point.
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

#[expect(clippy::cast_sign_loss, reason = "what is counted is not negative")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Stand-ins for the distributions. `check_built_in` fails before anything calls them.
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

/// What Gamma(`shape`, 1) exceeds with the chance `upper`.
fn gamma_quantile(shape: u32, upper: f64) -> f64 {
    let shape = f64::from(shape);
    // 60 deviations above the mean, and some more for small shapes.
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
