//! Stage of the check for the registry (list of existing time buckets), and repair of its entries.
//!
//! The calendar determines the content of an entry, so each entry is right or wrong by itself. The
//! registry decides only which buckets exist, and may contain buckets without rows. An entry is written
//! before the first row of its bucket. If a bucket has rows but no entry, this is therefore a fault and
//! not a write under way. The stage of rows finds such buckets.

use std::sync::Arc;

use recto_model::RowRef;
use recto_protocol::buckets::registration_stamp;
use recto_store::{ScanRead, Stamp};

use super::fault::{Fault, FaultKind, FaultOutcome};
use super::{BucketCheck, Suspect};
use crate::error::Result;
use crate::limits::MAX_STEP_TIME;
use crate::place::{PieceStore, Place};
use crate::registry::{START, read_entry};
use crate::times::{TimeBucket, Times};

/// Reason why an entry of the registry was not repaired.
const NEWER: &str = "the write timestamp of the entry or of its deletion is in the future: repair again \
    after that time";

impl BucketCheck {
    /// Checks entries of the registry.
    pub(super) async fn check_entries(&mut self, read: &ScanRead) -> Result<()> {
        let Some(times) = self.bucketed.pieced.times.clone() else {
            return Ok(());
        };
        let mut last: Option<Arc<Place>> = None;
        for row in read.rows.iter() {
            let Some(place) = self.place_of(row, "recto_times")? else {
                continue;
            };
            let start = row.get(START).unwrap_or_default();
            // Report a missing root mark only at the first entry of the partition, because an
            // interrupted check may continue within a partition.
            if last.is_none_or(|last| last.id != place.id)
                && !self.is_marked(&place).await?
                && self.engine.begins_at(&place, start).await?
            {
                self.report_unless_marked(&place).await?;
            }
            self.check_entry((&place, &times), start, row).await?;
            last = Some(place);
        }
        Ok(())
    }

    /// Checks one entry of the registry, and repairs the entry if requested.
    async fn check_entry(
        &mut self,
        (place, times): (&Place, &Times),
        start: &[u8],
        row: RowRef<'_>,
    ) -> Result<()> {
        let number = read_entry(row).map(|entry| entry.bucket);
        let right = times.bucket_of(start).ok();
        let right = right.filter(|right| right.start == start);
        if right.as_ref().is_some_and(|right| Some(right.bucket) == number) {
            return Ok(());
        }
        let mut outcome = FaultOutcome::Left;
        if self.mends {
            outcome = self.engine.put_entry_right(place, start, right.as_ref()).await?;
        }
        let what = match right {
            Some(_) => "an entry of the registry has a wrong bucket number",
            None => "an entry of the registry does not begin at a bucket",
        };
        self.faults.push(Fault {
            bucket: right.map(|right| right.bucket).or(number),
            detail: what.to_owned(),
            ..Fault::of(place, FaultKind::Damaged, outcome)
        });
        Ok(())
    }
}

impl PieceStore {
    /// Examines a bucket again that may have rows but no entry. Returns no fault for a bucket below the retention
    /// bound: the stage of rows reports its rows. Reports a bucket once, at the first of its shards with rows.
    pub(super) async fn settle_entry(&self, suspect: &Suspect, mends: bool) -> Result<Option<Fault>> {
        let (place, lies) = (&suspect.place, suspect.lies);
        let times = place.pieced.times.as_ref();
        let Some(bucket) = times.and_then(|times| times.numbered(lies.0)) else {
            return Ok(None);
        };
        let (has_entry, span) = (self.has_entry(place, &bucket.start).await?, bucket.span());
        let floor = self.floor_beside(place, true).await?;
        let is_dropped = floor.is_some_and(|floor| floor.hides_all(&span));
        if has_entry || is_dropped || !self.is_first_met(place, lies, &span).await? {
            return Ok(None);
        }
        let mut outcome = FaultOutcome::Left;
        if mends {
            self.mark(place).await?;
            outcome = self.put_entry_right(place, &bucket.start, Some(&bucket)).await?;
        }
        Ok(Some(Fault {
            bucket: Some(bucket.bucket),
            ..Fault::of(place, FaultKind::Unregistered, outcome)
        }))
    }

    /// Writes the right entry at the start of a bucket. If `right` is `None`, no bucket begins at
    /// `start`, and the function deletes the entry.
    async fn put_entry_right(
        &self,
        place: &Place,
        start: &[u8],
        right: Option<&TimeBucket>,
    ) -> Result<FaultOutcome> {
        let there = self.entry_at(place, start, self.deadline(MAX_STEP_TIME)).await?;
        let there = there.map(|there| there.registration());
        let stamp = Stamp(registration_stamp(there, (self.stamps)().0, self.protocol));
        let write = match right {
            Some(right) => self.entry_of(place, right, stamp),
            None => self.without_entries(place, [start], stamp),
        };
        self.write_step(write).await?;
        let is = self.entry_at(place, start, self.deadline(MAX_STEP_TIME)).await?;
        let is = is.map(|stored| stored.entry.map(|entry| (entry.bucket, entry.is_removed)));
        let is_right = is == right.map(|right| Some((right.bucket, false)));
        Ok(if is_right {
            FaultOutcome::Mended
        } else {
            FaultOutcome::stays(NEWER)
        })
    }
}
