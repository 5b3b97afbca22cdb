//! Samples (stored keys and sizes of some rows) in their table: one row for each sample, and one
//! partition for each bucket.

use std::sync::Arc;

use recto_model::{Bound, RowRef, Slice};
use recto_protocol::buckets::limits::MAX_EDGE_BYTES;
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Key, Piece, Sample, Sampling, Span};
use recto_store::{Mutation, Operation, PartitionWrite, ReadOptions, Stamp};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_SAMPLES_READ, MAX_STEP_TIME};
use crate::place::{Deadline, PieceStore, Place};
use crate::tables::mutation;

/// Index of the column with the key of the sampled row, in the table of samples.
const KEY: usize = 3;
const BYTES: usize = 4;
const GONE: usize = 5;

/// Sample of a row, with the write timestamp of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dated {
    pub(crate) sample: Sample,
    pub(crate) stamp: Stamp,
}

impl Dated {
    pub(crate) fn at_ms(&self) -> i64 {
        self.stamp.0.div_euclid(1_000)
    }
}

/// Effect of a write on a row, which determines the change of the row's sample (stored key and
/// size).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    /// The row is written. This number of bytes is its size, as it counts for the bucket.
    Put(u64),
    /// The row is deleted.
    Gone,
}

/// Returns the sampling of the rows that a write of a key range sends to a bucket. Returns `None` if the
/// bucket is older than the bucket that is read, because samples of an older bucket are no longer used.
pub(crate) fn sampling_in(piece: &Piece, bucket: Bucket) -> Option<Sampling> {
    let newer = piece.next_sampling.unwrap_or(piece.sampling);
    match bucket.cmp(&piece.roles.read) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(piece.sampling),
        std::cmp::Ordering::Greater => Some(newer),
    }
}

/// Returns whether the write of a row must also write or delete the row's sample (stored key and
/// size) in a bucket.
pub(crate) fn is_changed(key: &[u8], became: Became, sampling: Sampling) -> bool {
    let hash = hash(key);
    let is_sampled = match became {
        Became::Put(bytes) => sampling.is_sampled(hash, bytes),
        // The size of the deleted row is unknown, so decide as for a row of
        // `MAX_DELETED_ROW_BYTES`.
        Became::Gone => sampling.marks_gone(hash),
    };
    // A row with a longer key is never sampled, because no key range can begin at a key of that
    // length.
    is_sampled && key.len() <= MAX_EDGE_BYTES
}

/// Returns the change of a bucket's samples (stored keys and sizes of some rows) that the write of
/// a row requires. Returns `None` if no sample changes.
pub(crate) fn change(
    key: &[u8],
    became: Became,
    sampling: Sampling,
    stamp: Stamp,
    ttl_seconds: Option<u32>,
) -> Option<Mutation> {
    if !is_changed(key, became, sampling) {
        return None;
    }
    let (columns, cells) = match became {
        Became::Put(bytes) => {
            let stored = i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes().to_vec();
            (vec![0, 1], vec![stored, vec![0]])
        }
        Became::Gone => (vec![1], vec![vec![1]]),
    };
    let patch = Operation::Patch {
        clustering: std::iter::once(Some(key)).collect(),
        columns,
        cells: cells.iter().map(|cell| Some(cell.as_slice())).collect(),
    };
    Some(mutation(patch, stamp, ttl_seconds))
}

impl PieceStore {
    /// Returns a write that applies changes to a bucket's samples (stored keys and sizes of some
    /// rows).
    pub(crate) fn samples_write(
        &self,
        place: &Place,
        bucket: Bucket,
        mutations: Vec<Mutation>,
    ) -> PartitionWrite {
        PartitionWrite {
            table: Arc::clone(&self.tables.samples),
            partition: place.samples_partition(bucket),
            mutations,
        }
    }

    /// Returns the samples (stored keys and sizes of some rows) of a bucket within a range of keys,
    /// in the order of their keys. Leaves out samples of deleted rows. Reads at most
    /// [`MAX_SAMPLES_READ`] samples.
    pub(crate) async fn samples(
        &self,
        place: &Place,
        bucket: Bucket,
        span: &Span,
        deadline: Deadline,
    ) -> Result<Vec<Dated>> {
        let edge = |key: &Key| Bound::Before(std::iter::once(Some(&key[..])).collect());
        let to = span.end.as_ref().map_or(Bound::end(), edge);
        let mut samples = self
            .samples_between(place, bucket, (edge(&span.start), to), deadline)
            .await?;
        samples.retain(|dated| !dated.sample.is_gone && dated.sample.bytes > 0);
        Ok(samples)
    }

    /// Returns the samples (stored keys and sizes of some rows) of a bucket between two edges,
    /// including those of deleted rows. Reads at most [`MAX_SAMPLES_READ`] samples.
    pub(crate) async fn samples_between(
        &self,
        place: &Place,
        bucket: Bucket,
        (from, to): (Bound, Bound),
        deadline: Deadline,
    ) -> Result<Vec<Dated>> {
        let slice = Slice {
            from,
            to,
            ..Slice::from_start(
                &self.tables.samples,
                place.samples_partition(bucket),
                MAX_SAMPLES_READ,
            )
        };
        let options = ReadOptions {
            stamps: true,
            ..ReadOptions::default()
        };
        let read = self.read_slice(&slice, options, deadline).await?;
        read.rows.iter().zip(&read.stamps).map(dated).collect()
    }

    /// Returns the sample (stored key and size of a row) with a key in a bucket, if there is one.
    pub(crate) async fn sample_of(&self, place: &Place, bucket: Bucket, key: &Key) -> Result<Option<Dated>> {
        let cells = |key: &Key| std::iter::once(Some(&key[..])).collect();
        let between = (Bound::Before(cells(key)), Bound::After(cells(key)));
        let deadline = self.deadline(MAX_STEP_TIME);
        let mut found = self.samples_between(place, bucket, between, deadline).await?;
        Ok(found.pop())
    }
}

fn dated((row, stamp): (RowRef<'_>, &i64)) -> Result<Dated> {
    let sample = sample_of(row).ok_or_else(missing)?;
    let stamp = Stamp(*stamp);
    Ok(Dated { sample, stamp })
}

fn sample_of(row: RowRef<'_>) -> Option<Sample> {
    // A sample without a size belongs to a row that was deleted before it was sampled. A negative
    // size is invalid. A missing or negative size counts as 0.
    let bytes = row.get(BYTES).and_then(|bytes| bytes.try_into().ok());
    Some(Sample {
        key: row.get(KEY)?.to_vec(),
        bytes: bytes.map_or(0, |bytes| u64::try_from(i32::from_be_bytes(bytes)).unwrap_or(0)),
        is_gone: row.get(GONE) == Some(&[1]),
    })
}

fn missing() -> PiecesError {
    let message = "a sample of a bucket is damaged: its key is missing";
    PiecesError::new(PiecesErrorKind::Corrupt, message)
        .with_hint("delete this partition of recto_samples: another program wrote to the table")
}
