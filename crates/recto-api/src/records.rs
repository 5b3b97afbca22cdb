//! Options of requests about records, and replies to changes of records.

use serde::{Deserialize, Serialize};

use crate::parameters::{comma_separated, whole_number};
use crate::queues::Rejection;

/// Options of `GET …/records/KEY`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GetOptions {
    /// Fields to return; absent or empty, all.
    #[serde(with = "comma_separated", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<String>", extend("explode" = false)))]
    pub fields: Vec<String>,
}

/// Options of `PUT …/records/KEY`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PutOptions {
    /// Time in seconds after which the record expires; absent, the record stays until it is deleted. In an
    /// append collection, the longer of two times applies to an existing record (on Cassandra, the time that
    /// was given last).
    #[serde(deserialize_with = "whole_number", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = 630_720_000)))]
    pub ttl_seconds: Option<i64>,
}

/// Reply to `POST …/records:batchWrite`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BatchResult {
    /// Number of records that were put or inserted. Each key counts once.
    pub puts: u64,
    /// Number of deletions.
    pub deletes: u64,
    /// Number of further puts with the key of another put. The last put of a key counts. In an append
    /// collection, all puts of a key have the same record.
    #[serde(default)]
    pub repeated: u64,
    /// Number of updates; absent for records without versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub updates: Option<u64>,
    /// Outcome of each change, in their order; absent for records without versions, because all their changes
    /// are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<ChangeOutcome>,
}

/// Outcome of a change: it was made, or was rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
#[serde(untagged)]
pub enum ChangeOutcome {
    /// The change was rejected.
    Rejected(Box<Rejection>),
    /// The change was made.
    Made(MadeChange),
}

/// A change that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MadeChange {
    /// New version of the record: a whole number as text.
    #[cfg_attr(test, schemars(with = "String", regex(pattern = "^-?[0-9]+$")))]
    pub version: Option<String>,
    /// Whether some views show the change a little later.
    #[serde(default)]
    pub pending: bool,
}
