//! The buckets that partitions are kept in, in the words of the HTTP API.

use recto_model::table::{BucketBound, Buckets};
pub use recto_pieces::BucketMetrics;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::JsonRecord;

/// How large a bucket may be: in bytes, or in rows; neither: it is by time, and may be of any size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketTarget {
    /// So many bytes: those of the cells of each row, and 64 more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// So many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// In so many partitions of the store together; absent: in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u8>,
}

impl BucketTarget {
    /// What tables ask for; where the store counts, each bucket is in one partition of it.
    pub(crate) fn of(buckets: Buckets, counts: bool) -> Self {
        let target = Self {
            shards: Some(buckets.shards).filter(|shards| *shards > 1 && !counts),
            ..Self::default()
        };
        match buckets.bound {
            BucketBound::Bytes(bytes) => Self {
                bytes: Some(bytes),
                ..target
            },
            BucketBound::Rows(rows) => Self {
                rows: Some(rows),
                ..target
            },
            BucketBound::Time(_) => target,
        }
    }

    /// How large it may be, in what it is measured in.
    pub fn most(self) -> u64 {
        self.rows.or(self.bytes).unwrap_or(u64::MAX)
    }

    /// The same, drawn beside what there is; 0: there is none.
    pub fn drawn(self) -> u64 {
        self.rows.or(self.bytes).unwrap_or(0)
    }

    /// How large something is, in the same.
    pub fn measure(self, figures: BucketFigures) -> u64 {
        match self.rows {
            Some(_) => figures.rows,
            None => figures.bytes,
        }
    }
}

/// What buckets hold. Where the store does not count, it is estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketFigures {
    /// Rows.
    pub rows: u64,
    /// By how many that may be off, in 95 of 100 cases; 0: it is exact.
    pub rows_error: u64,
    /// Bytes: those of the cells of each row, and 64 more.
    pub bytes: u64,
    /// By how many that may be off, in 95 of 100 cases; 0: it is exact.
    pub bytes_error: u64,
}

/// The partitions of an arrangement that is kept in buckets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketPartitions {
    /// The collection.
    pub collection: String,
    /// The arrangement: a view, or the collection's own.
    pub view: String,
    /// How large a bucket may be.
    pub target: BucketTarget,
    /// Those of this list, in the store's own order.
    pub partitions: Vec<BucketPartition>,
    /// Leads to further ones; empty only at the end.
    pub next_page_token: String,
}

/// A partition that is kept in buckets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketPartition {
    /// Its fields and their values.
    pub partition: JsonRecord,
    /// How many buckets it has.
    pub buckets: u64,
    /// What they hold together.
    #[serde(flatten)]
    pub figures: BucketFigures,
    /// What the largest of them holds.
    pub largest: BucketFigures,
    /// How many are larger than the target.
    pub too_large: u64,
    /// Whether one is being cut.
    pub being_cut: bool,
    /// Whether there are more rows and bytes than is said: of very many buckets the first ones are asked.
    pub at_least: bool,
}

/// The buckets of a partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketList {
    /// The collection.
    pub collection: String,
    /// The arrangement: a view, or the collection's own.
    pub view: String,
    /// The fields of the partition, and their values.
    pub partition: JsonRecord,
    /// By what its rows are ordered, down to one record; `-` is descending.
    pub order: Vec<String>,
    /// How large a bucket may be.
    pub target: BucketTarget,
    /// Whether rows and bytes are counted, and not estimated.
    pub exact: bool,
    /// Those of this list, in the order of their rows.
    pub buckets: Vec<BucketStatus>,
    /// For each place that was asked for, which of `buckets` has it, from 0 on; null where none of the list does.
    #[serde(default)]
    pub places: Vec<Option<usize>>,
    /// Leads to further ones; empty only at the end.
    pub next_page_token: String,
    /// Leads to those before; empty only at the beginning.
    pub previous_page_token: String,
}

/// A bucket, or what of one lies between two edges while it is being cut.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketStatus {
    /// Its number.
    pub bucket: u64,
    /// The order values that it begins at: as many as its edge has; none where the partition begins.
    pub start: Vec<Json>,
    /// Those that it ends before; null where the partition ends.
    pub end: Option<Vec<Json>>,
    /// What it holds.
    #[serde(flatten)]
    pub figures: BucketFigures,
    /// Whether that is more than the target.
    pub too_large: bool,
    /// How far its cut is: `at_rest`; `announced`, `copying`, `switched`: it is under way; `left`: it is done, and what the other
    /// bucket still has goes an hour later.
    pub step: String,
    /// Where it goes to, or came from, while that is so.
    #[serde(default)]
    pub other: Option<u64>,
}

impl BucketStatus {
    /// Whether it is being cut.
    pub fn is_being_cut(&self) -> bool {
        !matches!(self.step.as_str(), "at_rest" | "left")
    }
}

/// How far mending is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MendProgress {
    /// Partitions that were looked at.
    pub partitions: u64,
    /// Buckets that were made.
    pub made: u64,
}

/// What mending found and did, in all partitions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MendReport {
    /// Partitions that were looked at.
    pub partitions: u64,
    /// Buckets that they have now.
    pub buckets: u64,
    /// Buckets that were made.
    pub made: u64,
    /// Cuts that were under way before, and are done.
    pub went_on: u64,
    /// Buckets that are larger than the target still: those of one row cannot be cut.
    pub too_large: u64,
    /// Pieces of former buckets that were cleared.
    pub cleared: u64,
    /// Those that are to be cleared: an hour after they were left, by whoever uses the store then.
    pub to_clear: u64,
}
