//! Room for rows before they are written: a call whose rows do not fit into a bucket splits it first, or waits for its
//! split.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Slice};
use recto_protocol::buckets::{Bucket, Key, Span};
use recto_store::read::ROW_OVERHEAD_BYTES;
use recto_store::{PartitionCount, ReadOptions};

use super::Transacted;
use super::arrivals::Arrived;
use super::parts::{Parts, Row};
use super::route::Guard;
use crate::copying::clustering_of;
use crate::error::Result;
use crate::limits::{MAX_MOVED_ROWS, MAX_STEP_TIME};
use crate::place::{Place, PlaceId};
use crate::tables::BucketSize;

/// Fraction of the maximum size of a bucket, as one part in this number. A call whose rows exceed
/// it splits the bucket first, at edges at which its rows can stay.
const LARGE: u64 = 8;
/// Smaller calls may exceed the maximum size of a bucket by this fraction (one part in this number) before they wait
/// for its split.
const OVER: u64 = 2;
/// A bucket without a count is counted after this fraction of its maximum size (one part in this number) has arrived.
pub(super) const UNCOUNTED: u64 = 16;

impl BucketSize {
    /// Returns the maximum size of a bucket after the arrival of this amount.
    fn room_for(self, amount: u64) -> u64 {
        let most = self.most();
        if amount > most / LARGE {
            most
        } else {
            most + most / OVER
        }
    }
}

impl Guard {
    /// Reserves room for rows that are about to be written, until the guard is dropped. Returns false, without a
    /// reservation, if there is too little room or if the size is unknown. In this case, the caller must drop the guard
    /// and make room.
    pub fn reserve(&mut self, place: &Place, bucket: Bucket, arrived: &Arrived<'_>) -> bool {
        let Some((place, entry)) = self.places.get(&place.id) else {
            return true;
        };
        let size = place.pieced.size;
        let amount = size.of(arrived.count());
        let mut fills = entry.fills.lock().unwrap_or_else(PoisonError::into_inner);
        let fill = fills.entry(bucket).or_default();
        let then = fill.now(size).saturating_add(amount);
        let is_known = fill.is_counted() || then <= size.most() / UNCOUNTED;
        if !is_known || then > size.room_for(amount) {
            return false;
        }
        fill.coming = fill.coming.saturating_add(amount);
        drop(fills);
        self.reserved.push((Arc::clone(&entry.fills), bucket, amount));
        true
    }
}

impl Guard {
    /// Returns the buckets that may have too little room for these rows, with the rows of each. `rows` is in the order
    /// of the keys.
    fn full(&self, place: &Place, rows: &[Row]) -> Result<Vec<(Bucket, Arc<Vec<Row>>)>> {
        let (mut full, mut rest) = (Vec::new(), rows);
        while let Some((first, _)) = rest.first() {
            let stretch = self.stretch_of(place, first)?;
            let count = rest.partition_point(|row| stretch.is_before_end(&row.0));
            let (of_bucket, others) = rest.split_at(count.max(1));
            if !self.has_room(place, stretch.bucket, amount_of(of_bucket)) {
                full.push((stretch.bucket, Arc::new(of_bucket.to_vec())));
            }
            rest = others;
        }
        Ok(full)
    }

    /// Returns whether a bucket is known to have room for this amount.
    fn has_room(&self, place: &Place, bucket: Bucket, amount: u64) -> bool {
        let Some((place, entry)) = self.places.get(&place.id) else {
            return true;
        };
        let size = place.pieced.size;
        let fills = entry.fills.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, is_counted) = fills
            .get(&bucket)
            .map_or((0, false), |fill| (fill.now(size), fill.is_counted()));
        let then = now.saturating_add(amount);
        then <= size.most() && (is_counted || then <= size.most() / UNCOUNTED)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for (fills, bucket, amount) in self.reserved.drain(..) {
            let mut fills = fills.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(fill) = fills.get_mut(&bucket) {
                fill.coming = fill.coming.saturating_sub(amount);
            }
        }
    }
}

impl Transacted {
    /// Makes room in a partition for the rows of a load. `rows` is a sample of them in the order of the keys. The size
    /// of each is that of all rows that it represents. The splits become durable with the next write that is not
    /// relaxed.
    ///
    /// # Errors
    /// A split fails. There is as much room as before, or more.
    pub(crate) async fn make_room_for(&self, place: &Arc<Place>, rows: &[Row]) -> Result<()> {
        let guard = self.route(std::slice::from_ref(place), MAX_STEP_TIME).await?;
        let full = guard.full(place, rows);
        guard.done();
        let most = place.pieced.size.most();
        for (bucket, rows) in full? {
            self.make_room_to(place, bucket, &rows, (most, true)).await?;
        }
        Ok(())
    }

