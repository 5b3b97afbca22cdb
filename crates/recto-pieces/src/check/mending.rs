//! Repair of suspected faults of rows and samples, after a second examination, while other processes
//! write.
//!
//! The normal write path writes a misplaced row to its right bucket, with the row's timestamp and its
//! remaining lifetime. When the row is visible there, it is deleted in the wrong bucket at its timestamp,
//! so that newer writes stay. Newer deletions also stay in effect if the right bucket has them. A bucket
//! that a later split created does not have earlier deletions.

use std::sync::Arc;

use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Key, Shard};
use recto_store::{Atomicity, Mutation, Operation, PartitionWrite, PointRead, Stamp, Store, WriteOptions};

use super::Suspect;
use super::fault::{Fault, FaultKind, FaultOutcome};
use super::homes::Homes;
use super::look::{Look, asked};
use crate::copying::{put_of, whole_row};
use crate::error::{PiecesErrorKind, Result};
use crate::holding::bytes_of;
use crate::limits::MAX_STEP_TIME;
use crate::place::{PieceStore, Place};
use crate::samples::{self, Became};
use crate::tables::mutation;
use crate::writer::{Ended, Group, MapFreshness, RowWrite};

/// Reasons why a fault was not repaired, as reports show them.
const NEWER: &str = "the stored row is newer than its replacement: repair again";
const HIDDEN: &str = "its place has a deletion or a deleted row: it stays here, and no query can read it";
const WITHOUT_A_STAMP: &str =
    "its write time is unknown, because another program wrote it: delete the row, or write it again";

/// Second examination of suspected faults of buckets, and repair of the confirmed faults.
pub(super) struct Mender {
    pub(super) inner: Arc<dyn Store>,
    pub(super) engine: PieceStore,
}

impl Mender {
    /// Examines a suspected fault again. Returns the fault with its outcome, or `None` if there is no
    /// fault. Repairs the fault if `mends` is true.
    pub(super) async fn settle(&self, suspect: &Suspect, mends: bool) -> Result<Option<Fault>> {
        let Some(look) = self.look(suspect).await? else {
            return Ok(None);
        };
        let Some(kind) = look.judged(&suspect.key) else {
            return Ok(None);
        };
        let told = match kind {
            FaultKind::Stray if look.is_at_home => FaultKind::Double,
            kind => kind,
        };
        let outcome = if mends {
            self.mend(suspect, kind, &look).await?
        } else {
            FaultOutcome::Left
        };
        let is_key = !suspect.clustering.is_empty();
        Ok(Some(Fault {
            kind: told,
            partition: suspect.place.partition.clone(),
            bucket: Some(suspect.bucket),
            clustering: is_key.then(|| suspect.clustering.clone()),
            detail: String::new(),
            outcome,
        }))
    }

    async fn look(&self, suspect: &Suspect) -> Result<Option<Look<'_>>> {
        let (lies, key) = (
            (suspect.bucket, suspect.shard),
            (&suspect.key, &suspect.clustering),
        );
        self.engine.examine(&self.inner, &suspect.place, lies, key).await
    }

    async fn mend(&self, suspect: &Suspect, kind: FaultKind, look: &Look<'_>) -> Result<FaultOutcome> {
        let is_row = matches!(kind, FaultKind::Stray | FaultKind::BelowFloor);
        if is_row && look.row.is_none_or(|row| row.stamp == 0) {
            return Ok(FaultOutcome::Stays(WITHOUT_A_STAMP.to_owned()));
        }
        let pieces = &self.engine;
        match kind {
            FaultKind::Stray | FaultKind::BelowFloor => {
                pieces.take_home(suspect, kind == FaultKind::Stray, look).await?;
                self.sample_at_home(pieces, suspect, look).await?;
            }
            _ => pieces.resample(suspect, look, None).await?,
        }
        let outcome = self.is_right(suspect).await?;
        if outcome == FaultOutcome::Mended || is_row {
            return Ok(outcome);
        }
        // The sample is still wrong, so a stored sample, or its deletion, has a newer timestamp
        // than the row. Write the sample again with the current timestamp.
        if let Some(look) = self.look(suspect).await? {
            pieces.resample(suspect, &look, Some((pieces.stamps)())).await?;
        }
        self.is_right(suspect).await
    }

    /// Restores the sample of a row that was moved to another shard of its bucket. The sample may have
    /// been deleted earlier, because the row was missing in that shard.
    async fn sample_at_home(&self, pieces: &PieceStore, suspect: &Suspect, look: &Look<'_>) -> Result<()> {
        let is_beside = |home: &(Bucket, Shard)| home.0 == suspect.bucket && home.1 != suspect.shard;
        let Some((bucket, shard)) = look.homes.home(&suspect.key).filter(is_beside) else {
            return Ok(());
        };
        let home = Suspect {
            bucket,
            shard,
            ..suspect.clone()
        };
        match self.look(&home).await? {
            Some(look) if look.judged(&home.key).is_some() => pieces.resample(&home, &look, None).await,
            _ => Ok(()),
        }
    }

    async fn is_right(&self, suspect: &Suspect) -> Result<FaultOutcome> {
        let look = self.look(suspect).await?;
        let left = look.and_then(|look| look.judged(&suspect.key));
        Ok(match left {
            None => FaultOutcome::Mended,
            Some(FaultKind::Stray) => FaultOutcome::Stays(HIDDEN.to_owned()),
            Some(_) => FaultOutcome::Stays(NEWER.to_owned()),
        })
    }
}

