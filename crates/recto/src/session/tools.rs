//! Maintenance of a store: its schema, its files and its keys.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use recto_api::buckets::{
    BucketList, BucketPartitions, BucketsRequest, RebalanceProgress, RebalanceReport, RebalanceRequest,
};
use recto_api::csv::CsvOptions;
use recto_api::misfits::Misfits;
use recto_api::store::{CommitLog, CursorKey, SchemaPlan};
use recto_api::views::ViewStatus;
use recto_model::schema::Schema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use super::views::{VerifyReport, VerifyRequest, ViewProgress};
use crate::error::{Error, Result};

/// Options of applying a schema to a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyOptions {
    /// Names of parts of the store to remove: collections with all their records (`orders`), views
    /// (`orders.by_customer`) and unique constraints (`users.unique.email`,
    /// `users.unique.tenant,slug`). The applied schema must not declare them. `apply` keeps all
    /// other parts. A name may also be that of a table of Recto that no schema names, such as a
    /// table that an interrupted `apply` left.
    pub remove: Vec<String>,
    /// Maximum number of records that are read per second when new views are filled and compared.
    /// `None`: no limit.
    pub rows_per_second: Option<u32>,
    /// If true, adds a view or a unique constraint even if it cannot store some records. The view
    /// or constraint lacks those records.
    pub allow_misfits: bool,
}

impl ApplyOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the name of a part of the store to remove: a collection with all its records, a view
    /// (`orders.by_customer`) or a unique constraint (`users.unique.email`).
    #[must_use]
    pub fn remove(mut self, name: impl Into<String>) -> Self {
        self.remove.push(name.into());
        self
    }

    /// Adds views and unique constraints although they cannot store some records.
    #[must_use]
    pub fn allow_misfits(mut self) -> Self {
        self.allow_misfits = true;
        self
    }

    pub(crate) fn removes(&self, name: &str) -> bool {
        self.remove.iter().any(|one| one == name)
    }
}

/// Statistics of the sizes of rows. The size of a row is the number of bytes of its cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowSizes {
    /// Number of rows that were measured.
    pub rows: u64,
    /// Sum of the rows' sizes, in bytes.
    pub bytes: u64,
    /// Sum of the squares of the rows' sizes in bytes.
    pub squared_bytes: u128,
    /// Size of the largest row, in bytes.
    pub largest_bytes: u64,
}

impl RowSizes {
    /// Returns the mean size of a row in bytes; 0 if there are no rows.
    pub fn mean_bytes(&self) -> u64 {
        self.bytes.checked_div(self.rows).unwrap_or(0)
    }

    /// Returns the standard deviation of the size of a row, in bytes; 0 if there are no rows.
    pub fn deviation_bytes(&self) -> f64 {
        let (rows, bytes) = (u128::from(self.rows), u128::from(self.bytes));
        // Compute with integers, because floating point would lose the small difference between
        // nearly equal sizes.
        let scaled = (rows * self.squared_bytes).saturating_sub(bytes * bytes);
        (scaled as f64).sqrt() / self.rows.max(1) as f64
    }

    /// Adds a row of `bytes` bytes to the statistics.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
        self.squared_bytes += u128::from(bytes).pow(2);
        self.largest_bytes = self.largest_bytes.max(bytes);
    }
}

/// Result of applying a schema to a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Applied {
    /// Generation of the schema that the store has recorded.
    pub generation: u64,
    /// Changes, one line each. Empty if nothing had to be changed.
    pub changes: Vec<String>,
    /// Parts of the store that the schema does not name and that were kept, one line each.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Records that the added views and unique constraints cannot store and therefore lack.
    #[serde(default)]
    pub misfits: Vec<Misfits>,
}

/// Request to load a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadRequest {
    /// File to load: .csv or .ndjson, plain or in .gz, .zst, .zip.
    pub file: PathBuf,
    /// Names of the collections to load into, at least one. Each row is stored in all of them.
    pub collections: Vec<String>,
    /// Options of a CSV file.
    pub csv: CsvOptions,
    /// If true, loads a file again that was already loaded completely.
    pub again: bool,
    /// If true, ignores columns of the file that are not fields of a collection.
    pub ignore_unknown: bool,
    /// File for rejected rows. `None`: a file in the folder of the loaded file, named after it.
    pub rejects: Option<PathBuf>,
    /// Maximum memory for rows that are sorted and written, in bytes. `None`: the default of Recto.
    pub buffer_bytes: Option<u64>,
}

