//! Requests and replies about buckets: ranges of a large partition that the store keeps separately.

use recto_model::table::{BucketBound, Buckets};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::display::counted;
use crate::parameters::{json_text, whole_number};

/// Request for partitions of a collection, or for buckets of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BucketsRequest {
    /// View whose partitions are listed; absent, the collection's own sort order.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub view: String,
    /// Filter that names one partition, by a value of each partition field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// Maximum number of entries of the list; absent or 0, the server's default.
    #[serde(deserialize_with = "whole_number", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub page_size: Option<i64>,
    /// Token of an earlier list, which this one continues; absent or empty, the first list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub page_token: String,
    /// Positions, as a JSON array. Each position is an array of values of the order's first fields. The list
    /// is around the first position, and names the bucket of each.
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Vec<Vec<serde_json::Value>>"))]
    pub at: Option<String>,
}

/// Body of `POST …/buckets:rebalance`: buckets to split now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RebalanceRequest {
    /// View whose buckets Recto splits; absent or empty, the collection's own sort order.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub view: String,
    /// Filter that names one partition; absent or empty, all partitions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// Wait up to an hour, and clear the leftovers of splits. A server clears them by itself.
    #[serde(skip)]
    pub clear: bool,
}

impl BucketsRequest {
    /// Names of the parameters that the operation `…/partitions` (list of partitions) accepts. The
    /// operation `…/buckets` (buckets of one partition) accepts all fields of `BucketsRequest`.
    pub const OF_PARTITIONS: &[&str] = &["view", "page_size", "page_token"];
}

/// Reply to `GET …/partitions`: partitions of a table in buckets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BucketPartitions {
    /// Name of the collection.
    pub collection: String,
    /// Name of the view; `primary` is the collection's own sort order.
    pub view: String,
    /// Maximum size of a bucket.
    pub target: BucketTarget,
    /// Partitions, in the order in which the store has them.
    pub partitions: Vec<BucketPartition>,
    /// Token of the next list; empty only at the end.
    pub next_page_token: String,
}

/// A partition in buckets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub struct BucketPartition {
    /// Fields of the partition, with their values.
    pub partition: Map<String, Json>,
    /// Number of buckets.
    pub buckets: u64,
    /// Size of all buckets together.
    #[serde(flatten)]
    pub figures: BucketFigures,
    /// Size of the rows that splits and joins have in other buckets: copies, or rows that are deleted an hour later.
    /// They use disk space in addition to `bytes`.
    #[serde(default)]
    pub leftover: BucketFigures,
    /// Size of the largest bucket.
    pub largest: BucketFigures,
    /// Number of buckets that are larger than the target.
    pub too_large: u64,
    /// Whether Recto splits a bucket now.
    pub being_cut: bool,
    /// Whether the numbers are minimums. If there are very many buckets, Recto reads only the first ones.
    pub at_least: bool,
}

/// Reply to `GET …/buckets`: the buckets of a partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Buckets"))]
pub struct BucketList {
    /// Name of the collection.
    pub collection: String,
    /// Name of the view; `primary` is the collection's own sort order.
    pub view: String,
    /// Fields of the partition, with their values.
    pub partition: Map<String, Json>,
    /// Order of the rows, down to one record; `-` is descending.
    pub order: Vec<String>,
    /// Maximum size of a bucket.
    pub target: BucketTarget,
    /// Whether rows and bytes are counted, and not estimated.
    pub exact: bool,
    /// Buckets, in the order of their rows.
    pub buckets: Vec<BucketStatus>,
    /// For each position in `at`, the index of its bucket in `buckets`, from 0; null if its bucket is not in
    /// the list.
    #[serde(default)]
    pub places: Vec<Option<usize>>,
    /// Token of the next list; empty only at the end.
    pub next_page_token: String,
    /// Token of the previous list; empty only at the beginning.
    pub previous_page_token: String,
}

impl BucketList {
    /// Returns the number of the listed entries in words, for example `3 buckets`. Several adjacent entries can be
    /// key ranges of one bucket, for an hour after a join: `64 key ranges in 1 bucket`.
    pub fn counted(&self) -> String {
        let entries = self.buckets.len() as u64;
        let mut numbers: Vec<u64> = self.buckets.iter().map(|one| one.bucket).collect();
        numbers.dedup();
        let buckets = counted(numbers.len() as u64, "bucket", "buckets");
        if numbers.len() as u64 == entries {
            return buckets;
        }
        format!("{} in {buckets}", counted(entries, "key range", "key ranges"))
    }
}

