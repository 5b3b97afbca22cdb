//! Reads of records by their keys, and changes of records.

use async_trait::async_trait;

use super::JsonRecord;
use crate::error::Result;
use crate::present::Versioned;

/// Change of one record.
///
/// ```
/// use recto::session::{Action, RecordChange};
///
/// let fields = serde_json::json!({ "status": "away", "note": null });
/// let update = Action::Update { key: vec!["7".into()], fields: fields.as_object().unwrap().clone() };
/// let change = RecordChange::new("users", update).if_version(Some(1_763_740_800_000_000));
/// assert_eq!(change.collection, "users");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RecordChange {
    /// Name of the record's collection.
    pub collection: String,
    /// Operation on the record.
    pub action: Action,
    /// Version that the record must have; otherwise the change is rejected. Records of collections with
    /// `writes = "append"` or `writes = "overwrite"` have no version.
    pub if_version: Option<i64>,
}

/// Operation on a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Stores a new record. Fails if a record with the key exists, or if the collection does not
    /// have `writes = "update"`.
    Insert {
        /// Fields of the record.
        record: JsonRecord,
        /// Time to live in seconds. `None`: the record lives until it is deleted.
        ttl_seconds: Option<u32>,
    },
    /// Stores a record, and replaces an existing record with the key.
    Put {
        /// Fields of the record.
        record: JsonRecord,
        /// Time to live in seconds. `None`: the record lives until it is deleted.
        ttl_seconds: Option<u32>,
    },
    /// Sets some fields of a record, and keeps the others. Fails if the collection does not have
    /// `writes = "update"`.
    Update {
        /// Value of each key field as text, in the order of the key.
        key: Vec<String>,
        /// New values of the changed fields. Each value replaces the whole value of its field; null
        /// clears the field.
        fields: JsonRecord,
    },
    /// Deletes a record.
    Delete {
        /// Value of each key field as text, in the order of the key.
        key: Vec<String>,
    },
}

impl RecordChange {
    /// Creates a change that does not depend on the version of the record.
    pub fn new(collection: impl Into<String>, action: Action) -> Self {
        Self {
            collection: collection.into(),
            action,
            if_version: None,
        }
    }

    /// Sets the version that the record must have; `None` allows any version.
    #[must_use]
    pub fn if_version(mut self, version: Option<i64>) -> Self {
        self.if_version = version;
        self
    }
}

impl Action {
    /// Returns the operation that stores a record without a TTL.
    pub fn put(record: JsonRecord) -> Self {
        let ttl_seconds = None;
        Self::Put { record, ttl_seconds }
    }

    /// Returns whether the operation deletes a record.
    pub fn is_delete(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }
}

/// Outcome of a change that was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// New version of the record, or version of its deletion. `None` in collections whose records have no versions.
    pub version: Option<i64>,
    /// True if some views of the collection may not show the change yet. They will show it later.
    pub pending: bool,
}

/// Result of a request to write records.
#[derive(Debug, Default)]
pub struct Written {
    /// Number of records that were put or inserted. Several puts of one key count once.
    pub puts: u64,
    /// Number of records that were updated.
    pub updates: u64,
    /// Number of records that were deleted.
    pub deletes: u64,
    /// Number of further puts with a key that was already put. The last put of a key wins, or all
    /// puts store the same record.
    pub repeated: u64,
    /// Result of each change, in collections whose records have versions. These changes are made
    /// independently. Empty in other collections.
    pub outcomes: Vec<Result<Outcome>>,
}

impl Written {
    /// Counts a change that was made, by its kind.
    pub fn count(&mut self, action: &Action) {
        match action {
            Action::Insert { .. } | Action::Put { .. } => self.puts += 1,
            Action::Update { .. } => self.updates += 1,
            Action::Delete { .. } => self.deletes += 1,
        }
    }

    /// Returns the outcome of a request with one change.
    ///
    /// # Errors
    /// The error of the change.
    pub fn only(mut self) -> Result<Outcome> {
        self.outcomes.pop().unwrap_or_else(|| Ok(Outcome::default()))
    }
}

/// Reads and writes of single records.
#[async_trait]
pub trait Records: Send + Sync {
    /// Returns the record with this key and its version, if it has one. `key` has the value of each
    /// key field as text, in the order of the key.
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>>;

    /// Makes several changes.
    ///
    /// In collections whose records have no versions, the changes are made together. An embedded store makes all or
    /// none. Cassandra makes them as one logged batch: all of them are made in the end, but a reader may see a part
    /// first. An error of one change contains [its index](crate::Error::change).
    ///
    /// In collections with `writes = "update"`, each record is changed independently and has its
    /// own [outcome](Written::outcomes). Changes of one record are made in the given order. The
    /// call returns an error only if a change is invalid regardless of the stored data. In this
    /// case, no change was made.
    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written>;

    /// Makes one change of a record, and returns its outcome.
    async fn change(&self, change: RecordChange) -> Result<Outcome> {
        self.write(vec![change]).await?.only()
    }

    /// Stores records, with a time to live if `ttl_seconds` is given.
    async fn put(
        &self,
        collection: &str,
        records: Vec<JsonRecord>,
        ttl_seconds: Option<u32>,
    ) -> Result<Written> {
        let put = |record| RecordChange::new(collection, Action::Put { record, ttl_seconds });
        self.write(records.into_iter().map(put).collect()).await
    }

    /// Deletes a record by its key.
    async fn delete(&self, collection: &str, key: &[String]) -> Result<()> {
        let key = key.to_vec();
        let delete = RecordChange::new(collection, Action::Delete { key });
        self.change(delete).await.map(drop)
    }
}
