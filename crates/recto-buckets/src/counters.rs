//! Counters of the work that a process does for buckets.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use recto_protocol::buckets::Bucket;

use crate::limits::MAX_NOTED_BUCKETS;
use crate::place::PlaceId;

/// Counters of the work that a process did for buckets since it opened the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketMetrics {
    /// Number of buckets that splits of this process created.
    pub made: u64,
    /// Number of key ranges that joins of this process moved to new buckets.
    pub joined: u64,
    /// Number of buckets that this process dropped because their rows had expired.
    pub dropped: u64,
    /// Bytes of rows that this process copied from one bucket to another.
    pub moved_bytes: u64,
    /// Number of reads of a range map, or of a part of it, by this process.
    pub directory_reads: u64,
    /// Number of buckets that exceeded their maximum size when this process last checked them.
    pub too_large: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    made: AtomicU64,
    joined: AtomicU64,
    dropped: AtomicU64,
    moved_bytes: AtomicU64,
    directory_reads: AtomicU64,
    too_large: Mutex<BTreeSet<(PlaceId, Bucket)>>,
}

impl Counters {
    pub(crate) fn made(&self, buckets: u64) {
        self.made.fetch_add(buckets, Ordering::Relaxed);
    }

    pub(crate) fn joined(&self, pieces: u64) {
        self.joined.fetch_add(pieces, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self, buckets: u64) {
        self.dropped.fetch_add(buckets, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn read_directory(&self) {
        self.directory_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Records whether a bucket exceeds its maximum size. At most [`MAX_NOTED_BUCKETS`] large
    /// buckets are recorded.
    pub(crate) fn looked(&self, place: &PlaceId, bucket: Bucket, is_too_large: bool) {
        let mut too_large = self.too_large.lock().unwrap_or_else(PoisonError::into_inner);
        let address = (PlaceId::clone(place), bucket);
        if !is_too_large {
            too_large.remove(&address);
        } else if too_large.len() < MAX_NOTED_BUCKETS {
            too_large.insert(address);
        }
    }

    /// Removes the recorded large buckets of a dropped table.
    pub(crate) fn forget(&self, table: &str) {
        let mut too_large = self.too_large.lock().unwrap_or_else(PoisonError::into_inner);
        too_large.retain(|(place, _)| place.0 != table);
    }

    pub(crate) fn metrics(&self) -> BucketMetrics {
        let too_large = self.too_large.lock().unwrap_or_else(PoisonError::into_inner);
        BucketMetrics {
            made: self.made.load(Ordering::Relaxed),
            joined: self.joined.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            moved_bytes: self.moved_bytes(),
            directory_reads: self.directory_reads.load(Ordering::Relaxed),
            too_large: too_large.len() as u64,
        }
    }
}
