//! Stage of the check for range maps, and marks of partitions.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, RowRef};
use recto_protocol::buckets::{Bucket, Decision, Directory, Shard};
use recto_store::{ReadOptions, ScanRead};

use super::BucketCheck;
use super::fault::{Fault, FaultKind, FaultOutcome};
use super::remains::{Stored, removal};
use crate::error::Result;
use crate::limits::{HALF_DONE_AGE, MAX_REQUEST_TIME, MAX_STEP_TIME};
use crate::place::Place;

impl BucketCheck {
    /// Checks the range maps of partitions.
    pub(super) async fn check_directories(&mut self, read: &ScanRead) -> Result<()> {
        for row in read.rows.iter() {
            if let Some(place) = self.place_of(row, "recto_buckets")? {
                self.check_directory(&place).await?;
            }
        }
        Ok(())
    }

    /// Returns the partition of a row in one of the engine's tables, `own`. Returns `None` if the row belongs to
    /// another table. Reports the row if it belongs to no valid partition.
    pub(super) fn place_of(&mut self, row: RowRef<'_>, own: &str) -> Result<Option<Arc<Place>>> {
        let is_ours = row.get(0) == Some(self.table().name().as_bytes());
        let Some(encoded) = row.get(1).filter(|_| is_ours) else {
            return Ok(None);
        };
        let error = match self.bucketed.pieced.partition_of(encoded) {
            Ok(partition) => return self.place(partition).map(Some),
            Err(error) => error,
        };
        let why = format!("its partition does not exist in the table: delete it from {own}");
        self.faults.push(Fault {
            kind: FaultKind::Damaged,
            partition: Cells::new(),
            bucket: None,
            clustering: None,
            detail: error.to_string(),
            outcome: FaultOutcome::Stays(why),
        });
        Ok(None)
    }

    async fn check_directory(&mut self, place: &Arc<Place>) -> Result<()> {
        let stored = self.engine.read_stored_parts(place).await?;
        if !stored.is_there {
            return Ok(());
        }
        let directory = match stored.directory(place) {
            Ok(directory) => directory,
            Err(error) => {
                self.ruin(place, FaultKind::Damaged, error.to_string());
                return Ok(());
            }
        };
        // If the table has a registry of buckets, its range map stores only the retention bound, so
        // there are no splits to check.
        if place.pieced.times.is_some() {
            return Ok(());
        }
        self.report_unless_marked(place).await?;
        self.report_returned(place, &stored, &directory).await?;
        self.report_half_done(place, &stored, &directory).await
    }

    /// Reports rows of removed key ranges, and deletes them if the check repairs faults.
    async fn report_returned(&mut self, place: &Place, stored: &Stored, directory: &Directory) -> Result<()> {
        let returned = stored.remains.returned();
        if returned.is_empty() {
            return Ok(());
        }
        let mut outcome = FaultOutcome::Left;
        if self.mends {
            let cas = removal(&self.engine.tables, place, directory, &returned);
            outcome = match self.engine.decided(cas, MAX_REQUEST_TIME).await? {
                Decision::Applied => FaultOutcome::Mended,
                _ => FaultOutcome::stays("another process changed the range map: repair again"),
            };
        }
        self.faults.push(Fault {
            detail: format!("{} removed key ranges", returned.len()),
            ..Fault::of(place, FaultKind::Returned, outcome)
        });
        Ok(())
    }

    /// Reports a split that no process has continued for a long time. Continues it if the check repairs faults.
    async fn report_half_done(
        &mut self,
        place: &Arc<Place>,
        stored: &Stored,
        directory: &Directory,
    ) -> Result<()> {
        let being_cut = directory.pieces.iter().zip(&stored.stamps);
        let being_cut = being_cut.filter(|(piece, _)| !piece.roles.is_at_rest());
        let Some((piece, stamp)) = being_cut.max_by_key(|(_, stamp)| **stamp) else {
            return Ok(());
        };
        let now_micros = self.engine.environment.now_micros();
        let age = Duration::from_micros(now_micros.saturating_sub(*stamp).max(0).unsigned_abs());
        if age <= HALF_DONE_AGE {
            return Ok(());
        }
        let mut outcome = FaultOutcome::Left;
        if self.mends {
            outcome = match self.engine.at_rest(place, &piece.start).await? {
                Some(_) => FaultOutcome::Mended,
                None => FaultOutcome::stays("other processes are splitting it and do not finish"),
            };
        }
        self.faults.push(Fault {
            detail: format!("for {} minutes", age.as_secs() / 60),
            ..Fault::of(place, FaultKind::HalfDone, outcome)
        });
        Ok(())
    }

    /// Reports a partition that has no root mark (static cell by which scans find a partition), so
    /// scans do not find it. Marks it if the check repairs faults.
    pub(super) async fn report_unless_marked(&mut self, place: &Place) -> Result<()> {
        if self.is_marked(place).await? {
            return Ok(());
        }
        let mut outcome = FaultOutcome::Left;
        if self.mends {
            self.engine.mark(place).await?;
            outcome = FaultOutcome::Mended;
        }
        self.faults.push(Fault::of(place, FaultKind::Unmarked, outcome));
        Ok(())
    }

    /// Returns whether scans find a partition.
    pub(super) async fn is_marked(&self, place: &Place) -> Result<bool> {
        let engine = &self.engine;
        let (table, root) = (&place.pieced.table, &place.shard_partition(Bucket(0), Shard(0)));
        let statics = engine.again(engine.deadline(MAX_STEP_TIME), |timeout| async move {
            let options = ReadOptions {
                timeout,
                ..ReadOptions::default()
            };
            Ok(engine
                .store
                .snapshot()?
                .get_statics(table, root, &options)
                .await?)
        });
        Ok(statics.await?.rows.iter().any(|row| place.pieced.is_mark(row)))
    }
}
