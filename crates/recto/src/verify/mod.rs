//! Comparison of views with their records, and checks of buckets.
//!
//! The base table and the view are read as a whole, in the order of the store. Fingerprints of
//! entries are compared, in as many passes as the memory requires. Both tables may be written
//! during the comparison, so differences are read again: first the entry, then its record. The
//! remaining differences are reported, and repaired if requested.
//!
//! Several views are compared concurrently, each in its own passes. An interrupted comparison can
//! be resumed without repeating completed passes.
//!
//! | module | content |
//! |---|---|
//! | `buckets` | check of buckets, before the views |
//! | `claims` | comparison of unique values, after the views |
//! | `together` | concurrent comparison of views |
//! | `comparison` | comparison of one view |
//! | `fingerprints` | fingerprints of entries, in passes |
//! | `steps` | scans of whole tables |
//! | `suspects` | second reads and repairs of differences |
//! | `group_repair` | repairs that need one write each, in groups |
//! | `place` | checkpoint from which a comparison resumes |

mod buckets;
mod claims;
mod comparison;
mod fingerprints;
mod group_repair;
mod place;
mod steps;
mod suspects;
mod together;

use std::sync::Arc;

use recto_model::schema::AttachedTable;
use recto_protocol::views::{ViewNumber, ViewState};

use crate::catalog::views::KeptViews;
use crate::core::{CollectionCore, no_collection};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Progress, VerifiedView, VerifyReport, VerifyRequest, ViewProgress};
use crate::shared::Shared;
#[cfg(feature = "fuzzing")]
pub use place::place;
use place::{Compared, Reached};
pub(crate) use steps::Steps;
pub(crate) use suspects::undisturbed;
use together::Together;

/// Word in reports for a record that a view or constraint cannot store.
pub(crate) const MISFIT: &str = "misfit";
/// Default memory of a comparison in bytes, for the fingerprints of entries and the positions of
/// scan steps, of all views together.
const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
/// Options of a comparison of views with their records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verification {
    /// True if differences are repaired.
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

impl Verification {
    /// Compares views of one collection, given by their ids, with its records. Skips views that
    /// writes of the collection do not maintain.
    ///
    /// # Errors
    /// The store cannot be read or written, or a row of the base table is damaged.
    pub(crate) async fn views(
        &self,
        core: &Arc<CollectionCore>,
        views: impl IntoIterator<Item = (ViewNumber, String)>,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Vec<VerifiedView>> {
        let shared = &core.shared;
        let views = views
            .into_iter()
            .map(|(number, view)| untouched(&core.definition.name, number.0, &view));
        let compared = Compared::begun(0, self.mends, shared, (views.collect(), Vec::new()));
        let together = Together {
            how: self,
            shared,
            cores: vec![Arc::clone(core); compared.views.len()],
            compared,
            progress,
            tells_places: false,
        };
        together.run().await
    }
}

/// Returns the progress of the comparison of a view that has not begun.
fn untouched(collection: &str, number: u64, view: &str) -> Reached {
    Reached {
        number,
        next: Some(0),
        found: VerifiedView {
            collection: collection.to_owned(),
            view: view.to_owned(),
            ..VerifiedView::default()
        },
    }
}

/// Returns a note that an attached collection is not compared, or an error if the request names the
/// collection. The views of such a collection belong to its owner, and its records have no versions
/// to compare.
fn not_compared(name: &str, table: &AttachedTable, is_named: bool) -> Result<Option<String>> {
    let line = format!(
        "collection {name} is attached to table {table}: its views are their owner's, and not compared"
    );
    if !is_named {
        return Ok(Some(line));
    }
    Err(Error::new(ErrorKind::NotOffered, line).with_hint("name other collections, or none for all others"))
}

/// Compares the number of records that each view cannot store with the number that the schema
/// records. A repair records the new number. Queries of a view that lacks records are then rejected
/// or explained.
async fn compare_misfits(
    shared: &Shared,
    how: &Verification,
    numbers: &[u64],
    views: &mut [VerifiedView],
) -> Result<()> {
    let held = shared.held();
    let recorded = &held.recorded.views;
    for (number, view) in numbers.iter().zip(views.iter_mut()) {
        view.misfits_recorded = recorded.misfits_of(*number);
    }
    if !how.mends || views.iter().all(|view| view.misfits == view.misfits_recorded) {
        return Ok(());
    }
    let record = |recorded: &mut KeptViews| {
        let mut is_changed = false;
        for (number, view) in numbers.iter().zip(&*views) {
            is_changed |= recorded.set_misfits(*number, view.misfits);
        }
        is_changed
    };
    shared.record_views(record).await?;
    for view in views {
        view.misfits_recorded = view.misfits;
    }
    Ok(())
}

/// Checks buckets, and compares readable views with their records, according to the request.
///
/// # Errors
/// A collection does not exist. The checkpoint belongs to another comparison. The store cannot be read or written. A
/// row of a base table is damaged.
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
    let (mut report, mut cores, mut views) = (VerifyReport::default(), Vec::new(), Vec::new());
    let (mut all, mut looked) = (Vec::new(), Vec::new());
    let asked = |name: &String| request.collections.is_empty() || request.collections.contains(name);
    for collection in schema.collections.iter().filter(|one| asked(&one.name)) {
        if let Some(table) = &collection.attached {
            let is_named = request.collections.contains(&collection.name);
            report
                .left_out
                .extend(not_compared(&collection.name, table, is_named)?);
            continue;
        }
        held.check_table(&collection.name)?;
        let core = CollectionCore::new(Arc::clone(shared), &held, Arc::clone(collection));
        let core = Arc::new(core);
        looked.extend(buckets::untouched(&core));
        all.push(Arc::clone(&core));
        for kept in held.recorded.views.of(&collection.name) {
            let (view, state) = (&kept.view.name, kept.told_state());
            if kept.state == ViewState::Ready && kept.is_current() {
                cores.push(Arc::clone(&core));
                views.push(untouched(&collection.name, kept.number, view));
            } else {
                let line = format!("view {view} of collection {}: it is {state}", collection.name);
                report.left_out.push(line);
            }
        }
    }
    let mut compared = Compared::begun(held.recorded.generation, how.mends, shared, (views, looked));
    let mut begun_at_seconds = None;
    if let Some(resume) = &request.resume {
        compared = compared.gone_on_from(resume, shared).await?;
        begun_at_seconds = Some(compared.begun_at_seconds);
    }
    let core_of = |name: &str| all.iter().find(|core| core.definition.name == name);
    let core_of = |name: &str| core_of(name).map(|core| &**core);
    buckets::look(&how, shared, core_of, &mut compared, progress).await?;
    report.buckets = compared.buckets.iter().map(|one| one.found.clone()).collect();
    let together = Together {
        how: &how,
        shared,
        cores,
        compared,
        progress,
        tells_places: true,
    };
    let mut numbers: Vec<u64> = together.compared.views.iter().map(|one| one.number).collect();
    report.views = together.run().await?;
    for core in &all {
        let claims = claims::Claims::new(&how, core, progress);
        for (number, found) in claims.compare(&mut report.left_out).await? {
            numbers.push(number);
            report.views.push(found);
        }
    }
    compare_misfits(shared, &how, &numbers, &mut report.views).await?;
    report.begun_seconds_ago =
        begun_at_seconds.map(|begun| shared.environment.now_seconds().saturating_sub(begun));
    Ok(report)
}