/// Progress of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoadProgress {
    /// Number of rows of the file that were read.
    pub rows_read: u64,
    /// Number of rows that were stored, summed over all collections, including rows that existed
    /// before.
    pub rows_stored: u64,
    /// Number of rejected rows, summed over all collections.
    pub rows_rejected: u64,
    /// Number of bytes of the file (as stored, possibly compressed) that were read.
    pub bytes_consumed: u64,
    /// Size of the file (as stored, possibly compressed) in bytes.
    pub bytes_total: u64,
}

/// Result of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LoadReport {
    /// Number of rows in the file.
    pub rows_read: u64,
    /// Number of rows of the file that an earlier, interrupted run had already stored.
    pub rows_resumed: u64,
    /// Result for each collection. In each collection, each row is stored, replaced, repeated or
    /// rejected.
    pub collections: Vec<LoadedCollection>,
    /// Path of the file with the rejected rows, if any row was rejected.
    #[serde(skip)]
    pub rejects: Option<PathBuf>,
    /// True if the file was already loaded completely and this load changed nothing.
    pub already_loaded: bool,
}

/// Result of a load for one collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LoadedCollection {
    /// Name of the collection.
    pub name: String,
    /// Number of stored rows whose key did not exist before, as far as the store knows this without
    /// reading. Cassandra only detects equal keys among rows that are sorted together.
    pub rows_stored: u64,
    /// Number of rows that replaced a different record, which existed before or came earlier in the
    /// file.
    pub rows_replaced: u64,
    /// Number of rows with the same content as a record that existed before or came earlier in the file.
    pub rows_repeated: u64,
    /// Number of rejected rows.
    pub rows_rejected: u64,
    /// Reasons of the rejections with their number of rows, the most frequent reason first; at most
    /// ten.
    #[serde(deserialize_with = "read_reasons")]
    pub reasons: Vec<(String, u64)>,
    /// Results of the collection's views, by name.
    pub views: Vec<LoadedView>,
}

/// Result of a load for one view. Rows that are repeated within the file and sorted together count once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LoadedView {
    /// Name of the view.
    pub name: String,
    /// Number of accepted rows that have an entry in this view.
    pub entries: u64,
    /// Number of accepted rows that this view omits, because a field of the view's key is null.
    pub left_out: u64,
}

impl LoadedCollection {
    /// Returns the JSON that `load --json` prints for the collection and that a server returns.
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

/// Parses reasons as [`LoadedCollection::to_json`] writes them.
fn read_reasons<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, u64)>, D::Error> {
    #[derive(Deserialize)]
    struct Counted {
        reason: String,
        rows: u64,
    }
    let reasons = Vec::<Counted>::deserialize(deserializer)?.into_iter();
    Ok(reasons.map(|one| (one.reason, one.rows)).collect())
}

/// Function that receives the progress of a long operation, at most about ten times per second.
pub type Progress<'a, T> = &'a (dyn Fn(T) + Send + Sync);

/// Function that repeatedly receives the findings of a long operation. It returns whether the
/// operation continues.
pub type FindingHandler<'a, T> = &'a (dyn Fn(T) -> bool + Send + Sync);

/// Function that receives an error of a long operation whose failed part can be repeated later. The
/// operation continues, unless the function returns an error, which ends the operation.
pub type ErrorHandler<'a> = &'a (dyn Fn(Error) -> Result<()> + Send + Sync);

/// Result of checking the rows or the tables of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CheckOutcome {
    /// Number of records of all collections, without deleted and expired records.
    pub rows: u64,
    /// Collections that were checked, with the number of records of each.
    pub collections: Vec<CheckedCollection>,
    /// Number of other rows that were checked: rows in which Recto stores its own data, such as the
    /// progress of loads.
    pub internal_rows: u64,
    /// Number of tables that were compared with the recorded schema. On Cassandra, `collections` is
    /// empty and no rows were checked, because Cassandra has its own tools for it.
    #[serde(default)]
    pub tables: u64,
    /// Problems that the check found, one line each.
    pub problems: Vec<String>,
    /// Notes for the user that are not problems, one line each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Result of a backup: the copy of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Backup {
    /// Size of the copy, in bytes.
    pub bytes: u64,
    /// Folder of the copy, on the machine that has the store.
    pub folder: String,
}

/// Result of checking the records of one collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CheckedCollection {
    /// Name of the collection.
    pub name: String,
    /// Number of the collection's records.
    pub rows: u64,
}

/// Progress of an operation on a whole store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StoreProgress {
    /// Number of completed units. A unit is a byte or a row.
    pub done: u64,
    /// Total number of units, if it is known.
    pub total: Option<u64>,
}

