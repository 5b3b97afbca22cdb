//! Whether a row is right where it lies, and a sample as its row.
//!
//! What ordinary writes leave is right, even where it is not exact: who writes a smaller row over a larger one does not know of its
//! sample, and who patches a row counts what was patched.

use recto_model::RowRef;
use recto_protocol::buckets::limits::MAX_EDGE_BYTES;
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Directory, Piece};

use super::fault::FaultKind;
use crate::holding::bytes_of;
use crate::samples::Dated;
use crate::tables::PiecedTable;

/// A row as it lies in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenRow {
    /// What it says that it counts as, or what all that it has does.
    pub(super) counted: u64,
    /// What all that it has counts as.
    pub(super) bytes: u64,
    pub(super) stamp: i64,
}

impl SeenRow {
    pub(super) fn new(pieced: &PiecedTable, row: RowRef<'_>, stamp: i64) -> Self {
        let bytes = bytes_of(pieced, row);
        Self {
            counted: pieced.counted_of(row).unwrap_or(bytes),
            bytes,
            stamp,
        }
    }
}

/// Where something lies that is judged.
#[derive(Clone, Copy)]
pub(super) struct Lies<'d> {
    /// What says where its key belongs.
    pub(super) directory: &'d Directory,
    pub(super) bucket: Bucket,
    /// Whether it is in the shard that is for it.
    pub(super) is_in_its_shard: bool,
    /// Whether who drops buckets knows of this one.
    pub(super) is_known: bool,
    pub(super) has_samples: bool,
}

/// Whether a piece has anything in a bucket.
pub(super) fn is_named(piece: &Piece, bucket: Bucket) -> bool {
    let roles = &piece.roles;
    roles.read == bucket || roles.further().any(|other| other == bucket)
}

/// What is wrong with a row in a bucket, or with a sample there; none if nothing is, or something is being cut there.
pub(super) fn judge(
    lies: Lies<'_>,
    key: &[u8],
    row: Option<SeenRow>,
    sample: Option<&Dated>,
) -> Option<FaultKind> {
    let (directory, bucket) = (lies.directory, lies.bucket);
    let piece = directory.piece_of(key)?;
    let roles = &piece.roles;
    let is_read = roles.read == bucket;
    let is_named = is_named(piece, bucket);
    let is_below = directory.floor.as_ref().is_some_and(|floor| floor.hides(key));
    let is_counted = is_read && roles.is_at_rest();
    let Some(row) = row else {
        // In another shard it is of the row there, if one is.
        let is_sample = lies.is_in_its_shard && sample.is_some_and(counts);
        return (is_sample && (is_counted || !is_named)).then_some(FaultKind::SampleOrphan);
    };
    if !is_named {
        // Of a partition without a directory it is that which is missing.
        return (directory.version > 0).then_some(FaultKind::Stray);
    }
    if !lies.is_in_its_shard {
        return Some(FaultKind::Stray);
    }
    if is_read && is_below {
        // What the floor hides as a whole is on its way out.
        let floor = directory.floor.as_ref();
        let mut spans = directory.spans();
        let is_going =
            floor.is_some_and(|floor| spans.any(|(span, _)| span.has(key) && floor.hides_all(&span)));
        return (!is_going || !lies.is_known).then_some(FaultKind::BelowFloor);
    }
    if !lies.has_samples || !is_counted || key.len() > MAX_EDGE_BYTES {
        return None;
    }
    let is_sampled = |bytes| piece.sampling.is_sampled(hash(key), bytes);
    let Some(sample) = sample.filter(|sample| counts(sample)) else {
        return is_sampled(row.counted).then_some(FaultKind::SampleMissing);
    };
    let bytes = sample.sample.bytes;
    let is_of_it = is_sampled(bytes) && [row.counted, row.bytes].map(stored).contains(&bytes);
    let is_wrong = if sample.stamp.0 < row.stamp {
        // Who wrote it since wrote a sample, too, if it was to.
        is_sampled(row.counted) && !is_of_it
    } else {
        !is_of_it
    };
    is_wrong.then_some(FaultKind::SampleWrong)
}

/// Whether a sample stands for rows.
pub(super) fn counts(sample: &Dated) -> bool {
    !sample.sample.is_gone && sample.sample.bytes > 0
}

/// As a sample holds it.
fn stored(bytes: u64) -> u64 {
    bytes.min(i32::MAX.unsigned_abs().into())
}
