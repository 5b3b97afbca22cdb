//! Whether views are as the records that they are of.
//!
//! Base table and view are read whole, in the store's own order, and compared by fingerprints of entries, in as many passes
//! as the memory needs. What seems wrong is read again, the record after the entry, since both are written meanwhile. What is
//! wrong then is told, and mended if that is asked for.
//!
//! | module | holds |
//! |---|---|
//! | `fingerprints` | what is compared |
//! | `steps` | whole tables |
//! | `suspects` | what seems wrong |

mod fingerprints;
mod steps;
mod suspects;

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::Table;
use recto_store::{ReadOptions, ScanRead, Snapshot};
use recto_views::{Difference, ViewNumber, ViewState};

use crate::beside::Beside;
use crate::catalog::views::state_text;
use crate::core::{CollectionCore, no_collection};
use crate::error::Result;
use crate::pace::Pace;
use crate::session::{Drift, Progress, VerifiedView, VerifyReport, VerifyRequest, ViewProgress};
use crate::shared::Shared;
use fingerprints::{Fingerprint, Pass};
use steps::{Place, Steps};
pub(crate) use suspects::undisturbed;
use suspects::{Outcome, Suspect, Wrong};

/// The memory for fingerprints unless told otherwise.
const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
/// Rows read of a table at a time.
const STEP_ROWS: u32 = 1_000;
/// What seems wrong is looked at as soon as it is so much.
const MAX_SUSPECTS: usize = 256;
/// How much of it is looked at side by side in a remote store.
const PARALLEL_LOOKS: usize = 16;
/// The most examples of what is wrong with a view.
const MAX_EXAMPLES: usize = 20;

/// How views are compared with their records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verification {
    /// Whether what is wrong is mended.
    pub(crate) mends: bool,
    pub(crate) memory_bytes: u64,
    pub(crate) rows_per_second: Option<u32>,
}

impl Default for Verification {
    fn default() -> Self {
        Self {
            mends: false,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            rows_per_second: None,
        }
    }
}

/// The words for what can be wrong.
fn word(kind: Difference) -> &'static str {
    match kind {
        Difference::Missing => "missing",
        Difference::Orphan => "orphan",
        Difference::Differing => "differing",
    }
}

impl Verification {
    /// Compares one view of a collection with its records; none if the collection does not write it.
    ///
    /// # Errors
    /// The store cannot be read, or written; a row of the base table is damaged.
    pub(crate) async fn view(
        &self,
        core: &Arc<CollectionCore>,
        number: ViewNumber,
        told: ViewProgress,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Option<VerifiedView>> {
        let Some(beside) = Beside::new(core, number) else {
            return Ok(None);
        };
        let mut comparison = Comparison {
            found: VerifiedView {
                collection: told.collection.clone(),
                view: told.view.clone(),
                ..VerifiedView::default()
            },
            pace: Pace::new(self.rows_per_second, &core.shared.environment),
            suspects: Vec::new(),
            is_first: true,
            how: self,
            beside,
            told,
            progress,
        };
        let mut pass = Some(Pass::first(self.memory_bytes));
        while let Some(mut one) = pass {
            comparison.run(&mut one).await?;
            pass = one.next();
        }
        Ok(Some(comparison.found))
    }
}

/// Compares views that are read with their records, as is asked.
///
/// # Errors
/// There is no such collection. As [`Verification::view`].
pub(crate) async fn verify(
    shared: &Arc<Shared>,
    request: &VerifyRequest,
    progress: Progress<'_, ViewProgress>,
) -> Result<VerifyReport> {
    let held = shared.held();
    let schema = &held.recorded.schema;
    if let Some(name) = request
        .collections
        .iter()
        .find(|name| schema.collection(name).is_none())
    {
        return Err(no_collection(schema, name));
    }
    let how = Verification {
        mends: request.repair,
        memory_bytes: request.memory_bytes.unwrap_or(DEFAULT_MEMORY_BYTES),
        rows_per_second: request.rows_per_second,
    };
    let mut report = VerifyReport::default();
    let asked = |name: &String| request.collections.is_empty() || request.collections.contains(name);
    for collection in schema.collections.iter().filter(|one| asked(&one.name)) {
        held.check_table(&collection.name)?;
        let core = CollectionCore::new(Arc::clone(shared), &held, Arc::clone(collection));
        let core = Arc::new(core);
        for kept in held.recorded.views.of(&collection.name) {
            let (view, state) = (&kept.view.name, state_text(kept.state));
            if kept.state != ViewState::Ready {
                let line = format!("view {view} of collection {}: it is {state}", collection.name);
                report.left_out.push(line);
                continue;
            }
            let told = ViewProgress {
                collection: collection.name.clone(),
                view: view.clone(),
                step: "verifying".to_owned(),
                ..ViewProgress::default()
            };
            let found = how.view(&core, ViewNumber(kept.number), told, progress).await?;
            report.views.extend(found);
        }
    }
    Ok(report)
}

/// A view that is being compared.
struct Comparison<'a> {
    how: &'a Verification,
    beside: Beside,
    told: ViewProgress,
    progress: Progress<'a, ViewProgress>,
    pace: Pace,
    found: VerifiedView,
    suspects: Vec<Suspect>,
    /// Whether rows are counted: each pass reads all of them.
    is_first: bool,
}

