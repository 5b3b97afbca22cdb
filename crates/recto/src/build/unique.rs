//! Creation of claims (reservations of unique values for one record) for records that are older than their
//! unique constraint.
//!
//! Writes obey a constraint from the time it is recorded: a new record gets its claims or is rejected. This
//! module gives the existing records their claims, one after another, from their current values. If two
//! records have the same values, one record gets the claims, and an error reports the other.

use std::collections::HashMap;
use std::sync::Arc;

use recto_model::{Cells, RowRef};
use recto_protocol::views::ViewNumber;
use recto_store::ReadOptions;

use super::{Build, not_allowed};
use crate::catalog::Recorded;
use crate::catalog::views::KeptViews;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::misfits::{count, list, misfits_of};
use crate::session::{MisfitCounts, ViewProgress};
use crate::whole_table::WholeTable;
use crate::writes::{claim_as_it_is, has_claims};

/// Maximum number of records with duplicate values that an error names.
const MAX_EXAMPLES: usize = 5;

/// Existing records that could not get their claims (reservations of unique values). Either another record
/// has the values, or the constraint cannot store them.
#[derive(Debug, Default)]
struct Duplicates {
    count: u64,
    examples: Vec<String>,
    /// Counts of records whose values cannot be stored, by the id of the constraint.
    misfits: HashMap<u64, MisfitCounts>,
    /// Description of the first record whose values cannot be stored.
    misfit: Option<String>,
}

impl Build<'_> {
    /// Creates the claims (reservations of unique values) of all records for the constraints that are not
    /// ready, and marks the constraints as ready.
    ///
    /// # Errors
    /// [`ErrorKind::SchemaMismatch`]: some records have the same values as other records. All writes still
    /// obey the constraints.
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
            // After the barrier (a wait for all writers), every write uses a schema with the constraint, so
            // `claim_each` misses no record.
            self.barrier(recorded, |step| {
                (self.progress)(self.claiming(&collection.name, step));
            })
            .await?;
            let found = self.claim_each(&core, &numbers).await?;
            if found.count > 0 {
                return Err(found.error(&collection.name));
            }
            if !self.options.allow_misfits {
                found.check_misfits(recorded, &collection.name)?;
            }
            let record = |views: &mut KeptViews| {
                let mut those = views.unique.iter_mut();
                let mut is_changed = false;
                while let Some(one) = those.find(|one| one.is_building && numbers.contains(&one.number)) {
                    (one.is_building, is_changed) = (false, true);
                    one.misfits = found.misfits.get(&one.number).copied().unwrap_or_default();
                }
                is_changed
            };
            self.shared.record_views(record).await?;
        }
        Ok(())
    }

    async fn claim_each(&self, core: &Arc<CollectionCore>, numbers: &[u64]) -> Result<Duplicates> {
        let (shared, table) = (self.shared, &core.base().table);
        let mut progress = self.claiming(&core.definition.name, "claiming");
        let mut found = Duplicates::default();
        let (options, pace) = (ReadOptions::default(), self.options.rows_per_second);
        let mut reads = WholeTable::new(table, options, pace, shared).await?;
        while let Some(read) = reads.next().await? {
            for row in read.rows.iter() {
                found.count_misfits(core, row, numbers)?;
                if has_claims(core, row)? {
                    continue;
                }
                let key = (0..table.partition().len()).map(|column| row.get(column));
                found.add(core, &key.collect(), numbers).await?;
            }
            progress.rows += read.rows.len() as u64;
            (self.progress)(progress.clone());
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
    /// Counts a record for each of the constraints with the ids `numbers` that cannot store the record's
    /// values.
    fn count_misfits(&mut self, core: &CollectionCore, row: RowRef<'_>, numbers: &[u64]) -> Result<()> {
        for misfit in misfits_of(core, row)? {
            if !numbers.contains(&misfit.number.0) {
                continue;
            }
            let counts = self.misfits.entry(misfit.number.0).or_default();
            count(counts, misfit.cause);
            if self.misfit.is_none() {
                let listed = list(core, row, misfit);
                self.misfit = Some(format!("{}: {}", listed.key, listed.reason()));
            }
        }
        Ok(())
    }

    /// Checks that the constraints of `collection` can store the values of all records.
    ///
    /// # Errors
    /// A constraint cannot store the values of a record.
    fn check_misfits(&self, recorded: &Recorded, collection: &str) -> Result<()> {
        let mut unique = recorded.views.unique_of(collection);
        let found = unique.find_map(|one| Some((one, *self.misfits.get(&one.number)?)));
        let Some((unique, misfits)) = found else {
            return Ok(());
        };
        let name = format!("{collection}.unique ({})", unique.fields.join(", "));
        Err(not_allowed(&name, misfits, self.misfit.clone()))
    }

    /// Creates the claims (reservations of unique values) of the record with the given key. Counts the record
    /// as a duplicate if another record has the values.
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
                        .push(format!("{key}, whose {field} another record has: {holder}"));
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
                "{count} records of {collection} have the unique values of other records, for example \
                 {examples}"
            ),
        )
        .with_hint(
            "change or delete these records, then apply the schema again to continue. Until then, Recto \
             checks only new values, and accepts only changes of these records that resolve the conflict",
        )
    }
}
