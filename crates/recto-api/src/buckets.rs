//! The buckets of a collection.

use serde::{Deserialize, Serialize};

use crate::parameters::{json_text, whole_number};

/// Which partitions of a collection, or which buckets of one of them.
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
    /// Places, a JSON array of arrays of values of the order's first fields: the list is around the first place, and names
    /// the bucket of each.
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Vec<Vec<serde_json::Value>>"))]
    pub at: Option<String>,
}

/// Body of `POST …/buckets:mend`: which buckets to split now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MendRequest {
    /// View whose buckets Recto splits; absent or empty, the collection's own sort order.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub view: String,
    /// Filter that names one partition; absent or empty, all partitions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// Wait up to an hour and clear what earlier splits left. A server does so by itself.
    #[serde(skip)]
    pub clear: bool,
}

impl BucketsRequest {
    /// The parameters of `…/partitions`. Those of `…/buckets` are all.
    pub const OF_PARTITIONS: &[&str] = &["view", "page_size", "page_token"];
}