impl Comparison<'_> {
    async fn run(&mut self, pass: &mut Pass) -> Result<()> {
        // Where a store can be read as it was at one moment, both tables are of the same.
        let snapshot = self.beside.core.shared.store.snapshot()?;
        let (places, records) = self.meet_records(pass, &snapshot).await?;
        self.take_entries(pass, &snapshot).await?;
        self.settle().await?;
        for place in pass.places_left() {
            let read = records.at(&places[place as usize]).await?;
            self.suspect_records(pass, &read)?;
            self.settle().await?;
        }
        self.is_first = false;
        Ok(())
    }

    /// Reads all records, and keeps the fingerprints of the entries that they should have.
    async fn meet_records(
        &mut self,
        pass: &mut Pass,
        snapshot: &Arc<dyn Snapshot>,
    ) -> Result<(Vec<Place>, Steps)> {
        let records = self.steps(snapshot, self.beside.base());
        let (mut steps, mut places) = (records.all().await?, Vec::new());
        while let Some((place, read)) = steps.try_next().await? {
            let number = u32::try_from(places.len()).unwrap_or(u32::MAX);
            for index in 0..read.rows.len() {
                if let Some(fingerprint) = self.expected(&read, index)? {
                    self.found.records += u64::from(self.is_first);
                    pass.meet(fingerprint, number);
                }
            }
            places.push(place);
            self.tell(read.rows.len()).await;
        }
        self.told.total = Some(self.told.rows.saturating_mul(2));
        Ok((places, records))
    }

    /// The fingerprint of the entry that a row of the base table should have.
    fn expected(&self, read: &ScanRead, index: usize) -> Result<Option<Fingerprint>> {
        let beside = &self.beside;
        let written = beside.written(&read.stamps, &read.ends_in_seconds, index);
        let Some(row) = beside.row(read.rows.row(index), written)? else {
            return Ok(None);
        };
        if row.has_expired(beside.core.shared.environment.now_micros()) {
            return Ok(None);
        }
        let entry = beside.entry(&row);
        Ok(entry.map(|entry| {
            let version = beside.has_versions().then_some(row.version);
            Fingerprint::of(&entry.key.key, version, &entry.cells)
        }))
    }

    /// Reads the view, and takes out what it should have. What it should not have is suspect.
    async fn take_entries(&mut self, pass: &mut Pass, snapshot: &Arc<dyn Snapshot>) -> Result<()> {
        let mut steps = self.steps(snapshot, self.beside.view.table()).all().await?;
        while let Some((_, read)) = steps.try_next().await? {
            for row in read.rows.iter() {
                let seen = self.beside.view.seen(row);
                let has_version = seen.is_some();
                let Some(seen) = seen.or_else(|| self.beside.view.unversioned(row)) else {
                    continue;
                };
                let version = self.beside.has_versions().then_some(seen.version);
                let fingerprint = Fingerprint::of(&seen.key.key, version, &seen.cells);
                if pass.is_of(fingerprint) && !(pass.take(fingerprint) && has_version) {
                    self.suspects.push(Suspect::Entry(seen.key.key));
                }
            }
            self.found.entries += read.rows.len() as u64 * u64::from(self.is_first);
            self.tell(read.rows.len()).await;
            if self.suspects.len() >= MAX_SUSPECTS {
                self.settle().await?;
            }
        }
        Ok(())
    }

    /// Of a step that was read once more, the records whose entries were not met are suspect.
    fn suspect_records(&mut self, pass: &Pass, read: &ScanRead) -> Result<()> {
        for index in 0..read.rows.len() {
            if self.expected(read, index)?.is_some_and(|one| pass.has(one)) {
                let key = self.beside.key_of_row(read.rows.row(index));
                self.suspects.push(Suspect::Record(key));
            }
        }
        Ok(())
    }

    /// Looks at what is suspect, tells what is wrong, and mends it.
    async fn settle(&mut self) -> Result<()> {
        let suspects = std::mem::take(&mut self.suspects);
        if suspects.is_empty() {
            return Ok(());
        }
        let beside = self.beside.clone();
        let mends = self.how.mends;
        let _undisturbed = if mends {
            undisturbed(&beside.core.shared).await?
        } else {
            None
        };
        let at_once = if beside.is_remote() { PARALLEL_LOOKS } else { 1 };
        let looks = suspects
            .into_iter()
            .map(|suspect| suspects::settle(beside.clone(), suspect, mends));
        let wrong: Vec<Option<Wrong>> = stream::iter(looks).buffered(at_once).try_collect().await?;
        for wrong in wrong.iter().flatten() {
            self.note(wrong);
        }
        Ok(())
    }

    fn note(&mut self, wrong: &Wrong) {
        let found = &mut self.found;
        let count = match wrong.kind {
            Difference::Missing => &mut found.missing,
            Difference::Orphan => &mut found.orphan,
            Difference::Differing => &mut found.differing,
        };
        *count += 1;
        found.mended += u64::from(wrong.outcome == Outcome::Mended);
        if found.examples.len() < MAX_EXAMPLES {
            found.examples.push(Drift {
                kind: word(wrong.kind).to_owned(),
                key: self.beside.key_text(&wrong.record),
                outcome: match wrong.outcome {
                    Outcome::Left => String::new(),
                    Outcome::Mended => "mended".to_owned(),
                    Outcome::Stays(why) => why.to_owned(),
                },
            });
        }
    }

    fn steps(&self, snapshot: &Arc<dyn Snapshot>, table: &Arc<Table>) -> Steps {
        let shared = &self.beside.core.shared;
        Steps {
            snapshot: Arc::clone(snapshot),
            table: Arc::clone(table),
            options: ReadOptions {
                stamps: true,
                ..shared.read_options()
            },
            rows: self.pace.step_rows(STEP_ROWS),
            is_remote: self.beside.is_remote(),
        }
    }

    /// So many rows more were read.
    async fn tell(&mut self, rows: usize) {
        self.told.rows += rows as u64;
        (self.progress)(self.told.clone());
        let wait = self.pace.after(rows as u64, &self.beside.core.shared.environment);
        tokio::time::sleep(wait).await;
    }
}
