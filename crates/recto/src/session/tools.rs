//! Looking after a store: its schema, its files, its keys.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use recto_api::buckets::{
    BucketList, BucketPartitions, BucketsRequest, RebalanceProgress, RebalanceReport, RebalanceRequest,
};
use recto_api::csv::CsvOptions;
use recto_api::misfits::Misfits;
use recto_api::store::{CursorKey, SchemaPlan};
use recto_api::views::ViewStatus;
use recto_model::schema::Schema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use super::views::{VerifyReport, VerifyRequest, ViewProgress};
use crate::error::{Error, Result};

/// What `apply` shall do beside making the store hold a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyOptions {
    /// Names of things to remove: collections with all their records (`orders`), views (`orders.by_customer`) and unique
    /// constraints (`users.unique.email`, `users.unique.tenant,slug`). The schema must not name them. `apply` keeps
    /// everything else. The list may also name a table of Recto that no schema names,
    /// such as one that an interrupted `apply` left.
    pub remove: Vec<String>,
    /// The most records a second that new views are filled with, and are compared with; `None`: as fast as it goes.
    pub rows_per_second: Option<u32>,
    /// Whether a view, or a unique constraint, is added although records do not fit it. It lacks these records then.
    pub allow_misfits: bool,
}

impl ApplyOptions {
    /// Nothing beside.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes a collection with all its records, a view (`orders.by_customer`) or a unique constraint
    /// (`users.unique.email`).
    #[must_use]
    pub fn remove(mut self, name: impl Into<String>) -> Self {
        self.remove.push(name.into());
        self
    }

    /// Adds a view, or a unique constraint, although records do not fit it.
    #[must_use]
    pub fn allow_misfits(mut self) -> Self {
        self.allow_misfits = true;
        self
    }

    pub(crate) fn removes(&self, name: &str) -> bool {
        self.remove.iter().any(|one| one == name)
    }
}

/// How large rows are: the bytes of their cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowSizes {
    /// How many were looked at.
    pub rows: u64,
    /// The bytes of all of them together.
    pub bytes: u64,
    /// The squares of the bytes of each, together.
    pub squared_bytes: u128,
    /// The bytes of the largest.
    pub largest_bytes: u64,
}

impl RowSizes {
    /// Bytes in the mean; 0 where there are no rows.
    pub fn mean_bytes(&self) -> u64 {
        self.bytes.checked_div(self.rows).unwrap_or(0)
    }

    /// The standard deviation of the bytes of a row; 0 where there are no rows.
    pub fn deviation_bytes(&self) -> f64 {
        let (rows, bytes) = (u128::from(self.rows), u128::from(self.bytes));
        // In whole numbers: of rows that are nearly of one size nothing would be left of the difference in floating point.
        let scaled = (rows * self.squared_bytes).saturating_sub(bytes * bytes);
        (scaled as f64).sqrt() / self.rows.max(1) as f64
    }

    /// Counts a row.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
        self.squared_bytes += u128::from(bytes).pow(2);
        self.largest_bytes = self.largest_bytes.max(bytes);
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
    /// Records that do not fit views and unique constraints that were added, which lack them.
    #[serde(default)]
    pub misfits: Vec<Misfits>,
}

/// How to load a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadRequest {
    /// The file: .csv or .ndjson, plain or in .gz, .zst, .zip.
    pub file: PathBuf,
    /// Collections to load it into, at least one; each row goes to all.
    pub collections: Vec<String>,
    /// Options for a CSV file.
    pub csv: CsvOptions,
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
    /// Its views, by name.
    pub views: Vec<LoadedView>,
}

/// What a load did to one view. Rows that are repeated within the file, and sorted together, count once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LoadedView {
    /// The view.
    pub name: String,
    /// Rows not rejected that have an entry in it.
    pub entries: u64,
    /// Rows not rejected that it leaves out, since a field that it is by is null.
    pub left_out: u64,
}

