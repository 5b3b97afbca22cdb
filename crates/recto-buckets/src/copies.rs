//! Cache of the range maps that this process has read. A cached range map may be used until its lifetime
//! ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_protocol::buckets::{Clock, Directory, DirectoryCopy};
use recto_store::Stamp;

use crate::directory::Seek;
use crate::error::Result;
use crate::limits::{MAX_COPIED_BYTES, MAX_COPIED_PIECES};
use crate::place::{Deadline, Partition, PlaceId};

/// Approximate number of bytes of a key range in a cached range map, without the key at which the
/// range starts.
const PIECE_BYTES: usize = 256;

/// Cached range map (which bucket holds which key range), with the time when this process read it.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) copy: DirectoryCopy,
    /// Timestamp that is smaller than each write timestamp that this process assigned after it read the
    /// range map.
    pub(crate) stamp: Stamp,
    /// Time when the read of the range map ended, in nanoseconds of the monotonic clock.
    pub(crate) heard_nanos: u64,
    /// Number of sequential requests to the store for which the caller waited.
    pub(crate) requests: u32,
}

impl Taken {
    pub(crate) fn directory(&self) -> &Directory {
        self.copy.directory()
    }

    pub(crate) fn lives(&self, now: Clock) -> bool {
        self.copy.lives(now)
    }
}

/// Cache of the range maps (which bucket holds which key range) of all partitions.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: BTreeMap<PlaceId, Known>,
    /// Windows (parts of range maps that were read together), in the order in which they were read.
    /// The oldest is evicted first.
    read: VecDeque<(PlaceId, u64)>,
    pieces: usize,
    bytes: usize,
    turn: u64,
}

#[derive(Debug, Default)]
struct Known {
    windows: Vec<Kept>,
    /// Lock of the task that reads the range map of the partition. Other tasks that need the range
    /// map wait for the lock.
    gate: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct Kept {
    turn: u64,
    copy: Taken,
}

impl Copies {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached range map that has the requested keys, if it has not expired.
    fn living(&self, place: &PlaceId, seek: &Seek, now: Clock) -> Option<Taken> {
        self.find(place, seek, |copy| copy.lives(now))
    }

    /// Returns the range map that was cached last for the requested keys, even if it has expired.
    pub(crate) fn last(&self, place: &PlaceId, seek: &Seek) -> Option<Taken> {
        self.find(place, seek, |_| true)
    }

    fn find(&self, place: &PlaceId, seek: &Seek, is_good: impl Fn(&Taken) -> bool) -> Option<Taken> {
        let inner = self.lock();
        let windows = inner.known.get(place)?.windows.iter().rev();
        let mut copies = windows.map(|kept| &kept.copy);
        copies
            .find(|copy| seek.is_met(copy.directory()) && is_good(copy))
            .cloned()
    }

    /// Removes all cached range maps of a table.
    pub(crate) fn forget(&self, table: &str) {
        let mut inner = self.lock();
        let places: Vec<PlaceId> = inner.known.keys().filter(|id| id.0 == table).cloned().collect();
        for place in places {
            let turns = inner.known.get(&place).map_or(&[][..], |known| &known.windows);
            let turns: Vec<u64> = turns.iter().map(|kept| kept.turn).collect();
            for turn in turns {
                inner.forget(&place, turn);
            }
        }
    }

    fn gate(&self, place: &PlaceId) -> Arc<tokio::sync::Mutex<()>> {
        let mut inner = self.lock();
        let known = inner.known.entry(Arc::clone(place)).or_default();
        Arc::clone(&known.gate)
    }

    /// Removes the entry of a partition that has no cached window (part of a range map) and no
    /// waiting task.
    fn tidy(&self, place: &PlaceId) {
        let mut inner = self.lock();
        let is_idle = |known: &Known| known.windows.is_empty() && Arc::strong_count(&known.gate) == 1;
        if inner.known.get(place).is_some_and(is_idle) {
            inner.known.remove(place);
        }
    }

