//! Records by their keys, and changes to them.

use async_trait::async_trait;

use super::JsonRecord;
use crate::error::Result;
use crate::present::Versioned;

/// A change of one record.
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
    /// The record's collection.
    pub collection: String,
    /// What is done.
    pub action: Action,
    /// Refuses the change unless the record is of this version. Records of collections with `writes = "append"` or
    /// `"overwrite"` have none.
    pub if_version: Option<i64>,
}

/// What is done to a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// It is stored, unless one is there. Only in collections with `writes = "update"`.
    Insert {
        /// The record.
        record: JsonRecord,
        /// How long it lives; absent: until it is deleted.
        ttl_seconds: Option<u32>,
    },
    /// It is stored, in the place of one that is there.
    Put {
        /// The record.
        record: JsonRecord,
        /// How long it lives; absent: until it is deleted.
        ttl_seconds: Option<u32>,
    },
    /// Some of its fields get new values, and the others stay. Only in collections with `writes = "update"`.
    Update {
        /// The text of each of its key fields, in order.
        key: Vec<String>,
        /// The new values, whole; null clears a field.
        fields: JsonRecord,
    },
    /// It is deleted.
    Delete {
        /// The text of each of its key fields, in order.
        key: Vec<String>,
    },
}

impl RecordChange {
    /// A change, whatever version the record is of.
    pub fn new(collection: impl Into<String>, action: Action) -> Self {
        Self {
            collection: collection.into(),
            action,
            if_version: None,
        }
    }

    /// The same, refused unless the record is of this version, if one is given.
    #[must_use]
    pub fn if_version(mut self, version: Option<i64>) -> Self {
        self.if_version = version;
        self
    }
}

impl Action {
    /// A record is put that lives until it is deleted.
    pub fn put(record: JsonRecord) -> Self {
        let ttl_seconds = None;
        Self::Put { record, ttl_seconds }
    }

    /// Whether it deletes a record.
    pub fn is_delete(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }
}

/// What became of a change that was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The version that the record has now, or that its deletion has. Absent in collections whose records have none.
    pub version: Option<i64>,
    /// Whether some of its views may not show it yet, though they will.
    pub pending: bool,
}

/// What a write did.
#[derive(Debug, Default)]
pub struct Written {
    /// Records that were put or inserted, each key once.
    pub puts: u64,
    /// Updates.
    pub updates: u64,
    /// Deletions.
    pub deletes: u64,
    /// Further puts of the same keys: of each key the last one stands, or all are of the same record.
    pub repeated: u64,
    /// Of records that have versions, which are changed each for itself: what became of each change.
    pub outcomes: Vec<Result<Outcome>>,
}

impl Written {
    /// Counts a change that was made.
    pub fn count(&mut self, action: &Action) {
        match action {
            Action::Insert { .. } | Action::Put { .. } => self.puts += 1,
            Action::Update { .. } => self.updates += 1,
            Action::Delete { .. } => self.deletes += 1,
        }
    }

    /// What became of the only change.
    ///
    /// # Errors
    /// It was not made.
    pub fn only(mut self) -> Result<Outcome> {
        self.outcomes.pop().unwrap_or_else(|| Ok(Outcome::default()))
    }
}

/// What a session is asked of single records.
#[async_trait]
pub trait Records: Send + Sync {
    /// One record by its key, the text of each key field, in order; with its version, if it has one.
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>>;

    /// Makes several changes.
    ///
    /// In collections whose records have no versions, they are made together: all or none on the embedded store; on
    /// Cassandra as one logged batch, all of which is made in the end, though a reader may see a part first. An error
    /// that is about one of them says [which](crate::Error::change).
    ///
    /// In collections with `writes = "update"`, each record is changed for itself, and has an
    /// [outcome](Written::outcomes) of its own; changes of one record are made in the order given. An error is about
    /// what is wrong with a change whatever is stored: none of them was made then.
    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written>;

    /// Makes one change.
    async fn change(&self, change: RecordChange) -> Result<Outcome> {
        self.write(vec![change]).await?.only()
    }

    /// Puts records, which live for a time if one is given.
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
