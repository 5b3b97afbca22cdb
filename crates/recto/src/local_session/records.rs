//! Records of an open store by their keys, and changes to them, as tools ask for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recto_model::json;
use recto_model::schema::Collection as Definition;

use super::LocalSession;
use crate::batch::WriteBatch;
use crate::collection::Collection;
use crate::error::{ErrorKind, Result};
use crate::key::KeyText;
use crate::record::DynamicRecord;
use crate::row_filter::RowFilter;
use crate::session::{JsonRecord, RecordChange, Records, Written};

#[async_trait]
impl Records for LocalSession {
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<JsonRecord>> {
        let collection = self.recto().pinned(collection)?;
        let Some(record) = collection.get(KeyText(key)).await? else {
            return Ok(None);
        };
        let definition = record.collection();
        if let Some(filters) = self.filters(&definition.name)
            && !RowFilter::new(definition, filters)?.matches(&record)
        {
            return Ok(None);
        }
        Ok(Some(record.to_json()))
    }

    async fn put(
        &self,
        collection: &str,
        records: Vec<JsonRecord>,
        ttl_seconds: Option<u32>,
    ) -> Result<Written> {
        let put = |record| RecordChange::Put {
            collection: collection.to_owned(),
            record,
            ttl_seconds,
        };
        self.write(records.into_iter().map(put).collect()).await
    }

    async fn delete(&self, collection: &str, key: &[String]) -> Result<()> {
        let delete = RecordChange::Delete {
            collection: collection.to_owned(),
            key: key.to_vec(),
        };
        self.write(vec![delete]).await.map(drop)
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let recto = self.recto();
        let mut collections: BTreeMap<String, Collection<DynamicRecord>> = BTreeMap::new();
        let mut batch = recto.batch();
        for (index, change) in changes.iter().enumerate() {
            let name = change.collection();
            if !collections.contains_key(name) {
                collections.insert(name.to_owned(), recto.pinned(name)?);
            }
            self.add_change(&mut batch, &collections[name], change)
                .map_err(|error| match error.kind() {
                    // What the session may not do is said of it, and not of the change.
                    ErrorKind::Forbidden => error,
                    _ => error.with_change(index),
                })?;
        }
        let deletes = changes.iter().filter(|change| !change.is_put()).count();
        let written = Written {
            puts: (changes.len() - deletes - batch.repeated()) as u64,
            deletes: deletes as u64,
            repeated: batch.repeated() as u64,
        };
        batch.commit().await?;
        Ok(written)
    }
}

impl LocalSession {
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
        match change {
            RecordChange::Put {
                record, ttl_seconds, ..
            } => {
                let record = DynamicRecord::from_json(Arc::clone(&definition), record)?;
                rows.iter().try_for_each(|rows| rows.check_write(&record))?;
                match ttl_seconds {
                    None => batch.put(collection, &record)?,
                    Some(seconds) => {
                        batch.put_for(collection, &record, Duration::from_secs((*seconds).into()))?
                    }
                };
            }
            RecordChange::Delete { key, .. } => {
                if let Some(rows) = rows {
                    rows.check_write(&of_key(&definition, key)?)?;
                }
                batch.delete(collection, KeyText(key))?;
            }
        }
        Ok(())
    }
}

/// A record of which only the key is known.
fn of_key(definition: &Arc<Definition>, key: &[String]) -> Result<DynamicRecord> {
    let json = definition.key.iter().zip(key).map(|(name, text)| {
        let field = definition.field(name).map(|(_, field)| field);
        let value = field.and_then(|field| json::from_text(&field.ty, text).ok().map(|value| (field, value)));
        value.map(|(field, value)| (name.clone(), json::to_json(&field.ty, &value)))
    });
    // What is no key is refused where the key is read.
    DynamicRecord::from_json(Arc::clone(definition), &json.flatten().collect())
}
