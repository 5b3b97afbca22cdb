//! What a process does for buckets, counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use recto_protocol::buckets::Bucket;

use crate::limits::MAX_NOTED_BUCKETS;
use crate::place::PlaceId;

/// What a process did for buckets since it opened the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketMetrics {
    /// Buckets that its cuts made.
    pub made: u64,
    /// Buckets that it dropped, since what they held is not kept any more.
    pub dropped: u64,
    /// Bytes of rows that it moved from one bucket to another, or copied.
    pub moved_bytes: u64,
    /// How often it read a directory, or a window of one.
    pub directory_reads: u64,
    /// Buckets that were larger than they should be when it looked at them last.
    pub too_large: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    made: AtomicU64,
    dropped: AtomicU64,
    moved_bytes: AtomicU64,
    directory_reads: AtomicU64,
    too_large: Mutex<BTreeSet<(PlaceId, Bucket)>>,
}

impl Counters {
    pub(crate) fn made(&self, buckets: u64) {
        self.made.fetch_add(buckets, Ordering::Relaxed);
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

    /// A bucket was looked at. Of very many that are too large the first ones are counted.
    pub(crate) fn looked(&self, place: &PlaceId, bucket: Bucket, is_too_large: bool) {
        let mut too_large = self.too_large.lock().unwrap_or_else(PoisonError::into_inner);
        let address = (PlaceId::clone(place), bucket);
        if !is_too_large {
            too_large.remove(&address);
        } else if too_large.len() < MAX_NOTED_BUCKETS {
            too_large.insert(address);
        }
    }

    /// A table is not there any more.
    pub(crate) fn forget(&self, table: &str) {
        let mut too_large = self.too_large.lock().unwrap_or_else(PoisonError::into_inner);
        too_large.retain(|(place, _)| place.0 != table);
    }

    pub(crate) fn metrics(&self) -> BucketMetrics {
        let too_large = self.too_large.lock().unwrap_or_else(PoisonError::into_inner);
        BucketMetrics {
            made: self.made.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            moved_bytes: self.moved_bytes(),
            directory_reads: self.directory_reads.load(Ordering::Relaxed),
            too_large: too_large.len() as u64,
        }
    }
}
