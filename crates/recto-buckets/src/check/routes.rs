//! Finds where a write of a row would go, and judges rows and samples that are stored elsewhere.
//!
//! A state that ordinary writes can cause is not a fault, even if it is inexact. For example, a writer
//! that replaces a large row by a smaller one does not know that the large row was sampled. A writer of a
//! patch counts only the size of the patch.

use std::sync::Arc;

use recto_model::RowRef;
use recto_protocol::buckets::limits::MAX_EDGE_BYTES;
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Directory, Floor, Key, Operation, Sampling, Shard, Span};

use super::fault::FaultKind;
use crate::directory::{Seek, missing};
use crate::error::{PiecesErrorKind, Result};
use crate::holding::bytes_of;
use crate::limits::MAX_STEP_TIME;
use crate::place::{PieceStore, Place};
use crate::samples::Dated;
use crate::tables::PiecedTable;
use crate::times::TimeBucket;

/// Reads where writes of the rows in one shard of a bucket would go. It keeps only the last window of the range map, so
/// requests in the order of keys cost little.
pub(super) struct Router {
    engine: PieceStore,
    place: Arc<Place>,
    lies: (Bucket, Shard),
    is_serial: bool,
    /// Retention bound of a partition with time buckets.
    floor: Option<Floor>,
    /// True if the registry of time buckets does not have the bucket, so pages do not read it and retention does not
    /// remove it.
    pub(super) lacks_entry: bool,
    window: Option<Directory>,
}

/// Destination of a write of a row, compared with the place where the row is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    /// Bucket and shard from which the row is read.
    pub(super) home: (Bucket, Shard),
    /// Sampling of the bucket from which the row is read.
    pub(super) sampling: Sampling,
    /// True if the row is stored in the right shard of its bucket.
    pub(super) is_in_its_shard: bool,
    /// True if the row is too old to be kept.
    pub(super) is_below: bool,
    bucket_use: BucketUse,
}

/// Use of the bucket in which a row is stored, for rows with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BucketUse {
    /// Rows are read in the bucket.
    Read,
    /// A split or a join is under way that uses the bucket, or has left it. The bucket may have copies of rows.
    Copies,
    /// Rows are read in the bucket and are too old. The removal of expired buckets has not removed them yet.
    BeingRemoved,
    /// Rows are read in the bucket and are too old. No process is going to remove them.
    TooOld,
    /// Rows go to another bucket.
    Elsewhere,
    /// Rows go to another bucket, because the partition has no range map.
    Unmapped,
}

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

impl Router {
    /// Prepares routes. If `is_serial`, the range map is as new as any that another process has read.
    ///
    /// # Errors
    /// The retention bound or the registry cannot be read, or is damaged.
    pub(super) async fn new(
        engine: &PieceStore,
        place: &Arc<Place>,
        lies: (Bucket, Shard),
        is_serial: bool,
    ) -> Result<Self> {
        let (mut floor, mut lacks_entry) = (None, false);
        if let Some(times) = &place.pieced.times {
            floor = engine.floor_beside(place, is_serial).await?;
            if let Some(bucket) = times.numbered(lies.0) {
                lacks_entry = !engine.has_entry(place, &bucket.start).await?;
            }
        }
        Ok(Self {
            engine: engine.clone(),
            place: Arc::clone(place),
            lies,
            is_serial,
            floor,
            lacks_entry,
            window: None,
        })
    }

    /// Returns where a write of a row would go.
    ///
    /// # Errors
    /// The range map cannot be read, or is damaged.
    pub(super) async fn route(&mut self, key: &Key) -> Result<Route> {
        let is_known = |window: &Directory| window.piece_of(key).is_some();
        let window = match self.window.take().filter(is_known) {
            Some(window) => window,
            None => self.read_window(key).await?,
        };
        let window = self.window.insert(window);
        let from_key = Span {
            start: key.clone(),
            end: None,
        };
        let of_key = window.spans_of(&from_key).next();
        let (span, piece) = of_key.ok_or_else(missing)?;
        let (floor, shard) = (window.floor.as_ref(), self.place.pieced.shards.of(key));
        let is_below = floor.is_some_and(|floor| floor.hides(key));
        // A deletion goes to each bucket that may have a copy of the row.
        let takers = piece.roles.takers(Operation::Delete, self.engine.protocol);
        let is_read = piece.roles.read == self.lies.0;
        let bucket_use = match takers.contains(&self.lies.0) {
            false if window.version > 0 => BucketUse::Elsewhere,
            false => BucketUse::Unmapped,
            true if is_read && is_below => {
                let is_whole = floor.is_some_and(|floor| floor.hides_all(&span));
                if is_whole && !self.lacks_entry {
                    BucketUse::BeingRemoved
                } else {
                    BucketUse::TooOld
                }
            }
            true if is_read && piece.roles.is_at_rest() => BucketUse::Read,
            true => BucketUse::Copies,
        };
        Ok(Route {
            home: (piece.roles.read, shard),
            sampling: piece.sampling,
            is_in_its_shard: shard == self.lies.1,
            is_below,
            bucket_use,
        })
    }

