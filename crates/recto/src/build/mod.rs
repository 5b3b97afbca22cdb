//! Building of new views until they are ready, and dropping of views that are no longer declared.
//!
//! [`recto_protocol::views::next_step`] returns the next step from the recorded state of a view. An
//! interrupted process continues when it starts again.
//!
//! | module | content |
//! |---|---|
//! | `fill` | entries of the existing records in new views |
//! | `unique` | claims (reservations of unique values) of the existing records |

mod fill;
mod unique;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use recto_model::schema::Collection;
use recto_protocol::views::building::RETIRING_MICROS;
use recto_protocol::views::{
    BuildStep, Built, Generation, Progress as Known, ViewNumber, ViewState, next_step,
};

use crate::catalog::Recorded;
use crate::catalog::change::{TableChange, change_table};
use crate::catalog::views::{KeptView, KeptViews};
use crate::core::CollectionCore;
use crate::covered::Covered;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{ApplyOptions, MisfitCounts, Progress, ViewProgress, ViewStatus};
use crate::shared::Shared;
use crate::verify::{MISFIT, Verification};
use fill::Fill;

/// Work that builds new views and drops removed views, with its options.
pub(crate) struct Build<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) options: &'a ApplyOptions,
    pub(crate) progress: Progress<'a, ViewProgress>,
}

/// Next step for views of one collection that are in the same state.
struct Due {
    collection: String,
    numbers: Vec<u64>,
    step: BuildStep,
}

/// Progress of the views on which this process has worked, by the id of the view.
type KnownViews = HashMap<u64, Known>;

/// Counts of misfits (records that the view cannot store) of each compared view, by the id of the view.
type CountedMisfits = HashMap<u64, MisfitCounts>;

