//! Second examination of suspected faults of rows and samples, and their repair, while other processes write.
//!
//! The normal write path writes a misplaced row to its right bucket, with the row's timestamp and its
//! remaining lifetime. When the row is visible there, it is deleted in the wrong bucket at its timestamp,
//! so that newer writes stay. Newer deletions also stay in effect if the right bucket has them. A bucket
//! that a later split created does not have earlier deletions.

use std::sync::Arc;

use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Shard};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, PointRead, ReadOptions, RowsRead, Stamp, WriteOptions,
};

use super::fault::{Fault, FaultKind, FaultOutcome};
use super::routes::{Route, Router, SeenRow, unless_corrupt};
use super::{Suspect, SuspectKind};
use crate::copying::whole_row;
use crate::error::{PiecesErrorKind, Result};
use crate::limits::MAX_STEP_TIME;
use crate::place::PieceStore;
use crate::samples::{self, Became};
use crate::tables::mutation;
use crate::writer::{Change, Ended, Group, MapFreshness, RowChange, RowWrite};

/// Reasons why a fault was not repaired, as reports show them.
const NEWER: &str = "the stored row is newer than its replacement: repair again";
const HIDDEN: &str = "its place has a deletion or a deleted row: it stays here, and no query can read it";
const WITHOUT_A_STAMP: &str =
    "its write time is unknown, because another program wrote it: delete the row, or write it again";

/// Stored data of a suspect: the row where the check found it, its sample, and where a write of the row would go.
struct Examination {
    route: Route,
    /// The row, with its timestamp and its lifetime.
    read: RowsRead,
    row: Option<SeenRow>,
    sample: Option<samples::Dated>,
    /// True if a write of the row would go to another bucket or shard, and a row with its key is visible there.
    is_at_home: bool,
    fault: Option<FaultKind>,
}

impl Examination {
    /// Returns the remaining lifetime of the row in seconds, or `None` if it is unlimited.
    fn ends_in_seconds(&self) -> Option<u32> {
        self.read.ends_in_seconds.first().copied().flatten()
    }
}

impl Suspect {
    /// Returns the row with the same key in another bucket or shard.
    fn at(&self, lies: (Bucket, Shard)) -> Self {
        Self { lies, ..self.clone() }
    }
}

impl PieceStore {
    /// Examines a suspected fault again. Returns the fault with its outcome, or `None` if there is no
    /// fault. Repairs the fault if `mends` is true.
    pub(super) async fn settle_suspect(&self, suspect: &Suspect, mends: bool) -> Result<Option<Fault>> {
        if suspect.kind == SuspectKind::Entry {
            return self.settle_entry(suspect, mends).await;
        }
        let Some(found) = self.examine(suspect).await? else {
            return Ok(None);
        };
        let Some(kind) = found.fault else {
            return Ok(None);
        };
        let reported = match kind {
            FaultKind::Stray if found.is_at_home => FaultKind::Double,
            kind => kind,
        };
        let outcome = match kind {
            _ if !mends => FaultOutcome::Left,
            FaultKind::Stray | FaultKind::BelowFloor => self.take_home(suspect).await?,
            _ => self.correct_sample(suspect, found).await?,
        };
        let is_key = !suspect.clustering.is_empty();
        Ok(Some(Fault {
            bucket: Some(suspect.lies.0),
            clustering: is_key.then(|| suspect.clustering.clone()),
            ..Fault::of(&suspect.place, reported, outcome)
        }))
    }

    /// Reads a suspect. Returns `None` if its range map is damaged.
    async fn examine(&self, suspect: &Suspect) -> Result<Option<Examination>> {
        let Suspect { place, lies, key, .. } = suspect;
        let read = self.read_row(suspect).await?;
        let sample = self.sample_of(place, lies.0, key).await?;
        // Read the range map after the row, so that it includes any change that moved the row.
        let route = async { Router::new(self, place, *lies, true).await?.route(key).await };
        let Some(route) = unless_corrupt(route.await)? else {
            return Ok(None);
        };
        let is_at_home =
            route.home != *lies && !self.read_row(&suspect.at(route.home)).await?.rows.is_empty();
        let row = read.rows.iter().next().zip(read.stamps.first());
        let row = row.map(|(row, stamp)| SeenRow::new(&place.pieced, row, *stamp));
        Ok(Some(Examination {
            fault: route.fault_of(key, row, sample.as_ref()),
            route,
            read,
            row,
            sample,
            is_at_home,
        }))
    }

