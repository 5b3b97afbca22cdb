//! Registry of the existing time buckets (buckets for fixed periods of time) on stores without
//! transactions. Writers add entries, and a background task removes those of empty buckets.
//!
//! A plain write adds the entry of a bucket before the first row of the bucket is written, and each page reads the
//! registry. Therefore, no page misses a row that was acknowledged before the page was read. A time bucket is never split. A
//! process may use an entry that it wrote as long as a cached range map, because the entry of an empty bucket can be
//! removed (`unregistering`). An entry without rows is harmless. Readers use the registry like a range map. In it, the
//! key range of each bucket ends at the start of the next existing bucket, because there are no rows between them.
//!
//! If rows are kept for a limited time, the entries are removed together with their buckets (`retaining`). Then a
//! process may use an entry only as long as it may use the retention bound. It reads the bound together with the
//! registry. For writes, it reads the bound again at most as often as a cached range map expires.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join;
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice};
use recto_protocol::buckets::limits::MAX_WINDOW_PIECES;
use recto_protocol::buckets::{
    Bucket, Clock, Directory, DirectoryCopy, Floor, Kept, Key, Operation as Kind, Piece, Registration, Roles,
    is_registered, registration_stamp,
};
use recto_store::{Atomicity, Operation, PartitionWrite, ReadOptions, RowsRead, Stamp, WriteOptions};

use crate::copies::Taken;
use crate::directory::{Seek, missing};
use crate::error::Result;
use crate::limits::{MAX_REGISTERED, MAX_STEP_TIME};
use crate::place::{Deadline, PieceStore, Place, PlaceId};
use crate::tables::mutation;
use crate::times::{TIMELESS, TimeBucket, Times};

/// Index of the column with the start of a bucket's key range, in the table of the registry.
pub(crate) const START: usize = 2;
const BUCKET: usize = 3;
/// Index of the column of the bucket number among the columns outside the key.
const BUCKET_COLUMN: u16 = 0;

/// Cache of the registry of time buckets: entries that this process wrote, and retention bounds
/// that it read.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    /// Buckets that this process registered, each with the time before it read the bucket's entry.
    entries: Mutex<BTreeMap<(PlaceId, Bucket), Clock>>,
    /// Retention bounds (rows beyond them are not kept) that this process read, by partition.
    floors: Mutex<BTreeMap<PlaceId, Low>>,
}

/// Retention bound of a partition (rows beyond it are not kept), and the time `asked` when its read
/// began.
#[derive(Debug, Clone)]
struct Low {
    floor: Option<Floor>,
    asked: Clock,
}

impl Registered {
    fn asked(&self, place: &PlaceId, bucket: Bucket) -> Option<Clock> {
        let known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(Arc::clone(place), bucket)).copied()
    }

    fn add(&self, place: &PlaceId, bucket: Bucket, asked: Clock) {
        let mut known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Clearing the entries is harmless: the process writes each forgotten entry to the registry
        // once more.
        if known.len() >= MAX_REGISTERED {
            known.clear();
        }
        known.insert((Arc::clone(place), bucket), asked);
    }

    fn low(&self, place: &PlaceId) -> Option<Low> {
        let known = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(place).cloned()
    }

    fn know(&self, place: &PlaceId, low: Low) {
        let mut known = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        // Clearing the bounds is harmless: the process reads each forgotten retention bound once
        // more.
        if known.len() >= MAX_REGISTERED {
            known.clear();
        }
        known.insert(Arc::clone(place), low);
    }

    /// Removes all cached registry entries and retention bounds of a table.
    pub(crate) fn forget(&self, table: &str) {
        let mut known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(place, _), _| place.0 != table);
        drop(known);
        let mut known = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|place, _| place.0 != table);
    }
}

/// Entry of the registry of time buckets: an existing bucket, and the key at which it starts.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) start: Key,
    pub(crate) bucket: Bucket,
    /// True if the entry is only a mark: the bucket was empty, and is not read any more.
    pub(crate) is_removed: bool,
}