/// Position of a [scrub](crate::LocalSession::scrub_step). The default is the beginning.
#[derive(Debug, Clone, Default)]
pub struct ScrubPosition {
    #[cfg(feature = "embedded")]
    pub(crate) embedded: recto_embedded::ScrubPosition,
}

/// Result of a step of a [scrub](crate::LocalSession::scrub_step).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// Number of bytes that the step read.
    pub bytes: u64,
    /// Number of rows that the step verified.
    pub rows: u64,
    /// True if the scrub has read the whole store since its beginning.
    pub is_last: bool,
    /// Damage that this step found.
    pub problems: Vec<String>,
    /// Damage that other reads and writes have found since the store was opened.
    pub met: Vec<String>,
}

/// Result of a check of all processes that write to a store, and of the recovery of dead processes.
///
/// All numbers are 0 for a store with transactions, because a dead process leaves no unfinished work there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecoveryPass {
    /// Number of processes that are known to be alive.
    pub living: usize,
    /// Number of processes of which it is not known yet whether they are alive or dead. To find out
    /// takes half a minute.
    pub watched: usize,
    /// Number of processes that this check newly found dead.
    pub found_dead: usize,
    /// Number of dead processes that have unresolved intents. An intent is the record of a change
    /// that may be incomplete.
    pub unresolved: usize,
    /// Number of dead processes whose intents are resolved but kept. They are resolved once more
    /// after a day.
    pub waiting: usize,
    /// Number of dead processes whose data this check removed completely.
    pub removed: usize,
    /// Number of records whose interrupted changes were completed, so that their views match them.
    pub resolved: usize,
}

impl RecoveryPass {
    /// Returns whether nothing remains to be done now: no intent is unresolved, and the state of
    /// every process is known.
    pub fn is_done(&self) -> bool {
        self.watched == 0 && self.unresolved == 0
    }
}

/// Maintenance of a store: its schema, views, files and keys. See
/// [`Session::tools`](super::Session::tools).
#[async_trait]
pub trait Tools: Send + Sync {
    /// Returns the plan of the changes that applying `schema` would make. Changes nothing.
    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan>;
    /// Adds the definitions of `schema` to the store, and builds its new views completely.
    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied>;
    /// Returns the status of the store's views, in the order in which their tables were created.
    async fn views(&self) -> Result<Vec<ViewStatus>>;
    /// Compares views with their records, and repairs differences if [`VerifyRequest::repair`] is set.
    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport>;
    /// Recovers the work of processes that died while they changed records. Checks every few
    /// seconds, and passes each result to `on_pass` until it returns false. Returns the result of
    /// the last check, or nothing for a store that never needs recovery. If a check fails,
    /// `on_error` decides whether recovery continues. The next check then repeats the failed work.
    async fn recover(
        &self,
        on_pass: FindingHandler<'_, RecoveryPass>,
        on_error: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>>;
    /// Loads a file of records into collections.
    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport>;
    /// Copies an open embedded store to a new folder. Through a server, `to` is the name of a
    /// subfolder in the backup folder of the server.
    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup>;
    /// Returns unused space of an embedded store to the file system. Returns the sizes before and after, in bytes.
    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)>;
    /// Returns the state of the commit log of an embedded store, or `None` for a store on Cassandra.
    async fn commit_log(&self) -> Result<Option<CommitLog>>;
    /// Returns descriptions of the keys that encrypt cursors. The descriptions do not contain the
    /// keys themselves.
    async fn cursor_keys(&self) -> Result<Vec<CursorKey>>;
    /// Adds a cursor key, which encrypts all new cursors, and keeps `earlier` previous keys.
    /// Returns descriptions of all keys.
    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>>;
    /// Returns statistics of the sizes of a collection's rows. Measures the first million rows of
    /// the base table.
    async fn row_sizes(&self, collection: &str) -> Result<RowSizes>;
    /// Returns the partitions of a sort order that is kept in buckets. The filter of the request
    /// has no effect.
    async fn bucket_partitions(&self, collection: &str, request: &BucketsRequest)
    -> Result<BucketPartitions>;
    /// Returns the buckets of the partition that the filter of the request names.
    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList>;
    /// Does at once the work on buckets that the store otherwise does in the background. It splits
    /// buckets that are too large, continues unfinished splits, and clears the old buckets of
    /// finished splits.
    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport>;
    /// Checks every row of an embedded store. On Cassandra, compares the tables with the schema.
    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_small_deviations_of_large_rows() {
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
