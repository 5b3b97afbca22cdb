//! Faults of buckets.

use recto_model::Cells;
use recto_protocol::buckets::Bucket;

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// A range map is damaged, or an entry of the registry of time buckets contradicts the calendar.
    Damaged,
    /// Buckets have rows, but the range map is missing.
    Lost,
    /// A time bucket has rows, but the registry does not have it. So no read finds these rows.
    Unregistered,
    /// Bucket 0 has no mark that the partition exists, so scans do not find the partition.
    Unmarked,
    /// A split is unfinished, and no process has continued it for a long time.
    HalfDone,
    /// A row is in a wrong bucket, so no read finds it. Or a row is in a wrong shard, so pages show it, but a read by
    /// its key does not find it.
    Stray,
    /// A row is in a wrong bucket or shard, and also in the right one.
    Double,
    /// A row exists below the retention bound.
    BelowFloor,
    /// A row should be sampled, but its sample is missing.
    SampleMissing,
    /// A sample does not match its row.
    SampleWrong,
    /// A sample has no row.
    SampleOrphan,
    /// A bucket exceeds its maximum size. Its rows are in the right place, so nothing is wrong.
    TooLarge,
}

/// Outcome of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultOutcome {
    /// No repair was attempted.
    Left,
    /// The fault was repaired.
    Mended,
    /// A repair was requested, but the fault remains, for this reason.
    Stays(String),
}

/// Fault that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Partition with the fault.
    pub partition: Cells,
    /// Bucket with the fault, if the fault concerns one bucket.
    pub bucket: Option<Bucket>,
    /// Clustering key of the row with the fault, if the fault concerns one row.
    pub clustering: Option<Cells>,
    /// Further details.
    pub detail: String,
    /// Outcome.
    pub outcome: FaultOutcome,
}

impl FaultKind {
    /// Returns whether the fault requires action.
    pub fn is_wrong(self) -> bool {
        self != Self::TooLarge
    }

    /// Returns the name of the kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Damaged => "damaged_directory",
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