impl Entry {
    /// Returns the stored number: that of the bucket, negative if the entry is removed.
    fn number(&self) -> i64 {
        let number = i64::try_from(self.bucket.0).unwrap_or(i64::MAX);
        if self.is_removed { -number } else { number }
    }

    /// Returns whether this is the entry of the rows without a time.
    pub(crate) fn is_timeless(&self) -> bool {
        self.bucket == TIMELESS
    }
}

/// Entry of the registry as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredEntry {
    /// `None` if the entry is damaged.
    pub(crate) entry: Option<Entry>,
    pub(crate) stamp: Stamp,
}

impl StoredEntry {
    /// Returns the timestamp of the entry, and whether it is removed. A damaged entry is not removed.
    pub(crate) fn registration(&self) -> Registration {
        Registration {
            stamp: self.stamp.0,
            is_removed: self.entry.as_ref().is_some_and(|entry| entry.is_removed),
        }
    }
}

impl Low {
    /// Returns the bound with the earlier one of its time and `asked`.
    fn since(self, asked: Clock) -> Self {
        let asked = Clock {
            boot_ms: self.asked.boot_ms.min(asked.boot_ms),
            wall_ms: self.asked.wall_ms.min(asked.wall_ms),
        };
        Self { asked, ..self }
    }
}

impl PieceStore {
    /// Returns the range map that a write of a key may use at once, or `None` if its bucket must be registered first. A
    /// deletion needs no entry: without an entry, no row is visible.
    ///
    /// # Errors
    /// The key is not a key of the table.
    pub(crate) fn known_bucket(
        &self,
        place: &Place,
        times: &Times,
        key: &[u8],
        kind: Kind,
    ) -> Result<Option<Taken>> {
        let bucket = times.bucket_of(key)?;
        if kind == Kind::Delete {
            return Ok(Some(self.taken(place, bucket, self.unfloored())));
        }
        let Some(asked) = self.registration(place, bucket.bucket) else {
            return Ok(None);
        };
        let low = match place.pieced.keep {
            Some(_) => self.registered.low(&place.id),
            None => Some(self.unfloored()),
        };
        let taken = low.map(|low| self.taken(place, bucket, low.since(asked)));
        Ok(taken.filter(|taken| taken.lives(self.clock())))
    }

    /// Registers the bucket of a key, unless it has an entry or the key is below the retention bound.
    /// Returns the range map that a write of the key may use. If `is_anew` is true, reads the retention
    /// bound from the store.
    ///
    /// # Errors
    /// The entry cannot be written in time, or the retention bound cannot be read in time.
    pub(crate) async fn register(
        &self,
        place: &Place,
        times: &Times,
        key: &[u8],
        is_anew: bool,
        deadline: Deadline,
    ) -> Result<Taken> {
        let bucket = times.bucket_of(key)?;
        let low = if place.pieced.keep.is_some() {
            self.read_low(place, is_anew, deadline).await?
        } else {
            self.unfloored()
        };
        let is_below = low.floor.as_ref().is_some_and(|floor| floor.hides(key));
        if is_below {
            return Ok(self.taken(place, bucket, low));
        }
        let asked = match self.registration(place, bucket.bucket) {
            Some(asked) => asked,
            None => self.write_entry(place, &bucket, deadline).await?,
        };
        Ok(self.taken(place, bucket, low.since(asked)))
    }

    /// Returns the time before this process registered a bucket; `None` if it must register the bucket now.
    fn registration(&self, place: &Place, bucket: Bucket) -> Option<Clock> {
        let asked = self.registered.asked(&place.id, bucket);
        asked.filter(|asked| is_registered(*asked, self.clock(), self.protocol))
    }

