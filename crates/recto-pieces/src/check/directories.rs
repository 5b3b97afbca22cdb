//! Stages of the check for range maps and for existing buckets. The stage of existing buckets
//! rebuilds range maps (which assign key ranges to buckets) that are damaged or lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use recto_model::Cells;
use recto_protocol::buckets::limits::MAX_NUMBER;
use recto_protocol::buckets::{Bucket, Decision, Directory, HeldBucket, Key, Shard, Span};
use recto_store::TokenRange;

use super::fault::{Fault, FaultKind, FaultOutcome};
use super::position::Next;
use super::registry::Met;
use super::remains::{Stored, encoded_of};
use super::{BucketCheck, CheckStep};
use crate::error::{PiecesError, Result};
use crate::limits::{
    HALF_DONE_AGE, MAX_LISTED_PARTITIONS, MAX_REBUILT_PIECES, MAX_REQUEST_TIME, MAX_RUIN_BUCKETS, MAX_RUINS,
};
use crate::place::Place;

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
    /// Checks the range maps of up to `rows` partitions.
    pub(super) async fn directories(&mut self, rows: u32, step: &mut CheckStep) -> Result<Option<Next>> {
        let own = Arc::clone(&self.engine.tables.directories);
        let after = self.position.after.take().map(|next| next.scan);
        let limit = rows.min(MAX_LISTED_PARTITIONS as u32);
        let read = self.ask(|snapshot, options| {
            let (own, after) = (Arc::clone(&own), after.clone());
            async move {
                let range = TokenRange::whole();
                snapshot
                    .scan_partitions(&own, &range, after.as_ref(), limit, &options)
                    .await
            }
        });
        let read = read.await?;
        step.read = read.rows.len() as u64;
        let name = self.table().name().to_owned();
        let ours = read.rows.iter().filter_map(|row| encoded_of(row, &name));
        let ours: Vec<Vec<u8>> = ours.map(<[u8]>::to_vec).collect();
        for encoded in ours {
            match self.bucketed.pieced.partition_of(&encoded) {
                Ok(partition) => {
                    let place = Arc::new(Place::new(&self.bucketed.pieced, partition)?);
                    self.directory(&place).await?;
                }
                Err(error) => self.nobodys("recto_buckets", &error),
            }
        }
        Ok(read.next.map(|scan| Next { scan, open: None }))
    }

    /// Reports a row of one of the engine's tables that belongs to no valid partition of the table of
    /// rows.
    pub(super) fn nobodys(&mut self, table: &str, error: &PiecesError) {
        let why = format!("its partition does not exist in the table: delete it from {table}");
        self.fault(Fault {
            kind: FaultKind::Damaged,
            partition: Cells::new(),
            bucket: None,
            clustering: None,
            detail: error.to_string(),
            outcome: FaultOutcome::Stays(why),
        });
    }

    async fn directory(&mut self, place: &Arc<Place>) -> Result<()> {
        let Some(stored) = self.engine.stored(&self.inner, place).await? else {
            return Ok(());
        };
        let directory = match stored.directory(place) {
            Ok(directory) => directory,
            Err(error) => {
                self.ruin(place, FaultKind::Damaged, error.to_string());
                return Ok(());
            }
        };
        // If the table has a registry of buckets, its range map stores only the retention bound, so
        // there are no splits to check.
        if self.registers() {
            return Ok(());
        }
        self.told_unless_marked(place).await?;
        self.tell_returned(place, &stored).await?;
        let now = self.now_micros();
        let old = |stamp: &i64| Duration::from_micros(now.saturating_sub(*stamp).max(0).unsigned_abs());
        let being_cut = directory.pieces.iter().zip(&stored.stamps);
        let being_cut = being_cut.filter(|(piece, _)| !piece.roles.is_at_rest());
        let youngest = being_cut.map(|(piece, stamp)| (old(stamp), &piece.start)).min();
        if let Some((age, start)) = youngest.filter(|(age, _)| *age > HALF_DONE_AGE) {
            let outcome = self.go_on(place, start).await?;
            let detail = format!("for {} minutes", age.as_secs() / 60);
            self.fault(of_partition(place, FaultKind::HalfDone, detail, outcome));
        }
        Ok(())
    }

    /// Reports rows of removed key ranges, and deletes them if the check repairs faults.
    async fn tell_returned(&mut self, place: &Arc<Place>, stored: &Stored) -> Result<()> {
        let returned = stored.remains.returned();
        if returned.is_empty() {
            return Ok(());
        }
        let outcome = match stored.removal(&self.engine.tables, place, &returned) {
            Some(cas) if self.mends => match self.engine.decided(cas, MAX_REQUEST_TIME).await? {
                Decision::Applied => FaultOutcome::Mended,
                _ => FaultOutcome::Stays("another process changed the range map: repair again".to_owned()),
            },
            _ => FaultOutcome::Left,
        };
        let detail = format!("{} removed key ranges", returned.len());
        self.fault(of_partition(place, FaultKind::Returned, detail, outcome));
        Ok(())
    }

    fn now_micros(&self) -> i64 {
        self.engine.environment.now_micros()
    }

    /// Reports a partition that has no root mark (static cell by which scans find a partition), so
    /// scans do not find it.
    pub(super) async fn told_unless_marked(&mut self, place: &Arc<Place>) -> Result<()> {
        if !self.is_marked(place).await? {
            let marked = self.mark(place).await?;
            self.fault(of_partition(place, FaultKind::Unmarked, String::new(), marked));
        }
        Ok(())
    }

    /// Reports a partition that was never split if scans do not find it. A scan met its shard
    /// `shard`, which is not the first shard. Several shards can have rows, so the function reports
    /// the partition only at the first of them.
    async fn told_unless_met(&mut self, place: &Arc<Place>, shard: Shard) -> Result<()> {
        let pieces = self.engine.clone();
        let mut further = place.pieced.shards.all().skip(1);
        while let Some(one) = further.next().filter(|one| *one <= shard) {
            if one == shard {
                return self.told_unless_marked(place).await;
            }
            if pieces.has_rows(place, (Bucket(0), one), &Span::all()).await? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether scans find a partition.
    pub(super) async fn is_marked(&self, place: &Place) -> Result<bool> {
        let (table, root) = (&place.pieced.table, &place.shard_partition(Bucket(0), Shard(0)));
        let statics =
            self.ask(|snapshot, options| async move { snapshot.get_statics(table, root, &options).await });
        let statics = statics.await?;
        Ok(statics.rows.iter().any(|row| place.pieced.is_mark(row)))
    }

    pub(super) async fn mark(&self, place: &Arc<Place>) -> Result<FaultOutcome> {
        if !self.mends {
            return Ok(FaultOutcome::Left);
        }
        let mark = place.pieced.mark_root(&place.partition, (self.engine.stamps)());
        self.engine.write_step(mark).await?;
        Ok(FaultOutcome::Mended)
    }

    /// Continues an unfinished split. Does nothing if the check must not repair faults.
    async fn go_on(&self, place: &Arc<Place>, key: &Key) -> Result<FaultOutcome> {
        let pieces = &self.engine;
        if !self.mends {
            return Ok(FaultOutcome::Left);
        }
        Ok(match pieces.at_rest(place, key).await? {
            Some(_) => FaultOutcome::Mended,
            None => FaultOutcome::Stays("other processes are splitting it and do not finish".to_owned()),
        })
    }

    /// Checks up to `rows` of the stored buckets: finds partitions without a range map, and buckets
    /// without an entry in the registry.
    pub(super) async fn buckets(&mut self, rows: u32, step: &mut CheckStep) -> Result<Option<Next>> {
        let table = Arc::clone(self.table());
        let after = self.position.after.take().map(|next| next.scan);
        let limit = rows.clamp(1, MAX_LISTED_PARTITIONS as u32);
        let read = self.ask(|snapshot, options| {
            let (table, after) = (Arc::clone(&table), after.clone());
            async move {
                let range = TokenRange::whole();
                snapshot
                    .scan_partitions(&table, &range, after.as_ref(), limit, &options)
                    .await
            }
        });
        let read = read.await?;
        step.read = read.rows.len() as u64;
        let (keys, mut met) = (table.partition().len(), Vec::new());
        for row in read.rows.iter() {
            let cells: Cells = (0..keys).map(|column| row.get(column)).collect();
            let (partition, (bucket, shard)) = self.bucketed.pieced.parted(&cells);
            let place = Arc::new(Place::new(&self.bucketed.pieced, partition)?);
            let times = place.pieced.times.as_ref().filter(|_| self.registers());
            if let Some(times) = times {
                // Ignore an invalid bucket number here: a later stage reports its rows as
                // misplaced.
                let bucket = times.numbered(bucket);
                met.extend(bucket.map(|bucket| Met {
                    place: Arc::clone(&place),
                    bucket,
                    shard,
                }));
            } else if bucket != Bucket(0) {
                self.directed(&place, bucket).await?;
            } else if shard != Shard(0) && self.is_without_directory(&place).await? {
                self.told_unless_met(&place, shard).await?;
            }
        }
        self.unregistered(met).await?;
        Ok(read.next.map(|scan| Next { scan, open: None }))
    }

    /// Handles a bucket whose number only a range map can have assigned. If the partition has no range map,
    /// records that the range map is lost.
    async fn directed(&mut self, place: &Arc<Place>, bucket: Bucket) -> Result<()> {
        if !self.ruins.contains_key(&place.id.1) {
            let known = self.known.of(&self.engine, place, false).await?;
            if known.is_some_and(|known| known.version > 0) {
                return Ok(());
            }
            self.ruin(place, FaultKind::Lost, String::new());
        }
        self.stands(place, bucket);
        Ok(())
    }

    async fn is_without_directory(&self, place: &Arc<Place>) -> Result<bool> {
        let known = self.known.of(&self.engine, place, false).await?;
        Ok(known.is_some_and(|known| known.version == 0))
    }

    fn ruin(&mut self, place: &Arc<Place>, kind: FaultKind, detail: String) {
        if self.ruins.len() >= MAX_RUINS {
            let outcome = if self.mends {
                FaultOutcome::Stays(TOO_MANY.to_owned())
            } else {
                FaultOutcome::Left
            };
            self.fault(of_partition(place, kind, detail, outcome));
            return;
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

    fn stands(&mut self, place: &Place, bucket: Bucket) {
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
        let ruins = std::mem::take(&mut self.ruins);
        let mut is_mended = false;
        for ruin in ruins.into_values() {
            let place = &ruin.place;
            let stored = self.engine.stored(&self.inner, place).await?;
            if stored
                .as_ref()
                .is_some_and(|stored| stored.directory(place).is_ok())
            {
                // Another process has rebuilt the range map since the scan.
                continue;
            }
            let outcome = if self.mends {
                self.rebuild(&ruin, stored.unwrap_or_default()).await?
            } else {
                FaultOutcome::Left
            };
            is_mended |= outcome == FaultOutcome::Mended;
            self.fault(of_partition(place, ruin.kind, ruin.detail.clone(), outcome));
        }
        if is_mended {
            self.known.forget();
            self.wait_for_copies().await;
        }
        Ok(())
    }

    async fn rebuild(&self, ruin: &Ruin, stored: Stored) -> Result<FaultOutcome> {
        let stays = |why: &str| Ok(FaultOutcome::Stays(why.to_owned()));
        if ruin.is_cut_off {
            return stays(TOO_LARGE);
        }
        let place = &ruin.place;
        let mut held: Vec<HeldBucket> = Vec::new();
        for bucket in &ruin.buckets {
            held.extend(self.engine.held(&self.inner, place, *bucket).await?);
        }
        let (remains, gone) = stored.with_edges_of(place);
        let protocol = self.engine.protocol;
        let version = u64::try_from(self.now_micros()).unwrap_or(1).max(1);
        let rebuilt = match remains.rebuilt(&held, place.pieced.sampling, version, protocol) {
            Ok(rebuilt) => rebuilt,
            Err(error) => return stays(&format!("{error}: {}", error.hint())),
        };
        let (cas, changed) = stored.change(&self.engine.tables, place, &rebuilt, &gone);
        if changed > MAX_REBUILT_PIECES as usize {
            return stays(TOO_LARGE);
        }
        // Write the root mark before the range map, so that scans find the partition as soon as its
        // rows can be read.
        self.mark(place).await?;
        match self.engine.decided(cas, MAX_REQUEST_TIME).await {
            Ok(Decision::Applied) => Ok(FaultOutcome::Mended),
            Ok(_) => stays("another process changed it: repair again"),
            Err(error) if error.is_passing() => Err(error),
            Err(error) => stays(&error.to_string()),
        }
    }

    /// Waits until no process uses a range map that it cached before the repair of the range map.
    async fn wait_for_copies(&self) {
        let protocol = self.engine.protocol;
        let wait_ms = protocol.long_life_ms + protocol.standstill_ms;
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

impl Stored {
    /// Returns the stored range map, or an error if it is damaged.
    fn directory(&self, place: &Place) -> Result<Directory> {
        let directory = self.remains.directory()?;
        for piece in &directory.pieces {
            place.pieced.bound(&piece.start)?;
        }
        Ok(directory)
    }
}

/// Returns a fault that concerns a whole partition, and not one bucket or row.
pub(super) fn of_partition(place: &Place, kind: FaultKind, detail: String, outcome: FaultOutcome) -> Fault {
    Fault {
        kind,
        partition: place.partition.clone(),
        bucket: None,
        clustering: None,
        detail,
        outcome,
    }
}