    /// Makes room in a bucket for rows. `rows` is in the order of the keys. The caller must not hold a guard. If
    /// `relaxed`, the splits become durable with the next write that is not relaxed. Returns whether the caller should
    /// route its rows again, because something has changed.
    ///
    /// # Errors
    /// A split fails. There is as much room as before.
    pub(crate) async fn make_room(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        rows: &Arc<Vec<Row>>,
        relaxed: bool,
    ) -> Result<bool> {
        let room = place.pieced.size.room_for(amount_of(rows));
        self.make_room_to(place, bucket, rows, (room, relaxed)).await
    }

    /// Makes room in a bucket that may have at most the size `room` afterwards.
    async fn make_room_to(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        rows: &Arc<Vec<Row>>,
        (room, relaxed): (u64, bool),
    ) -> Result<bool> {
        let (Some((first, _)), Some((last, _))) = (rows.first(), rows.last()) else {
            return Ok(false);
        };
        let _wish = self.wishes.wish(place, rows);
        let _cutting = self.locks.cut(place).await;
        if !self.is_in(place, bucket, [first, last]).await? {
            // The previous holder of the lock made room for these rows, too.
            return Ok(true);
        }
        // After this lock, concurrent writes to the bucket are done.
        drop(self.alone(place, self.deadline(MAX_STEP_TIME)).await?);
        let Some((start, count, _)) = self.fill(place, bucket, first).await? else {
            return Ok(true);
        };
        let size = place.pieced.size;
        if size.of(count).saturating_add(amount_of(rows)) <= room {
            return Ok(true);
        }
        if room > size.most() {
            self.cut_as_often(place, bucket, first, false).await?;
            return Ok(true);
        }
        let wishes = self.wishes.of(place);
        let coming = in_span(&wishes, &self.span_of(place, &start).await?);
        let there = self.there(place, bucket, count, &coming).await?;
        let parts = Parts::new(size, &there, &coming);
        self.part(place, bucket, start, &parts, relaxed).await
    }

    /// Returns whether rows still belong to a bucket.
    async fn is_in(&self, place: &Arc<Place>, bucket: Bucket, keys: [&Key; 2]) -> Result<bool> {
        let guard = self.route(std::slice::from_ref(place), MAX_STEP_TIME).await?;
        let are_in = keys
            .iter()
            .all(|key| guard.bucket_of(place, key).ok() == Some(bucket));
        guard.done();
        Ok(are_in)
    }

    /// Returns the span of the key range that begins at `start`.
    async fn span_of(&self, place: &Arc<Place>, start: &Key) -> Result<Span> {
        let guard = self.route(std::slice::from_ref(place), MAX_STEP_TIME).await?;
        let piece = guard.whole(place).and_then(|whole| whole.piece_at(start));
        guard.done();
        Ok(piece.map_or_else(Span::all, |(span, _)| span))
    }

    /// Splits a bucket into parts. Returns whether it did.
    async fn part(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        mut start: Key,
        parts: &Parts,
        relaxed: bool,
    ) -> Result<bool> {
        for (end, ahead, others) in parts.ways() {
            let end = (end, relaxed);
            if !ahead.is_empty() && !self.cut_ahead(place, bucket, &mut start, ahead, end).await? {
                return Ok(true);
            }
            for edge in others {
                if !self.cut_at(place, bucket, &mut start, edge, end).await? {
                    return Ok(true);
                }
            }
        }
        Ok(!parts.edges.is_empty())
    }