    /// Writes the entry of a bucket. Returns the time before it read the previous entry.
    async fn write_entry(&self, place: &Place, bucket: &TimeBucket, deadline: Deadline) -> Result<Clock> {
        let asked = self.clock();
        let read = self.entry_at(place, &bucket.start, deadline).await?;
        let read = read.map(|read| read.registration());
        let is_new = read.is_none_or(|read| read.is_removed);
        let stamp = Stamp(registration_stamp(read, (self.stamps)().0, self.protocol));
        // Mark bucket 0, because scans find a partition only there.
        let root = place.pieced.mark_root(&place.partition, stamp);
        let both = vec![root, self.entry_of(place, bucket, stamp)];
        let how = (Atomicity::Each, WriteOptions::default());
        let written = self.write_together(both, how, deadline).await;
        written.map_err(|undone| undone.error)?;
        self.registered.add(&place.id, bucket.bucket, asked);
        self.counters.made(u64::from(is_new));
        Ok(asked)
    }

    /// Returns the cached retention bound if it is recent, else reads the bound. If `is_anew` is
    /// true, always reads the bound.
    async fn read_low(&self, place: &Place, is_anew: bool, deadline: Deadline) -> Result<Low> {
        let now = self.clock();
        let known = self.registered.low(&place.id).filter(|_| !is_anew);
        // Read the retention bound again after half of its lifetime, so that the write has the
        // other half left.
        let is_young = |low: &Low| {
            let long = self.protocol.long_life_ms / 2;
            now.boot_ms.saturating_sub(low.asked.boot_ms) < long
                && now.wall_ms.abs_diff(low.asked.wall_ms) < long
        };
        if let Some(low) = known.filter(is_young) {
            return Ok(low);
        }
        let floor = self.directory_beside(place, false, deadline).await?.floor;
        let low = Low { floor, asked: now };
        self.registered.know(&place.id, low.clone());
        Ok(low)
    }

    fn unfloored(&self) -> Low {
        Low {
            floor: None,
            asked: self.clock(),
        }
    }

