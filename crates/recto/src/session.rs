//! What a person's tools ask of Recto, in the words of the HTTP API.
//!
//! The command line speaks to a [`Session`] and to nothing else, so that it does the same against
//! an open store ([`LocalSession`](crate::LocalSession)) and against a running server (`recto-client`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use recto_model::schema::Schema;
use recto_model::{Type, json};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value as Json};

use crate::error::{Error, ErrorKind, Result};
pub use crate::paging::PageCost;

/// A record as JSON: field names and values, nulls left out.
pub type JsonRecord = Map<String, Json>;

/// The record JSON of a value that is given as text, as in the address of a record or in a form: `7` for an int,
/// `"7"` for a bigint. Text that is no value of its type stays text, which is refused where it is stored.
pub fn json_of_text(ty: &Type, text: &str) -> Json {
    match json::from_text(ty, text) {
        Ok(value) => json::to_json(ty, &value),
        Err(_) => text.into(),
    }
}

/// Which page to list; HTTP's query parameters.
#[allow(clippy::struct_excessive_bools)] // each is a parameter of its own
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageRequest {
    /// Filter text (AIP-160 subset); empty for none.
    pub filter: String,
    /// Sort text (AIP-132); empty for the view's own order.
    pub order_by: String,
    /// Rows of the page: absent or 0 for the default, above the most is coerced, negative refused.
    pub page_size: Option<i64>,
    /// A token of an earlier page of the same query; empty for the first page.
    pub page_token: String,
    /// The last page.
    pub last: bool,
    /// A JSON array: start at these order values, inclusive.
    pub from: Option<String>,
    /// A row's token: the page around that row.
    pub around: Option<String>,
    /// The fields to return; empty for all.
    pub fields: Vec<String>,
    /// The view to read; empty: the planner chooses.
    pub view: String,
    /// Whether conditions that no view serves may be checked row by row.
    pub allow_residual: bool,
    /// Whether to return a token per row.
    pub row_tokens: bool,
    /// Whether to find out, at both ends, if there is more.
    pub edges_both: bool,
}

/// How far a [scrub](crate::LocalSession::scrub_step) has come. The default is its beginning.
#[derive(Debug, Clone, Default)]
pub struct ScrubPosition {
    #[cfg(feature = "embedded")]
    pub(crate) embedded: recto_embedded::ScrubPosition,
}

/// What a step of a [scrub](crate::LocalSession::scrub_step) read and found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// Bytes that were read.
    pub bytes: u64,
    /// Rows that were verified.
    pub rows: u64,
    /// Whether all of the store was read since the beginning.
    pub is_last: bool,
    /// What is damaged.
    pub problems: Vec<String>,
    /// What whoever used the store met that was damaged, since it was opened.
    pub met: Vec<String>,
}

/// A page as JSON; what HTTP's list and `page --json` print.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageReply {
    /// The records.
    pub records: Vec<JsonRecord>,
    /// Leads to the next page; empty only at the end.
    pub next_page_token: String,
    /// Leads to the previous page; empty only at the beginning.
    pub previous_page_token: String,
    /// `scanned`, `bytes` or `time` when a budget cut the page.
    pub stop: Option<String>,
    /// If asked for: one token per record.
    pub row_tokens: Option<Vec<String>>,
    /// How it was found, as [`Explanation::shape`] names it; empty where that is not known. No part of
    /// the JSON.
    pub shape: String,
    /// What it cost.
    pub cost: PageCost,
    /// Whether what it cost is not for who asked: rows were read that the session's row filter hides, and
    /// the cost counts them. A server does not tell it. No part of the JSON.
    pub cost_hidden: bool,
}

impl PageReply {
    /// The JSON that HTTP's list returns.
    pub fn to_json(&self) -> Json {
        let mut json = Map::new();
        json.insert(
            "records".into(),
            self.records.iter().cloned().map(Json::Object).collect(),
        );
        json.insert("next_page_token".into(), self.next_page_token.clone().into());
        json.insert(
            "previous_page_token".into(),
            self.previous_page_token.clone().into(),
        );
        if let Some(stop) = &self.stop {
            json.insert("stop".into(), stop.clone().into());
        }
        if let Some(tokens) = &self.row_tokens {
            json.insert("row_tokens".into(), tokens.clone().into());
        }
        Json::Object(json)
    }
}

