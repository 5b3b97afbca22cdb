//! Room for rows before they are written: who brings more than a bucket has room for cuts it first, or waits until it is cut.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_buckets::{Bucket, Key, Span};
use recto_model::{Bound, Slice};
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

/// A call that brings a bucket more than such a part of its size has it cut at once, where its rows will stay.
const LARGE: u64 = 8;
/// Smaller ones make it larger by such a part at most, until they wait for it to be cut.
const OVER: u64 = 2;
/// A bucket that was not counted is, when such a part of its size came.
pub(super) const UNCOUNTED: u64 = 16;

impl BucketSize {
    /// How large a bucket may be when so much comes.
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
    /// Reserves room for rows that are about to be written, until the guard goes. If there is not enough, or it is not known, nothing is: then [room is to
    /// be made](Transacted::make_room), when the guard is gone.
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
    /// Makes room for rows in a bucket that has too little for them, by their keys in order and their bytes, their clustering and regular cells. Whoever
    /// calls has no guard. Relaxed, what is done is on disk with the next write that is not. Whether anything was done, so that it is worth to be routed again.
    ///
    /// # Errors
    /// It cannot be cut: there is as much room as there was.
    pub async fn make_room(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        rows: &[(Key, u64)],
        relaxed: bool,
    ) -> Result<bool> {
        let (Some((first, _)), Some((last, _))) = (rows.first(), rows.last()) else {
            return Ok(false);
        };
        let size = place.pieced.size;
        let coming = rows.iter();
        let coming = coming.map(|(key, bytes)| (key.clone(), size.of_row(bytes + ROW_OVERHEAD_BYTES)));
        let _wish = self.wishes.wish(place, coming.collect());
        let _cutting = self.locks.cut(place).await;
        if !self.is_in(place, bucket, [first, last]).await? {
            // Who had the lock before made room for these, too.
            return Ok(true);
        }
        // What others are writing there is done then.
        drop(self.alone(place, self.deadline(MAX_STEP_TIME)).await?);
        let Some((start, count, _)) = self.fill(place, bucket, first).await? else {
            return Ok(true);
        };
        let amount: u64 = rows
            .iter()
            .map(|(_, bytes)| size.of_row(bytes + ROW_OVERHEAD_BYTES))
            .sum();
        if size.of(count).saturating_add(amount) <= size.room_for(amount) {
            return Ok(true);
        }
        if amount <= size.most() / LARGE {
            self.cut_as_often(place, bucket, first, false).await?;
            return Ok(true);
        }
        let there = if count.rows == 0 {
            Vec::new()
        } else {
            self.rows_of(place, bucket, size).await?
        };
        let coming = self.wishes.of(place, &self.span_of(place, &start).await?);
        let parts = Parts::new(size, &there, &coming);
        self.part(place, bucket, start, &parts, relaxed).await
    }

    /// Whether rows are still routed to a bucket.
    async fn is_in(&self, place: &Arc<Place>, bucket: Bucket, keys: [&Key; 2]) -> Result<bool> {
        let guard = self.route(std::slice::from_ref(place), MAX_STEP_TIME).await?;
        let are_in = keys
            .iter()
            .all(|key| guard.bucket_of(place, key).ok() == Some(bucket));
        guard.done();
        Ok(are_in)
    }

    /// From where to where a piece goes that begins there.
    async fn span_of(&self, place: &Arc<Place>, start: &Key) -> Result<Span> {
        let guard = self.route(std::slice::from_ref(place), MAX_STEP_TIME).await?;
        let piece = guard.whole(place).and_then(|whole| whole.piece_at(start));
        guard.done();
        Ok(piece.map_or_else(Span::all, |(span, _)| span))
    }

    /// Cuts a bucket into parts; whether it did.
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

    /// The rows of a bucket, in the order of their keys.
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

/// Rows that calls wait to have room for: whoever makes some makes it for all of them, since none of them can be written meanwhile.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    inner: Mutex<BTreeMap<PlaceId, Vec<Arc<Vec<Row>>>>>,
}

/// The rows of one call, until it goes.
struct Wish<'w> {
    wishes: &'w Wishes,
    place: PlaceId,
    rows: Arc<Vec<Row>>,
}

impl Wishes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PlaceId, Vec<Arc<Vec<Row>>>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In the order of their keys.
    fn wish(&self, place: &Place, rows: Vec<Row>) -> Wish<'_> {
        let rows = Arc::new(rows);
        let id = Arc::clone(&place.id);
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

    /// All rows in a span, in the order of their keys.
    fn of(&self, place: &Place, span: &Span) -> Vec<Row> {
        let wishes = self.lock().get(&place.id).cloned().unwrap_or_default();
        let mut rows: Vec<Row> = Vec::new();
        for wish in wishes {
            rows.extend(wish.iter().filter(|row| span.has(&row.0)).cloned());
        }
        rows.sort_unstable();
        rows.dedup_by(|later, row| later.0 == row.0);
        rows
    }
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

/// How long the rows of a bucket may be read for at once.
const MAX_ROOM_READ: Duration = Duration::from_secs(30);

impl Arrived<'_> {
    /// As the store counts them.
    pub(super) fn count(&self) -> PartitionCount {
        let overhead = self.rows.saturating_mul(ROW_OVERHEAD_BYTES);
        PartitionCount {
            rows: self.rows,
            bytes: self.bytes.saturating_add(overhead),
        }
    }
}
