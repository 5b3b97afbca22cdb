//! Merge of a schema into a store's recorded schema: parts that only the recorded schema has are
//! kept.

use std::sync::Arc;

use super::Bucket;
use super::model::{Collection, Field, Schema};

impl Schema {
    /// Returns this schema with the parts that only `recorded`, the schema of a store, has.
    /// Additional types and collections follow those of this schema. Each collection keeps its
    /// additional fields, views, unique constraints and its bucket.
    ///
    /// In each collection, the recorded fields come first, in the recorded order, and new fields
    /// follow in the order of this schema. The reason is that fields correspond to the columns of a
    /// table, whose order never changes. The position of a new field in the schema text has no
    /// meaning.
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
    /// Returns this collection with the fields, views, unique constraints, bucket and `keep` that
    /// only `recorded` has. `recorded` is the collection of the same name in a store's schema.
    /// [`Schema::keeping`] does this for all collections.
    #[must_use]
    pub fn keeping(&self, recorded: &Self) -> Self {
        if self.attached.is_some() {
            // Keep nothing of the recorded collection, because the attached table alone determines
            // the collection.
            return self.clone();
        }
        let stays = |field: &Field| self.field(&field.name).map_or(field, |(_, own)| own).clone();
        let is_new = |field: &&Field| recorded.field(&field.name).is_none();
        let fields = recorded.fields.iter().map(stays);
        let more = recorded.views.iter();
        let more = more.filter(|view| self.view(&view.name).is_none());
        // Keep the recorded constraints in their recorded order, because the order of constraints
        // has no meaning.
        let new_unique = self.unique.iter().filter(|fields| !recorded.is_unique(fields));
        Self {
            fields: fields.chain(self.fields.iter().filter(is_new).cloned()).collect(),
            views: self.views.iter().chain(more).cloned().collect(),
            unique: recorded.unique.iter().chain(new_unique).cloned().collect(),
            bucket: self.bucket_keeping(recorded),
            ..self.clone()
        }
    }

    /// Returns the declared bucket, or the recorded bucket if none is declared. A declared bucket
    /// without `keep` gets the recorded `keep` (retention time).
    fn bucket_keeping(&self, recorded: &Self) -> Option<Bucket> {
        let arranged = |of: &Self| (of.writes, of.partition.clone(), of.order.clone());
        if arranged(self) != arranged(recorded) {
            // A bucket belongs to the sort order that it splits. If the sort order changed, keep
            // nothing, because the change is rejected later.
            return self.bucket.clone();
        }
        let mut bucket = self.bucket.clone().or_else(|| recorded.bucket.clone())?;
        bucket.keep = bucket
            .keep
            .or(recorded.bucket.as_ref().and_then(|bucket| bucket.keep));
        Some(bucket)
    }

    /// Returns whether the collection has a unique constraint of exactly these fields, in any
    /// order.
    pub fn is_unique(&self, fields: &[String]) -> bool {
        let is_it =
            |set: &&Vec<String>| set.len() == fields.len() && set.iter().all(|field| fields.contains(field));
        self.unique.iter().any(|set| is_it(&set))
    }
}
