//! Stage of the check for existing buckets. It finds partitions whose range map is lost, and rebuilds the range maps
//! that are damaged or lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use recto_model::table::ReadDirection;
use recto_model::{Cells, Slice};
use recto_protocol::buckets::limits::MAX_NUMBER;
use recto_protocol::buckets::{Bucket, Decision, HeldBucket, Key, Shard, Span};
use recto_store::ScanRead;

use super::BucketCheck;
use super::fault::{Fault, FaultKind, FaultOutcome};
use super::remains::Stored;
use super::routes::unless_corrupt;
use crate::copying::{clustering_of, slice_of};
use crate::directory::Window;
use crate::error::Result;
use crate::limits::{MAX_REBUILT_PIECES, MAX_REQUEST_TIME, MAX_RUIN_BUCKETS, MAX_RUINS, MAX_STEP_TIME};
use crate::place::{PieceStore, Place};

/// Partition whose range map (which bucket holds which key range) is damaged or lost.
pub(super) struct Ruin {
    place: Arc<Place>,
    kind: FaultKind,
    detail: String,
    /// Buckets of the partition that the check has found in the store.
    buckets: BTreeSet<Bucket>,
    /// True if the check left out buckets of the partition, because it found too many.
    is_cut_off: bool,
}

const TOO_MANY: &str = "it has too many buckets for this check: repair the other faults, then repair again";
const TOO_LARGE: &str =
    "it has too many key ranges to be rebuilt at once: restore this partition of recto_buckets from a backup";

impl BucketCheck {
    /// Checks stored buckets: finds partitions without a range map, and partitions that scans do not find.
    pub(super) async fn check_buckets(&mut self, read: &ScanRead) -> Result<()> {
        let keys = self.table().partition().len();
        for row in read.rows.iter() {
            let cells: Cells = (0..keys).map(|column| row.get(column)).collect();
            let (partition, lies) = self.bucketed.pieced.parted(&cells);
            let place = self.place(partition)?;
            if lies == (Bucket(0), Shard(0)) {
                continue;
            }
            if !self.ruins.contains_key(&place.id.1) {
                if self.engine.has_range_map(&place).await? {
                    continue;
                }
                // A number other than 0 can only come from a range map.
                if lies.0 != Bucket(0) {
                    self.ruin(&place, FaultKind::Lost, String::new());
                } else if self.engine.is_first_met(&place, lies, &Span::all()).await? {
                    self.report_unless_marked(&place).await?;
                }
            }
            self.add_to_ruin(&place, lies.0);
        }
        Ok(())
    }

    pub(super) fn ruin(&mut self, place: &Arc<Place>, kind: FaultKind, detail: String) {
        if self.ruins.len() >= MAX_RUINS {
            let outcome = if self.mends {
                FaultOutcome::stays(TOO_MANY)
            } else {
                FaultOutcome::Left
            };
            let fault = Fault::of(place, kind, outcome);
            return self.faults.push(Fault { detail, ..fault });
        }
        let ruin = Ruin {
            place: Arc::clone(place),
            kind,
            detail,
            // Include bucket 0, because the scan does not meet a bucket that has neither a root
            // mark nor rows.
            buckets: [Bucket(0)].into(),
            is_cut_off: false,
        };
        self.ruins.insert(place.id.1.clone(), ruin);
    }

    fn add_to_ruin(&mut self, place: &Place, bucket: Bucket) {
        let known: usize = self.ruins.values().map(|ruin| ruin.buckets.len()).sum();
        if let Some(ruin) = self.ruins.get_mut(&place.id.1) {
            // Ignore an invalid bucket number here: a later stage reports its rows as misplaced.
            if known >= MAX_RUIN_BUCKETS {
                ruin.is_cut_off = true;
            } else if bucket.0 < MAX_NUMBER {
                ruin.buckets.insert(bucket);
            }
        }
    }

