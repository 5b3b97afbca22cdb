//! Request and report of attaching an existing table.

use std::sync::Arc;

use recto_model::schema::{AttachedTable, Collection};
use serde_json::{Value as Json, json};

use crate::address::CassandraAddress;

/// Request to attach an existing table as a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// Table to attach.
    pub table: AttachedTable,
    /// Address of the table's cluster. The keyspace of this address is ignored, because `table`
    /// contains the keyspace.
    pub from: CassandraAddress,
    /// Name of the collection. `None`: the name of the table is used.
    pub name: Option<String>,
    /// Tables of the keyspace that become views. The materialized views of the table become views
    /// in any case.
    pub views: Vec<String>,
}

/// Column or table that did not become a field or view of the attached collection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Name of the column or table.
    pub what: String,
    /// Reason why it was left out.
    pub why: String,
}

/// Result of attaching a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttachReport {
    /// The collection, as the store has recorded it.
    pub collection: Arc<Collection>,
    /// Recorded address of the table's keyspace, without credentials.
    pub address: String,
    /// Generation of the store's schema after the change.
    pub generation: u64,
    /// Changes of the schema, one line each. Empty if the table was already attached in this way.
    pub changes: Vec<String>,
    /// Columns and views that the collection lacks, with the reasons.
    pub left_out: Vec<LeftOut>,
}

impl AttachReport {
    /// Returns the name of the attached table with its keyspace.
    pub fn table(&self) -> String {
        self.collection
            .attached
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Json {
        let collection = &self.collection;
        let fields = collection.fields.iter();
        let fields = fields.map(|field| json!({ "name": field.name, "type": field.ty.to_string() }));
        let sort_orders = collection.sort_orders();
        let sort_orders = sort_orders.iter().map(
            |one| json!({ "name": one.name(), "table": one.table_name(0), "sort_order": one.to_string() }),
        );
        let left_out = self.left_out.iter();
        let left_out = left_out.map(|one| json!({ "what": one.what, "why": one.why }));
        json!({
            "collection": collection.name,
            "table": self.table(),
            "address": self.address,
            "generation": self.generation,
            "changes": self.changes,
            "fields": fields.collect::<Vec<_>>(),
            "sort_orders": sort_orders.collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
        })
    }
}
