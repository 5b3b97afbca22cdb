//! What is wrong with buckets.

use recto_model::Cells;
use recto_protocol::buckets::Bucket;

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// A directory is none that could be gone by, or an entry of the registry of buckets by time is none that arithmetic gives.
    Damaged,
    /// Rows lie in buckets, and there is no directory.
    Lost,
    /// Rows lie in a bucket by time that the registry does not have, so that nobody reads it.
    Unregistered,
    /// Nothing marks in bucket 0 that there is the partition, so that scans do not meet it.
    Unmarked,
    /// A cut was left half done, and nobody has gone on with it for long.
    HalfDone,
    /// A row lies in a bucket that is not for it, so that nobody reads it; or in a shard that is not, so that pages show it, and who asks for its
    /// key does not find it.
    Stray,
    /// The same of one that lies where it should, too.
    Double,
    /// A row is there that is not kept any more.
    BelowFloor,
    /// A row that is to be sampled is not.
    SampleMissing,
    /// A sample is not as its row.
    SampleWrong,
    /// A sample has no row.
    SampleOrphan,
    /// A bucket is larger than it should be. Rows are where they belong: nothing is wrong.
    TooLarge,
}

/// What became of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultOutcome {
    /// Nothing was done.
    Left,
    /// It is right now.
    Mended,
    /// It was to be mended, and was not: why.
    Stays(String),
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Of which partition.
    pub partition: Cells,
    /// In which bucket, if it is in one.
    pub bucket: Option<Bucket>,
    /// Of which row, if it is one's: its clustering key.
    pub clustering: Option<Cells>,
    /// What there is to say beside that.
    pub detail: String,
    /// What became of it.
    pub outcome: FaultOutcome,
}

impl FaultKind {
    /// Whether something has to be done about it.
    pub fn is_wrong(self) -> bool {
        self != Self::TooLarge
    }

    /// The word for it.
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
