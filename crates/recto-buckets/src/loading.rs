//! Backpressure for loads: a load is faster than any split, so it pauses until overfull buckets are split.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use recto_protocol::buckets::{Bucket, Span};
use recto_store::ReadOptions;

use crate::limits::{LOAD_FACTOR, MAX_LOAD_WAIT, MAX_LOADED_BUCKETS};
use crate::notices::Notice;
use crate::place::{Deadline, PieceStore, PlaceId};
use crate::samples::Became;
use crate::writer::{Group, RowWrite};

/// Interval at which a paused load checks whether the split is done.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Bytes that this process loaded into buckets since their last split.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    buckets: Mutex<HashMap<(PlaceId, Bucket), Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    span: Span,
    bytes: u64,
}

/// Bucket and key range of a row, by the last known range map.
struct RowPosition {
    bucket: Bucket,
    span: Span,
    is_at_rest: bool,
}

impl Loads {
    /// Counts bytes that are loaded into a bucket, and returns true. If the bucket has already received
    /// `most` bytes since its last split, counts nothing and returns false.
    fn add(&self, id: &PlaceId, lies: &RowPosition, bytes: u64, most: u64) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_LOADED_BUCKETS {
            buckets.clear();
        }
        let loaded = buckets
            .entry((PlaceId::clone(id), lies.bucket))
            .or_insert_with(|| Loaded {
                span: lies.span.clone(),
                bytes: 0,
            });
        // Reset the count only if no split of the bucket is under way. During a split, all rows still go to
        // the old bucket, too.
        if lies.is_at_rest && loaded.span != lies.span {
            loaded.span = lies.span.clone();
            loaded.bytes = 0;
        }
        let has_room = loaded.bytes < most;
        if has_room {
            loaded.bytes += bytes;
        }
        has_room
    }

    /// Resets the count of a bucket. No load waits for the bucket until the bucket has received the
    /// maximum number of bytes again.
    fn lets(&self, id: &PlaceId, bucket: Bucket) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.remove(&(PlaceId::clone(id), bucket));
    }
}

impl PieceStore {
    /// Waits for splits of the buckets into which this process has loaded [`LOAD_FACTOR`] times
    /// their maximum size. Waits at most [`MAX_LOAD_WAIT`] and at most half of the remaining time.
    pub(crate) async fn slow_down(&self, group: &Group, deadline: Deadline) {
        let mut left = (deadline.left(&self.environment) / 2).min(MAX_LOAD_WAIT);
        let mut rows = group.rows.iter().peekable();
        while let Some(row) = rows.next() {
            // Time buckets are never split, so no load waits for them.
            if row.partition.place.pieced.times.is_some() {
                continue;
            }
            let mut lies = self.lies(row);
            let mut bytes = bytes_of(row);
            let id = &row.partition.place.id;
            let is_beside = |other: &&RowWrite| other.partition.place.id == *id && lies.span.has(&other.key);
            while let Some(beside) = rows.next_if(is_beside) {
                bytes += bytes_of(beside);
            }
            let pieced = &row.partition.place.pieced;
            let most = pieced.sampling.unit * u64::from(pieced.samples) * LOAD_FACTOR;
            while !self.loads.add(id, &lies, bytes, most) {
                if left.is_zero() {
                    self.loads.lets(id, lies.bucket);
                    continue;
                }
                self.notices
                    .add(&row.partition.place, Notice::Grown(lies.bucket), &row.key);
                let pause = left.min(LOOK_EVERY);
                tokio::time::sleep(pause).await;
                left -= pause;
                // Ignore an error of this read, because the write itself reports it.
                drop(
                    row.partition
                        .take(&row.seek(), self.deadline(ReadOptions::default().timeout))
                        .await,
                );
                lies = self.lies(row);
            }
        }
    }

    fn lies(&self, row: &RowWrite) -> RowPosition {
        let known = self.copies.last(&row.partition.place.id, &row.seek());
        let unknown = || RowPosition {
            bucket: Bucket(0),
            span: Span::all(),
            is_at_rest: true,
        };
        let Some(known) = known else { return unknown() };
        let from_it = Span {
            start: row.key.clone(),
            end: None,
        };
        let mut spans = known.directory().spans_of(&from_it);
        match spans.next().filter(|(span, _)| span.start <= row.key) {
            Some((span, piece)) => RowPosition {
                bucket: piece.roles.read,
                span,
                is_at_rest: piece.roles.is_at_rest(),
            },
            None => unknown(),
        }
    }
}

fn bytes_of(row: &RowWrite) -> u64 {
    match row.became {
        Became::Put(bytes) => row.partition.place.pieced.weight(bytes),
        Became::Gone => 0,
    }
}