/// A page whose records are text already.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageText {
    /// The records: a JSON array.
    pub records: String,
    /// How many there are.
    pub count: usize,
    /// A digest of `records`, the same in every process with the same cursor keys; absent where the
    /// session has none.
    pub digest: Option<u128>,
    /// The rest of the page; its `records` are empty.
    pub reply: PageReply,
}

/// How a query would be (or was) answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// `empty`, `scan`, `concat` or `merge`, with `+ residual` where rows are checked one by one.
    pub shape: String,
    /// The arrangement that is read: `(carrier), -time_hour, flight`.
    pub arrangement: String,
    /// The table.
    pub table: String,
    /// The query's total order: `time_hour desc, flight asc`.
    pub order: String,
    /// Which way slices are read: `with` or `against` the table's clustering order.
    pub direction: String,
    /// What is read, a source each.
    pub sources: Vec<ExplainedSource>,
    /// Conditions checked row by row.
    pub residual: Vec<String>,
    /// The most rows the page reads.
    pub expected_rows: u64,
    /// The most sequential round-trip stages.
    pub expected_round_trips: u32,
    /// What it did cost, where it was run; never where that would count rows that the session's row
    /// filter hides.
    pub actual: Option<PageCost>,
    /// Rows the page returned, where it was run.
    pub actual_rows_returned: Option<u64>,
    /// The other arrangements, and why they were not taken.
    pub rejected: Vec<(String, String)>,
}

/// One source of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExplainedSource {
    /// The partition: `carrier = "UA"`.
    pub partition: String,
    /// The bounds in clustering order: `time_hour > …`.
    pub bounds: String,
    /// What the store would be asked: CQL statements, or a key range.
    pub requests: Vec<String>,
}

/// What a schema needs of the store it is applied to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct SchemaPlan {
    /// The generation recorded in the store; 0 where there is none.
    pub generation: u64,
    /// Changes in plain words, a line each; empty where the store holds this schema.
    pub changes: Vec<String>,
    /// What would be run to make and change keyspace, types and tables, in order: CQL, or the embedded store's
    /// tables in words. After it, rows of the table `recto_catalog` record the schema and, the first time, cursor keys.
    pub statements: Vec<String>,
    /// What the store has and the schema does not name, a line each: it is left as it is.
    #[serde(default)]
    pub kept: Vec<String>,
    /// What cannot be done, with the reason; `apply` refuses while there is any.
    pub refused: Vec<String>,
}

/// What `apply` shall do beside making the store hold a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyOptions {
    /// Collections to remove with all their records, which the schema does not name. What a schema does
    /// not name and this neither is left as it is. Also Recto's tables that no schema names, such as an
    /// interrupted or refused `apply` may leave.
    pub remove: Vec<String>,
}

impl ApplyOptions {
    /// Nothing beside.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes a collection with all its records.
    #[must_use]
    pub fn remove(mut self, collection: impl Into<String>) -> Self {
        self.remove.push(collection.into());
        self
    }

    pub(crate) fn removes(&self, name: &str) -> bool {
        self.remove.iter().any(|one| one == name)
    }
}

/// What `apply` did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Applied {
    /// The generation now recorded.
    pub generation: u64,
    /// What was changed, a line each; empty where nothing was to be done.
    pub changes: Vec<String>,
    /// What the store has and the schema does not name, a line each: it was left as it is.
    #[serde(default)]
    pub kept: Vec<String>,
}

/// How to load a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadRequest {
    /// The file: .csv or .ndjson, plain or in .gz, .zst, .zip.
    pub file: PathBuf,
    /// Collections to load it into, at least one; each row goes to all.
    pub collections: Vec<String>,
    /// Text that stands for null in CSV cells beside the empty cell.
    pub null: Option<String>,
    /// Load a file again that was loaded to its end.
    pub again: bool,
    /// Leave out columns that are not fields.
    pub ignore_unknown: bool,
    /// Where bad rows go; `None`: beside the file, named after it.
    pub rejects: Option<PathBuf>,
    /// The most memory for rows being sorted and written, in bytes; `None`: the default.
    pub buffer_bytes: Option<u64>,
}