impl LoadedCollection {
    /// The JSON that `load --json` prints of it and a server answers.
    pub fn to_json(&self) -> Json {
        let reasons: Vec<Json> = self
            .reasons
            .iter()
            .map(|(reason, rows)| serde_json::json!({ "reason": reason, "rows": rows }))
            .collect();
        let views = self.views.iter().map(|view| {
            serde_json::json!({ "name": view.name, "entries": view.entries, "left_out": view.left_out })
        });
        serde_json::json!({
            "name": self.name,
            "rows_stored": self.rows_stored,
            "rows_replaced": self.rows_replaced,
            "rows_repeated": self.rows_repeated,
            "rows_rejected": self.rows_rejected,
            "reasons": reasons,
            "views": views.collect::<Vec<_>>(),
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

/// Called with what long work saw, again and again: whether it goes on.
pub type GoesOn<'a, T> = &'a (dyn Fn(T) -> bool + Send + Sync);

/// Called when a part of long work failed that can be done later: it goes on, unless an error is given back, by which it
/// ends.
pub type Bears<'a> = &'a (dyn Fn(Error) -> Result<()> + Send + Sync);

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

/// How far work over a whole store is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StoreProgress {
    /// Units (bytes or rows) done.
    pub done: u64,
    /// Units in all, where known.
    pub total: Option<u64>,
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

/// What a look at all who write to a store showed, and what was done for those who died.
///
/// Where a store has transactions nobody leaves anything, and all of it is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecoveryPass {
    /// Processes that live.
    pub living: usize,
    /// Processes of which is not known yet whether they live: that takes half a minute.
    pub watched: usize,
    /// Processes that were found dead now.
    pub found_dead: usize,
    /// The dead whose intents are still to be resolved.
    pub unresolved: usize,
    /// The dead whose intents are resolved, which is done once more after a day.
    pub waiting: usize,
    /// The dead of whom nothing is left any more.
    pub removed: usize,
    /// Records that were resolved: their views are as they are.
    pub resolved: usize,
}

impl RecoveryPass {
    /// Whether there is nothing to be done for now, and nobody to be watched.
    pub fn is_done(&self) -> bool {
        self.watched == 0 && self.unresolved == 0
    }
}

/// What looks after a store: see [`Session::tools`](super::Session::tools).
#[async_trait]
pub trait Tools: Send + Sync {
    /// What applying `schema` would do.
    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan>;
    /// Makes the store hold `schema`, beside what it has, and brings its views to their end.
    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied>;
    /// The views of the store, in the order their tables were made.
    async fn views(&self) -> Result<Vec<ViewStatus>>;
    /// Compares views with their records, and mends what is wrong if that is asked for.
    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport>;
    /// Looks after what processes left that died while they changed records, every few seconds, and tells what it saw and did,
    /// until it is told that this is enough; the last look, or none where nothing is ever left. What a look could not do is
    /// done by the next one, if that is borne.
    async fn recover(
        &self,
        goes_on: GoesOn<'_, RecoveryPass>,
        bears: Bears<'_>,
    ) -> Result<Option<RecoveryPass>>;
    /// Loads a file.
    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport>;
    /// Copies an open embedded store to a new folder. Through a server that is a name, in a folder of
    /// the server's.
    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup>;
    /// Gives unused space of an embedded store back; returns bytes before and after.
    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)>;
    /// The keys that cursors are sealed with, as the store holds them; never the keys themselves.
    async fn cursor_keys(&self) -> Result<Vec<CursorKey>>;
    /// Adds a cursor key, which encrypts from now on, and keeps `earlier` of those before it; returns all.
    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>>;
    /// How large the rows of a collection are, in its own sort order: of the first million that the store gives.
    async fn row_sizes(&self, collection: &str) -> Result<RowSizes>;
    /// The partitions of a sort order that is kept in buckets; the filter is left empty.
    async fn bucket_partitions(&self, collection: &str, request: &BucketsRequest)
    -> Result<BucketPartitions>;
    /// The buckets of the partition that the filter names.
    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList>;
    /// Does by hand what is done in the background where partitions are kept in buckets: cuts those that are too large, goes on with
    /// cuts that were left half done, and clears what they left.
    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport>;
    /// Checks every row of an embedded store.
    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_differ_by_is_told_of_few_bytes_in_large_rows_too() {
        let measured = |sizes: &[u64]| {
            let mut all = RowSizes::default();
            for bytes in sizes {
                all.add(*bytes);
            }
            all
        };
        let none = measured(&[]);
        assert_eq!((none.mean_bytes(), none.deviation_bytes()), (0, 0.0));
        let some = measured(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!(
            (some.mean_bytes(), some.deviation_bytes(), some.largest_bytes),
            (5, 2.0, 9)
        );
        let large = measured(&[1_000_000_000_000_000, 1_000_000_000_000_002]);
        assert_eq!(
            (large.mean_bytes(), large.deviation_bytes()),
            (1_000_000_000_000_001, 1.0)
        );
    }
}