    /// Returns the range map that stores the retention bound of a partition with time buckets. The
    /// range map has one key range, or does not exist.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn directory_beside(
        &self,
        place: &Place,
        is_serial: bool,
        deadline: Deadline,
    ) -> Result<Directory> {
        let start = Seek::At(Key::new());
        let (directory, _) = self.read_stored(place, &start, is_serial, deadline).await?;
        Ok(directory)
    }

    /// Returns the write that adds a time bucket to the registry of existing buckets.
    pub(crate) fn entry_of(&self, place: &Place, bucket: &TimeBucket, stamp: Stamp) -> PartitionWrite {
        let entry = Entry {
            start: bucket.start.clone(),
            bucket: bucket.bucket,
            is_removed: false,
        };
        self.entries_of(place, [(&entry, stamp)])
    }

    /// Returns the write that stores entries of the registry.
    pub(crate) fn entries_of<'e>(
        &self,
        place: &Place,
        entries: impl IntoIterator<Item = (&'e Entry, Stamp)>,
    ) -> PartitionWrite {
        let put = |(entry, stamp): (&Entry, Stamp)| {
            let number = entry.number().to_be_bytes();
            let put = Operation::Patch {
                clustering: cells_of(&entry.start),
                columns: vec![BUCKET_COLUMN],
                cells: std::iter::once(Some(&number[..])).collect(),
            };
            mutation(put, stamp, None)
        };
        PartitionWrite {
            table: Arc::clone(&self.tables.times),
            partition: place.directory_partition(),
            mutations: entries.into_iter().map(put).collect(),
        }
    }

    /// Returns a window (part) of a range map that contains only the time bucket `bucket`.
    pub(crate) fn window_at(&self, place: &Place, bucket: TimeBucket, floor: Option<Floor>) -> Directory {
        let piece = piece_of(place, bucket.start, bucket.bucket);
        Directory {
            floor,
            ..self.window_of(vec![piece], bucket.end)
        }
    }

    /// Returns a cached range map that contains only the time bucket `bucket`. A write may use the
    /// range map with any timestamp: time buckets are never split, so no deletion of the key ever
    /// went to another bucket.
    fn taken(&self, place: &Place, bucket: TimeBucket, low: Low) -> Taken {
        let window = self.window_at(place, bucket, low.floor);
        Taken {
            copy: DirectoryCopy::new(window.into(), low.asked, self.clock(), self.protocol),
            stamp: Stamp(i64::MIN),
            heard_nanos: 0,
            requests: 0,
        }
    }

    /// Returns the registry as a range map, or the requested window (part) of it, and the number of
    /// sequential requests.
    ///
    /// # Errors
    /// The registry cannot be read in time, or is damaged.
    pub(crate) async fn read_registry(
        &self,
        place: &Place,
        times: &Times,
        seek: &Seek,
        deadline: Deadline,
    ) -> Result<(Directory, u32)> {
        let window = self.read_entries(place, times, seek, deadline);
        if place.pieced.keep.is_none() {
            return window.await;
        }
        let (window, beside) = join(window, self.directory_beside(place, false, deadline)).await;
        let (window, requests) = window?;
        let floor = beside?.floor;
        Ok((Directory { floor, ..window }, requests))
    }

    /// Returns the oldest existing buckets below the retention bound `at` as a range map. All keys that
    /// are kept form one key range of this map, with bucket 0.
    ///
    /// # Errors
    /// The buckets cannot be read in time, or are damaged.
    pub(crate) async fn oldest_registered(
        &self,
        place: &Place,
        (at, kept): (&Key, Kept),
        deadline: Deadline,
    ) -> Result<Directory> {
        let edge = Bound::Before(cells_of(at));
        let (between, direction) = match kept {
            Kept::After => ((Bound::start(), edge), ReadDirection::Forward),
            Kept::Before => ((edge, Bound::end()), ReadDirection::Backward),
        };
        let most = MAX_WINDOW_PIECES as u32 - 1;
        let (mut entries, _) = self.entries(place, between, direction, most, deadline).await?;
        let pieces = |entries: Vec<Entry>| {
            let pieces = entries.into_iter();
            pieces.map(|entry| piece_of(place, entry.start, entry.bucket))
        };
        let pieces = if kept == Kept::Before {
            entries.reverse();
            let kept = piece_of(place, Key::new(), Bucket(0));
            std::iter::once(kept).chain(pieces(entries)).collect()
        } else {
            let kept = piece_of(place, at.clone(), Bucket(0));
            pieces(entries).chain([kept]).collect()
        };
        Ok(self.window_of(pieces, None))
    }

    /// Returns the entry at the start of a bucket, if there is one.
    ///
    /// # Errors
    /// The entry cannot be read in time.
    pub(crate) async fn entry_at(
        &self,
        place: &Place,
        start: &[u8],
        deadline: Deadline,
    ) -> Result<Option<StoredEntry>> {
        let between = (Bound::Before(cells_of(start)), Bound::After(cells_of(start)));
        let slice = self.entries_slice(place, between, 1);
        let mut stored = self.stored_entries(&slice, deadline).await?;
        Ok(stored.pop())
    }

    /// Returns whether there is an entry at the start of a bucket that is not removed.
    ///
    /// # Errors
    /// The entry cannot be read in time.
    pub(crate) async fn has_entry(&self, place: &Place, start: &[u8]) -> Result<bool> {
        let entry = self.entry_at(place, start, self.deadline(MAX_STEP_TIME)).await?;
        Ok(entry.is_some_and(|entry| !entry.registration().is_removed))
    }

    /// Returns at most `most` entries from the bucket of a key on, in the order of the table.
    ///
    /// # Errors
    /// The entries cannot be read in time.
    pub(crate) async fn entries_from(
        &self,
        place: &Place,
        start: &[u8],
        most: u32,
        deadline: Deadline,
    ) -> Result<Vec<StoredEntry>> {
        let between = (Bound::Before(cells_of(start)), Bound::end());
        self.stored_entries(&self.entries_slice(place, between, most), deadline)
            .await
    }

    async fn stored_entries(&self, slice: &Slice, deadline: Deadline) -> Result<Vec<StoredEntry>> {
        let read = self.entry_rows(slice, true, deadline).await?;
        let stored = |(row, stamp): (RowRef<'_>, &i64)| StoredEntry {
            entry: read_entry(row),
            stamp: Stamp(*stamp),
        };
        Ok(read.rows.iter().zip(&read.stamps).map(stored).collect())
    }

    /// Returns whether `start` is the start of the first registry entry of a partition.
    ///
    /// # Errors
    /// The entry cannot be read in time.
    pub(crate) async fn begins_at(&self, place: &Place, start: &[u8]) -> Result<bool> {
        let slice = self.entries_slice(place, (Bound::start(), Bound::end()), 1);
        let read = self
            .entry_rows(&slice, false, self.deadline(MAX_STEP_TIME))
            .await?;
        Ok(read.rows.iter().any(|row| row.get(START) == Some(start)))
    }

    /// Deletes the registry entries of time buckets that were removed.
    ///
    /// # Errors
    /// The entries cannot be deleted in time.
    pub(crate) async fn unregister(&self, place: &Place, starts: &[Key]) -> Result<()> {
        if starts.is_empty() {
            return Ok(());
        }
        let starts = starts.iter().map(Vec::as_slice);
        self.write_step(self.without_entries(place, starts, (self.stamps)()))
            .await
    }

    /// Returns the write that deletes the registry entries whose keys are `starts`.
    pub(crate) fn without_entries<'s>(
        &self,
        place: &Place,
        starts: impl IntoIterator<Item = &'s [u8]>,
        stamp: Stamp,
    ) -> PartitionWrite {
        let delete = |start: &[u8]| {
            let clustering = cells_of(start);
            mutation(Operation::DeleteRow { clustering }, stamp, None)
        };
        PartitionWrite {
            table: Arc::clone(&self.tables.times),
            partition: place.directory_partition(),
            mutations: starts.into_iter().map(delete).collect(),
        }
    }

    /// Returns the newest entry that has a time.
    ///
    /// # Errors
    /// The entry cannot be read in time, or is damaged.
    pub(crate) async fn newest_entry(
        &self,
        place: &Place,
        times: &Times,
        deadline: Deadline,
    ) -> Result<Option<Entry>> {
        let direction = times.newest_first();
        // One of the two entries may be that of the rows without a time.
        let (entries, _) = self
            .entries(place, (Bound::start(), Bound::end()), direction, 2, deadline)
            .await?;
        Ok(entries.into_iter().find(|entry| !entry.is_timeless()))
    }

    async fn read_entries(
        &self,
        place: &Place,
        times: &Times,
        seek: &Seek,
        deadline: Deadline,
    ) -> Result<(Directory, u32)> {
        self.counters.read_directory();
        let mut requests = 1;
        let most = MAX_WINDOW_PIECES as u32;
        match seek {
            Seek::At(key) => {
                // A complete key determines the start of its time bucket, so no read is necessary.
                let before = match times.bucket_of(key) {
                    Ok(bucket) => Some(bucket.start),
                    Err(_) if key.is_empty() => None,
                    Err(_) => {
                        let between = (Bound::start(), Bound::After(cells_of(key)));
                        let read = self.entries(place, between, ReadDirection::Backward, 1, deadline);
                        let (read, _) = read.await?;
                        requests += 1;
                        read.into_iter().next().map(|entry| entry.start)
                    }
                };
                let from = before
                    .as_ref()
                    .map_or_else(Bound::start, |start| Bound::Before(cells_of(start)));
                let between = (from, Bound::end());
                let read = self.entries(place, between, ReadDirection::Forward, most, deadline);
                let (entries, end) = read.await?;
                let pieces = pieces_of(place, entries, before.unwrap_or_default());
                Ok((self.window_of(pieces, end), requests))
            }
            Seek::Before(edge) => {
                let to = edge
                    .as_ref()
                    .map_or_else(Bound::end, |edge| Bound::Before(cells_of(edge)));
                let between = (Bound::start(), to);
                let read = self.entries(place, between, ReadDirection::Backward, most, deadline);
                let (mut entries, more) = read.await?;
                entries.reverse();
                let first = more.and(entries.first().map(|entry| entry.start.clone()));
                let pieces = pieces_of(place, entries, first.unwrap_or_default());
                Ok((self.window_of(pieces, edge.clone()), requests))
            }
        }
    }

    /// Returns at most `most` registry entries between two edges, and the start of the entry that
    /// follows.
    async fn entries(
        &self,
        place: &Place,
        (from, to): (Bound, Bound),
        direction: ReadDirection,
        most: u32,
        deadline: Deadline,
    ) -> Result<(Vec<Entry>, Option<Key>)> {
        let slice = Slice {
            direction,
            ..self.entries_slice(place, (from, to), most + 1)
        };
        let read = self.entry_rows(&slice, false, deadline).await?;
        let entries: Option<Vec<Entry>> = read.rows.iter().map(read_entry).collect();
        let mut entries = entries.ok_or_else(missing)?;
        let next = entries.get(most as usize).map(|entry| entry.start.clone());
        entries.truncate(most as usize);
        Ok((entries, next))
    }

    fn entries_slice(&self, place: &Place, (from, to): (Bound, Bound), limit: u32) -> Slice {
        Slice {
            from,
            to,
            ..Slice::from_start(&self.tables.times, place.directory_partition(), limit)
        }
    }

    async fn entry_rows(&self, slice: &Slice, stamps: bool, deadline: Deadline) -> Result<RowsRead> {
        let options = ReadOptions {
            stamps,
            ..self.directory_options(false, MAX_STEP_TIME)
        };
        self.read_slice(slice, options, deadline).await
    }

    fn window_of(&self, pieces: Vec<Piece>, end: Option<Key>) -> Directory {
        Directory {
            // Use the time as the version, so that a later read supersedes an earlier read.
            version: self.clock().boot_ms.max(1),
            next_bucket: Bucket(i64::MAX as u64),
            life_ms: self.protocol.long_life_ms,
            longest_ms: self.protocol.long_life_ms,
            floor: None,
            pieces,
            end,
        }
    }
}