    /// Returns the existing rows of a bucket in the order of their keys. If all of them are on one side of the arriving
    /// rows, returns one row with their total size.
    async fn there(
        &self,
        place: &Place,
        bucket: Bucket,
        count: PartitionCount,
        coming: &[&Row],
    ) -> Result<Vec<Row>> {
        let size = place.pieced.size;
        let (Some(first), Some(last)) = (coming.first(), coming.last()) else {
            return Ok(Vec::new());
        };
        if count.rows == 0 {
            return Ok(Vec::new());
        }
        for direction in [ReadDirection::Backward, ReadDirection::Forward] {
            let (table, snapshot) = (place.pieced.table(), self.store.snapshot()?);
            let slice = Slice {
                direction,
                ..Slice::from_start(table, place.bucket_partition(bucket), 1)
            };
            let options = ReadOptions {
                timeout: MAX_ROOM_READ,
                ..ReadOptions::default()
            };
            let read = snapshot.slice(&slice, &options).await?;
            let Some(row) = read.rows.iter().next() else {
                // All rows have expired.
                return Ok(Vec::new());
            };
            let key = place.pieced.key(clustering_of(table, row).as_row())?;
            let is_beside = match direction {
                ReadDirection::Backward => key < first.0,
                ReadDirection::Forward => key > last.0,
            };
            if is_beside {
                return Ok(vec![(key, size.of(count))]);
            }
        }
        self.rows_of(place, bucket, size).await
    }

    /// Returns the rows of a bucket in the order of their keys.
    async fn rows_of(&self, place: &Place, bucket: Bucket, size: BucketSize) -> Result<Vec<Row>> {
        let (table, snapshot) = (place.pieced.table(), self.store.snapshot()?);
        let (mut rows, mut from) = (Vec::new(), Bound::start());
        loop {
            let slice = Slice {
                from,
                ..Slice::from_start(table, place.bucket_partition(bucket), MAX_MOVED_ROWS)
            };
            let options = ReadOptions {
                timeout: MAX_ROOM_READ,
                ..ReadOptions::default()
            };
            let read = snapshot.slice(&slice, &options).await?;
            let mut last = None;
            for row in read.rows.iter() {
                let clustering = clustering_of(table, row);
                let keys = place.partition.byte_len() + size_of::<u64>();
                let bytes = row.byte_len().saturating_sub(keys) as u64 + ROW_OVERHEAD_BYTES;
                rows.push((place.pieced.key(clustering.as_row())?, size.of_row(bytes)));
                last = Some(clustering);
            }
            match last {
                Some(last) if !read.exhausted => from = Bound::After(last),
                _ => return Ok(rows),
            }
        }
    }
}

/// Rows that calls wait to write. A task that makes room makes it for all of them, because none of them can be written
/// meanwhile.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    inner: Mutex<BTreeMap<PlaceId, Vec<Arc<Vec<Row>>>>>,
}

/// Rows of one waiting call. Dropping it removes the rows.
struct Wish<'w> {
    wishes: &'w Wishes,
    place: PlaceId,
    rows: Arc<Vec<Row>>,
}

impl Wishes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PlaceId, Vec<Arc<Vec<Row>>>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows. They must be in the order of their keys.
    fn wish(&self, place: &Place, rows: &Arc<Vec<Row>>) -> Wish<'_> {
        let (id, rows) = (Arc::clone(&place.id), Arc::clone(rows));
        self.lock()
            .entry(Arc::clone(&id))
            .or_default()
            .push(Arc::clone(&rows));
        Wish {
            wishes: self,
            place: id,
            rows,
        }
    }

    /// Returns the rows of all waiting calls.
    fn of(&self, place: &Place) -> Vec<Arc<Vec<Row>>> {
        self.lock().get(&place.id).cloned().unwrap_or_default()
    }
}

/// Returns all rows within a span, in the order of their keys.
fn in_span<'w>(wishes: &'w [Arc<Vec<Row>>], span: &Span) -> Vec<&'w Row> {
    let all = wishes.iter().flat_map(|wish| wish.iter());
    let mut rows: Vec<&Row> = all.filter(|row| span.has(&row.0)).collect();
    if wishes.len() > 1 {
        rows.sort_unstable();
        rows.dedup_by(|later, row| later.0 == row.0);
    }
    rows
}

fn amount_of(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.1).sum()
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        let mut wishes = self.wishes.lock();
        if let Some(of_place) = wishes.get_mut(&self.place) {
            of_place.retain(|rows| !Arc::ptr_eq(rows, &self.rows));
            if of_place.is_empty() {
                wishes.remove(&self.place);
            }
        }
    }
}

/// Maximum duration of one read of rows of a bucket.
const MAX_ROOM_READ: Duration = Duration::from_secs(30);

impl Arrived<'_> {
    /// Returns the amount as the store counts it.
    pub(super) fn count(&self) -> PartitionCount {
        let overhead = self.rows.saturating_mul(ROW_OVERHEAD_BYTES);
        PartitionCount {
            rows: self.rows,
            bytes: self.bytes.saturating_add(overhead),
        }
    }
}
