//! Which bucket takes a row, for as long as somebody writes.

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

/// Partitions that are not cut while it is held: from where a write is routed until it is done. It must not be held while another one
/// is asked for: somebody may wait to cut.
pub struct Guard {
    shared: Shared,
    pub(super) places: BTreeMap<PlaceId, (Arc<Place>, Entry)>,
    notices: Arc<Notices>,
    /// Room that was reserved in buckets.
    pub(super) reserved: Vec<(Fills, Bucket, u64)>,
}

impl Transacted {
    /// What tells where rows of these partitions are written to. Who has no cut in its way, and meets partitions that were met
    /// before, waits for nothing and reads nothing.
    ///
    /// # Errors
    /// `Timeout`: they are cut for that long. Their directories cannot be read, or are damaged.
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

    /// What is known of a partition whose lock is held.
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
    /// The bucket that has a row of one of its partitions, by the row's encoded key, whether rows are kept there or not.
    ///
    /// # Errors
    /// It is none of its partitions.
    pub fn bucket_of(&self, place: &Place, key: &[u8]) -> Result<Bucket> {
        Ok(self.stretch_of(place, key)?.bucket)
    }

    /// From where to where keys of one of its partitions lie where this one does, whether rows are kept there or not.
    ///
    /// # Errors
    /// As of [`bucket_of`](Self::bucket_of).
    pub(crate) fn stretch_of(&self, place: &Place, key: &[u8]) -> Result<Stretch<'_>> {
        let whole = self.whole(place).ok_or(Unrouted::OutsideWindow);
        whole.and_then(|whole| whole.stretch_of(key)).map_err(refused)
    }

    /// An error if rows there are not kept any more.
    ///
    /// # Errors
    /// `BelowFloor`.
    pub(crate) fn check_kept(&self, place: &Place, key: &[u8]) -> Result<()> {
        if self.hides(place, key) {
            return Err(refused(Unrouted::BelowFloor));
        }
        Ok(())
    }

    /// Whether rows there are not kept any more.
    pub(crate) fn hides(&self, place: &Place, key: &[u8]) -> bool {
        self.whole(place).is_some_and(|whole| whole.hides(key))
    }

    /// Of which version the directory of one of its partitions is; 0: it has none.
    pub(crate) fn version(&self, place: &Place) -> Version {
        self.whole(place).map_or(0, |whole| whole.version)
    }

    /// The directory of one of its partitions.
    pub(super) fn whole(&self, place: &Place) -> Option<&Whole> {
        self.places.get(&place.id).map(|(_, entry)| &*entry.whole)
    }

    /// The partition of the store that has a row, by its encoded key.
    ///
    /// # Errors
    /// As of [`bucket_of`](Self::bucket_of).
    pub fn partition_of(&self, place: &Place, key: &[u8]) -> Result<Cells> {
        Ok(place.bucket_partition(self.bucket_of(place, key)?))
    }

    /// Takes account of rows that were written to a bucket, so that it is cut when it is due. Nothing is read.
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

    /// What was written is done, or it is known that it never will be. Whoever drops this otherwise leaves in doubt whether something
    /// comes later: the next cut of these partitions first asks the store for something that it does behind that.
    pub fn done(mut self) {
        self.shared.settle();
    }
}
