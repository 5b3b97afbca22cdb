//! Records by their keys, and changes to them.

use async_trait::async_trait;

use super::JsonRecord;
use crate::error::Result;

/// One change of several that are made together.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordChange {
    /// A record is put.
    Put {
        /// Its collection.
        collection: String,
        /// The record.
        record: JsonRecord,
        /// How long it lives; absent: until it is deleted.
        ttl_seconds: Option<u32>,
    },
    /// A record is deleted.
    Delete {
        /// Its collection.
        collection: String,
        /// The text of each of its key fields, in order.
        key: Vec<String>,
    },
}

impl RecordChange {
    /// The collection it changes.
    pub fn collection(&self) -> &str {
        match self {
            Self::Put { collection, .. } | Self::Delete { collection, .. } => collection,
        }
    }

    /// Whether it puts a record.
    pub fn is_put(&self) -> bool {
        matches!(self, Self::Put { .. })
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Records that were put, each key once.
    pub puts: u64,
    /// Deletions.
    pub deletes: u64,
    /// Further puts of the same keys: of each key the last one stands, or all are of the same record.
    pub repeated: u64,
}

/// What a session is asked of single records.
#[async_trait]
pub trait Records: Send + Sync {
    /// One record by its key: the text of each key field, in order.
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<JsonRecord>>;
    /// Puts records, which live for a time if one is given; all or nothing on the embedded store.
    async fn put(
        &self,
        collection: &str,
        records: Vec<JsonRecord>,
        ttl_seconds: Option<u32>,
    ) -> Result<Written>;
    /// Deletes a record by its key.
    async fn delete(&self, collection: &str, key: &[String]) -> Result<()>;
    /// Makes changes together: all or none on the embedded store; on Cassandra one logged batch, all
    /// of which is made in the end, though a reader may see a part first. An error that is about one
    /// of them says [which](crate::Error::change).
    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written>;
}
