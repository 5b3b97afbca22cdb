//! Cache of range maps. No other process changes them. The cache also records since when each range map is valid, so
//! that a read by a snapshot can determine whether it applied then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_protocol::buckets::Bucket;

use super::arrivals::Fill;
use super::whole::Whole;
use crate::limits::{MAX_COPIED_BYTES, MAX_COPIED_PIECES};
use crate::place::PlaceId;

/// Number of changes of range maps so far, of all partitions together.
pub(super) type Epoch = u64;

/// Recorded data of the buckets of a partition.
pub(super) type Fills = Arc<Mutex<BTreeMap<Bucket, Fill>>>;

/// Cached range map of a partition, with the data of its buckets.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) whole: Arc<Whole>,
    pub(super) fills: Fills,
    /// Epoch in which the range map became valid, or was read.
    since: Epoch,
    /// Number of relaxed changes that must be durable, so that a failure cannot revert this range map.
    rests_on: u64,
    /// Number of the insertion, for eviction.
    turn: u64,
    pieces: usize,
    bytes: usize,
}

/// All cached range maps.
#[derive(Debug, Default)]
pub(super) struct Known {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<PlaceId, Entry>,
    /// Entries in the order of their insertion.
    came: VecDeque<(PlaceId, u64)>,
    /// Partitions whose range map is being changed, or may be changed later.
    in_flux: BTreeSet<PlaceId>,
    epoch: Epoch,
    /// Number of relaxed changes, and number of them that are durable.
    relaxed: u64,
    durable: u64,
    turn: u64,
    pieces: usize,
    bytes: usize,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current epoch. A snapshot is taken after it.
    pub(super) fn epoch(&self) -> Epoch {
        self.lock().epoch
    }

    /// Returns the current entry of a partition. The caller holds the lock of the partition.
    pub(super) fn find(&self, place: &PlaceId) -> Option<Entry> {
        self.lock().entries.get(place).cloned()
    }

    /// Returns the range map of a partition as of a snapshot that was taken after this epoch, if it is known.
    pub(super) fn find_as_of(&self, place: &PlaceId, epoch: Epoch) -> Option<Arc<Whole>> {
        let inner = self.lock();
        let entry = inner.entries.get(place)?;
        let is_sure = entry.rests_on <= inner.durable;
        let is_same = entry.since <= epoch && is_sure && !inner.in_flux.contains(place);
        is_same.then(|| Arc::clone(&entry.whole))
    }

    /// Caches a range map. The caller holds the lock of the partition.
    pub(super) fn keep(&self, place: &PlaceId, whole: Whole) -> Entry {
        let mut inner = self.lock();
        if let Some(entry) = inner.entries.get(place) {
            return entry.clone();
        }
        inner.put(place, Arc::new(whole), Fills::default())
    }

    /// Caches a range map that was read in a snapshot taken after this epoch, unless a range map has changed since.
    pub(super) fn keep_as_of(&self, place: &PlaceId, whole: Arc<Whole>, epoch: Epoch) {
        let mut inner = self.lock();
        let is_same = inner.epoch == epoch && inner.in_flux.is_empty();
        if is_same && !inner.entries.contains_key(place) {
            inner.put(place, whole, Fills::default());
        }
    }

    /// Begins a change: until it ends, only the task that makes the change may use the cached range map.
    pub(super) fn begin(&self, place: &PlaceId) {
        self.lock().in_flux.insert(Arc::clone(place));
    }

    /// Ends a change that was applied. If `is_relaxed`, it is not durable, so a failure of the disk may revert it.
    pub(super) fn changed(&self, place: &PlaceId, whole: Whole, is_relaxed: bool) {
        let mut inner = self.lock();
        inner.epoch += 1;
        inner.relaxed += u64::from(is_relaxed);
        inner.in_flux.remove(place);
        let fills = inner.entries.get(place).map(|entry| Arc::clone(&entry.fills));
        inner.put(place, Arc::new(whole), fills.unwrap_or_default());
    }

    /// Returns the number of relaxed changes, or `None` if all of them are durable.
    pub(super) fn relaxed(&self) -> Option<u64> {
        let inner = self.lock();
        (inner.relaxed > inner.durable).then_some(inner.relaxed)
    }

    /// Records that this number of relaxed changes is durable.
    pub(super) fn durable(&self, relaxed: u64) {
        let mut inner = self.lock();
        inner.durable = inner.durable.max(relaxed);
    }

    /// Ends a change that was not applied.
    pub(super) fn unchanged(&self, place: &PlaceId) {
        self.lock().in_flux.remove(place);
    }

    /// Removes all entries of a dropped table.
    pub(super) fn forget_table(&self, table: &str) {
        let mut inner = self.lock();
        inner.epoch += 1;
        inner.in_flux.retain(|place| place.0 != table);
        let places = inner.entries.keys().filter(|place| place.0 == table);
        let places: Vec<PlaceId> = places.cloned().collect();
        for place in &places {
            inner.remove(place);
        }
    }

    /// Removes an entry that may be outdated, so that it is read again.
    pub(super) fn forget(&self, place: &PlaceId) {
        let mut inner = self.lock();
        inner.epoch += 1;
        inner.in_flux.remove(place);
        inner.remove(place);
    }
}

impl Inner {
    fn put(&mut self, place: &PlaceId, whole: Arc<Whole>, fills: Fills) -> Entry {
        self.remove(place);
        self.turn += 1;
        let entry = Entry {
            fills,
            since: self.epoch,
            rests_on: self.relaxed,
            turn: self.turn,
            pieces: whole.pieces(),
            bytes: whole.bytes(),
            whole,
        };
        self.pieces += entry.pieces;
        self.bytes += entry.bytes;
        self.entries.insert(Arc::clone(place), entry.clone());
        self.came.push_back((Arc::clone(place), entry.turn));
        self.make_room(entry.turn);
        entry
    }

    fn remove(&mut self, place: &PlaceId) {
        if let Some(entry) = self.entries.remove(place) {
            self.pieces -= entry.pieces;
            self.bytes -= entry.bytes;
        }
    }

    /// Evicts the oldest entries. Keeps the newest one, however large it is.
    fn make_room(&mut self, newest: u64) {
        while self.pieces > MAX_COPIED_PIECES || self.bytes > MAX_COPIED_BYTES {
            let Some((place, turn)) = self.came.pop_front() else {
                return;
            };
            if turn == newest {
                self.came.push_back((place, turn));
                return;
            }
            if self.entries.get(&place).is_some_and(|entry| entry.turn == turn) {
                self.remove(&place);
            }
        }
        // Bounds the order by the number of cached entries, not by the number of all entries ever cached.
        if self.came.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.came
                .retain(|(place, turn)| entries.get(place).is_some_and(|entry| entry.turn == *turn));
        }
    }
}