    async fn read_window(&self, key: &Key) -> Result<Directory> {
        let (engine, place) = (&self.engine, &self.place);
        let Some(times) = &place.pieced.times else {
            let (seek, deadline) = (Seek::At(key.clone()), engine.deadline(MAX_STEP_TIME));
            return engine
                .read_directory(place, &seek, self.is_serial, deadline)
                .await;
        };
        // An invalid key belongs to no bucket. Use bucket 0, because in a table with time buckets it has no rows.
        let nowhere = || TimeBucket {
            start: key.clone(),
            end: Some([key, &[0][..]].concat()),
            bucket: Bucket(0),
        };
        let bucket = times.bucket_of(key).unwrap_or_else(|_| nowhere());
        Ok(engine.window_at(place, bucket, self.floor.clone()))
    }
}

impl Route {
    /// Returns whether the row may be where it is stored.
    pub(super) fn may_lie_here(&self) -> bool {
        self.is_in_its_shard && !matches!(self.bucket_use, BucketUse::Elsewhere | BucketUse::Unmapped)
    }

    /// Returns the fault of a row that is stored in the bucket and shard of the router, or the
    /// fault of its sample. Returns `None` if neither has a fault.
    pub(super) fn fault_of(
        &self,
        key: &Key,
        row: Option<SeenRow>,
        sample: Option<&Dated>,
    ) -> Option<FaultKind> {
        let sample = sample.filter(|sample| counts(sample));
        let Some(row) = row else {
            // Samples belong to a bucket, not to a shard. In a wrong shard, a sample without a row may
            // belong to a row in the right shard, so it is no fault.
            let is_fault = self.is_in_its_shard && self.bucket_use != BucketUse::Copies;
            return sample.filter(|_| is_fault).map(|_| FaultKind::SampleOrphan);
        };
        match self.bucket_use {
            // The stage of existing buckets reports the lost range map. Do not also report each row.
            BucketUse::Unmapped => None,
            BucketUse::Elsewhere => Some(FaultKind::Stray),
            _ if !self.is_in_its_shard => Some(FaultKind::Stray),
            BucketUse::TooOld => Some(FaultKind::BelowFloor),
            BucketUse::Read if key.len() <= MAX_EDGE_BYTES => self.sample_fault(key, row, sample),
            BucketUse::Read | BucketUse::Copies | BucketUse::BeingRemoved => None,
        }
    }

    fn sample_fault(&self, key: &Key, row: SeenRow, sample: Option<&Dated>) -> Option<FaultKind> {
        let is_sampled = |bytes| self.sampling.is_sampled(hash(key), bytes);
        let Some(Dated { sample, stamp }) = sample else {
            return is_sampled(row.counted).then_some(FaultKind::SampleMissing);
        };
        let sizes = [row.counted, row.bytes].map(|bytes| bytes.min(i32::MAX.unsigned_abs().into()));
        let is_of_it = is_sampled(sample.bytes) && sizes.contains(&sample.bytes);
        // If the row has a newer timestamp than the sample, its writer also wrote a sample if the row
        // had to be sampled. An old sample is wrong only in that case.
        let is_wrong = !is_of_it && (stamp.0 >= row.stamp || is_sampled(row.counted));
        is_wrong.then_some(FaultKind::SampleWrong)
    }
}

impl PieceStore {
    /// Returns the retention bound of a partition with time buckets.
    pub(super) async fn floor_beside(&self, place: &Place, is_serial: bool) -> Result<Option<Floor>> {
        if place.pieced.keep.is_none() {
            return Ok(None);
        }
        let deadline = self.deadline(MAX_STEP_TIME);
        Ok(self.directory_beside(place, is_serial, deadline).await?.floor)
    }
}

/// Returns `None` if a range map is damaged: the stage of range maps reports that.
pub(super) fn unless_corrupt<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.kind() == PiecesErrorKind::Corrupt => Ok(None),
        read => read.map(Some),
    }
}

/// Returns whether a sample (stored key and size) stands for a stored row: the sample does not
/// record a deletion, and has a size.
pub(super) fn counts(sample: &Dated) -> bool {
    !sample.sample.is_gone && sample.sample.bytes > 0
}