impl Look<'_> {
    fn judged(&self, key: &Key) -> Option<FaultKind> {
        self.homes.judge(key, self.row, self.sample.as_ref())
    }
}

impl PieceStore {
    /// Corrects the sample of a row. A new sample gets the timestamp of the row or `at`, or a
    /// greater one if the existing sample would otherwise be newer. Deletes the sample if the row
    /// must not be sampled.
    async fn resample(&self, suspect: &Suspect, look: &Look<'_>, at: Option<Stamp>) -> Result<()> {
        let (place, bucket, key) = (&suspect.place, suspect.bucket, &suspect.key);
        let directory = look.homes.directory(key);
        let sampling = directory.piece_of(key).map(|piece| piece.sampling);
        let sampling = sampling.unwrap_or(place.pieced.sampling);
        let there = look.sample.as_ref().map(|dated| dated.stamp);
        let row = look.row.filter(|row| sampling.is_sampled(hash(key), row.bytes));
        let mutations: Vec<Mutation> = match row {
            None => there.map(|there| unsampled(suspect, there)).into_iter().collect(),
            Some(row) => {
                let above = there.map_or(Stamp(row.stamp), |there| Stamp(row.stamp.max(there.0 + 1)));
                let stamp = at.map_or(above, |at| at.max(above));
                let ends = self.ends_in_seconds(suspect).await?;
                let sample = samples::change(key, Became::Put(row.bytes), sampling, stamp, ends);
                sample.into_iter().collect()
            }
        };
        if mutations.is_empty() {
            return Ok(());
        }
        self.write_step(self.samples_write(place, bucket, mutations))
            .await
    }

    /// Returns the remaining lifetime of a suspected row in seconds, or `None` if it is unlimited.
    async fn ends_in_seconds(&self, suspect: &Suspect) -> Result<Option<u32>> {
        let read = self.row_of(&suspect.place, suspect).await?;
        Ok(read.ends_in_seconds.first().copied().flatten())
    }

    async fn row_of(&self, place: &Place, suspect: &Suspect) -> Result<recto_store::RowsRead> {
        let read = &PointRead {
            table: Arc::clone(&place.pieced.table),
            partition: place.shard_partition(suspect.bucket, suspect.shard),
            clustering: suspect.clustering.clone(),
        };
        asked(self, &self.store, |snapshot, options| async move {
            snapshot.get(read, &options).await
        })
        .await
    }

