//! One record.

use serde::{Deserialize, Serialize};

use crate::parameters::{comma_separated, whole_number};

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
    /// Time in seconds after which the record expires; absent, it stays until it is deleted. In an append collection, a
    /// record that exists lives for the longer of the two times (on Cassandra, for the one that was given later).
    #[serde(deserialize_with = "whole_number", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = 630_720_000)))]
    pub ttl_seconds: Option<i64>,
}
