//! Which rows are sampled.

/// By what rows of a bucket are sampled: it stays the same as long as there is the bucket, so that who writes a row again
/// and who copies it sample it alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// Bytes of rows for each sample, about.
    pub unit: u64,
    /// The mean row of the bucket before, in bytes: smaller rows are sampled as often as rows of this size.
    pub mean: u64,
}
