//! Reply that describes the views of a store and their states.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::misfits::MisfitCounts;

/// Reply to `GET …/views`: views of collections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Views"))]
pub struct ViewList {
    /// Views, by collection.
    pub views: Vec<ViewStatus>,
}

/// A view, with the state of its table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ViewStatus"))]
pub struct ViewStatus {
    /// Name of the collection.
    pub collection: String,
    /// Name of the view.
    pub view: String,
    /// Partition and order of the view, in one line: `(carrier), -time_hour, flight`.
    pub sort_order: String,
    /// Fields that select a partition.
    pub partition: Vec<String>,
    /// Order inside a partition, down to one record; `-` is descending.
    pub order: Vec<String>,
    /// Collation of each order field whose text sorts by one, a language tag. Other text sorts by its bytes.
    #[serde(default)]
    pub collate: BTreeMap<String, String>,
    /// Fields that the view holds. Recto looks up other fields in the record.
    pub fields: Vec<String>,
    /// State of the table. `building`: Recto writes and fills the table. `ready`: Recto reads pages from it.
    /// `retiring` and `dropping`: Recto removes it. `outdated`: its sort keys have another version of the
    /// collation, so Recto does not read or write it until you apply the schema again.
    #[cfg_attr(
        test,
        schemars(extend("enum" = ["building", "ready", "retiring", "dropping", "outdated"]))
    )]
    pub state: String,
    /// Number of the table. No other table of the store ever has it.
    pub number: u64,
    /// Name of the table.
    pub table: String,
    /// Number of records that a view in the state `building` has so far; null in other states.
    #[serde(default)]
    pub rows_filled: Option<u64>,
    /// Number of records that the view lacks because they do not fit it. The actual number may be smaller.
    #[serde(default)]
    pub misfits: MisfitCounts,
}
