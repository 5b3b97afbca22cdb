//! Stage of the check for the registry (list of existing time buckets). It also finds buckets that
//! have rows but no entry.
//!
//! The calendar determines the content of an entry, so each entry is right or wrong by itself. The
//! registry decides only which buckets exist, and may contain buckets without rows. An entry is written
//! before the first row of its bucket. If a bucket has rows but no entry, this is therefore a fault and
//! not a write under way.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{RowRef, Slice};
use recto_protocol::buckets::{Bucket, Shard, Span};
use recto_store::{Stamp, TokenRange};

use super::directories::of_partition;
use super::fault::{Fault, FaultKind, FaultOutcome};
use super::position::Next;
use super::remains::encoded_of;
use super::{BucketCheck, CheckStep};
use crate::copying::slice_of;
use crate::error::Result;
use crate::limits::{MAX_LOOKS_AT_ONCE, SUSPECT_AGE};
use crate::place::{PieceStore, Place};
use crate::registry::{START, read_entry};
use crate::times::{TimeBucket, Times};

/// Reason why an entry of the registry was not repaired.
const NEWER: &str = "the write timestamp of the entry or of its deletion is in the future: repair again \
    after that time";

/// Shard of a time bucket that has rows, as a scan found it.
pub(super) struct Met {
    pub(super) place: Arc<Place>,
    pub(super) bucket: TimeBucket,
    pub(super) shard: Shard,
}

impl BucketCheck {
    /// Checks up to `rows` entries of the registry.
    pub(super) async fn registry(&mut self, rows: u32, step: &mut CheckStep) -> Result<Option<Next>> {
        let Some(times) = self.bucketed.pieced.times.clone() else {
            return Ok(None);
        };
        let pieces = self.engine.clone();
        let own = Arc::clone(&pieces.tables.times);
        let after = self.position.after.take().map(|next| next.scan);
        let read = self.ask(|snapshot, options| {
            let (own, after) = (Arc::clone(&own), after.clone());
            async move {
                let range = TokenRange::whole();
                snapshot.scan(&own, &range, after.as_ref(), rows, &options).await
            }
        });
        let read = read.await?;
        step.read = read.rows.len() as u64;
        let name = self.table().name().to_owned();
        let mut last: Option<Arc<Place>> = None;
        for row in read.rows.iter() {
            let Some(encoded) = encoded_of(row, &name) else {
                continue;
            };
            let place = match last.take().filter(|place| place.id.1 == encoded) {
                Some(place) => place,
                None => match self.bucketed.pieced.partition_of(encoded) {
                    Ok(partition) => {
                        let place = Arc::new(Place::new(&self.bucketed.pieced, partition)?);
                        // Report a missing root mark only at the first entry of the partition,
                        // because an interrupted check may continue within a partition.
                        let start = row.get(START).unwrap_or_default();
                        if !self.is_marked(&place).await? && pieces.begins_at(&place, start).await? {
                            self.told_unless_marked(&place).await?;
                        }
                        place
                    }
                    Err(error) => {
                        self.nobodys("recto_times", &error);
                        continue;
                    }
                },
            };
            self.entry(&pieces, (&place, &times), row).await?;
            last = Some(place);
        }
        Ok(read.next.map(|scan| Next { scan, open: None }))
    }

    /// Checks one entry of the registry, and repairs the entry if requested.
    async fn entry(
        &mut self,
        pieces: &PieceStore,
        (place, times): (&Arc<Place>, &Times),
        row: RowRef<'_>,
    ) -> Result<()> {
        let start = row.get(START).unwrap_or_default();
        let number = read_entry(row).map(|entry| entry.bucket);
        let right = times.bucket_of(start).ok();
        let right = right.filter(|right| right.start == start);
        if right.as_ref().is_some_and(|right| Some(right.bucket) == number) {
            return Ok(());
        }
        let outcome = if self.mends {
            pieces.put_entry_right(place, start, right.as_ref()).await?
        } else {
            FaultOutcome::Left
        };
        let what = match right {
            Some(_) => "an entry of the registry has a wrong bucket number",
            None => "an entry of the registry does not begin at a bucket",
        };
        self.fault(Fault {
            bucket: right.map(|right| right.bucket).or(number),
            ..of_partition(place, FaultKind::Damaged, what.to_owned(), outcome)
        });
        Ok(())
    }

