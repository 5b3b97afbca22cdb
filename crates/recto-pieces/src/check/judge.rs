//! Decides whether a stored row is in the right bucket and shard, and whether a sample matches its row.
//!
//! A state that ordinary writes can cause is not a fault, even if it is inexact. For example, a writer
//! that replaces a large row by a smaller one does not know that the large row was sampled. A writer of a
//! patch counts only the size of the patch.

use recto_model::RowRef;
use recto_protocol::buckets::limits::MAX_EDGE_BYTES;
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Directory, Piece};

use super::fault::FaultKind;
use crate::holding::bytes_of;
use crate::samples::Dated;
use crate::tables::PiecedTable;

/// Data of a stored row by which the check judges the row's sample (stored key and size).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenRow {
    /// Size of the row as the row stores it, or the size of all cells if the row stores no size, in
    /// bytes.
    pub(super) counted: u64,
    /// Size of the row that counts for the bucket, computed from all cells, in bytes.
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

/// Bucket and shard where a row, or the sample of a row, was found, and the range map of its
/// partition.
#[derive(Clone, Copy)]
pub(super) struct KeyPosition<'d> {
    /// Range map that contains the right bucket of the key.
    pub(super) directory: &'d Directory,
    pub(super) bucket: Bucket,
    /// True if the shard where the row was found is the right shard of the key.
    pub(super) is_in_its_shard: bool,
    /// True if the removal of expired buckets knows the bucket, so that it will remove the rows of
    /// the bucket.
    pub(super) is_known: bool,
}

/// Returns whether the range map lets rows of a key range be in a bucket.
pub(super) fn is_named(piece: &Piece, bucket: Bucket) -> bool {
    let roles = &piece.roles;
    roles.read == bucket || roles.further().any(|other| other == bucket)
}

/// Returns the fault of a row or a sample that was found in a bucket. Returns `None` if there is no fault,
/// or if the key range is being split.
pub(super) fn judge(
    lies: KeyPosition<'_>,
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
        // Samples belong to a bucket, not to a shard. In a wrong shard, a sample without a row may
        // belong to a row in the right shard, so it is no fault.
        let is_sample = lies.is_in_its_shard && sample.is_some_and(counts);
        return (is_sample && (is_counted || !is_named)).then_some(FaultKind::SampleOrphan);
    };
    if !is_named {
        // If the partition has no range map, the stage of existing buckets reports the lost range
        // map. Do not also report each row.
        return (directory.version > 0).then_some(FaultKind::Stray);
    }
    if !lies.is_in_its_shard {
        return Some(FaultKind::Stray);
    }
    if is_read && is_below {
        // The removal of expired buckets may be under way if it knows the bucket and the whole key
        // range is below the retention bound. Rows that it has not removed yet are no fault.
        let floor = directory.floor.as_ref();
        let mut spans = directory.spans();
        let is_going =
            floor.is_some_and(|floor| spans.any(|(span, _)| span.has(key) && floor.hides_all(&span)));
        return (!is_going || !lies.is_known).then_some(FaultKind::BelowFloor);
    }
    if !is_counted || key.len() > MAX_EDGE_BYTES {
        return None;
    }
    let is_sampled = |bytes| piece.sampling.is_sampled(hash(key), bytes);
    let Some(sample) = sample.filter(|sample| counts(sample)) else {
        return is_sampled(row.counted).then_some(FaultKind::SampleMissing);
    };
    let bytes = sample.sample.bytes;
    let is_of_it = is_sampled(bytes) && [row.counted, row.bytes].map(stored).contains(&bytes);
    let is_wrong = if sample.stamp.0 < row.stamp {
        // The row has a newer timestamp than the sample. Its writer also wrote a sample if the row
        // had to be sampled, so an old sample is wrong only in that case.
        is_sampled(row.counted) && !is_of_it
    } else {
        !is_of_it
    };
    is_wrong.then_some(FaultKind::SampleWrong)
}

/// Returns whether a sample (stored key and size) stands for a stored row: the sample does not
/// record a deletion, and has a size.
pub(super) fn counts(sample: &Dated) -> bool {
    !sample.sample.is_gone && sample.sample.bytes > 0
}

/// Returns the size that a sample stores for a row of `bytes` bytes: at most 31 bits.
fn stored(bytes: u64) -> u64 {
    bytes.min(i32::MAX.unsigned_abs().into())
}
