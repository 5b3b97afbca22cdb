//! Removal of the registry entries of empty time buckets, so that pages do not read these buckets.
//!
//! `recto_protocol::buckets::unregistering` has the rules, and `docs/design/buckets.md` the reasons.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_protocol::buckets::limits::MAX_WINDOW_PIECES;
use recto_protocol::buckets::{Key, Registration, Span, removal_stamp, unregister_wait_ms};
use recto_store::Stamp;

use crate::error::Result;
use crate::limits::{JOIN_PAUSE, MAX_LOOKS_AT_ONCE, MAX_STEP_TIME};
use crate::place::{PieceStore, Place};
use crate::registry::{Entry, StoredEntry};
use crate::times::{TimeBucket, Times};

impl PieceStore {
    /// Removes the entries of empty time buckets from the bucket of a key on, except the newest entry. Checks at most
    /// [`MAX_WINDOW_PIECES`] entries. Returns the number of removed entries.
    ///
    /// # Errors
    /// The registry or a bucket cannot be read in time, or the registry cannot be written in time.
    pub(crate) async fn unregister_empty(&self, place: &Arc<Place>, key: &Key) -> Result<usize> {
        let Some(times) = &place.pieced.times else {
            return Ok(0);
        };
        let start = times
            .bucket_of(key)
            .map_or_else(|_| key.clone(), |bucket| bucket.start);
        let stored = self.entries_around(place, &start).await?;
        let end = stored.last().and_then(|stored| stored.entry.as_ref());
        let checked = Span {
            end: end
                .map(|entry| entry.start.clone())
                .filter(|_| stored.len() == MAX_WINDOW_PIECES),
            start: start.clone(),
        };
        let before = self.empty_buckets(place, times, stored).await?;
        let mut marks = Vec::new();
        if !before.is_empty() {
            self.wait(Duration::from_millis(unregister_wait_ms(self.protocol)))
                .await;
            let stored = self.entries_around(place, &start).await?;
            let after = self.empty_buckets(place, times, stored).await?;
            for (entry, registration) in after {
                let before = before.iter().find(|(before, _)| before.bucket == entry.bucket);
                let stamp =
                    before.and_then(|(_, before)| removal_stamp(*before, registration, self.protocol));
                let mark = Entry {
                    is_removed: true,
                    ..entry
                };
                marks.extend(stamp.map(|stamp| (mark, Stamp(stamp))));
            }
        }
        if !marks.is_empty() {
            let write = self.entries_of(place, marks.iter().map(|(entry, stamp)| (entry, *stamp)));
            self.write_step(write).await?;
        }
        let pause = (self.environment.monotonic_nanos(), JOIN_PAUSE);
        self.pauses.begin(&place.id, checked, pause);
        Ok(marks.len())
    }

    async fn entries_around(&self, place: &Place, start: &[u8]) -> Result<Vec<StoredEntry>> {
        let deadline = self.deadline(MAX_STEP_TIME);
        self.entries_from(place, start, MAX_WINDOW_PIECES as u32, deadline)
            .await
    }

    /// Returns the entries whose buckets are empty and older than the newest bucket. Reads each bucket after its entry.
    async fn empty_buckets(
        &self,
        place: &Arc<Place>,
        times: &Times,
        stored: Vec<StoredEntry>,
    ) -> Result<Vec<(Entry, Registration)>> {
        let newest = self
            .newest_entry(place, times, self.deadline(MAX_STEP_TIME))
            .await?;
        let newest = newest.map(|newest| newest.bucket);
        let candidates = stored.into_iter().filter_map(|stored| {
            let registration = stored.registration();
            let entry = stored
                .entry
                .filter(|entry| !entry.is_removed && !entry.is_timeless())?;
            let is_old = newest.is_some_and(|newest| entry.bucket < newest);
            let bucket = times.numbered(entry.bucket).filter(|_| is_old)?;
            Some((entry, registration, bucket))
        });
        let looks: Vec<_> = candidates
            .map(|(entry, registration, bucket)| async move {
                let is_empty = self.is_empty(place, &bucket).await?;
                Ok::<_, crate::PiecesError>(is_empty.then_some((entry, registration)))
            })
            .collect();
        let looks = stream::iter(looks).buffered(MAX_LOOKS_AT_ONCE);
        looks
            .try_filter_map(|found| async { Ok(found) })
            .try_collect()
            .await
    }

    /// Returns whether no shard of a time bucket has rows.
    async fn is_empty(&self, place: &Place, bucket: &TimeBucket) -> Result<bool> {
        for shard in place.pieced.shards.all() {
            if self
                .has_rows(place, (bucket.bucket, shard), &bucket.span())
                .await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
