//! Bucket of a row, valid during a write.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use recto_model::Cells;
use recto_protocol::buckets::{Bucket, Unrouted, Version};

use super::Transacted;
use super::arrivals::Arrived;
use super::known::{Entry, Fills};
use super::locks::Shared;
use super::whole::{Stretch, Whole};
use crate::error::Result;
use crate::notices::{Notice, Notices};
use crate::place::{Deadline, Place, PlaceId};
use crate::sending::refused;

/// Locks of partitions that are not split while the guard exists: from the routing of a write until it is done. A
/// caller must not request another guard while it holds one, because a split may wait for it.
pub struct Guard {
    shared: Shared,
    pub(super) places: BTreeMap<PlaceId, (Arc<Place>, Entry)>,
    notices: Arc<Notices>,
    /// Room that was reserved in buckets.
    pub(super) reserved: Vec<(Fills, Bucket, u64)>,
}

impl Transacted {
    /// Returns the guard for writes to these partitions. Neither waits nor reads if no split is under way and the
    /// partitions are cached.
    ///
    /// # Errors
    /// - `Timeout`: splits take the whole time.
    /// - The range maps cannot be read, or are damaged.
    pub async fn route(&self, places: &[Arc<Place>], time: Duration) -> Result<Guard> {
        let deadline = self.deadline(time);
        let shared = loop {
            match self.locks.share(places, &self.environment, deadline).await? {
                Ok(shared) => break shared,
                Err(torn) => drop(self.alone(&torn, deadline).await?),
            }
        };
        let mut guard = Guard {
            shared,
            places: BTreeMap::new(),
            notices: Arc::clone(&self.notices),
            reserved: Vec::new(),
        };
        for place in places {
            if guard.places.contains_key(&place.id) {
                continue;
            }
            let entry = match self.entry(place, deadline).await {
                Ok(entry) => entry,
                Err(error) => {
                    guard.done();
                    return Err(error);
                }
            };
            guard
                .places
                .insert(Arc::clone(&place.id), (Arc::clone(place), entry));
        }
        Ok(guard)
    }

    /// Returns the cached range map of a partition, and reads it if necessary. The caller holds the lock of the
    /// partition.
    pub(super) async fn entry(&self, place: &Place, deadline: Deadline) -> Result<Entry> {
        if let Some(entry) = self.known.find(&place.id) {
            return Ok(entry);
        }
        let snapshot = self.store.snapshot()?;
        let whole = self.read_whole(&*snapshot, place, deadline).await?;
        Ok(self.known.keep(&place.id, whole))
    }
}

impl Guard {
    /// Returns the bucket of a row of one of the partitions, by the encoded key of the row, regardless of the retention
    /// bound.
    ///
    /// # Errors
    /// The partition does not belong to the guard.
    pub fn bucket_of(&self, place: &Place, key: &[u8]) -> Result<Bucket> {
        Ok(self.stretch_of(place, key)?.bucket)
    }

    /// Returns the range of keys that are in the same bucket as this key, regardless of the retention bound.
    ///
    /// # Errors
    /// As for [`bucket_of`](Self::bucket_of).
    pub(crate) fn stretch_of(&self, place: &Place, key: &[u8]) -> Result<Stretch<'_>> {
        let whole = self.whole(place).ok_or(Unrouted::OutsideWindow);
        whole.and_then(|whole| whole.stretch_of(key)).map_err(refused)
    }

    /// Checks that a key is not below the retention bound.
    ///
    /// # Errors
    /// `BelowFloor`: the key is below the retention bound.
    pub(crate) fn check_kept(&self, place: &Place, key: &[u8]) -> Result<()> {
        if self.hides(place, key) {
            return Err(refused(Unrouted::BelowFloor));
        }
        Ok(())
    }

    /// Returns whether a key is below the retention bound.
    pub(crate) fn hides(&self, place: &Place, key: &[u8]) -> bool {
        self.whole(place).is_some_and(|whole| whole.hides(key))
    }

    /// Returns the version of the range map of one of the partitions; 0 if it has none.
    pub(crate) fn version(&self, place: &Place) -> Version {
        self.whole(place).map_or(0, |whole| whole.version)
    }

    /// Returns the range map of one of the partitions.
    pub(super) fn whole(&self, place: &Place) -> Option<&Whole> {
        self.places.get(&place.id).map(|(_, entry)| &*entry.whole)
    }

    /// Returns the store's partition of a row, by the encoded key of the row.
    ///
    /// # Errors
    /// As for [`bucket_of`](Self::bucket_of).
    pub fn partition_of(&self, place: &Place, key: &[u8]) -> Result<Cells> {
        Ok(place.bucket_partition(self.bucket_of(place, key)?))
    }

    /// Records rows that were written to a bucket, so that the bucket is split in time. Reads nothing.
    pub fn written(&self, place: &Place, bucket: Bucket, arrived: &Arrived<'_>) {
        let Some((place, entry)) = self.places.get(&place.id) else {
            return;
        };
        let is_due = {
            let mut fills = entry.fills.lock().unwrap_or_else(PoisonError::into_inner);
            let fill = fills.entry(bucket).or_default();
            fill.add(arrived);
            fill.is_due(place.pieced.size)
        };
        if is_due {
            self.notices.add(place, Notice::Grown(bucket), arrived.least);
        }
    }

    /// Releases the locks after all writes are decided: they are done, or will never be done. If the guard is dropped
    /// instead, writes may still be applied later. In this case, the next split of these partitions first waits for a
    /// request that the store executes after them.
    pub fn done(mut self) {
        self.shared.settle();
    }
}