    /// Writes a row to its right bucket if `is_kept` is true, and deletes the row in the wrong
    /// bucket.
    async fn take_home(&self, suspect: &Suspect, is_kept: bool, look: &Look<'_>) -> Result<()> {
        let bucket = suspect.bucket;
        let place = Arc::new(self.as_stored(&suspect.place).await?);
        let read = self.row_of(&place, suspect).await?;
        let Some((row, stamp)) = read.rows.iter().next().zip(read.stamps.first()) else {
            return Ok(());
        };
        let (stamp, ends) = (Stamp(*stamp), read.ends_in_seconds.first().copied().flatten());
        if is_kept {
            let (clustering, cells) = whole_row(&place.pieced.table, row, stamp)?;
            let partition = self.partition(&place.pieced, place.partition.clone())?;
            let write = RowWrite {
                key: suspect.key.clone(),
                shard: place.pieced.shards.of(&suspect.key),
                operation: put_of(clustering, cells, stamp, ends).operation,
                became: Became::Put(bytes_of(&place.pieced, row)),
                stamp,
                ttl_seconds: ends,
                number: 0,
                partition,
            };
            if !self.written_home(write).await? {
                return Ok(());
            }
            // The bucket never gets the key range of this row back, because the key ranges of a bucket only
            // shrink. But the range map by which the row is misplaced may have been outdated, so check again.
            let lies = (bucket, suspect.shard);
            let Some(homes) = Homes::now(self, &place, lies).await? else {
                return Ok(());
            };
            let (key, home) = (&suspect.key, homes.home(&suspect.key));
            let is_gone = homes.is_below(key) || self.stands_at(&place, suspect, home, stamp).await?;
            if homes.is_named(key) || !is_gone {
                return Ok(());
            }
        }
        let clustering = suspect.clustering.clone();
        let delete = PartitionWrite {
            table: Arc::clone(&place.pieced.table),
            partition: place.shard_partition(bucket, suspect.shard),
            mutations: vec![mutation(Operation::DeleteRow { clustering }, stamp, None)],
        };
        self.write_step(delete).await?;
        // Delete the sample only if the row was in its right shard. Otherwise the row moved to
        // another shard of the bucket, where the sample remains valid.
        let of_it = look.sample.as_ref();
        let of_it = of_it.filter(|_| look.homes.is_in_its_shard(&suspect.key));
        match of_it.map(|dated| dated.stamp) {
            None => Ok(()),
            Some(there) => {
                let sample = vec![unsampled(suspect, there)];
                self.write_step(self.samples_write(&place, bucket, sample)).await
            }
        }
    }

    /// Returns whether the row in the wrong bucket may be deleted: a row of the key is visible in its
    /// right bucket, or a normal deletion removed it there. A normal deletion marks the sample of the row
    /// as deleted.
    ///
    /// A deletion of former content of the right bucket can also hide the row, for example if a range map
    /// lacks earlier information. Then the misplaced copy must stay.
    async fn stands_at(
        &self,
        place: &Arc<Place>,
        suspect: &Suspect,
        home: Option<(Bucket, Shard)>,
        stamp: Stamp,
    ) -> Result<bool> {
        let Some((home, shard)) = home else {
            return Ok(false);
        };
        let there = Suspect {
            bucket: home,
            shard,
            ..suspect.clone()
        };
        if !self.row_of(place, &there).await?.rows.is_empty() {
            return Ok(true);
        }
        let sample = self.sample_of(place, home, &suspect.key).await?;
        Ok(sample.is_some_and(|dated| dated.sample.is_gone && dated.stamp >= stamp))
    }

    /// Writes a row with its timestamp to all buckets that take it. Returns whether the misplaced
    /// copy of the row may be deleted. The copy may also be deleted if the row is below the
    /// retention bound.
    async fn written_home(&self, write: RowWrite) -> Result<bool> {
        let group = Group {
            rows: vec![write],
            others: Vec::new(),
            atomicity: Atomicity::Each,
            since: MapFreshness::Sent,
            options: WriteOptions::default(),
        };
        let deadline = self.deadline(MAX_STEP_TIME);
        loop {
            match self.write_group(&group, deadline).await {
                Ok(Ended::Done) => return Ok(true),
                Ok(Ended::Moved { .. }) => {}
                Err(error) if error.kind() == PiecesErrorKind::BelowFloor => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the deletion of a suspected sample (stored key and size of a row), with the timestamp
/// `stamp`.
fn unsampled(suspect: &Suspect, stamp: Stamp) -> Mutation {
    let clustering = std::iter::once(Some(&suspect.key[..])).collect();
    mutation(Operation::DeleteRow { clustering }, stamp, None)
}
