//! Comparison of one view with its records, in passes that fit into memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::TryStreamExt;
use recto_model::Table;
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::{Difference, EntryOutcome, Misfit};
use recto_store::{ReadOptions, ScanRead, Snapshot};
use tokio::sync::{Mutex, mpsc};

use super::MISFIT;
use super::fingerprints::{Fingerprint, Pass};
use super::place::Reached;
use super::steps::{Places, Steps};
use super::suspects::{self, FoundSuspect, Outcome, Suspect, Wrong, undisturbed};
use crate::beside::ViewComparer;
use crate::error::Result;
use crate::misfits::{count, list};
use crate::pace::Pace;
use crate::session::{Drift, VerifiedView};

/// Maximum number of rows of a range that one step reads.
const STEP_ROWS: u32 = 1_000;
/// Maximum size of the second read of a step, as a multiple of the first read. New records may be
/// among the records of the first read, so the second read may be longer. A record that the second
/// read does not find was changed or deleted.
const FURTHER: usize = 2;
/// Maximum size in bytes of the rows of a range that one step reads.
const STEP_BYTES: u64 = 1 << 20;
/// Number of suspected differences that are read again together, so that they share the pause
/// before the read.
const MAX_SUSPECTS: usize = 65_536;
/// Maximum number of differences of a view that the report lists.
const MAX_EXAMPLES: usize = 20;
/// Divisor of the memory of a comparison. One part in this number stores the positions of scan
/// steps, and the rest stores fingerprints of entries.
const PLACES_PART: u64 = 8;

/// Progress report of the comparison of one view.
#[derive(Debug)]
pub(super) enum ComparisonProgress {
    /// Number of rows that were read since the last report.
    Rows(u64),
    /// Estimated number of rows that remain to be read.
    Left(u64),
    /// Progress of the view, with which an interrupted comparison resumes.
    Reached(Reached),
}

/// Maximum number of misfits (records that the view cannot store) that the report lists. It leaves
/// room for other examples.
const MAX_MISFIT_EXAMPLES: usize = MAX_EXAMPLES / 2;

/// Entry that the view should have for a record.
enum Expected {
    /// No entry, because a rule leaves the record out or the record has expired.
    Nothing,
    /// Entry with this key and fingerprint (hash of the key, the version and the cells).
    Entry(KeyCells, Fingerprint),
    /// No entry, although the record should have one: the view cannot store it.
    Misfit(Misfit),
}

/// Returns the word for a kind of difference in reports.
fn word(kind: Difference) -> &'static str {
    match kind {
        Difference::Missing => "missing",
        Difference::Orphan => "orphan",
        Difference::Differing => "differing",
    }
}

/// Comparison of one view with its records.
pub(super) struct Comparison {
    pub(super) beside: ViewComparer,
    pub(super) mends: bool,
    /// Throttle (limit of rows per second) that all concurrent comparisons share.
    pub(super) pace: Arc<Mutex<Pace>>,
    pub(super) memory_bytes: u64,
    pub(super) reached: Reached,
    /// Index of the view in the list of compared views.
    pub(super) number: usize,
    pub(super) hears: mpsc::Sender<(usize, ComparisonProgress)>,
    pub(super) suspects: Vec<FoundSuspect>,
}

impl Comparison {
    /// Compares the rest of the view in passes, each of which fits into memory.
    pub(super) async fn run(mut self) -> Result<()> {
        while let Some(first) = self.reached.next {
            let places_bytes = self.memory_bytes / PLACES_PART;
            let mut pass = Pass::from(first, self.memory_bytes - places_bytes);
            self.pass(&mut pass, Places::new(places_bytes)).await?;
            self.reached.next = pass.next();
            self.say(ComparisonProgress::Reached(self.reached.clone())).await;
        }
        Ok(())
    }

    async fn pass(&mut self, pass: &mut Pass, mut places: Places) -> Result<()> {
        // Read both tables from one snapshot, so that a store with snapshots shows
        // them at the same time.
        let snapshot = self.beside.core.shared.store.snapshot()?;
        let records = self.steps(&snapshot, self.beside.base()).await;
        self.meet_records(pass, &records, &mut places).await?;
        self.take_entries(pass, &snapshot).await?;
        self.settle().await?;
        if pass.is_empty() {
            return Ok(());
        }
        match pass.places_left(places.count()) {
            Some(left) => self.look_at_places(pass, &records, &places, left).await,
            None => self.look_everywhere(pass, &records).await,
        }
    }