/// How far a load is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoadProgress {
    /// Rows of the file read.
    pub rows_read: u64,
    /// Rows stored, all collections together, those that were there before among them.
    pub rows_stored: u64,
    /// Rows rejected, all collections together.
    pub rows_rejected: u64,
    /// Bytes of the (compressed) file consumed.
    pub bytes_consumed: u64,
    /// Bytes of the (compressed) file.
    pub bytes_total: u64,
}

/// How a load ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LoadReport {
    /// Rows of the file.
    pub rows_read: u64,
    /// Rows of the file that an earlier, interrupted load had stored.
    pub rows_resumed: u64,
    /// What became of the rows, per collection. Each row is stored, replaced, repeated or rejected.
    pub collections: Vec<LoadedCollection>,
    /// The reject file, if any row was rejected.
    #[serde(skip)]
    pub rejects: Option<PathBuf>,
    /// Whether the file had been loaded to its end before, so that nothing was done.
    pub already_loaded: bool,
}

/// What a load did to one collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LoadedCollection {
    /// The collection.
    pub name: String,
    /// Rows stored whose key was not there before, as far as the store knows that without reading:
    /// Cassandra knows it of rows that are sorted together only.
    pub rows_stored: u64,
    /// Rows that took the place of another record, which was there before or came earlier in the file.
    pub rows_replaced: u64,
    /// Rows whose record was there before or came earlier in the file, the same.
    pub rows_repeated: u64,
    /// Rows rejected.
    pub rows_rejected: u64,
    /// Reasons with how many rows each, most first; at most ten.
    #[serde(deserialize_with = "read_reasons")]
    pub reasons: Vec<(String, u64)>,
}

impl LoadedCollection {
    /// The JSON that `load --json` prints of it and a server answers.
    pub fn to_json(&self) -> Json {
        let reasons: Vec<Json> = self
            .reasons
            .iter()
            .map(|(reason, rows)| serde_json::json!({ "reason": reason, "rows": rows }))
            .collect();
        serde_json::json!({
            "name": self.name,
            "rows_stored": self.rows_stored,
            "rows_replaced": self.rows_replaced,
            "rows_repeated": self.rows_repeated,
            "rows_rejected": self.rows_rejected,
            "reasons": reasons,
        })
    }
}

/// Reads reasons as [`LoadedCollection::to_json`] writes them.
fn read_reasons<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, u64)>, D::Error> {
    #[derive(Deserialize)]
    struct Counted {
        reason: String,
        rows: u64,
    }
    let reasons = Vec::<Counted>::deserialize(deserializer)?.into_iter();
    Ok(reasons.map(|one| (one.reason, one.rows)).collect())
}

/// Called with the progress of long work; never more often than some ten times a second.
pub type Progress<'a, T> = &'a (dyn Fn(T) + Send + Sync);

/// What is stored in a store, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreDescription {
    /// What it is and where; never holds a secret.
    pub store: String,
    /// The generation of its schema; 0 where there is none.
    pub generation: u64,
    /// Names of collections.
    pub collections: Vec<String>,
}

/// What `check` found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CheckOutcome {
    /// Records of all collections; those that were deleted or have expired are none.
    pub rows: u64,
    /// The collections, with the records of each.
    pub collections: Vec<CheckedCollection>,
    /// Rows that were checked as well and are no records: what Recto records of itself, and of loads.
    pub internal_rows: u64,
    /// Tables that were compared with the recorded schema. Where there are no `collections` that is all
    /// that was checked: rows are left to Cassandra's own tools.
    #[serde(default)]
    pub tables: u64,
    /// Problems, a line each; empty where all is well.
    pub problems: Vec<String>,
    /// What is no problem and worth knowing, a line each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A copy of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Backup {
    /// Its size.
    pub bytes: u64,
    /// The folder it is, on the machine where the store is.
    pub folder: String,
}

