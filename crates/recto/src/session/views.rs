//! The views of a store: how far they are, and whether they are true.

use serde::Deserialize;

use super::VerifiedBuckets;
use recto_api::misfits::MisfitCounts;

/// How far work on a view is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ViewProgress {
    /// The view's collection.
    pub collection: String,
    /// The view; several that are filled or compared at once with commas between.
    pub view: String,
    /// What is done: `waiting`, `filling`, `verifying`, `dropping`; `checking_buckets` of a view or, as `primary`, of a collection's own
    /// sort order.
    pub step: String,
    /// Rows done in this step.
    pub rows: u64,
    /// Rows of this step in all, where known.
    pub total: Option<u64>,
    /// Of a comparison, what [`VerifyRequest::resume`] goes on with after what was compared so far. It is sealed, and of this
    /// store, these views and this schema.
    #[serde(rename = "resume_token")]
    pub resume: Option<String>,
}

impl ViewProgress {
    /// The JSON that a server tells of it.
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

/// Which views to compare with their records, and which buckets to look at: those of the same collections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyRequest {
    /// The collections; none for all.
    pub collections: Vec<String>,
    /// Whether what is wrong is repaired.
    pub repair: bool,
    /// The most memory for what is compared, in bytes, of all views together; `None`: the default. With less the tables are
    /// read more often.
    pub memory_bytes: Option<u64>,
    /// The most rows of base tables and views read a second; `None`: as fast as it goes.
    pub rows_per_second: Option<u32>,
    /// Where to go on, as [`ViewProgress::resume`] of one that was stopped said; `None`: at the beginning.
    pub resume: Option<String>,
}

/// What comparing views with their records found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct VerifyReport {
    /// The views that were compared; behind those of all collections the claims of unique fields, as views that are named
    /// `unique (FIELDS)`.
    pub views: Vec<VerifiedView>,
    /// What is kept in buckets, which were looked at before.
    #[serde(default)]
    pub buckets: Vec<VerifiedBuckets>,
    /// Views that were not, since they are not read yet or any more, a line each.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// If it went on where another was stopped, how long ago that one was begun: what it had found is told as it was found.
    #[serde(default)]
    pub begun_seconds_ago: Option<u64>,
}

/// A view that was compared with its collection's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct VerifiedView {
    /// The collection.
    pub collection: String,
    /// The view.
    pub view: String,
    /// Records that have an entry in it.
    pub records: u64,
    /// Entries that it has.
    pub entries: u64,
    /// Records whose entry is not there.
    pub missing: u64,
    /// Entries that no record has.
    pub orphan: u64,
    /// Entries that are not as their record.
    pub differing: u64,
    /// Number of these that were repaired.
    #[serde(default, alias = "mended")]
    pub repaired: u64,
    /// Records that do not fit the view, and have no entry in it.
    #[serde(default)]
    pub misfits: MisfitCounts,
    /// Number of misfits that the store has recorded for the view. More of them than that count as wrong.
    #[serde(default)]
    pub misfits_recorded: MisfitCounts,
    /// The first of all these.
    pub examples: Vec<Drift>,
}

/// Something in which a view differs from its collection's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Drift {
    /// `missing`, `orphan`, `differing` or `misfit`.
    pub kind: String,
    /// The key of the record.
    pub key: String,
    /// `repaired`, or the reason why it was not repaired. Without a repair, the reason why it cannot be repaired, if that is
    /// known. For a misfit, its cause.
    #[serde(default)]
    pub outcome: String,
}

impl VerifyReport {
    /// How much is wrong.
    pub fn wrong(&self) -> u64 {
        let of_buckets: u64 = self.buckets.iter().map(VerifiedBuckets::wrong).sum();
        let of_views = |view: &VerifiedView| view.wrong() + view.unrecorded_misfits();
        self.views.iter().map(of_views).sum::<u64>() + of_buckets
    }

    /// How much is wrong still.
    pub fn left(&self) -> u64 {
        let of_buckets: u64 = self.buckets.iter().map(VerifiedBuckets::left).sum();
        let of_views = |view: &VerifiedView| view.left() + view.unrecorded_misfits();
        self.views.iter().map(of_views).sum::<u64>() + of_buckets
    }

    /// The JSON that `verify --json` prints of it and a server answers.
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
    /// How much is wrong with it.
    pub fn wrong(&self) -> u64 {
        self.missing + self.orphan + self.differing
    }

    /// Returns the number of misfits that the store has not recorded.
    pub fn unrecorded_misfits(&self) -> u64 {
        self.misfits.beyond(&self.misfits_recorded)
    }

    /// How much is wrong with it still.
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
