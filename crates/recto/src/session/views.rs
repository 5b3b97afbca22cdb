//! Progress of work on views, and comparisons of views with their records.

use serde::Deserialize;

use super::VerifiedBuckets;
use recto_api::misfits::MisfitCounts;

/// Progress of filling, comparing or dropping a view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ViewProgress {
    /// Name of the view's collection.
    pub collection: String,
    /// Name of the view. Several views that are filled or compared together are separated by commas.
    pub view: String,
    /// Step of the work: `waiting`, `filling`, `verifying` or `dropping`. Or `checking_buckets`,
    /// for a view or for a collection's own sort order, whose name is `primary`.
    pub step: String,
    /// Number of rows that were completed in this step.
    pub rows: u64,
    /// Total number of rows of this step, if it is known.
    pub total: Option<u64>,
    /// Checkpoint of a comparison. A comparison with this value in [`VerifyRequest::resume`]
    /// continues after the part that was compared. The checkpoint is encrypted, and valid only for
    /// this store, these views and this schema.
    #[serde(rename = "resume_token")]
    pub resume: Option<String>,
}

impl ViewProgress {
    /// Returns the JSON that a server sends.
    pub fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!({
            "collection": self.collection,
            "view": self.view,
            "step": self.step,
            "rows": self.rows,
            "total": self.total,
        });
        if let Some(resume) = &self.resume {
            json["resume_token"] = resume.as_str().into();
        }
        json
    }
}

/// Request to compare views with their records, and to check the buckets of the same collections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyRequest {
    /// Names of the collections whose views are compared; empty for all collections.
    pub collections: Vec<String>,
    /// If true, repairs the differences and defects that are found.
    pub repair: bool,
    /// Maximum memory for the comparison of all views together, in bytes. `None`: the default of
    /// Recto. With less memory, the tables are read more often.
    pub memory_bytes: Option<u64>,
    /// Maximum number of rows of base tables and views that are read per second. `None`: no limit.
    pub rows_per_second: Option<u32>,
    /// Checkpoint of an interrupted comparison, from [`ViewProgress::resume`]. `None`: the
    /// comparison starts at the beginning.
    pub resume: Option<String>,
}

/// Result of a comparison of views with their records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct VerifyReport {
    /// Results of the views that were compared. The results of unique constraints follow, as views
    /// with the name `unique (FIELDS)`.
    pub views: Vec<VerifiedView>,
    /// Results of the checks of buckets, which precede the comparison.
    #[serde(default)]
    pub buckets: Vec<VerifiedBuckets>,
    /// Views that were not compared because they are still being built or are being removed, one
    /// line each.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Age of the interrupted comparison that this comparison continued, in seconds since its
    /// beginning. The report includes the findings of that comparison, which may be out of date.
    /// `None` if this comparison started at the beginning.
    #[serde(default)]
    pub begun_seconds_ago: Option<u64>,
}

/// Result of a comparison of one view with its collection's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct VerifiedView {
    /// Name of the collection.
    pub collection: String,
    /// Name of the view.
    pub view: String,
    /// Number of records that have an entry in the view.
    pub records: u64,
    /// Number of entries of the view.
    pub entries: u64,
    /// Number of records whose entry is missing.
    pub missing: u64,
    /// Number of entries that belong to no record.
    pub orphan: u64,
    /// Number of entries that differ from their record.
    pub differing: u64,
    /// Number of repaired differences, among missing, orphan and differing entries.
    #[serde(default, alias = "mended")]
    pub repaired: u64,
    /// Number of misfits: records that the view cannot store, and that therefore have no entry.
    #[serde(default)]
    pub misfits: MisfitCounts,
    /// Number of misfits (records that the view cannot store) that the store has recorded. Further
    /// misfits count as defects.
    #[serde(default)]
    pub misfits_recorded: MisfitCounts,
    /// First differences and misfits that were found, with details.
    pub examples: Vec<Drift>,
}

/// Difference between a view and its collection's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Drift {
    /// Kind of the difference: `missing`, `orphan`, `differing` or `misfit`.
    pub kind: String,
    /// Key of the record, as text.
    pub key: String,
    /// `repaired`, or the reason why the difference was not repaired. If no repair was requested,
    /// the reason why it cannot be repaired, if known. For a misfit, the reason why the view cannot
    /// store the record.
    #[serde(default)]
    pub outcome: String,
}

impl VerifyReport {
    /// Returns the number of differences, of misfits that the store has not recorded, and of defects of buckets.
    pub fn wrong(&self) -> u64 {
        let of_buckets: u64 = self.buckets.iter().map(VerifiedBuckets::wrong).sum();
        let of_views = |view: &VerifiedView| view.wrong() + view.unrecorded_misfits();
        self.views.iter().map(of_views).sum::<u64>() + of_buckets
    }

    /// Returns the number of [wrong](Self::wrong) items that were not repaired. Misfits cannot be
    /// repaired.
    pub fn left(&self) -> u64 {
        let of_buckets: u64 = self.buckets.iter().map(VerifiedBuckets::left).sum();
        let of_views = |view: &VerifiedView| view.left() + view.unrecorded_misfits();
        self.views.iter().map(of_views).sum::<u64>() + of_buckets
    }

    /// Returns the JSON that `verify --json` prints and that a server returns.
    pub fn to_json(&self) -> serde_json::Value {
        let views: Vec<_> = self.views.iter().map(VerifiedView::to_json).collect();
        let mut json =
            serde_json::json!({ "views": views, "buckets": self.buckets, "left_out": self.left_out });
        if let Some(seconds) = self.begun_seconds_ago {
            json["begun_seconds_ago"] = seconds.into();
        }
        json
    }
}

impl VerifiedView {
    /// Returns the number of entries that are missing, orphan or different.
    pub fn wrong(&self) -> u64 {
        self.missing + self.orphan + self.differing
    }

    /// Returns the number of misfits that the store has not recorded.
    pub fn unrecorded_misfits(&self) -> u64 {
        self.misfits.beyond(&self.misfits_recorded)
    }

    /// Returns the number of wrong entries that were not repaired.
    pub fn left(&self) -> u64 {
        self.wrong().saturating_sub(self.repaired)
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let example =
            |one: &Drift| serde_json::json!({ "kind": one.kind, "key": one.key, "outcome": one.outcome });
        let examples: Vec<_> = self.examples.iter().map(example).collect();
        serde_json::json!({
            "collection": self.collection,
            "view": self.view,
            "records": self.records,
            "entries": self.entries,
            "missing": self.missing,
            "orphan": self.orphan,
            "differing": self.differing,
            "repaired": self.repaired,
            "misfits": self.misfits,
            "misfits_recorded": self.misfits_recorded,
            "examples": examples,
        })
    }
}
