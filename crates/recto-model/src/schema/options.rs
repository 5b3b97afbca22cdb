//! Values of options: sizes, buckets, the position of nulls.

use crate::table::{BucketBound, Buckets};
use crate::width::{Width, number_and_unit};

/// Rule that splits partitions that would grow without bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Rule that separates one bucket from the next.
    pub strategy: BucketStrategy,
    /// Number of partitions of the store that contain each bucket, 1 to [`MAX_SHARDS`](super::MAX_SHARDS).
    pub shards: u8,
    /// Retention time. Older buckets are deleted as a whole. `None`: no bucket is deleted.
    pub keep: Option<Width>,
}

/// Rule that determines where one bucket ends and the next begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BucketStrategy {
    /// Buckets by time: `{ time = "occurred_on", width = "1 month" }`.
    Time {
        /// Time field, which is the first order column.
        field: String,
        /// Length of time that a bucket covers.
        width: Width,
    },
    /// Buckets by number of rows, which is exact: `{ rows = 20000 }`.
    Rows(u64),
    /// Buckets by size, which is measured by samples: `{ target = "10MB" }`.
    Target {
        /// Target size of a bucket, in bytes.
        bytes: u64,
    },
}

impl Bucket {
    /// Returns the bucket options of a table that has this rule.
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

/// Position, in a view, of records in which an order field is null. A record in which a partition field is
/// null is not in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Nulls {
    /// The records are before all other records.
    First,
    /// The records are after all other records. The view then contains every record that has the partition
    /// fields, so the result of a query does not depend on the view that serves it.
    #[default]
    Last,
    /// The records are not in the view.
    Skip,
}

impl Nulls {
    /// Returns the value as the schema language writes it.
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

/// Names and sizes of units, the largest unit first. The first unit that divides a size gives the shortest
/// text.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Returns the number of bytes that `text` denotes (`10MB`, `64 MiB`), at least 1.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (count, unit) = number_and_unit(text)?;
    let (_, factor) = SIZE_UNITS
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    count.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// Returns the shortest text that [`parse_size`] reads as `bytes`.
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
