//! Attaching of an existing table.

use std::sync::Arc;

use recto_model::schema::{AttachedTable, Collection};
use serde_json::{Value as Json, json};

use crate::address::CassandraAddress;

/// Request to attach a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// Table to attach.
    pub table: AttachedTable,
    /// Address of its cluster. The keyspace of this address is ignored; the keyspace of the table counts.
    pub from: CassandraAddress,
    /// Name of the collection. `None`: the name of the table.
    pub name: Option<String>,
    /// Tables of the keyspace that become views, in addition to the table's materialized views, which all become views.
    pub views: Vec<String>,
}

/// Column or view that the collection lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The column or view.
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
    /// Recorded address of its keyspace, without credentials.
    pub address: String,
    /// Generation of the store's schema after the change.
    pub generation: u64,
    /// Changes, one line each. Empty if the table was already attached in this way.
    pub changes: Vec<String>,
    /// Columns and views that were left out.
    pub left_out: Vec<LeftOut>,
}

impl AttachReport {
    /// Returns the name of the table.
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
