//! Values of options in a schema: sizes, buckets, the position of nulls.

use crate::table::{BucketBound, Buckets};
use crate::width::{Width, number_and_unit};

/// Rule that splits partitions, which would otherwise grow without bound, into buckets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Rule that determines where one bucket ends and the next begins.
    pub strategy: BucketStrategy,
    /// Number of shards: partitions of the store that together contain one bucket, 1 to
    /// [`MAX_SHARDS`](super::MAX_SHARDS).
    pub shards: u8,
    /// Retention time: buckets with older records are deleted as a whole. `None` keeps all buckets.
    pub keep: Option<Width>,
}

/// Rule that determines where one bucket ends and the next begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BucketStrategy {
    /// Buckets by time: `{ time = "occurred_on", width = "1 month" }`.
    Time {
        /// Name of the time field, which is the first order column.
        field: String,
        /// Length of time that a bucket covers.
        width: Width,
    },
    /// Buckets by an exact number of rows: `{ rows = 20000 }`.
    Rows(u64),
    /// Buckets by size, which is estimated from samples: `{ target = "10MB" }`.
    Target {
        /// Target size of a bucket, in bytes.
        bytes: u64,
    },
}

impl Bucket {
    /// Converts the rule to the bucket options of a table.
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

/// Position, in a view, of records in which an order field is null. Records in which a partition
/// field is null are never in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Nulls {
    /// The records are before all other records.
    First,
    /// The records are after all other records. The view then contains every record that has values
    /// of the partition fields, so a query has the same result in every view.
    #[default]
    Last,
    /// The view omits the records.
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

/// Names and sizes of units, the largest unit first. A size is printed in the first unit that
/// divides it, because that gives the shortest text.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses a size such as `10MB` or `64 MiB` into a number of bytes, at least 1.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (count, unit) = number_and_unit(text)?;
    let (_, factor) = SIZE_UNITS
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    count.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// Returns a size as the shortest text that [`parse_size`] parses as `bytes`.
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
