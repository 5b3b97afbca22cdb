//! Answers about the store itself.

use recto::session::{
    Applied, CheckOutcome, CheckedCollection, CursorKey, LoadProgress, LoadReport, LoadedCollection,
    SchemaPlan, StoreProgress,
};
use serde::Deserialize;

/// How far work over a whole store is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoreProgressBody {
    done: u64,
    total: Option<u64>,
}

impl From<StoreProgressBody> for StoreProgress {
    fn from(body: StoreProgressBody) -> Self {
        Self {
            done: body.done,
            total: body.total,
        }
    }
}

/// A backup that was made.
#[derive(Debug, Deserialize)]
pub(crate) struct BackupBody {
    pub(crate) bytes: u64,
    pub(crate) folder: String,
}

/// What a compaction did.
#[derive(Debug, Deserialize)]
pub(crate) struct CompactBody {
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
}

/// What a check found.
#[derive(Debug, Deserialize)]
pub(crate) struct CheckBody {
    rows: u64,
    collections: Vec<CheckedBody>,
    internal_rows: u64,
    #[serde(default)]
    tables: u64,
    problems: Vec<String>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct CheckedBody {
    name: String,
    rows: u64,
}

impl From<CheckBody> for CheckOutcome {
    fn from(body: CheckBody) -> Self {
        let collections = body.collections.into_iter().map(|one| CheckedCollection {
            name: one.name,
            rows: one.rows,
        });
        Self {
            rows: body.rows,
            collections: collections.collect(),
            internal_rows: body.internal_rows,
            tables: body.tables,
            problems: body.problems,
            notes: body.notes,
        }
    }
}

/// What applying a schema would do.
#[derive(Debug, Deserialize)]
pub(crate) struct PlanBody {
    generation: u64,
    changes: Vec<String>,
    statements: Vec<String>,
    #[serde(default)]
    kept: Vec<String>,
    refused: Vec<String>,
}

impl From<PlanBody> for SchemaPlan {
    fn from(body: PlanBody) -> Self {
        Self {
            generation: body.generation,
            changes: body.changes,
            statements: body.statements,
            kept: body.kept,
            refused: body.refused,
        }
    }
}

/// What applying a schema did.
#[derive(Debug, Deserialize)]
pub(crate) struct AppliedBody {
    generation: u64,
    changes: Vec<String>,
    #[serde(default)]
    kept: Vec<String>,
}

impl From<AppliedBody> for Applied {
    fn from(body: AppliedBody) -> Self {
        Self {
            generation: body.generation,
            changes: body.changes,
            kept: body.kept,
        }
    }
}

/// The keys that cursors are sealed with.
#[derive(Debug, Deserialize)]
pub(crate) struct KeysBody {
    keys: Vec<KeyBody>,
}

#[derive(Debug, Deserialize)]
struct KeyBody {
    id: u32,
    seals: bool,
    made_at_seconds: Option<u64>,
    age_seconds: Option<u64>,
}

impl From<KeysBody> for Vec<CursorKey> {
    fn from(body: KeysBody) -> Self {
        let keys = body.keys.into_iter().map(|key| CursorKey {
            id: key.id,
            seals: key.seals,
            made_at_seconds: key.made_at_seconds,
            age_seconds: key.age_seconds,
        });
        keys.collect()
    }
}

/// How far a load is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadProgressBody {
    rows_read: u64,
    rows_stored: u64,
    rows_rejected: u64,
    bytes_consumed: u64,
    bytes_total: u64,
}

impl From<LoadProgressBody> for LoadProgress {
    fn from(body: LoadProgressBody) -> Self {
        Self {
            rows_read: body.rows_read,
            rows_stored: body.rows_stored,
            rows_rejected: body.rows_rejected,
            bytes_consumed: body.bytes_consumed,
            bytes_total: body.bytes_total,
        }
    }
}

/// How a load ended.
#[derive(Debug, Deserialize)]
pub(crate) struct LoadBody {
    rows_read: u64,
    rows_resumed: u64,
    collections: Vec<LoadedBody>,
    already_loaded: bool,
    /// The ending of the format that rejects are written in, if there are any.
    pub(crate) rejects: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LoadedBody {
    name: String,
    rows_stored: u64,
    rows_replaced: u64,
    rows_repeated: u64,
    rows_rejected: u64,
    reasons: Vec<ReasonBody>,
}

#[derive(Debug, Deserialize)]
struct ReasonBody {
    reason: String,
    rows: u64,
}

impl From<LoadBody> for LoadReport {
    fn from(body: LoadBody) -> Self {
        let collections = body.collections.into_iter().map(|one| LoadedCollection {
            name: one.name,
            rows_stored: one.rows_stored,
            rows_replaced: one.rows_replaced,
            rows_repeated: one.rows_repeated,
            rows_rejected: one.rows_rejected,
            reasons: one
                .reasons
                .into_iter()
                .map(|one| (one.reason, one.rows))
                .collect(),
        });
        Self {
            rows_read: body.rows_read,
            rows_resumed: body.rows_resumed,
            collections: collections.collect(),
            rejects: None,
            already_loaded: body.already_loaded,
        }
    }
}