impl Build<'_> {
    /// Works until every view is ready or dropped, and each record has its claims (reservations of unique
    /// values). The cached schema must be equal to the recorded schema.
    ///
    /// # Errors
    /// The store failed, a view could not be repaired, or records have the same values of unique fields. Another call
    /// continues the work.
    pub(crate) async fn run(&self) -> Result<()> {
        let (mut known, mut misfits) = (KnownViews::new(), CountedMisfits::new());
        loop {
            let recorded = self.shared.held().recorded.clone();
            let Some(due) = due(&recorded.views, &known) else {
                return self.claim_all(&recorded).await;
            };
            self.step(&recorded, &due, &mut known, &mut misfits).await?;
        }
    }

    async fn step(
        &self,
        recorded: &Recorded,
        due: &Due,
        known: &mut KnownViews,
        misfits: &mut CountedMisfits,
    ) -> Result<()> {
        let mut is_now = |now: Known| {
            for number in &due.numbers {
                known.insert(*number, now);
            }
        };
        match due.step {
            BuildStep::Barrier => {
                (self.progress)(self.told(&due.collection, &due.numbers, "waiting"));
                self.barrier(recorded, |step| {
                    (self.progress)(self.told(&due.collection, &due.numbers, step));
                })
                .await?;
                let state = due
                    .numbers
                    .first()
                    .and_then(|number| state_of(&recorded.views, *number));
                is_now(match state {
                    Some(ViewState::Dropping) => Known::Dropping { is_unwritten: true },
                    _ => Known::Building(Built::Passed),
                });
            }
            BuildStep::Fill => {
                if let Some(core) = self.core(recorded, &due.collection) {
                    Fill::new(self, core, &due.numbers).run().await?;
                }
                is_now(Known::Building(Built::Filled));
            }
            BuildStep::Verify => {
                misfits.extend(self.verify(recorded, due).await?);
                is_now(Known::Building(Built::Verified));
            }
            BuildStep::Record(state) => {
                let record = |views: &mut KeptViews| {
                    let is_changed = set(views, &due.numbers, state);
                    for number in due.numbers.iter().filter(|_| state == ViewState::Ready) {
                        views.set_misfits(*number, misfits.get(number).copied().unwrap_or_default());
                    }
                    is_changed
                };
                self.shared.record_views(record).await?;
                if state == ViewState::Ready {
                    Covered::filling(self.shared, &due.collection, &due.numbers)
                        .forget()
                        .await?;
                }
            }
            BuildStep::WaitForReaders => {
                (self.progress)(self.told(&due.collection, &due.numbers, "waiting"));
                if self.shared.store.limits().remote {
                    tokio::time::sleep(Duration::from_micros(RETIRING_MICROS.unsigned_abs())).await;
                }
                is_now(Known::Retiring { is_unread: true });
            }
            BuildStep::DropTable => {
                (self.progress)(self.told(&due.collection, &due.numbers, "dropping"));
                self.drop_tables(recorded, due).await?;
                is_now(Known::Dropped);
            }
            BuildStep::Forget => {
                let forget = |views: &mut KeptViews| forget(views, &due.numbers);
                self.shared.record_views(forget).await?;
            }
            // `apply` creates the table before it records the view, so no table needs to be created here.
            BuildStep::MakeTable | BuildStep::Done => is_now(Known::Ready),
        }
        Ok(())
    }

    /// Waits until no write uses a schema older than the cached one. First waits for the running writes of
    /// this process. Then waits until each other process that writes has announced that it uses the cached
    /// schema.
    async fn barrier(&self, recorded: &Recorded, told: impl Fn(&str)) -> Result<()> {
        drop(self.shared.alone().await);
        if self.shared.store.limits().transactions {
            return Ok(());
        }
        let told = |awaited: &str| told(&format!("waiting for {awaited}"));
        let needed = Generation(recorded.generation);
        self.shared.writer.barrier(needed, told).await
    }

    /// Compares filled views with their records, and repairs differences. Returns the counts of misfits
    /// (records that the view cannot store) of each view. All writers already maintain the views, so no new
    /// misfits appear.
    ///
    /// # Errors
    /// There are misfits and the options do not allow them, the store failed, or a view could not be repaired.
    async fn verify(&self, recorded: &Recorded, due: &Due) -> Result<CountedMisfits> {
        let Some(core) = self.core(recorded, &due.collection) else {
            return Ok(CountedMisfits::new());
        };
        let verification = Verification {
            mends: true,
            rows_per_second: self.options.rows_per_second,
            ..Verification::default()
        };
        let views = recorded.views.of(&due.collection);
        let views = views.filter(|view| due.numbers.contains(&view.number));
        let views = views.map(|view| (ViewNumber(view.number), view.view.name.clone()));
        let views: Vec<(ViewNumber, String)> = views.collect();
        let numbers: Vec<u64> = views.iter().map(|(number, _)| number.0).collect();
        let found = verification.views(&core, views, self.progress).await?;
        let misfit = found.iter().find(|view| view.misfits.total() > 0);
        if let Some(view) = misfit.filter(|_| !self.options.allow_misfits) {
            let example = view.examples.iter().find(|one| one.kind == MISFIT);
            return Err(not_allowed(
                &format!("{}.{}", view.collection, view.view),
                view.misfits,
                example.map(|one| format!("{}: {}", one.key, one.outcome)),
            ));
        }
        let Some(wrong) = found.iter().find(|view| view.left() > 0) else {
            let counts = found.iter().map(|view| view.misfits);
            return Ok(numbers.into_iter().zip(counts).collect());
        };
        Err(Error::new(
            ErrorKind::Store,
            format!(
                "view {} of collection {} was filled, but {} of its entries differ from their records",
                wrong.view,
                wrong.collection,
                wrong.left()
            ),
        )
        .with_hint("apply the schema again to continue; queries do not use the view until its entries match"))
    }

    async fn drop_tables(&self, recorded: &Recorded, due: &Due) -> Result<()> {
        let Some(collection) = recorded.schema.collection(&due.collection) else {
            return Ok(());
        };
        let gone = recorded.views.of(&due.collection);
        for view in gone.filter(|view| due.numbers.contains(&view.number)) {
            let change = TableChange::Drop(view.table_name(collection));
            change_table(&self.shared.store, &self.shared.environment, &change).await?;
        }
        Ok(())
    }

    /// Returns the state of the collection `name`; `None` if the collection no longer exists.
    fn core(&self, recorded: &Recorded, name: &str) -> Option<Arc<CollectionCore>> {
        let definition = recorded.schema.collection(name)?;
        let held = self.shared.held();
        let core = CollectionCore::new(Arc::clone(self.shared), &held, Arc::clone(definition));
        Some(Arc::new(core))
    }

    /// Returns the progress report with which a step begins.
    fn told(&self, collection: &str, numbers: &[u64], step: &str) -> ViewProgress {
        let held = self.shared.held();
        let views = held.recorded.views.of(collection);
        let views = views.filter(|view| numbers.contains(&view.number));
        let names: Vec<&str> = views.map(|view| view.view.name.as_str()).collect();
        ViewProgress {
            collection: collection.to_owned(),
            view: names.join(", "),
            step: step.to_owned(),
            ..ViewProgress::default()
        }
    }
}