    /// Reports each bucket that has rows but no entry in the registry. Reports a bucket once, at
    /// the first of its shards with rows.
    pub(super) async fn unregistered(&mut self, met: Vec<Met>) -> Result<()> {
        let pieces = self.engine.clone();
        let looks = met.iter().map(|met| async {
            let entry = pieces.entry_at(&met.place, &met.bucket.start).await?;
            Ok::<_, crate::PiecesError>(entry.is_some())
        });
        let looks: Vec<_> = looks.collect();
        let looks = stream::iter(looks).buffered(MAX_LOOKS_AT_ONCE);
        let has_entry: Vec<bool> = looks.try_collect().await?;
        let missing = met.into_iter().zip(has_entry).filter(|(_, has_entry)| !has_entry);
        let missing: Vec<Met> = missing.map(|(met, _)| met).collect();
        if missing.is_empty() {
            return Ok(());
        }
        // A removal of expired buckets deletes rows before their registry entries, so wait, and
        // check again.
        tokio::time::sleep(SUSPECT_AGE).await;
        for met in missing {
            if !pieces.lacks_entry(&met).await? {
                continue;
            }
            let outcome = if self.mends {
                self.mark(&met.place).await?;
                pieces
                    .put_entry_right(&met.place, &met.bucket.start, Some(&met.bucket))
                    .await?
            } else {
                FaultOutcome::Left
            };
            self.fault(Fault {
                bucket: Some(met.bucket.bucket),
                ..of_partition(&met.place, FaultKind::Unregistered, String::new(), outcome)
            });
        }
        Ok(())
    }
}

impl PieceStore {
    /// Returns whether a bucket has rows but no entry. To report the bucket only once, returns true only
    /// for its first shard with rows. Returns false for buckets below the retention bound: the stage of
    /// rows reports their rows.
    async fn lacks_entry(&self, met: &Met) -> Result<bool> {
        let Met { place, bucket, shard } = met;
        if self.entry_at(place, &bucket.start).await?.is_some() {
            return Ok(false);
        }
        let span = bucket.span();
        let floor = self.floor_beside(place, true).await?;
        if floor.is_some_and(|floor| floor.hides_all(&span)) {
            return Ok(false);
        }
        // A shard with an invalid number is not among the shards of the table, so its rows cause no
        // report.
        let mut shards = place.pieced.shards.all();
        while let Some(one) = shards.next().filter(|one| one <= shard) {
            if self.has_rows(place, (bucket.bucket, one), &span).await? {
                return Ok(one == *shard);
            }
        }
        Ok(false)
    }

    /// Returns whether a shard of a bucket has rows within a span (range of keys).
    pub(super) async fn has_rows(&self, place: &Place, lies: (Bucket, Shard), span: &Span) -> Result<bool> {
        let first = Slice {
            limit: 1,
            ..slice_of(place, lies, span)?
        };
        Ok(!self.read_rows(&first).await?.rows.is_empty())
    }

    /// Writes the right entry at the start of a bucket. If `right` is `None`, no bucket begins at
    /// `start`, and the function deletes the entry.
    async fn put_entry_right(
        &self,
        place: &Place,
        start: &[u8],
        right: Option<&TimeBucket>,
    ) -> Result<FaultOutcome> {
        let there = self.entry_at(place, start).await?;
        let above = there.map_or(0, |(_, stamp)| stamp.0.saturating_add(1));
        let stamp = Stamp((self.stamps)().0.max(above));
        let write = match right {
            Some(right) => self.entry_of(place, right, stamp),
            None => self.without_entries(place, [start], stamp),
        };
        self.write_step(write).await?;
        let is = self.entry_at(place, start).await?.map(|(number, _)| number);
        let is_right = is == right.map(|right| Some(right.bucket));
        Ok(if is_right {
            FaultOutcome::Mended
        } else {
            FaultOutcome::Stays(NEWER.to_owned())
        })
    }
}