/// A collection that was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CheckedCollection {
    /// Its name.
    pub name: String,
    /// Its records.
    pub rows: u64,
}

/// What may be told of a key that cursors are sealed with: never the key itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct CursorKey {
    /// Its number, which cursors carry in the clear.
    pub id: u32,
    /// Whether it seals new cursors; the others only open old ones.
    pub seals: bool,
    /// When it was made, in seconds since 1970-01-01T00:00:00Z; absent for keys of releases that did
    /// not record it.
    pub made_at_seconds: Option<u64>,
    /// How long ago that was, in seconds.
    pub age_seconds: Option<u64>,
}

/// How far work over a whole store is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StoreProgress {
    /// Units (bytes or rows) done.
    pub done: u64,
    /// Units in all, where known.
    pub total: Option<u64>,
}

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

/// Which part of a collection to scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanRequest {
    /// Filter text (AIP-160 subset): only records that satisfy it; empty for all. One that pages could
    /// not be served for is applied to every record of the collection.
    pub filter: String,
    /// The fields to return; empty for all.
    pub fields: Vec<String>,
    /// How many token ranges to read side by side; 0 for the default.
    pub parallel: u32,
    /// A token of an earlier scan of the same filter to go on from.
    pub resume: Option<String>,
}

/// One step of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanStep {
    /// Records, in no order that the other store would share. There may be none, with more to come.
    pub records: Vec<JsonRecord>,
    /// Goes on after these records; absent at the end.
    pub resume: Option<String>,
}

/// What tools ask of Recto.
///
/// ```
/// use recto::{OpenOptions, Session};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("store");
/// # let address = recto::StoreAddress::Embedded(folder);
/// let session = recto::open(&address, OpenOptions::new().create()).await?;
/// assert_eq!(session.describe().await?.generation, 0);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Session: Send + Sync {
    /// What store this is.
    async fn describe(&self) -> Result<StoreDescription>;
    /// The schema recorded in the store.
    async fn schema(&self) -> Result<Arc<Schema>>;
    /// What applying `schema` would do.
    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan>;
    /// Makes the store hold `schema`, beside what it has.
    async fn apply(&self, schema: &Schema, options: &ApplyOptions) -> Result<Applied>;
    /// One page of a collection.
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply>;
    /// One page of a collection, for who only passes its records on: the same as
    /// [`page`](Self::page), without a JSON value for each field of each record.
    async fn page_text(&self, collection: &str, request: &PageRequest) -> Result<PageText> {
        let mut reply = self.page(collection, request).await?;
        let records = std::mem::take(&mut reply.records);
        Ok(PageText {
            count: records.len(),
            records: Json::Array(records.into_iter().map(Json::Object).collect()).to_string(),
            digest: None,
            reply,
        })
    }
    /// How a page would be answered; `run`: also run it and say what it cost.
    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation>;
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
    /// Every record of a collection, in steps; nothing is read until it is polled.
    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>>;
    /// The partitions of a collection that have a record, in steps and in the store's own order: of
    /// each the partition fields. What it costs grows with them and not with their records. Nothing is
    /// read until it is polled.
    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        let message = format!("the partitions of {collection} are not listed through a server");
        let error = Error::new(ErrorKind::Unsupported, message);
        stream::once(std::future::ready(Err(error))).boxed()
    }
    /// Loads a file.
    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport>;
    /// Copies an open embedded store to a new folder. Through a server that is a name, in a folder of
    /// the server's.
    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup>;
    /// Gives unused space of an embedded store back; returns bytes before and after.
    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)>;
    /// The keys that cursors are sealed with, as the store holds them; never the keys themselves.
    async fn cursor_keys(&self) -> Result<Vec<CursorKey>>;
    /// Adds a cursor key, which seals from now on, and keeps `earlier` of those before it; returns all.
    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>>;
    /// Checks every row of an embedded store.
    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome>;
}

impl fmt::Debug for dyn Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}
