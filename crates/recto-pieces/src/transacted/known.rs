//! The directories that this process knows, which nobody else changes; and since when each is as it is, so that who reads by a snapshot
//! can tell whether it was so then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_protocol::buckets::Bucket;

use super::arrivals::Fill;
use super::whole::Whole;
use crate::limits::{MAX_COPIED_BYTES, MAX_COPIED_PIECES};
use crate::place::PlaceId;

/// How often directories have changed, all partitions together.
pub(super) type Epoch = u64;

/// What is known of the buckets of a partition.
pub(super) type Fills = Arc<Mutex<BTreeMap<Bucket, Fill>>>;

/// What is known of a partition.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) whole: Arc<Whole>,
    pub(super) fills: Fills,
    /// When it became so, or was found so.
    since: Epoch,
    /// How many changes have to be on disk, of those that need not be at once, for it to stay so whatever happens.
    rests_on: u64,
    /// When it was put here.
    turn: u64,
    pieces: usize,
    bytes: usize,
}

/// All directories that are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<PlaceId, Entry>,
    /// In which order they came.
    came: VecDeque<(PlaceId, u64)>,
    /// Those that are being changed, or may be changed later.
    in_flux: BTreeSet<PlaceId>,
    epoch: Epoch,
    /// Changes that need not be on disk at once, and how many of them are.
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

    /// What a snapshot is taken after.
    pub(super) fn epoch(&self) -> Epoch {
        self.lock().epoch
    }

    /// What is known of a partition now. Who asks holds its lock.
    pub(super) fn find(&self, place: &PlaceId) -> Option<Entry> {
        self.lock().entries.get(place).cloned()
    }

    /// What a partition's directory was in a snapshot that was taken after this epoch.
    pub(super) fn find_as_of(&self, place: &PlaceId, epoch: Epoch) -> Option<Arc<Whole>> {
        let inner = self.lock();
        let entry = inner.entries.get(place)?;
        let is_sure = entry.rests_on <= inner.durable;
        let is_same = entry.since <= epoch && is_sure && !inner.in_flux.contains(place);
        is_same.then(|| Arc::clone(&entry.whole))
    }

    /// Keeps what was read by who holds the partition's lock.
    pub(super) fn keep(&self, place: &PlaceId, whole: Whole) -> Entry {
        let mut inner = self.lock();
        if let Some(entry) = inner.entries.get(place) {
            return entry.clone();
        }
        inner.put(place, Arc::new(whole), Fills::default())
    }

    /// Keeps what was read in a snapshot that was taken after this epoch, if no directory has changed since.
    pub(super) fn keep_as_of(&self, place: &PlaceId, whole: Arc<Whole>, epoch: Epoch) {
        let mut inner = self.lock();
        let is_same = inner.epoch == epoch && inner.in_flux.is_empty();
        if is_same && !inner.entries.contains_key(place) {
            inner.put(place, whole, Fills::default());
        }
    }

    /// From now on nobody knows it but who changes it.
    pub(super) fn begin(&self, place: &PlaceId) {
        self.lock().in_flux.insert(Arc::clone(place));
    }

    /// It is changed; `is_relaxed`: not on disk, so that it may be as it was before if the disk fails.
    pub(super) fn changed(&self, place: &PlaceId, whole: Whole, is_relaxed: bool) {
        let mut inner = self.lock();
        inner.epoch += 1;
        inner.relaxed += u64::from(is_relaxed);
        inner.in_flux.remove(place);
        let fills = inner.entries.get(place).map(|entry| Arc::clone(&entry.fills));
        inner.put(place, Arc::new(whole), fills.unwrap_or_default());
    }

    /// How many changes there were that need not be on disk at once; none: all of them are.
    pub(super) fn relaxed(&self) -> Option<u64> {
        let inner = self.lock();
        (inner.relaxed > inner.durable).then_some(inner.relaxed)
    }

    /// So many of them are on disk.
    pub(super) fn durable(&self, relaxed: u64) {
        let mut inner = self.lock();
        inner.durable = inner.durable.max(relaxed);
    }

    /// It is as it was.
    pub(super) fn unchanged(&self, place: &PlaceId) {
        self.lock().in_flux.remove(place);
    }

    /// There is no such table any more, nor anything that lies in it.
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

    /// It may have been changed: it is read again.
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

    /// Those that came first go, but not the newest one, however large it is.
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
        // So that the order grows with what is kept, and not with what ever was.
        if self.came.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.came
                .retain(|(place, turn)| entries.get(place).is_some_and(|entry| entry.turn == *turn));
        }
    }
}
