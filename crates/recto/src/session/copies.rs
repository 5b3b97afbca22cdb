//! Request, progress and report of copying one store into another.

use serde_json::{Value as Json, json};

use recto_api::misfits::Misfits;

/// Request to copy a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyRequest {
    /// Names of the collections to copy; empty for all.
    pub collections: Vec<String>,
    /// Maximum number of records that are read per second. `None`: no limit.
    pub rows_per_second: Option<u32>,
}

/// Progress of copying one store into another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Name of the collection that is being copied or compared.
    pub collection: String,
    /// Step: `copying` or `comparing`. Before the first collection, the step is `recovering`, which
    /// completes changes of an interrupted run.
    pub step: String,
    /// Number of rows of the collection that were read in this step, including rows that an earlier
    /// run read. When the source and the target are compared, the rows of both stores count.
    pub rows: u64,
    /// Part of `rows` that an earlier run of the same copy read.
    pub rows_resumed: u64,
    /// Completed part of the step. When copying, the unit is a key range; the ranges have about
    /// equal size if keys are evenly distributed. When comparing, the unit is a row.
    pub done: u64,
    /// Total of the step, in the same unit as `done`.
    pub total: u64,
}

/// Count and digest of the records of a collection in one store. The order of the records has no
/// effect on the values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordSum {
    /// Number of counted records: all records except those that expire.
    pub records: u64,
    /// Sum of the records' digests. A digest covers the values of all fields, and the version if it is known.
    pub digest: u128,
    /// Number of records that may expire during the count and that `records` and `digest` therefore
    /// leave out. These are all records with a TTL. If the collection's records can change, only
    /// records that expire within a day.
    pub ending: u64,
}

/// Result of copying a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopiedCollection {
    /// Name of the collection.
    pub name: String,
    /// Number of rows of the collection that were read, including rows that earlier runs read.
    pub rows_read: u64,
    /// Part of `rows_read` that an earlier run of the same copy read.
    pub rows_resumed: u64,
    /// Count and digest of the records in the source.
    pub source: RecordSum,
    /// Count and digest of the records in the target after the copy.
    pub target: RecordSum,
}

/// Result of copying one store into another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Result for each copied collection.
    pub collections: Vec<CopiedCollection>,
    /// True if cursors of the source are valid in the target.
    pub cursors_go_on: bool,
    /// Parts of the source that were not copied, one line each.
    pub left_out: Vec<String>,
    /// Copied records that views or unique constraints of the target cannot store.
    pub misfits: Vec<Misfits>,
}

impl CopiedCollection {
    /// Returns whether both stores have the same records with the same versions.
    pub fn is_equal(&self) -> bool {
        (self.source.records, self.source.digest) == (self.target.records, self.target.digest)
    }
}

impl CopyReport {
    /// Returns whether both stores have the same records with the same versions, in all collections that were copied.
    pub fn is_equal(&self) -> bool {
        self.collections.iter().all(CopiedCollection::is_equal)
    }

    /// Returns the JSON that `copy --json` prints.
    pub fn to_json(&self) -> Json {
        let sum = |sum: &RecordSum| json!({ "records": sum.records, "digest": format!("{:032x}", sum.digest), "ending": sum.ending });
        let collections = self.collections.iter().map(|one| {
            json!({
                "name": one.name,
                "rows_read": one.rows_read,
                "rows_resumed": one.rows_resumed,
                "from": sum(&one.source),
                "to": sum(&one.target),
                "equal": one.is_equal(),
            })
        });
        json!({
            "collections": collections.collect::<Vec<_>>(),
            "equal": self.is_equal(),
            "cursors_go_on": self.cursors_go_on,
            "left_out": self.left_out,
            "misfits": self.misfits,
        })
    }
}