    /// Caches a range map, and removes older cached range maps of the partition.
    fn keep(&self, place: &PlaceId, copy: &Taken) {
        let mut inner = self.lock();
        let version = copy.directory().version;
        let known = inner.known.get(place).map_or(&[][..], |known| &known.windows);
        if known.iter().any(|kept| kept.copy.directory().version > version) {
            return;
        }
        let start = copy.directory().pieces.first().map(|piece| piece.start.clone());
        let is_replaced = |kept: &Kept| {
            let window = kept.copy.directory();
            let same = window.pieces.first().map(|piece| &piece.start) == start.as_ref();
            window.version < version || same
        };
        let replaced = known.iter().filter(|kept| is_replaced(kept));
        let replaced: Vec<_> = replaced.map(|kept| kept.turn).collect();
        for turn in replaced {
            inner.forget(place, turn);
        }
        inner.add(place, copy.clone());
        while inner.pieces > MAX_COPIED_PIECES || inner.bytes > MAX_COPIED_BYTES {
            let Some((place, turn)) = inner.read.pop_front() else {
                break;
            };
            inner.forget(&place, turn);
        }
        inner.sweep();
    }
}

impl Inner {
    fn add(&mut self, place: &PlaceId, copy: Taken) {
        self.turn += 1;
        let turn = self.turn;
        self.pieces += copy.directory().pieces.len();
        self.bytes += bytes_of(copy.directory());
        let known = self.known.entry(Arc::clone(place)).or_default();
        known.windows.push(Kept { turn, copy });
        self.read.push_back((Arc::clone(place), turn));
    }

    fn forget(&mut self, place: &PlaceId, turn: u64) {
        let Some(known) = self.known.get_mut(place) else {
            return;
        };
        let Some(index) = known.windows.iter().position(|kept| kept.turn == turn) else {
            return;
        };
        let forgotten = known.windows.swap_remove(index);
        self.pieces -= forgotten.copy.directory().pieces.len();
        self.bytes -= bytes_of(forgotten.copy.directory());
        if known.windows.is_empty() && Arc::strong_count(&known.gate) == 1 {
            self.known.remove(place);
        }
    }

    /// Removes windows from the eviction order that are no longer cached. Otherwise the eviction order
    /// would grow forever.
    fn sweep(&mut self) {
        if self.read.len() <= 2 * self.pieces + 16 {
            return;
        }
        let known = &self.known;
        self.read.retain(|(place, turn)| {
            let known = known.get(place);
            known.is_some_and(|known| known.windows.iter().any(|kept| kept.turn == *turn))
        });
    }
}

fn bytes_of(directory: &Directory) -> usize {
    let pieces = directory.pieces.iter();
    pieces.map(|piece| PIECE_BYTES + piece.start.len()).sum()
}

impl Partition {
    /// Returns the cached range map if it has not expired. A registry of time buckets is not
    /// returned, because other processes may have created buckets since it was read.
    pub(crate) fn living(&self, seek: &Seek) -> Option<Taken> {
        let pieces = &self.pieces;
        if self.place.pieced.times.is_some() {
            return None;
        }
        let living = pieces.copies.living(&self.place.id, seek, pieces.clock())?;
        Some(Taken {
            requests: 0,
            ..living
        })
    }

    /// Returns the cached range map if it has not expired, else reads the range map.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn take(&self, seek: &Seek, deadline: Deadline) -> Result<Taken> {
        let (pieces, id) = (&self.pieces, &self.place.id);
        if let Some(copy) = self.living(seek) {
            return Ok(copy);
        }
        if self.place.pieced.times.is_some() {
            return self.read_copy(seek, deadline).await;
        }
        // Let only one of several concurrent tasks read the range map.
        let gate = pieces.copies.gate(id);
        let held = gate.lock().await;
        let read = match self.living(seek) {
            // Another task read the range map while this task waited.
            Some(copy) => Ok(Taken { requests: 1, ..copy }),
            None => self.read_copy(seek, deadline).await,
        };
        drop(held);
        drop(gate);
        pieces.copies.tidy(id);
        read
    }

