//! Body of an HTTP error reply as JSON (RFC 9457).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// A problem, as replies have it (RFC 9457).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Problem"))]
pub struct ProblemBody {
    /// Type of the problem, for programs. A later release may add types.
    #[serde(rename = "type")]
    #[cfg_attr(test, schemars(regex(pattern = "^urn:recto:problem:[a-z-]+$")))]
    pub name: String,
    /// Title of the type, for people.
    #[serde(default)]
    pub title: String,
    /// HTTP status. For one of several parts of a request, the status of a request with only this part.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 400, max = 599)))]
    pub status: u16,
    /// Description of this error.
    pub detail: String,
    /// Part of the query, the record or the request that is wrong: `filter`, `sort`, `from`,
    /// `cursor`, `view`, `fields`, `page_size`, `record`, `key`. A later release may add parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub part: Option<String>,
    /// Field of the record, or member of the body, that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub field: Option<String>,
    /// Parameter that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub parameter: Option<String>,
    /// Position in the parameter or in the body, in characters from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "std::num::NonZeroU64"))]
    pub position: Option<u64>,
    /// Fields that the filter must fix with `=`, so that a view can be used. Absent if the filter
    /// fixes a partition, or if no view can be used for the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_partition_fields: Vec<String>,
    /// Version of the record that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub version: Option<String>,
    /// The record that exists, if the token may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Map<String, Json>"))]
    pub record: Option<Map<String, Json>>,
    /// Advice about the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub hint: Option<String>,
}