    /// Reports the range maps that are damaged or lost. Rebuilds them if the check repairs faults.
    pub(super) async fn rebuild_all(&mut self) -> Result<()> {
        let mut is_mended = false;
        for ruin in std::mem::take(&mut self.ruins).into_values() {
            let place = &ruin.place;
            let stored = self.engine.read_stored_parts(place).await?;
            if stored.is_there && stored.directory(place).is_ok() {
                // Another process has rebuilt the range map since the scan.
                continue;
            }
            let outcome = if self.mends {
                self.engine.rebuild(&ruin, &stored).await?
            } else {
                FaultOutcome::Left
            };
            is_mended |= outcome == FaultOutcome::Mended;
            self.faults.push(Fault {
                detail: ruin.detail.clone(),
                ..Fault::of(place, ruin.kind, outcome)
            });
        }
        if is_mended {
            // Wait until no process uses a range map that it cached before the repair.
            let protocol = self.engine.protocol;
            let wait_ms = protocol.long_life_ms + protocol.standstill_ms;
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
        Ok(())
    }
}

impl PieceStore {
    async fn rebuild(&self, ruin: &Ruin, stored: &Stored) -> Result<FaultOutcome> {
        if ruin.is_cut_off {
            return Ok(FaultOutcome::stays(TOO_LARGE));
        }
        let place = &ruin.place;
        let mut held: Vec<HeldBucket> = Vec::new();
        for bucket in &ruin.buckets {
            held.extend(self.held(place, *bucket).await?);
        }
        let (remains, gone) = stored.with_edges_of(place);
        let version = u64::try_from(self.environment.now_micros()).unwrap_or(1).max(1);
        let rebuilt = match remains.rebuilt(&held, place.pieced.sampling, version, self.protocol) {
            Ok(rebuilt) => rebuilt,
            Err(error) => return Ok(FaultOutcome::stays(format!("{error}: {}", error.hint()))),
        };
        let (cas, changed) = stored.change(&self.tables, place, &rebuilt, &gone);
        if changed > MAX_REBUILT_PIECES as usize {
            return Ok(FaultOutcome::stays(TOO_LARGE));
        }
        // Write the root mark before the range map, so that scans find the partition as soon as its
        // rows can be read.
        self.mark(place).await?;
        match self.decided(cas, MAX_REQUEST_TIME).await {
            Ok(Decision::Applied) => Ok(FaultOutcome::Mended),
            Ok(_) => Ok(FaultOutcome::stays("another process changed it: repair again")),
            Err(error) if error.is_passing() => Err(error),
            Err(error) => Ok(FaultOutcome::stays(error.to_string())),
        }
    }

    /// Returns the keys of the first and the last row of a bucket, or `None` if the bucket has no
    /// rows. For bucket 0 of a table with time buckets, both keys are the start of the partition.
    async fn held(&self, place: &Place, bucket: Bucket) -> Result<Option<HeldBucket>> {
        if place.pieced.times.is_some() {
            let (first, last) = (Key::new(), Key::new());
            return Ok(Some(HeldBucket { bucket, first, last }));
        }
        let mut ends = Vec::new();
        for shard in place.pieced.shards.all() {
            for direction in [ReadDirection::Forward, ReadDirection::Backward] {
                let slice = Slice {
                    direction,
                    limit: 1,
                    ..slice_of(place, (bucket, shard), &Span::all())?
                };
                for row in self.read_rows(&slice).await?.rows.iter() {
                    ends.push(place.key(&clustering_of(&place.pieced.table, row))?);
                }
            }
        }
        ends.sort_unstable();
        let last = ends.pop();
        Ok(last.map(|last| {
            let first = ends.into_iter().next().unwrap_or_else(|| last.clone());
            HeldBucket { bucket, first, last }
        }))
    }

    /// Returns whether a partition has a range map, damaged or not.
    async fn has_range_map(&self, place: &Place) -> Result<bool> {
        let read = self.again(self.deadline(MAX_STEP_TIME), |timeout| async move {
            let (snapshot, options) = (self.store.snapshot()?, self.directory_options(false, timeout));
            self.tables
                .read_pieces(&*snapshot, place, None, 1, &options)
                .await
        });
        Ok(!matches!(unless_corrupt(read.await)?, Some(Window::None)))
    }

    /// Marks in bucket 0 that a partition exists.
    pub(super) async fn mark(&self, place: &Place) -> Result<()> {
        let mark = place.pieced.mark_root(&place.partition, (self.stamps)());
        self.write_step(mark).await
    }

    /// Returns whether a shard that a scan met is the first shard of its bucket that has rows within a span. A fault of
    /// the whole bucket is reported only there. A shard with an invalid number is never the first one.
    pub(super) async fn is_first_met(
        &self,
        place: &Place,
        (bucket, shard): (Bucket, Shard),
        span: &Span,
    ) -> Result<bool> {
        // A scan finds a partition by the first shard of bucket 0, so that shard has no fault.
        let is_before = |one: &Shard| *one <= shard && (bucket, *one) != (Bucket(0), Shard(0));
        for one in place.pieced.shards.all().filter(is_before) {
            if self.has_rows(place, (bucket, one), span).await? {
                return Ok(one == shard);
            }
        }
        Ok(false)
    }

    /// Returns whether a shard of a bucket has rows within a span (range of keys).
    pub(crate) async fn has_rows(&self, place: &Place, lies: (Bucket, Shard), span: &Span) -> Result<bool> {
        let first = Slice {
            limit: 1,
            ..slice_of(place, lies, span)?
        };
        Ok(!self.read_rows(&first).await?.rows.is_empty())
    }
}