/// Returns the error for a view or unique constraint that cannot become ready, because it cannot store some
/// records.
#[cold]
fn not_allowed(name: &str, misfits: MisfitCounts, example: Option<String>) -> Error {
    let example = example
        .map(|example| format!(", for example {example}"))
        .unwrap_or_default();
    Error::new(
        ErrorKind::SchemaMismatch,
        format!("{name} would lack {misfits}{example}"),
    )
    .with_hint(
        "change these records, and apply the schema again to continue; or allow misfits (--allow-misfits)",
    )
}

/// Returns the next step and its views, or `None` if all views are done. Views that are being built come
/// before views that are being dropped, because users wait for them.
fn due(views: &KeptViews, known: &KnownViews) -> Option<Due> {
    let step_of = |view: &KeptView| {
        let recorded = Known::recorded(view.state);
        let known = known.get(&view.number).copied();
        let is_of_state = |known: &Known| std::mem::discriminant(known) == std::mem::discriminant(&recorded);
        let is_dropped = known == Some(Known::Dropped) && view.state == ViewState::Dropping;
        next_step(
            known
                .filter(|known| is_of_state(known) || is_dropped)
                .unwrap_or(recorded),
        )
    };
    let mut waiting: Vec<&KeptView> = views.tables.iter().collect();
    waiting.retain(|view| step_of(view) != BuildStep::Done);
    waiting.sort_by_key(|view| view.state != ViewState::Building);
    let first = waiting.first()?;
    let step = step_of(first);
    let together = waiting.iter().filter(|view| {
        view.collection == first.collection && view.state == first.state && step_of(view) == step
    });
    Some(Due {
        collection: first.collection.clone(),
        numbers: together.map(|view| view.number).collect(),
        step,
    })
}

fn state_of(views: &KeptViews, number: u64) -> Option<ViewState> {
    let mut tables = views.tables.iter();
    Some(tables.find(|view| view.number == number)?.state)
}

/// Sets the state of the views with the ids `numbers`. A view that becomes ready retires the earlier view
/// with its name. Returns whether any state changed.
fn set(views: &mut KeptViews, numbers: &[u64], state: ViewState) -> bool {
    let from = match state {
        ViewState::Ready => ViewState::Building,
        _ => ViewState::Retiring,
    };
    let mut names = Vec::new();
    let those = views.tables.iter_mut();
    for view in those.filter(|view| numbers.contains(&view.number) && view.state == from) {
        view.state = state;
        names.push((view.collection.clone(), view.view.name.clone()));
    }
    if state == ViewState::Ready {
        let replaced = |view: &&mut KeptView| {
            view.state == ViewState::Ready
                && !numbers.contains(&view.number)
                && names.contains(&(view.collection.clone(), view.view.name.clone()))
        };
        views
            .tables
            .iter_mut()
            .filter(replaced)
            .for_each(KeptView::retire);
    }
    !names.is_empty()
}

fn forget(views: &mut KeptViews, numbers: &[u64]) -> bool {
    let before = views.tables.len();
    views
        .tables
        .retain(|view| !(numbers.contains(&view.number) && view.state == ViewState::Dropping));
    views.tables.len() != before
}

/// Returns the status of each view of a store, by collection, in the order in which the tables were
/// created.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn statuses(shared: &Shared) -> Result<Vec<ViewStatus>> {
    let recorded = shared.held().recorded.clone();
    let mut statuses = Vec::new();
    for one in &recorded.schema.collections {
        let building = recorded.views.of(&one.name);
        let building = building.filter(|view| view.state == ViewState::Building);
        let numbers: Vec<u64> = building.map(|view| view.number).collect();
        let filled = if numbers.is_empty() {
            None
        } else {
            Covered::filling(shared, &one.name, &numbers).rows().await?
        };
        let views = recorded.views.of(&one.name);
        statuses.extend(views.map(|view| status(one, view, filled)));
    }
    Ok(statuses)
}

fn status(collection: &Collection, kept: &KeptView, filled: Option<u64>) -> ViewStatus {
    let sort_order = kept.arranged(collection);
    let fields = collection
        .fields
        .iter()
        .filter(|field| sort_order.has(&field.name));
    ViewStatus {
        collection: collection.name.clone(),
        view: kept.view.name.clone(),
        sort_order: sort_order.to_string(),
        partition: sort_order.partition.to_vec(),
        order: sort_order.order.iter().map(ToString::to_string).collect(),
        collate: kept
            .view
            .collate
            .iter()
            .map(|(field, collation)| (field.clone(), collation.to_string()))
            .collect(),
        fields: fields.map(|field| field.name.clone()).collect(),
        state: kept.told_state().to_owned(),
        number: kept.number,
        table: kept.table_name(collection),
        rows_filled: filled.filter(|_| kept.state == ViewState::Building),
        misfits: kept.misfits,
    }
}
