//! Checks of grown buckets, and splits.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use recto_model::Cells;
use recto_protocol::buckets::{Bucket, Key};
use recto_store::read::MAX_COUNTED_PARTITIONS;
use recto_store::{PartitionCount, ReadOptions};

use super::Transacted;
use super::arrivals::Fill;
use super::moving::{Moved, Way};
use super::plan::Plan;
use crate::error::Result;
use crate::limits::{MAX_CUT_ATTEMPTS, MAX_CUT_ROUNDS, MAX_CUTS_AT_ONCE, MAX_PAUSE, MAX_STEP_TIME};
use crate::mend::Mended;
use crate::notices::{Notice, Noticed};
use crate::place::Place;

impl Transacted {
    /// Splits grown buckets until the future is dropped. An interruption leaves nothing half done. Run this method once
    /// in a process. A failed split is retried a few times. After that, the next write to the bucket triggers it again.
    pub async fn work(&self) {
        let mut jobs: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(()) = jobs.next() => {}
                noticed = self.notices.next(), if jobs.len() < MAX_CUTS_AT_ONCE => {
                    jobs.push(self.job(noticed).boxed());
                }
            }
        }
    }

    async fn job(&self, noticed: Noticed) {
        if let Notice::Grown(bucket) = noticed.notice {
            for _ in 0..MAX_CUT_ATTEMPTS {
                match self.grown(&noticed.place, bucket, &noticed.key, false).await {
                    Err(error) if error.is_passing() => tokio::time::sleep(MAX_PAUSE).await,
                    _ => break,
                }
            }
        }
        self.notices.is_over(&noticed);
    }

    /// Checks all buckets of a partition, and splits those that are too large.
    ///
    /// # Errors
    /// The partition cannot be read, or a split fails. Completed splits stay.
    pub async fn mend(&self, place: &Arc<Place>) -> Result<Mended> {
        self.retain(place).await?;
        let before = self.sizes(place).await?;
        let size = place.pieced.size;
        for (bucket, start, _) in before
            .iter()
            .filter(|(_, _, count)| size.of(*count) > size.most())
        {
            self.grown(place, *bucket, start, true).await?;
        }
        let after = self.sizes(place).await?;
        let too_large = after.iter().filter(|(_, _, count)| size.of(*count) > size.most());
        Ok(Mended {
            buckets: after.len(),
            made: after.len().saturating_sub(before.len()),
            too_large: too_large.count(),
            ..Mended::default()
        })
    }

    /// Returns all buckets of a partition with their starts and sizes.
    async fn sizes(&self, place: &Place) -> Result<Vec<(Bucket, Key, PartitionCount)>> {
        let deadline = self.deadline(MAX_STEP_TIME);
        let snapshot = self.store.snapshot()?;
        let whole = self.read_whole(&*snapshot, place, deadline).await?;
        let mut sizes: Vec<_> = whole
            .all()
            .map(|piece| (piece.roles.read, piece.start.clone(), PartitionCount::default()))
            .collect();
        for some in sizes.chunks_mut(MAX_COUNTED_PARTITIONS) {
            let partitions: Vec<Cells> = some
                .iter()
                .map(|(bucket, ..)| place.bucket_partition(*bucket))
                .collect();
            let options = ReadOptions {
                timeout: self.request_time(deadline)?,
                ..ReadOptions::default()
            };
            let counts = snapshot
                .count_partitions(&place.pieced.table, &partitions, &options)
                .await?;
            for (size, count) in some.iter_mut().zip(counts) {
                size.2 = count;
            }
        }
        Ok(sizes)
    }

    /// Splits a bucket as often as necessary. `key` is a key that the bucket had. A repair (`is_mending`) does not
    /// split a bucket that is full but not too large.
    async fn grown(&self, place: &Arc<Place>, bucket: Bucket, key: &[u8], is_mending: bool) -> Result<()> {
        let _cutting = self.locks.cut(place).await;
        self.cut_as_often(place, bucket, key, is_mending).await
    }

    /// Splits a bucket like [`grown`](Self::grown). The caller holds the lock of splits.
    pub(super) async fn cut_as_often(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        key: &[u8],
        is_mending: bool,
    ) -> Result<()> {
        let size = place.pieced.size;
        for round in 0..MAX_CUT_ROUNDS {
            let found = self.fill(place, bucket, key).await?;
            let is_too_large = found
                .as_ref()
                .is_some_and(|(_, count, _)| size.of(*count) > size.most());
            self.counters.looked(&place.id, bucket, is_too_large);
            let Some((start, count, fill)) = found else {
                return Ok(());
            };
            let (now, trend) = (size.of(count), fill.trend());
            // A bucket that was split at the end where rows arrive stays as full as it is.
            let is_closed = round > 0 || is_mending;
            let is_large = now > size.most() || (now > size.due() && !is_closed && trend.is_some());
            if !is_large {
                self.fills(place, |fills| fills.entry(bucket).or_default().left(size));
                return Ok(());
            }
            let mut plan = Plan::new(size, count, trend.clone());
            let mut way = Way::new(bucket, start);
            while self.step(place, &mut plan, trend.as_ref(), &mut way).await? == Moved::Some {}
            if !way.has_moved() {
                self.fills(place, |fills| fills.entry(bucket).or_default().left(size));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the start, the size and the recorded data of a bucket. `key` is a key that the bucket had.
    pub(super) async fn fill(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        key: &[u8],
    ) -> Result<Option<(Key, PartitionCount, Fill)>> {
        let deadline = self.deadline(MAX_STEP_TIME);
        let guard = self.route(std::slice::from_ref(place), MAX_STEP_TIME).await?;
        let start = guard.whole(place).and_then(|whole| whole.start_of(bucket, key));
        guard.done();
        let Some(start) = start else {
            return Ok(None);
        };
        self.fills(place, |fills| fills.entry(bucket).or_default().begin_count());
        let partitions = [place.bucket_partition(bucket)];
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            ..ReadOptions::default()
        };
        let snapshot = self.store.snapshot()?;
        let counts = snapshot
            .count_partitions(&place.pieced.table, &partitions, &options)
            .await?;
        let count = counts.first().copied().unwrap_or_default();
        let fill = self.fills(place, |fills| {
            let fill = fills.entry(bucket).or_default();
            fill.counted(count);
            fill.clone()
        });
        Ok(Some((start, count, fill.unwrap_or_default())))
    }

    /// Accesses the recorded data of the buckets of a partition. Returns `None` if no data is
    /// recorded.
    fn fills<T>(&self, place: &Place, act: impl FnOnce(&mut BTreeMap<Bucket, Fill>) -> T) -> Option<T> {
        let entry = self.known.find(&place.id)?;
        let mut fills = entry.fills.lock().unwrap_or_else(PoisonError::into_inner);
        Some(act(&mut fills))
    }
}
