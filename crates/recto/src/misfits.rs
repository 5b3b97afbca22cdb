//! Counting of misfits: records that a view or unique constraint cannot store. Recto counts misfits before it
//! adds a view or constraint, and before it copies records.

use std::collections::BTreeMap;

use recto_model::{Cells, RowRef, Table};
use recto_plan::SortOrder;
use recto_protocol::views::{Arranged, Generation, Misfit, MisfitCause, ViewNumber, ViewedCollection};
use recto_store::ScanRead;

use crate::catalog::apply::Added;
use crate::core::{CollectionCore, key_text};
use crate::error::Result;
use crate::session::{ListedMisfit, MAX_LISTED_MISFITS, MisfitCounts, Misfits};
use crate::shared::Shared;
use crate::viewed::{Viewed, Written};
use crate::whole_table::WholeTable;

/// Views and unique constraints that are added to a collection, against which its records are checked.
pub(crate) struct Checked(Added);

impl From<Added> for Checked {
    fn from(added: Added) -> Self {
        Self(added)
    }
}

impl Checked {
    /// Derives the tables of the views and constraints. Returns `None` if no record can be a misfit (a record
    /// that they cannot store), so that no record needs to be read.
    fn viewed(&self) -> Option<Viewed> {
        let declared = &self.0.declared;
        let views = self.0.views.iter();
        let views = views.map(|one| (ViewNumber(one.number), one.arranged(declared)));
        let views = ViewedCollection::new(Generation(0), declared, views).ok()?;
        let unique = self.0.unique.iter().map(|one| one.claims_table(declared));
        let views = views.with_unique(unique.collect::<Result<Vec<_>, _>>().ok()?);
        let views = Some(views).filter(ViewedCollection::can_have_misfits)?;
        Viewed::of(views, &self.0.stored)
    }

    /// Returns the name of the view or unique constraint with the id `number`.
    fn name_of(&self, number: u64) -> Option<String> {
        let view = self.0.views.iter().find(|one| one.number == number);
        let unique = self.0.unique.iter().find(|one| one.number == number);
        let of_view = view.map(|one| one.view.name.clone());
        of_view.or_else(|| Some(format!("unique ({})", unique?.fields.join(", "))))
    }

    /// Reads all records. Returns the misfits, by the id of the view or unique constraint that cannot store
    /// them.
    ///
    /// # Errors
    /// The store cannot be read, or a row is damaged.
    pub(crate) async fn find(
        &self,
        shared: &Shared,
        rows_per_second: Option<u32>,
    ) -> Result<BTreeMap<u64, Misfits>> {
        let mut found = BTreeMap::new();
        let Some(viewed) = self.viewed() else {
            return Ok(found);
        };
        let mut reads =
            WholeTable::new(&viewed.table, shared.read_options(), rows_per_second, shared).await?;
        while let Some(read) = reads.next().await? {
            self.add(shared, &viewed, &read, &mut found)?;
        }
        Ok(found)
    }

    fn add(
        &self,
        shared: &Shared,
        viewed: &Viewed,
        read: &ScanRead,
        found: &mut BTreeMap<u64, Misfits>,
    ) -> Result<()> {
        let now = shared.environment.now_micros();
        for row in read.rows.iter() {
            let Some(there) = viewed.row(row, Written::UNTOLD)? else {
                continue;
            };
            let Some(record) = there.record_at(now) else {
                continue;
            };
            for misfit in viewed.views.misfits(record) {
                let Some(view) = self.name_of(misfit.number.0) else {
                    continue;
                };
                let one = found.entry(misfit.number.0).or_insert_with(|| Misfits {
                    collection: self.0.declared.name.clone(),
                    view,
                    ..Misfits::default()
                });
                count(&mut one.counts, misfit.cause);
                if one.listed.len() < MAX_LISTED_MISFITS {
                    let (partition, clustering) = key_of(&viewed.table, row);
                    let base = SortOrder::base(&self.0.stored);
                    let key = key_text(&self.0.stored, &base, &partition, &clustering);
                    let field = self.0.declared.fields.get(misfit.field);
                    let field = field.map_or("", |field| &field.name);
                    one.listed.push(listed(key, field, misfit.cause));
                }
            }
        }
        Ok(())
    }
}

/// Returns the cells (encoded values) of a row's partition key and of its clustering key.
fn key_of(table: &Table, row: RowRef<'_>) -> (Cells, Cells) {
    let cells = |columns: std::ops::Range<usize>| columns.map(|column| row.get(column)).collect();
    let partition = table.partition().len();
    (cells(0..partition), cells(partition..table.key_len()))
}

/// Returns the misfits of a stored row: the views and unique constraints that cannot store the row's record,
/// with the cause.
///
/// # Errors
/// The row is damaged, or was written by a newer release.
pub(crate) fn misfits_of(core: &CollectionCore, row: RowRef<'_>) -> Result<Vec<Misfit>> {
    let Some(viewed) = core.viewed.as_deref().filter(|one| one.views.can_have_misfits()) else {
        return Ok(Vec::new());
    };
    let row = viewed.row(row, Written::UNTOLD)?;
    let now = core.shared.environment.now_micros();
    let record = row.as_ref().and_then(|row| row.record_at(now));
    Ok(record
        .map(|record| viewed.views.misfits(record))
        .unwrap_or_default())
}

/// Returns the description of a misfit (a record that a view cannot store) for a report. `row` is the
/// record's row of the base table.
pub(crate) fn list(core: &CollectionCore, row: RowRef<'_>, misfit: Misfit) -> ListedMisfit {
    let (partition, clustering) = key_of(&core.base().table, row);
    let field = core.definition.fields.get(misfit.field);
    let field = field.map_or("", |field| &field.name);
    listed(core.key_text(&partition, &clustering), field, misfit.cause)
}

/// Adds one misfit (a record that a view cannot store) to the count of misfits with the same cause.
pub(crate) fn count(counts: &mut MisfitCounts, cause: MisfitCause) {
    match cause {
        MisfitCause::Empty => counts.empty += 1,
        MisfitCause::TooLarge(_) => counts.too_large += 1,
    }
}

fn listed(key: String, field: &str, cause: MisfitCause) -> ListedMisfit {
    ListedMisfit {
        key,
        field: field.to_owned(),
        key_bytes: match cause {
            MisfitCause::Empty => None,
            MisfitCause::TooLarge(bytes) => Some(bytes as u64),
        },
    }
}