    /// Reads the scan steps again that contained records whose entries were not found in the view.
    async fn look_at_places(
        &mut self,
        pass: &Pass,
        records: &Steps,
        places: &Places,
        left: BTreeMap<u32, usize>,
    ) -> Result<()> {
        let places = left
            .into_iter()
            .filter_map(|(number, left)| Some(((number, left), places.of(number)?.clone())));
        let mut again = records.again(places.collect());
        while let Some(((number, mut left), mut place, mut read)) = again.try_next().await? {
            let mut rows = 0;
            loop {
                rows += read.rows.len();
                left = left.saturating_sub(self.suspect_records(pass, &read, Some(number))?);
                // New records may have pushed older records into the next step, and a step may have
                // ended early, so continue, but not without limit.
                let is_enough = left == 0 || rows >= FURTHER * records.rows as usize;
                let Some(next) = place.next(&read).filter(|_| !is_enough) else {
                    break;
                };
                read = records.at(&next).await?;
                place = next;
            }
            self.settle_if_many().await?;
        }
        self.settle().await
    }

    async fn look_everywhere(&mut self, pass: &Pass, records: &Steps) -> Result<()> {
        let mut again = records.all().await?;
        while let Some((_, read)) = again.try_next().await? {
            self.suspect_records(pass, &read, None)?;
            self.settle_if_many().await?;
        }
        self.settle().await
    }

    /// Returns whether the current pass is the first. Only the first pass counts rows, because each
    /// pass reads all rows.
    fn is_first(&self) -> bool {
        self.reached.next == Some(0)
    }

    /// Reads all records, and stores the fingerprints of the entries that the view should have.
    async fn meet_records(&mut self, pass: &mut Pass, records: &Steps, places: &mut Places) -> Result<()> {
        let (mut steps, mut rows) = (records.all().await?, 0);
        while let Some((place, read)) = steps.try_next().await? {
            let number = places.keep(place);
            for index in 0..read.rows.len() {
                match self.expected(&read, index)? {
                    Expected::Misfit(misfit) if self.is_first() => self.note_misfit(misfit, &read, index),
                    Expected::Nothing | Expected::Misfit(_) => {}
                    Expected::Entry(_, fingerprint) => {
                        self.reached.found.records += u64::from(self.is_first());
                        pass.meet(fingerprint, number);
                    }
                }
            }
            rows += read.rows.len() as u64;
            self.tell(read.rows.len()).await;
        }
        // Estimate the remaining rows. The view has as many entries as there are records, and each
        // remaining pass reads all records and all entries.
        let passes = 1.0 + 2.0 * pass.left_after();
        #[allow(clippy::cast_sign_loss)] // it is positive
        self.say(ComparisonProgress::Left((rows as f64 * passes) as u64))
            .await;
        Ok(())
    }

    /// Returns the entry that the view should have for a row of the base table.
    fn expected(&self, read: &ScanRead, index: usize) -> Result<Expected> {
        let beside = &self.beside;
        let written = beside.written(&read.stamps, &read.ends_in_seconds, index);
        let Some(row) = beside.row(read.rows.row(index), written)? else {
            return Ok(Expected::Nothing);
        };
        if row.has_expired(beside.core.shared.environment.now_micros()) {
            return Ok(Expected::Nothing);
        }
        let entry = match beside.outcome(&row) {
            Some(EntryOutcome::Entry(entry)) => entry,
            Some(EntryOutcome::DoesNotFit(misfit)) => return Ok(Expected::Misfit(misfit)),
            Some(EntryOutcome::LeftOutByRule) | None => return Ok(Expected::Nothing),
        };
        if beside.is_late(&entry.key.key)? {
            return Ok(Expected::Nothing);
        }
        let version = beside.has_versions().then_some(row.version);
        let fingerprint = Fingerprint::of(&entry.key.key, version, &entry.cells);
        Ok(Expected::Entry(entry.key.key, fingerprint))
    }

    /// Counts a record that the view cannot store.
    fn note_misfit(&mut self, misfit: Misfit, read: &ScanRead, index: usize) {
        let found = &mut self.reached.found;
        count(&mut found.misfits, misfit.cause);
        if found.misfits.total() <= MAX_MISFIT_EXAMPLES as u64 {
            let listed = list(&self.beside.core, read.rows.row(index), misfit);
            found.examples.push(Drift {
                kind: MISFIT.to_owned(),
                outcome: listed.reason(),
                key: listed.key,
            });
        }
    }

