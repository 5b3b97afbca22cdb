//! The values of options: sizes, buckets, where nulls stand.

use crate::table::{BucketBound, Buckets};
use crate::width::{Width, number_and_unit};

/// How partitions that would grow without bound are split.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Where one bucket ends and the next begins.
    pub strategy: BucketStrategy,
    /// In how many partitions of the store each bucket is kept, 1 to [`MAX_SHARDS`](super::MAX_SHARDS).
    pub shards: u8,
    /// For how long what it holds is kept: whole buckets go that are older; none: for good.
    pub keep: Option<Width>,
}

/// Where one bucket ends and the next begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BucketStrategy {
    /// By time: `{ time = "occurred_on", width = "1 month" }`.
    Time {
        /// The field, which is the first order column.
        field: String,
        /// How much time a bucket covers.
        width: Width,
    },
    /// By an exact count of rows: `{ rows = 20000 }`.
    Rows(u64),
    /// By size, sampled: `{ target = "10MB" }`.
    Target {
        /// The size a bucket should not pass, in bytes.
        bytes: u64,
    },
}

impl Bucket {
    /// What a table asks of its store for it.
    pub fn of_tables(&self) -> Buckets {
        let bound = match &self.strategy {
            BucketStrategy::Time { width, .. } => BucketBound::Time(*width),
            BucketStrategy::Rows(rows) => BucketBound::Rows(*rows),
            BucketStrategy::Target { bytes } => BucketBound::Bytes(*bytes),
        };
        Buckets {
            shards: self.shards,
            keep: self.keep,
            ..Buckets::from(bound)
        }
    }
}

/// Where records stand in a view that lack one of its order fields. Those that lack a partition field are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Nulls {
    /// Before all others.
    First,
    /// After all others: so the view has every record that has its partition fields, and no answer depends on which
    /// view was taken.
    #[default]
    Last,
    /// Nowhere: they are not in the view.
    Skip,
}

impl Nulls {
    /// As the schema language writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Skip => "skip",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "first" => Some(Self::First),
            "last" => Some(Self::Last),
            "skip" => Some(Self::Skip),
            _ => None,
        }
    }
}

/// Units of sizes, largest first so that the first that divides a size writes it shortest.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// The number of bytes that `text` writes (`10MB`, `64 MiB`), at least 1.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (count, unit) = number_and_unit(text)?;
    let (_, factor) = SIZE_UNITS
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    count.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// The shortest text that [`parse_size`] reads as `bytes`.
pub(super) fn print_size(bytes: u64) -> String {
    let (name, factor) = SIZE_UNITS
        .into_iter()
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor))
        .unwrap_or(("B", 1));
    format!("{}{name}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print() {
        for (text, bytes) in [
            ("10MB", 10_000_000),
            ("64MiB", 64 << 20),
            ("1B", 1),
            ("1500B", 1500),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(parse_size(&print_size(bytes)), Some(bytes), "{text}");
        }
        assert_eq!(parse_size("10 mb"), Some(10_000_000));
        for text in [
            "0MB",
            "10",
            "MB",
            "10XB",
            "99999999999999999999B",
            "18446744073709551615GB",
        ] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
