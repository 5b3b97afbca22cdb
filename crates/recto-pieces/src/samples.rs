//! Samples as they lie in their table: a row for each, in a partition for each bucket.

use std::sync::Arc;

use recto_buckets::limits::MAX_EDGE_BYTES;
use recto_buckets::sampling::hash;
use recto_buckets::{Bucket, Piece, Sample, Sampling, Span};
use recto_model::{Bound, RowRef, Slice};
use recto_store::{Mutation, Operation, PartitionWrite, ReadOptions, Stamp};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::MAX_SAMPLES_READ;
use crate::place::{Deadline, PieceStore, Place};
use crate::tables::mutation;

/// Where the columns of a row of the table stand.
const KEY: usize = 3;
const BYTES: usize = 4;
const GONE: usize = 5;

/// A sample, and when its row was written.
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

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    /// It is written, and counts as so many bytes.
    Put(u64),
    /// It is deleted.
    Gone,
}

/// By what rows are sampled in a bucket that takes this piece's; none: what it counts is of no use any more.
pub(crate) fn sampling_in(piece: &Piece, bucket: Bucket) -> Option<Sampling> {
    let newer = piece.next_sampling.unwrap_or(piece.sampling);
    match bucket.cmp(&piece.roles.read) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(piece.sampling),
        std::cmp::Ordering::Greater => Some(newer),
    }
}

/// What is written to the samples of a bucket when that becomes of a row; none: it is not sampled.
pub(crate) fn change(
    key: &[u8],
    became: Became,
    sampling: Sampling,
    stamp: Stamp,
    ttl_seconds: Option<u32>,
) -> Option<Mutation> {
    let hash = hash(key);
    let (is_sampled, columns, cells) = match became {
        Became::Put(bytes) => {
            let stored = i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes().to_vec();
            let is_sampled = sampling.is_sampled(hash, bytes);
            (is_sampled, vec![0, 1], vec![stored, vec![0]])
        }
        // How large it was is not known.
        Became::Gone => (sampling.marks_gone(hash), vec![1], vec![vec![1]]),
    };
    // A longer key is none that pieces could begin at.
    if !is_sampled || key.len() > MAX_EDGE_BYTES {
        return None;
    }
    let patch = Operation::Patch {
        clustering: std::iter::once(Some(key)).collect(),
        columns,
        cells: cells.iter().map(|cell| Some(cell.as_slice())).collect(),
    };
    Some(mutation(patch, stamp, ttl_seconds))
}

impl PieceStore {
    /// What changes samples of a bucket.
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

    /// The samples of a bucket within a span, those that are gone left out, in the order of their keys:
    /// [`MAX_SAMPLES_READ`] of them at most.
    pub(crate) async fn samples(
        &self,
        place: &Place,
        bucket: Bucket,
        span: &Span,
        deadline: Deadline,
    ) -> Result<Vec<Dated>> {
        let partition = place.samples_partition(bucket);
        let mut slice = Slice {
            from: Bound::Before(std::iter::once(Some(&span.start[..])).collect()),
            ..Slice::from_start(&self.tables.samples, partition, MAX_SAMPLES_READ)
        };
        if let Some(end) = &span.end {
            slice.to = Bound::Before(std::iter::once(Some(&end[..])).collect());
        }
        let read = self.again(deadline, |timeout| {
            let slice = &slice;
            async move {
                let options = ReadOptions {
                    timeout,
                    stamps: true,
                    ..ReadOptions::default()
                };
                Ok(self.store.snapshot()?.slice(slice, &options).await?)
            }
        });
        let read = read.await?;
        let dated = |(row, stamp): (RowRef<'_>, &i64)| {
            let sample = sample_of(row).ok_or_else(missing)?;
            let stamp = Stamp(*stamp);
            Ok(Dated { sample, stamp })
        };
        let samples: Result<Vec<_>> = read.rows.iter().zip(&read.stamps).map(dated).collect();
        let mut samples = samples?;
        samples.retain(|dated| !dated.sample.is_gone && dated.sample.bytes > 0);
        Ok(samples)
    }
}

fn sample_of(row: RowRef<'_>) -> Option<Sample> {
    // One that was deleted before it was sampled has no size.
    let bytes = match row.get(BYTES) {
        None => 0,
        Some(bytes) => i32::from_be_bytes(bytes.try_into().ok()?),
    };
    Some(Sample {
        key: row.get(KEY)?.to_vec(),
        bytes: u64::try_from(bytes).ok()?,
        is_gone: row.get(GONE) == Some(&[1]),
    })
}

fn missing() -> PiecesError {
    let message = "a sample of a bucket is damaged: cells are missing, or less than nothing";
    PiecesError::new(PiecesErrorKind::Corrupt, message)
        .with_hint("something else than Recto wrote to recto_samples: delete this partition of it")
}
