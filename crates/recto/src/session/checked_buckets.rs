//! Reports of the check of buckets, in the terms of the HTTP API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Result of the check of the buckets of a view, or of a collection's own sort order. The check compares the positions
/// of all rows with the range map. It also checks the data that is stored with the rows, such as samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedBuckets {
    /// Name of the collection.
    pub collection: String,
    /// Name of the view; `primary` for the collection's own sort order.
    pub view: String,
    /// Number of stored rows, including rows that are being moved.
    pub rows: u64,
    /// Number of buckets that have rows. If buckets have shards, the number of shards that have rows.
    pub buckets: u64,
    /// Number of defects by kind: `damaged_directory`, `returned_range`, `lost_directory`, `unregistered_bucket`,
    /// `unmarked_root`, `half_done`, `stray`, `double`, `below_floor`, `missing_sample`, `wrong_sample`, `orphan_sample`. Kinds without
    /// defects are absent.
    pub found: BTreeMap<String, u64>,
    /// Number of buckets that are larger than their maximum size. They are not defects: `recto buckets --rebalance`
    /// splits the buckets that can be split.
    #[serde(default)]
    pub too_large: u64,
    /// Number of defects that were repaired.
    #[serde(default, alias = "mended")]
    pub repaired: u64,
    /// First defects that were found, with details.
    pub examples: Vec<BucketFault>,
}

/// Defect of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketFault {
    /// Kind of the defect, as in [`VerifiedBuckets::found`].
    pub kind: String,
    /// Values of the fields of the partition key.
    #[serde(default)]
    pub partition: Json,
    /// Id of the bucket. `None` if the defect does not belong to one bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u64>,
    /// Values of the row's fields in the sort order. `None` if the defect does not belong to one
    /// row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Vec<Json>>,
    /// Further details of the defect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// `repaired`, or the reason why the defect was not repaired. Empty if no repair was requested.
    #[serde(default)]
    pub outcome: String,
}

impl VerifiedBuckets {
    /// Returns the number of defects of all kinds.
    pub fn wrong(&self) -> u64 {
        self.found.values().sum()
    }

    /// Returns the number of defects that were not repaired.
    pub fn left(&self) -> u64 {
        self.wrong().saturating_sub(self.repaired)
    }
}
