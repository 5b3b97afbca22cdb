//! What of a recorded schema stays when another is applied to its store.

use std::sync::Arc;

use super::Bucket;
use super::model::{Collection, Field, Schema};

impl Schema {
    /// This schema with what `recorded`, the schema of a store, has beyond it: its further types and
    /// collections follow those of this one, and each collection keeps its further fields, views, unique constraints
    /// and its bucket.
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
    /// Returns this collection with the fields, views, unique constraints, bucket and `keep` that only `recorded` has, the
    /// same collection in a store. [`Schema::keeping`] does so for all of a schema.
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
        // The order of constraints says nothing: those of the store stay where they are recorded.
        let new_unique = self.unique.iter().filter(|fields| !recorded.is_unique(fields));
        Self {
            fields: fields.chain(self.fields.iter().filter(is_new).cloned()).collect(),
            views: self.views.iter().chain(more).cloned().collect(),
            unique: recorded.unique.iter().chain(new_unique).cloned().collect(),
            bucket: self.bucket_keeping(recorded),
            ..self.clone()
        }
    }

    /// The declared bucket, or the recorded one if none is declared. A bucket that is declared without `keep` has the
    /// recorded one.
    fn bucket_keeping(&self, recorded: &Self) -> Option<Bucket> {
        let arranged = |of: &Self| (of.writes, of.partition.clone(), of.order.clone());
        if arranged(self) != arranged(recorded) {
            // Such a change is refused; a bucket belongs to the sort order that it splits.
            return self.bucket.clone();
        }
        let mut bucket = self.bucket.clone().or_else(|| recorded.bucket.clone())?;
        bucket.keep = bucket
            .keep
            .or(recorded.bucket.as_ref().and_then(|bucket| bucket.keep));
        Some(bucket)
    }

    /// Whether no two records may share the values of these fields, named in any order.
    pub fn is_unique(&self, fields: &[String]) -> bool {
        let is_it =
            |set: &&Vec<String>| set.len() == fields.len() && set.iter().all(|field| fields.contains(field));
        self.unique.iter().any(|set| is_it(&set))
    }
}
