//! The order of fields that are stored already.

use std::sync::Arc;

use super::model::{Collection, Schema};

impl Schema {
    /// This schema with each collection's fields in the order in which a store that holds `recorded`
    /// keeps them: those recorded first, as they are recorded, then the others as they are here.
    ///
    /// The order of a collection's fields is the order of its table's columns, which never changes;
    /// where a new field stands in the text of a schema says nothing.
    #[must_use]
    pub fn in_recorded_order(&self, recorded: &Self) -> Self {
        let collections = self.collections.iter().map(|collection| {
            recorded.collection(&collection.name).map_or_else(
                || Arc::clone(collection),
                |recorded| Arc::new(collection.in_recorded_order(recorded)),
            )
        });
        Self {
            types: self.types.clone(),
            collections: collections.collect(),
        }
    }
}

impl Collection {
    /// This collection with its fields in the order in which a store that holds `recorded` keeps
    /// them, as [`Schema::in_recorded_order`] does for all of a schema.
    #[must_use]
    pub fn in_recorded_order(&self, recorded: &Self) -> Self {
        let mut collection = self.clone();
        let place = |name: &str| {
            recorded
                .field(name)
                .map_or(recorded.fields.len(), |(place, _)| place)
        };
        collection.fields.sort_by_key(|field| place(&field.name));
        collection
    }
}
