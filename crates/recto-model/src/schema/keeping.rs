//! What of a recorded schema stays when another is applied to its store.

use std::sync::Arc;

use super::model::{Collection, Field, Schema};

impl Schema {
    /// This schema with what `recorded`, the schema of a store, has beyond it: its further types and
    /// collections follow those of this one, and each collection keeps its further fields and views.
    ///
    /// Fields that are recorded stand first, as they are recorded, and then the others as they are here:
    /// the order of a collection's fields is the order of its table's columns, which never changes. Where
    /// a new field stands in the text of a schema says nothing.
    #[must_use]
    pub fn keeping(&self, recorded: &Self) -> Self {
        let mut kept = self.clone();
        for collection in &mut kept.collections {
            if let Some(recorded) = recorded.collection(&collection.name) {
                *collection = Arc::new(collection.keeping(recorded));
            }
        }
        let more = recorded.collections.iter();
        kept.collections
            .extend(more.filter(|one| self.collection(&one.name).is_none()).cloned());
        let more = recorded.types.iter();
        kept.types.extend(
            more.filter(|udt| !self.types.iter().any(|own| own.name == udt.name))
                .cloned(),
        );
        kept
    }
}

impl Collection {
    /// This collection with the further fields and views that `recorded`, the same collection of a store, has,
    /// as [`Schema::keeping`] does for all of a schema.
    #[must_use]
    pub fn keeping(&self, recorded: &Self) -> Self {
        if self.attached.is_some() {
            // What it has is its table's to say.
            return self.clone();
        }
        let stays = |field: &Field| self.field(&field.name).map_or(field, |(_, own)| own).clone();
        let is_new = |field: &&Field| recorded.field(&field.name).is_none();
        let fields = recorded.fields.iter().map(stays);
        let more = recorded.views.iter();
        let more = more.filter(|view| self.view(&view.name).is_none());
        Self {
            fields: fields.chain(self.fields.iter().filter(is_new).cloned()).collect(),
            views: self.views.iter().chain(more).cloned().collect(),
            ..self.clone()
        }
    }
}
