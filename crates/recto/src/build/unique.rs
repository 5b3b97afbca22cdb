//! Claims of the records that are there, of constraints that were added to them.
//!
//! What is written goes by a constraint from when it is recorded: a record that is put gets its claims, or is refused. Those that were
//! there get them here, one after the other, as they are then; of two that have the same values one gets them, and the other is told of.

use std::sync::Arc;

use recto_model::Cells;
use recto_store::ReadOptions;
use recto_views::ViewNumber;

use super::Build;
use crate::catalog::Recorded;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::pace::Pace;
use crate::session::ViewProgress;
use crate::writes::{claim_as_it_is, has_claims};

/// Records whose claims are looked at between two waits.
const STEP_ROWS: u32 = 1_000;
/// The most records with values of others that are named.
const MAX_EXAMPLES: usize = 5;

/// Records whose values others have.
#[derive(Debug, Default)]
struct Duplicates {
    count: u64,
    examples: Vec<String>,
}

impl Build<'_> {
    /// Gives all records their claims, of constraints that are not ready; those are ready then.
    ///
    /// # Errors
    /// [`ErrorKind::SchemaMismatch`]: some have values that others have. Their constraints stay as they are, for all that is written.
    pub(super) async fn claim_all(&self, recorded: &Recorded) -> Result<()> {
        for collection in &recorded.schema.collections {
            let building = recorded.views.unique_of(&collection.name);
            let building = building.filter(|one| one.is_building);
            let numbers: Vec<u64> = building.map(|one| one.number).collect();
            let Some(core) = self.core(recorded, &collection.name) else {
                continue;
            };
            if numbers.is_empty() {
                continue;
            }
            // What was begun without the constraint is at its end.
            self.barrier(recorded, |step| {
                (self.progress)(self.claiming(&collection.name, step));
            })
            .await?;
            let found = self.claim_each(&core, &numbers).await?;
            if found.count > 0 {
                return Err(found.error(&collection.name));
            }
            self.record(|views| {
                let mut those = views.unique.iter_mut();
                let mut is_changed = false;
                while let Some(one) = those.find(|one| one.is_building && numbers.contains(&one.number)) {
                    (one.is_building, is_changed) = (false, true);
                }
                is_changed
            })
            .await?;
        }
        Ok(())
    }

    async fn claim_each(&self, core: &Arc<CollectionCore>, numbers: &[u64]) -> Result<Duplicates> {
        let (shared, table) = (self.shared, &core.base().table);
        let mut progress = self.claiming(&core.definition.name, "claiming");
        let mut pace = Pace::new(self.options.rows_per_second, &shared.environment);
        let mut found = Duplicates::default();
        for range in shared.store.snapshot()?.token_ranges(table, 1).await? {
            let mut after = None;
            loop {
                let snapshot = shared.store.snapshot()?;
                let (rows, options) = (pace.step_rows(STEP_ROWS), ReadOptions::default());
                let read = snapshot
                    .scan(table, &range, after.as_ref(), rows, &options)
                    .await?;
                drop(snapshot);
                for row in read.rows.iter() {
                    if has_claims(core, row)? {
                        continue;
                    }
                    let key = (0..table.partition().len()).map(|column| row.get(column));
                    found.add(core, &key.collect(), numbers).await?;
                }
                progress.rows += read.rows.len() as u64;
                (self.progress)(progress.clone());
                tokio::time::sleep(pace.after(read.rows.len() as u64, &shared.environment)).await;
                after = read.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(found)
    }

    fn claiming(&self, collection: &str, step: &str) -> ViewProgress {
        ViewProgress {
            view: "unique".to_owned(),
            ..self.told(collection, &[], step)
        }
    }
}

impl Duplicates {
    /// Gives one record its claims.
    async fn add(&mut self, core: &Arc<CollectionCore>, key: &Cells, numbers: &[u64]) -> Result<()> {
        let numbers: Vec<ViewNumber> = numbers.iter().copied().map(ViewNumber).collect();
        match claim_as_it_is(core, key, &numbers).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.count += 1;
                if self.examples.len() < MAX_EXAMPLES {
                    let holder = error.hint().and_then(|hint| hint.split(';').next());
                    let key = core.key_text(key, &Cells::new());
                    let field = error.field().unwrap_or_default();
                    let holder = holder.unwrap_or_default();
                    self.examples
                        .push(format!("{key}, whose {field} another has: {holder}"));
                }
                Ok(())
            }
            claimed => claimed,
        }
    }

    fn error(&self, collection: &str) -> Error {
        let count = self.count;
        let examples = self.examples.join("; ");
        Error::new(
            ErrorKind::SchemaMismatch,
            format!(
                "{count} records of {collection} have unique values that others have, as {examples}"
            ),
        )
        .with_hint(
            "give these others, or delete them, and apply the schema again, which goes on; until then the fields are unique for what \
             is written, and these records can be changed only so",
        )
    }
}
