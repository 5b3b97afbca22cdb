//! Faults that a check of buckets can find.

use recto_model::Cells;
use recto_protocol::buckets::Bucket;

use crate::place::Place;

/// Kind of a fault that a check of buckets can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// A range map is damaged, or an entry of the registry of time buckets contradicts the calendar.
    Damaged,
    /// Rows of key ranges that a join or a retention bound removed are in the range map again: a node of Cassandra
    /// missed the removal. Reads ignore these rows.
    Returned,
    /// Buckets have rows, but the range map is missing.
    Lost,
    /// A time bucket has rows but no entry in the registry of time buckets, so no read finds these rows.
    Unregistered,
    /// Bucket 0 has no mark that the partition exists, so scans do not find the partition.
    Unmarked,
    /// A split is unfinished, and no process has continued it for a long time.
    HalfDone,
    /// A row is in a wrong bucket, so no read finds it. Or a row is in a wrong shard of its bucket: pages
    /// show it, but a read by its key does not find it.
    Stray,
    /// A row is in a wrong bucket or shard, and a row with the same key is in the right bucket and
    /// shard.
    Double,
    /// A row is stored although it is below the retention bound, so the removal of expired rows has
    /// missed it.
    BelowFloor,
    /// A row should be sampled (its key and size stored for estimates), but its sample is missing.
    SampleMissing,
    /// The size in a sample (stored key and size of a row) contradicts the size of its row.
    SampleWrong,
    /// A sample (stored key and size of a row) has no row, so it wrongly adds to the estimated size
    /// of the bucket.
    SampleOrphan,
    /// A bucket exceeds its maximum size. Reads and writes still work, so no repair is needed.
    TooLarge,
}

/// Outcome of the repair of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The check did not attempt a repair.
    Left,
    /// The fault was repaired.
    Mended,
    /// The repair failed. The text gives the reason.
    Stays(String),
}

/// Fault that a check of buckets found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault, for example a damaged range map.
    pub kind: FaultKind,
    /// Key of the partition that has the fault.
    pub partition: Cells,
    /// Bucket with the fault, if the fault concerns one bucket.
    pub bucket: Option<Bucket>,
    /// Clustering key of the row with the fault, if the fault concerns one row.
    pub clustering: Option<Cells>,
    /// Details for the operator, such as the reason or the size.
    pub detail: String,
    /// Outcome of the repair of the fault.
    pub outcome: FaultOutcome,
}

impl Fault {
    /// Returns a fault of a whole partition, and not of one bucket or row.
    pub(super) fn of(place: &Place, kind: FaultKind, outcome: FaultOutcome) -> Self {
        Self {
            kind,
            partition: place.partition.clone(),
            bucket: None,
            clustering: None,
            detail: String::new(),
            outcome,
        }
    }
}

impl FaultOutcome {
    pub(super) fn stays(reason: impl Into<String>) -> Self {
        Self::Stays(reason.into())
    }
}

impl FaultKind {
    /// Returns whether an operator must act on faults of this kind.
    pub fn is_wrong(self) -> bool {
        self != Self::TooLarge
    }

    /// Returns the name of the kind of fault, as reports show it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Damaged => "damaged_directory",
            Self::Returned => "returned_range",
            Self::Lost => "lost_directory",
            Self::Unregistered => "unregistered_bucket",
            Self::Unmarked => "unmarked_root",
            Self::HalfDone => "half_done",
            Self::Stray => "stray",
            Self::Double => "double",
            Self::BelowFloor => "below_floor",
            Self::SampleMissing => "missing_sample",
            Self::SampleWrong => "wrong_sample",
            Self::SampleOrphan => "orphan_sample",
            Self::TooLarge => "too_large",
        }
    }
}