    async fn read_row(&self, suspect: &Suspect) -> Result<RowsRead> {
        let Suspect { place, lies, .. } = suspect;
        if suspect.clustering.is_empty() {
            return Ok(RowsRead::default());
        }
        let read = &PointRead {
            table: Arc::clone(&place.pieced.table),
            partition: place.shard_partition(lies.0, lies.1),
            clustering: suspect.clustering.clone(),
        };
        self.again(self.deadline(MAX_STEP_TIME), |timeout| async move {
            let options = ReadOptions {
                timeout,
                stamps: true,
                ..ReadOptions::default()
            };
            Ok(self.store.snapshot()?.get(read, &options).await?)
        })
        .await
    }

    /// Moves a misplaced row to where a write of the row goes. Deletes a row below the retention bound.
    async fn take_home(&self, suspect: &Suspect) -> Result<FaultOutcome> {
        // Move all stored columns, also those that this process does not know.
        let stored = Arc::new(self.as_stored(&suspect.place).await?);
        let suspect = &Suspect {
            place: stored,
            ..suspect.clone()
        };
        let Some(found) = self.examine(suspect).await? else {
            return Ok(FaultOutcome::Mended);
        };
        let is_kept = found.fault == Some(FaultKind::Stray);
        let is_removed = found.fault == Some(FaultKind::BelowFloor);
        let stamp = match found.row.filter(|_| is_kept || is_removed) {
            Some(SeenRow { stamp: 0, .. }) => return Ok(FaultOutcome::stays(WITHOUT_A_STAMP)),
            Some(row) => Stamp(row.stamp),
            None => return Ok(FaultOutcome::Mended),
        };
        if is_removed || self.put_at_home(suspect, &found, stamp).await? {
            self.remove(suspect, &found, stamp).await?;
        }
        Ok(match self.examine(suspect).await?.and_then(|found| found.fault) {
            None => FaultOutcome::Mended,
            Some(FaultKind::Stray) => FaultOutcome::stays(HIDDEN),
            Some(_) => FaultOutcome::stays(NEWER),
        })
    }

    /// Writes a misplaced row with its timestamp to all buckets that take it. Returns whether the misplaced copy of the
    /// row may be deleted.
    async fn put_at_home(&self, suspect: &Suspect, found: &Examination, stamp: Stamp) -> Result<bool> {
        let place = &suspect.place;
        let Some(row) = found.read.rows.iter().next() else {
            return Ok(false);
        };
        let (clustering, cells) = whole_row(&place.pieced.table, row, stamp)?;
        let change = Change::Put {
            cells,
            replace: true,
            ttl_seconds: found.ends_in_seconds(),
        };
        let partition = self.partition(&place.pieced, place.partition.clone())?;
        let group = Group {
            rows: vec![RowWrite::new(partition, RowChange { clustering, change }, stamp)?],
            others: Vec::new(),
            atomicity: Atomicity::Each,
            since: MapFreshness::Sent,
            options: WriteOptions::default(),
        };
        let deadline = self.deadline(MAX_STEP_TIME);
        loop {
            match self.write_group(&group, deadline).await {
                Ok(Ended::Done) => break,
                Ok(Ended::Moved { .. }) => {}
                Err(error) if error.kind() == PiecesErrorKind::BelowFloor => break,
                Err(error) => return Err(error),
            }
        }
        // The bucket never gets the key range of this row back, because the key ranges of a bucket only
        // shrink. But the range map by which the row is misplaced may have been outdated, so examine the row again.
        let Some(found) = self.examine(suspect).await? else {
            return Ok(false);
        };
        if found.route.may_lie_here() {
            return Ok(false);
        }
        let home = suspect.at(found.route.home);
        let Some(at_home) = self.examine(&home).await? else {
            return Ok(false);
        };
        // The sample may have been deleted earlier, because the row was missing.
        if matches!(
            at_home.fault,
            Some(FaultKind::SampleMissing | FaultKind::SampleWrong)
        ) {
            self.resample(&home, &at_home, None).await?;
        }
        // A normal deletion marks the sample of the row as deleted. A deletion of former content of the right bucket
        // can also hide the row, for example if a range map lacks earlier information. Then the misplaced copy must
        // stay.
        let is_deleted = at_home
            .sample
            .is_some_and(|dated| dated.sample.is_gone && dated.stamp >= stamp);
        Ok(found.route.is_below || found.is_at_home || is_deleted)
    }