    /// Reads the view. Removes the fingerprints of expected entries that it finds. Other entries
    /// become suspected differences.
    async fn take_entries(&mut self, pass: &mut Pass, snapshot: &Arc<dyn Snapshot>) -> Result<()> {
        let entries = self.steps(snapshot, self.beside.view.table()).await;
        let mut steps = entries.all().await?;
        while let Some((_, read)) = steps.try_next().await? {
            for row in read.rows.iter() {
                let seen = self.beside.view.seen(row);
                let has_version = seen.is_some();
                let Some(seen) = seen.or_else(|| self.beside.view.unversioned(row)) else {
                    continue;
                };
                if self.beside.is_late(&seen.key.key)? {
                    continue;
                }
                let version = self.beside.has_versions().then_some(seen.version);
                let fingerprint = Fingerprint::of(&seen.key.key, version, &seen.cells);
                if pass.is_of(fingerprint) && !(pass.take(fingerprint) && has_version) {
                    self.suspect(Suspect::Entry(seen.key.key));
                }
            }
            self.reached.found.entries += read.rows.len() as u64 * u64::from(self.is_first());
            self.tell(read.rows.len()).await;
            self.settle_if_many().await?;
        }
        Ok(())
    }

    /// Adds the records of a scan step whose entries were not found to the suspected differences.
    /// If `place` is given, adds only records whose fingerprints were found in the scan step with
    /// this index. Returns the number of added records.
    fn suspect_records(&mut self, pass: &Pass, read: &ScanRead, place: Option<u32>) -> Result<usize> {
        let before = self.suspects.len();
        for index in 0..read.rows.len() {
            if let Expected::Entry(entry, fingerprint) = self.expected(read, index)?
                && pass.has(fingerprint, place)
            {
                let record = self.beside.key_of_row(read.rows.row(index));
                self.suspect(Suspect::Missing { record, entry });
            }
        }
        Ok(self.suspects.len() - before)
    }

    fn suspect(&mut self, suspect: Suspect) {
        let found_nanos = self.beside.core.shared.environment.monotonic_nanos();
        self.suspects.push((suspect, found_nanos));
    }

    /// Reads suspected differences again, reports the entries that are still wrong, and repairs
    /// them if requested.
    async fn settle(&mut self) -> Result<()> {
        let suspects = std::mem::take(&mut self.suspects);
        if suspects.is_empty() {
            return Ok(());
        }
        let beside = self.beside.clone();
        let mends = self.mends;
        let _undisturbed = if mends {
            undisturbed(&beside.core.shared).await?
        } else {
            None
        };
        for wrong in &suspects::settle_all(&beside, suspects, mends).await? {
            note(&mut self.reached.found, wrong, &self.beside);
        }
        Ok(())
    }

    /// Settles the suspected differences, if there are [`MAX_SUSPECTS`] or more: reads them again,
    /// and repairs them if requested.
    async fn settle_if_many(&mut self) -> Result<()> {
        if self.suspects.len() < MAX_SUSPECTS {
            return Ok(());
        }
        self.settle().await
    }

    async fn steps(&self, snapshot: &Arc<dyn Snapshot>, table: &Arc<Table>) -> Steps {
        let shared = &self.beside.core.shared;
        Steps {
            snapshot: Arc::clone(snapshot),
            table: Arc::clone(table),
            options: ReadOptions {
                stamps: true,
                max_bytes: STEP_BYTES,
                ..shared.read_options()
            },
            rows: self.pace.lock().await.step_rows(STEP_ROWS),
            is_remote: self.beside.is_remote(),
            environment: shared.environment.clone(),
        }
    }

    /// Reports the rows that were read, and waits as the throttle requires.
    async fn tell(&self, rows: usize) {
        let rows = rows as u64;
        self.say(ComparisonProgress::Rows(rows)).await;
        let environment = &self.beside.core.shared.environment;
        let wait = self.pace.lock().await.after(rows, environment);
        tokio::time::sleep(wait).await;
    }

    async fn say(&self, said: ComparisonProgress) {
        // Ignore a failed send, because the receiver exists as long as the comparison runs.
        let _ = self.hears.send((self.number, said)).await;
    }
}

fn note(found: &mut VerifiedView, wrong: &Wrong, beside: &ViewComparer) {
    let count = match wrong.kind {
        Difference::Missing => &mut found.missing,
        Difference::Orphan => &mut found.orphan,
        Difference::Differing => &mut found.differing,
    };
    *count += 1;
    found.repaired += u64::from(wrong.outcome == Outcome::Repaired);
    if found.examples.len() < MAX_EXAMPLES {
        found.examples.push(Drift {
            kind: word(wrong.kind).to_owned(),
            key: beside.key_text(&wrong.record),
            outcome: match wrong.outcome {
                Outcome::Left => String::new(),
                Outcome::Repaired => "repaired".to_owned(),
                Outcome::Stays(why) => why.to_owned(),
            },
        });
    }
}
