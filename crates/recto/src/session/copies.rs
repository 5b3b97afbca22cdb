//! One store into another.

use serde_json::{Value as Json, json};

use recto_api::misfits::Misfits;

/// What to copy, and how quickly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyRequest {
    /// Collections by name; empty for all.
    pub collections: Vec<String>,
    /// The most records to read a second; `None`: as fast as it goes.
    pub rows_per_second: Option<u32>,
}

/// How far a copy is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// The collection.
    pub collection: String,
    /// Step: `copying` or `comparing`; or, without a collection, `recovering`, which completes changes of an interrupted run.
    pub step: String,
    /// Rows read in this step, of this collection: those that an earlier run read among them. When both stores are compared, of both.
    pub rows: u64,
    /// Those of them that an earlier run of the same copy read.
    pub rows_resumed: u64,
    /// How much of the step is done: pieces that are copied, each about as large as another if keys are spread evenly; rows that are
    /// compared.
    pub done: u64,
    /// Of how much.
    pub total: u64,
}

/// What the records of a collection add up to in one store, in whatever order they are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordSum {
    /// How many are counted: all but those that end.
    pub records: u64,
    /// The sum of their digests: of the values of all fields, and the version where it is known.
    pub digest: u128,
    /// Records that may end while they are counted, and count for nothing else: those that have a time to live; where records change, those
    /// that end within a day.
    pub ending: u64,
}

/// How a collection was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopiedCollection {
    /// The collection.
    pub name: String,
    /// Rows that were read for it, by earlier runs too.
    pub rows_read: u64,
    /// Those of them that an earlier run of the same copy had read.
    pub rows_resumed: u64,
    /// What is in the store that was copied.
    pub source: RecordSum,
    /// What is in the other one then.
    pub target: RecordSum,
}

/// How a copy ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Collection by collection.
    pub collections: Vec<CopiedCollection>,
    /// Whether cursors of the one store go on in the other.
    pub cursors_go_on: bool,
    /// What the store has that is not copied, a line each.
    pub left_out: Vec<String>,
    /// Records that were copied and do not fit views and unique constraints, which lack them in the other store, too.
    pub misfits: Vec<Misfits>,
}

impl CopiedCollection {
    /// Whether both stores have the same records, at the same versions.
    pub fn is_equal(&self) -> bool {
        (self.source.records, self.source.digest) == (self.target.records, self.target.digest)
    }
}

impl CopyReport {
    /// Whether both stores have the same records, at the same versions, in all collections that were copied.
    pub fn is_equal(&self) -> bool {
        self.collections.iter().all(CopiedCollection::is_equal)
    }

    /// The JSON that `copy --json` prints.
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
