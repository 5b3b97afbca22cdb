//! Attaching a table that is there.

use std::sync::Arc;

use recto_model::schema::{AttachedTable, Collection};
use serde_json::{Value as Json, json};

use crate::address::CassandraAddress;

/// What to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// The table.
    pub table: AttachedTable,
    /// How its cluster is reached; the keyspace is the table's, whatever is said here.
    pub from: CassandraAddress,
    /// The collection's name; absent: the table's.
    pub name: Option<String>,
    /// Tables of the keyspace that become views beside the table's materialized views, which all do.
    pub views: Vec<String>,
}

/// What of a table has no place in a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// A column, or a view.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttachReport {
    /// The collection, as the store has it.
    pub collection: Arc<Collection>,
    /// How its keyspace is reached, as it is recorded: without credentials.
    pub address: String,
    /// The generation of the store's schema then.
    pub generation: u64,
    /// What changed, a line each; empty if it was attached so before.
    pub changes: Vec<String>,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
}

impl AttachReport {
    /// The table.
    pub fn table(&self) -> String {
        self.collection
            .attached
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// The report as JSON.
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