    /// Reads the range map from the store, even if a valid one is cached.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn read_copy(&self, seek: &Seek, deadline: Deadline) -> Result<Taken> {
        let pieces = &self.pieces;
        // Ignore the result: only a closed semaphore returns an error, and this one is never
        // closed.
        let _turn = pieces.reading.acquire().await;
        let asked = pieces.clock();
        let (directory, requests) = pieces
            .read_directory_counting(&self.place, seek, false, deadline)
            .await?;
        let taken = Taken {
            copy: DirectoryCopy::new(directory.into(), asked, pieces.clock(), pieces.protocol),
            stamp: (pieces.stamps)(),
            heard_nanos: pieces.environment.monotonic_nanos(),
            requests,
        };
        pieces.copies.keep(&self.place.id, &taken);
        pieces.notices.look(&self.place, taken.directory());
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use recto_protocol::buckets::{Protocol, Sampling};

    use super::*;

    const NOW: Clock = Clock {
        boot_ms: 10_000,
        wall_ms: 1_000,
    };

    fn place(name: &str) -> PlaceId {
        Arc::new((name.to_owned(), Vec::new()))
    }

    /// Returns a cached range map with `pieces` key ranges.
    fn copy(version: u64, pieces: u8, edge_bytes: usize) -> Taken {
        let sampling = Sampling {
            unit: 1_000,
            mean: 64,
        };
        let protocol = Protocol::default();
        let mut directory = Directory::absent(sampling, protocol);
        directory.version = version;
        let first = directory.pieces[0].clone();
        directory
            .pieces
            .extend((1..pieces).map(|number| recto_protocol::buckets::Piece {
                start: vec![number; edge_bytes],
                ..first.clone()
            }));
        Taken {
            copy: DirectoryCopy::new(directory.into(), NOW, NOW, protocol),
            stamp: Stamp(0),
            heard_nanos: 0,
            requests: 1,
        }
    }

    #[test]
    fn a_copy_lives_by_the_larger_of_both_clocks() {
        let (copies, seek) = (Copies::default(), Seek::At(b"k".to_vec()));
        copies.keep(&place("a"), &copy(0, 1, 1));
        let lives = |boot_ms, wall_ms| {
            let now = Clock {
                boot_ms: NOW.boot_ms + boot_ms,
                wall_ms: NOW.wall_ms + wall_ms,
            };
            copies.living(&place("a"), &seek, now).is_some()
        };
        assert!(lives(0, 0) && lives(1_999, 1_999) && lives(1_999, -500_000));
        assert!(!lives(2_000, 0) && !lives(0, 2_000));
        assert!(copies.last(&place("a"), &seek).is_some(), "for a guess");
        assert!(copies.last(&place("b"), &seek).is_none());
    }

    #[test]
    fn the_newest_version_stays() {
        let copies = Copies::default();
        let seek = Seek::Before(None);
        for (version, stays) in [(2, 2), (1, 2), (3, 3), (3, 3)] {
            copies.keep(&place("a"), &copy(version, 3, 1));
            let last = copies.last(&place("a"), &seek).expect("it is kept");
            assert_eq!(last.directory().version, stays);
        }
        let inner = copies.lock();
        assert_eq!((inner.pieces, inner.known.len()), (3, 1));
    }

    #[test]
    fn evicts_range_maps_in_the_order_of_reads() {
        let copies = Copies::default();
        let places = MAX_COPIED_PIECES / 100 + 20;
        for number in 0..places {
            copies.keep(&place(&number.to_string()), &copy(1, 100, 4));
        }
        let seek = Seek::Before(None);
        assert!(copies.last(&place("0"), &seek).is_none());
        assert!(copies.last(&place(&(places - 1).to_string()), &seek).is_some());
        let inner = copies.lock();
        assert!(inner.pieces <= MAX_COPIED_PIECES && inner.pieces > MAX_COPIED_PIECES - 200);
        assert!(inner.read.len() <= 2 * inner.pieces + 16);
        drop(inner);
        for number in 0..20 {
            copies.keep(&place(&format!("large {number}")), &copy(1, 100, 60_000));
        }
        assert!(copies.lock().bytes <= MAX_COPIED_BYTES);
        assert!(copies.last(&place("large 0"), &seek).is_none());
    }
}
