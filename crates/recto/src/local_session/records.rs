//! Reads and changes of records by their keys, in a session on an open store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recto_model::json;
use recto_model::schema::{Collection as Definition, WriteMode};

use super::LocalSession;
use crate::batch::WriteBatch;
use crate::collection::Collection;
use crate::error::{Error, ErrorKind, Result};
use crate::key::KeyText;
use crate::present::Versioned;
use crate::record::DynamicRecord;
use crate::row_filter::RowFilter;
use crate::session::{Action, JsonRecord, RecordChange, Records, Written};
use crate::writes::not_changed;

/// Collections that a request changes, fixed to their current state, by name.
pub(super) type Collections = BTreeMap<String, Collection<DynamicRecord>>;

#[async_trait]
impl Records for LocalSession {
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>> {
        let collection = self.recto().pinned(collection)?;
        let found = self.visible(&collection, key).await?;
        Ok(found.map(|found| Versioned {
            record: found.record.to_json(),
            version: found.version,
        }))
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let mut collections = Collections::new();
        for change in &changes {
            let name = &change.collection;
            if !collections.contains_key(name) {
                collections.insert(name.clone(), self.recto().pinned(name)?);
            }
        }
        if are_each_for_itself(&collections)? {
            return self.write_each(&collections, changes).await;
        }
        self.write_together(&collections, &changes).await
    }
}

impl LocalSession {
    /// Returns the record with the given key, if it exists and the session may see it.
    pub(super) async fn visible(
        &self,
        collection: &Collection<DynamicRecord>,
        key: &[String],
    ) -> Result<Option<Versioned<DynamicRecord>>> {
        let Some(found) = collection.get_versioned(KeyText(key)).await? else {
            return Ok(None);
        };
        let definition = found.record.collection();
        if let Some(filters) = self.filters(&definition.name)
            && !RowFilter::new(definition, filters)?.matches(&found.record)
        {
            return Ok(None);
        }
        Ok(Some(found))
    }

    /// Makes all changes in one batch: all are applied or none.
    async fn write_together(&self, collections: &Collections, changes: &[RecordChange]) -> Result<Written> {
        let mut batch = self.recto().batch();
        for (index, change) in changes.iter().enumerate() {
            self.add_change(&mut batch, &collections[&change.collection], change)
                .map_err(|error| of_change(error, index))?;
        }
        let mut written = Written::default();
        for change in changes {
            written.count(&change.action);
        }
        written.repeated = batch.repeated() as u64;
        written.puts -= written.repeated;
        batch.commit().await?;
        Ok(written)
    }

    fn add_change(
        &self,
        batch: &mut WriteBatch,
        collection: &Collection<DynamicRecord>,
        change: &RecordChange,
    ) -> Result<()> {
        let definition = collection.definition();
        let rows = self
            .filters(&definition.name)
            .map(|filters| RowFilter::new(&definition, filters))
            .transpose()?;
        match &change.action {
            Action::Put { record, ttl_seconds } if change.if_version.is_none() => {
                let record = DynamicRecord::from_json(Arc::clone(&definition), record)?;
                rows.iter().try_for_each(|rows| rows.check_write(&record))?;
                match ttl_seconds {
                    None => batch.put(collection, &record)?,
                    Some(seconds) => {
                        batch.put_for(collection, &record, Duration::from_secs((*seconds).into()))?
                    }
                };
                Ok(())
            }
            Action::Delete { key } if change.if_version.is_none() => {
                if let Some(rows) = rows {
                    rows.check_write(&of_key(&definition, key)?)?;
                }
                batch.delete(collection, KeyText(key))?;
                Ok(())
            }
            _ => Err(not_changed(&*collection.now()?)),
        }
    }
}

/// Returns whether the changes must be made independently, because the records have versions.
///
/// # Errors
/// Some of the collections have versions, and others do not.
fn are_each_for_itself(collections: &Collections) -> Result<bool> {
    let changing =
        |collection: &&Collection<DynamicRecord>| collection.definition().writes == WriteMode::Update;
    let each = collections.values().find(changing);
    let together = collections.values().find(|one| !changing(one));
    let (Some(each), Some(together)) = (each, together) else {
        return Ok(each.is_some());
    };
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "one write cannot change records of {}, which change one by one, and records of {}, which change \
             together",
            each.definition().name,
            together.definition().name
        ),
    )
    .with_hint("write the records of each collection in a request of their own; nothing was written"))
}

/// Adds to an error the index of its change in the request.
pub(super) fn of_change(error: Error, index: usize) -> Error {
    match error.kind() {
        // An error about permissions concerns the session, and not one change, so it gets no index.
        ErrorKind::Forbidden => error,
        _ => error.with_change(index),
    }
}

/// Returns a record that contains only the values of the key. All other fields are null.
pub(super) fn of_key(definition: &Arc<Definition>, key: &[String]) -> Result<DynamicRecord> {
    let json = definition.key.iter().zip(key).map(|(name, text)| {
        let field = definition.field(name).map(|(_, field)| field);
        let value = field.and_then(|field| json::from_text(&field.ty, text).ok().map(|value| (field, value)));
        value.map(|(field, value)| (name.clone(), json::to_json(&field.ty, &value)))
    });
    // Omit a value that cannot be parsed. The request is rejected later, when it encodes the key.
    DynamicRecord::from_json(Arc::clone(definition), &json.flatten().collect())
}