/// A bucket, or a part of one while Recto splits it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub struct BucketStatus {
    /// Number of the bucket.
    pub bucket: u64,
    /// Order values at which the bucket begins, for the first fields of the order; empty at the beginning of
    /// the partition.
    pub start: Vec<Json>,
    /// Order values before which the bucket ends; null at the end of the partition.
    pub end: Option<Vec<Json>>,
    /// Size of the bucket.
    #[serde(flatten)]
    pub figures: BucketFigures,
    /// Size of the rows of this bucket that a split or a join has in other buckets: copies, or rows that are deleted an
    /// hour later. They use disk space in addition to `bytes`.
    #[serde(default)]
    pub leftover: BucketFigures,
    /// Whether the bucket is larger than the target.
    pub too_large: bool,
    /// Step of the bucket's split. `at_rest`: no split. `announced`, `copying` and `switched`: the split is
    /// running. `left`: the split is done, and Recto clears its leftovers in the other bucket an hour later.
    #[cfg_attr(test, schemars(extend("enum" = ["at_rest", "announced", "copying", "switched", "left"])))]
    pub step: String,
    /// Number of the other bucket of the split; null if there is none.
    #[serde(default)]
    pub other: Option<u64>,
}

impl BucketStatus {
    /// Returns whether a split of the bucket into two is in progress. A completed split whose old
    /// copies must still be deleted (step `left`) does not count.
    pub fn is_being_cut(&self) -> bool {
        !matches!(self.step.as_str(), "at_rest" | "left")
    }
}

/// Maximum size of a bucket, in bytes or in rows. While rows arrive faster than Recto splits, a bucket can be
/// larger. A bucket by time has neither, and may have any size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub struct BucketTarget {
    /// Maximum number of bytes: for each row, the bytes of its cells and 64 more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub bytes: Option<u64>,
    /// Maximum number of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub rows: Option<u64>,
    /// Number of partitions of the store over which each bucket is spread; absent, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u8"))]
    pub shards: Option<u8>,
}

impl BucketTarget {
    /// Returns the maximum size of the buckets of a table. `counts` is true for an embedded store,
    /// which counts rows exactly and stores each bucket in one partition (one shard).
    pub fn of(buckets: Buckets, counts: bool) -> Self {
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

    /// Returns the maximum size of a bucket, in rows or in bytes; `u64::MAX` if there is none.
    pub fn most(self) -> u64 {
        self.rows.or(self.bytes).unwrap_or(u64::MAX)
    }

    /// Returns the maximum size of a bucket, in rows or in bytes, for a chart; 0 if there is none.
    pub fn drawn(self) -> u64 {
        self.rows.or(self.bytes).unwrap_or(0)
    }

    /// Returns the size of a bucket, in rows if the maximum size is in rows, otherwise in bytes.
    pub fn measure(self, figures: BucketFigures) -> u64 {
        match self.rows {
            Some(_) => figures.rows,
            None => figures.bytes,
        }
    }
}

/// Size of buckets. A store that does not count rows estimates the size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub struct BucketFigures {
    /// Number of rows.
    pub rows: u64,
    /// Maximum error of `rows` in 95 of 100 cases. If it is 0, `rows` is exact.
    pub rows_error: u64,
    /// Number of bytes: on Cassandra, for each row, the bytes of its cells and 64 more; on an embedded store,
    /// the bytes of its keys and values.
    pub bytes: u64,
    /// Maximum error of `bytes` in 95 of 100 cases. If it is 0, `bytes` is exact.
    pub bytes_error: u64,
}

/// Progress of an operation that splits too large buckets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RebalanceProgress {
    /// Number of partitions that the operation has checked so far.
    pub partitions: u64,
    /// Number of buckets that the operation has created so far by splitting larger ones.
    pub created: u64,
}

/// Result of an operation that splits too large buckets. Each number is a sum over all partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebalanceReport {
    /// Number of partitions that the operation checked.
    pub partitions: u64,
    /// Number of buckets that the checked partitions have after the operation.
    pub buckets: u64,
    /// Number by which splits raised the number of buckets; 0 if joins reduced it.
    pub created: u64,
    /// Number of key ranges with few rows that joins moved to new buckets.
    pub joined: u64,
    /// Number of splits and joins that had begun earlier and are now complete.
    pub completed: u64,
    /// Number of buckets that are still larger than their maximum size. A bucket of one row cannot
    /// be split.
    pub too_large: u64,
    /// Number of key ranges that an earlier split moved to another bucket, and whose old copies
    /// this operation deleted.
    pub cleared: u64,
    /// Number of key ranges that a split moved to another bucket, and whose old copies still exist.
    /// Any process that uses the store deletes old copies one hour after the split.
    pub to_clear: u64,
    /// Number of records older than `keep` that an embedded store deleted. It is 0 on Cassandra, which
    /// deletes old records by key range, without counting them.
    pub deleted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_ranges_of_one_bucket_once() {
        let listed = |numbers: &[u64]| {
            let one = |bucket: &u64| BucketStatus {
                bucket: *bucket,
                ..BucketStatus::default()
            };
            let list = BucketList {
                buckets: numbers.iter().map(one).collect(),
                ..BucketList::default()
            };
            list.counted()
        };
        assert_eq!(listed(&[3]), "1 bucket");
        assert_eq!(listed(&[1, 2]), "2 buckets");
        assert_eq!(listed(&[4, 4, 5]), "3 key ranges in 2 buckets");
    }
}