/// Returns the key ranges of entries that are not removed. The first key range begins at `first`, because there are no
/// rows between `first` and the start of the first entry. If there are no entries, returns bucket 0, which has no rows.
fn pieces_of(place: &Place, entries: Vec<Entry>, first: Key) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = entries
        .into_iter()
        .filter(|entry| !entry.is_removed)
        .map(|entry| piece_of(place, entry.start, entry.bucket))
        .collect();
    match pieces.first_mut() {
        Some(piece) => piece.start = first,
        None => pieces.push(piece_of(place, first, Bucket(0))),
    }
    pieces
}

fn piece_of(place: &Place, start: Key, bucket: Bucket) -> Piece {
    Piece {
        start,
        roles: Roles::of(bucket),
        sampling: place.pieced.sampling,
        next_sampling: None,
        figures: None,
    }
}

fn cells_of(key: &[u8]) -> Cells {
    std::iter::once(Some(key)).collect()
}

/// Returns the entry that a row of the registry stores, or `None` if a cell is missing or does not have
/// its type.
pub(crate) fn read_entry(row: RowRef<'_>) -> Option<Entry> {
    let number = i64::from_be_bytes(row.get(BUCKET)?.try_into().ok()?);
    Some(Entry {
        start: row.get(START)?.to_vec(),
        bucket: Bucket(number.unsigned_abs()),
        is_removed: number < 0,
    })
}