    /// Deletes a row in the wrong bucket, at its timestamp.
    async fn remove(&self, suspect: &Suspect, found: &Examination, stamp: Stamp) -> Result<()> {
        let Suspect { place, lies, key, .. } = suspect;
        let clustering = suspect.clustering.clone();
        let delete = PartitionWrite {
            table: Arc::clone(&place.pieced.table),
            partition: place.shard_partition(lies.0, lies.1),
            mutations: vec![mutation(Operation::DeleteRow { clustering }, stamp, None)],
        };
        self.write_step(delete).await?;
        // Delete the sample only if the row was in its right shard. Otherwise the row moved to
        // another shard of the bucket, where the sample remains valid.
        match found.sample.as_ref().filter(|_| found.route.is_in_its_shard) {
            Some(dated) => {
                self.write_step(self.samples_write(place, lies.0, vec![unsampled(key, dated.stamp)]))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Corrects the sample of a row, first at the timestamp of the row. If the sample is still wrong, a stored sample,
    /// or its deletion, has a newer timestamp than the row. Then writes it again at the current timestamp.
    async fn correct_sample(&self, suspect: &Suspect, mut found: Examination) -> Result<FaultOutcome> {
        for at in [None, Some((self.stamps)())] {
            self.resample(suspect, &found, at).await?;
            match self.examine(suspect).await?.filter(|found| found.fault.is_some()) {
                Some(wrong) => found = wrong,
                None => return Ok(FaultOutcome::Mended),
            }
        }
        Ok(FaultOutcome::stays(NEWER))
    }

    /// Corrects the sample of a row. A new sample gets the timestamp of the row or `at`, or a
    /// greater one if the existing sample would otherwise be newer. Deletes the sample if the row
    /// must not be sampled.
    async fn resample(&self, suspect: &Suspect, found: &Examination, at: Option<Stamp>) -> Result<()> {
        let Suspect { place, lies, key, .. } = suspect;
        let sampling = found.route.sampling;
        let there = found.sample.as_ref().map(|dated| dated.stamp);
        let row = found.row.filter(|row| sampling.is_sampled(hash(key), row.bytes));
        let sample = match row {
            None => there.map(|there| unsampled(key, there)),
            Some(row) => {
                let above = there.map_or(Stamp(row.stamp), |there| Stamp(row.stamp.max(there.0 + 1)));
                let stamp = at.map_or(above, |at| at.max(above));
                samples::change(
                    key,
                    Became::Put(row.bytes),
                    sampling,
                    stamp,
                    found.ends_in_seconds(),
                )
            }
        };
        match sample {
            Some(sample) => {
                self.write_step(self.samples_write(place, lies.0, vec![sample]))
                    .await
            }
            None => Ok(()),
        }
    }
}

/// Returns the deletion of a sample (stored key and size of a row), with the timestamp `stamp`.
fn unsampled(key: &[u8], stamp: Stamp) -> Mutation {
    let clustering = std::iter::once(Some(key)).collect();
    mutation(Operation::DeleteRow { clustering }, stamp, None)
}
