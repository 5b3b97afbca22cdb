//! What was found of buckets, in the words of the HTTP API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What is kept in buckets, each of which was looked at: whether its rows are where its directory says, and what stands beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedBuckets {
    /// The collection.
    pub collection: String,
    /// The view; `primary`: the collection's own sort order.
    pub view: String,
    /// Rows as they lie there, those included that are being moved.
    pub rows: u64,
    /// Buckets that have any; where they have shards, of these.
    pub buckets: u64,
    /// How much is wrong, by kinds: `damaged_directory`, `lost_directory`, `unregistered_bucket`, `unmarked_root`, `half_done`, `stray`, `double`,
    /// `below_floor`, `missing_sample`, `wrong_sample`, `orphan_sample`. What is not wrong at all is not named.
    pub found: BTreeMap<String, u64>,
    /// Buckets that are larger than they should be, which is not wrong: `recto buckets --rebalance` splits those that can be split.
    #[serde(default)]
    pub too_large: u64,
    /// Number of faults that were repaired.
    #[serde(default, alias = "mended")]
    pub repaired: u64,
    /// The first of it.
    pub examples: Vec<BucketFault>,
}

/// Something that is wrong with buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketFault {
    /// What, in the words of [`VerifiedBuckets::found`].
    pub kind: String,
    /// Of which partition: the values of its fields.
    #[serde(default)]
    pub partition: Json,
    /// The number of the bucket, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u64>,
    /// Of which row, if it is one's: its order values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Vec<Json>>,
    /// What there is to say beside that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// `repaired`, or the reason why it was not repaired. Empty without a repair.
    #[serde(default)]
    pub outcome: String,
}

impl VerifiedBuckets {
    /// How much is wrong.
    pub fn wrong(&self) -> u64 {
        self.found.values().sum()
    }

    /// How much is wrong still.
    pub fn left(&self) -> u64 {
        self.wrong().saturating_sub(self.repaired)
    }
}
