//! Making a store hold a schema.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use recto_model::Table;
use recto_model::schema::Schema;
use recto_store::tables::added_columns;
use recto_store::{Store, StoreError, StoreErrorKind, TableOutcome};

use crate::catalog::{self, Catalog, Recorded};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Applied, SchemaPlan};

/// How often changing a table is tried again when its outcome is unknown.
const MAX_ATTEMPTS: u32 = 3;
/// How long to wait before trying again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// What a schema needs done to one table.
#[derive(Debug)]
pub(crate) enum TableChange {
    /// It is made.
    Make(Table),
    /// Columns are added to it.
    Extend {
        /// The table as recorded.
        there: Table,
        /// The table as it shall be.
        table: Table,
    },
}

impl TableChange {
    /// The table as it shall be.
    pub(crate) fn table(&self) -> &Table {
        match self {
            Self::Make(table) | Self::Extend { table, .. } => table,
        }
    }
}

/// What applying `schema` to a store that holds `recorded` would do.
///
/// `show` renders what the store would run to change a table.
pub(crate) fn plan(
    recorded: &Recorded,
    schema: &Schema,
    show: impl Fn(&TableChange) -> Vec<String>,
) -> SchemaPlan {
    let schema = &schema.in_recorded_order(&recorded.schema);
    let changes = recorded.schema.difference(schema);
    let mut refused: Vec<String> = schema.unsupported().iter().map(ToString::to_string).collect();
    let mut shown = Vec::with_capacity(changes.len());
    for change in &changes {
        shown.push(change.to_string());
        if let Some(reason) = refusal(change) {
            refused.push(reason);
        }
    }
    let statements = if changes.is_empty() && recorded.generation > 0 {
        Vec::new()
    } else {
        statements(recorded, schema, show)
    };
    SchemaPlan {
        generation: recorded.generation,
        changes: shown,
        statements,
        refused,
    }
}

/// What the store would run to make and change tables, in order: the catalog's before the first schema, and a
/// type that several tables need once, with the first of them.
fn statements(
    recorded: &Recorded,
    schema: &Schema,
    show: impl Fn(&TableChange) -> Vec<String>,
) -> Vec<String> {
    let there = recorded
        .schema
        .collections
        .iter()
        .map(|one| TableChange::Make(one.base_table()));
    let mut run: HashSet<String> = there.flat_map(|made| show(&made)).collect();
    let catalog = (recorded.generation == 0).then(|| TableChange::Make(catalog::table()));
    catalog
        .iter()
        .chain(&table_changes(recorded, schema))
        .flat_map(show)
        .filter(|statement| run.insert(statement.clone()))
        .collect()
}

/// Why this release does not make a change; `None` if it does.
fn refusal(change: &recto_model::schema::Change) -> Option<String> {
    use recto_model::schema::ChangeKind;
    if !change.compatible {
        return Some(change.to_string());
    }
    match &change.kind {
        ChangeKind::CollectionAdded { .. } | ChangeKind::TypeAdded { .. } | ChangeKind::FieldAdded { .. } => {
            None
        }
        ChangeKind::TypeExtended { .. } => Some(format!(
            "{change}: this release cannot change a type that is there"
        )),
        _ => Some(format!(
            "{change}: this release cannot change a table that is there"
        )),
    }
}

/// What `schema`, in recorded order, needs done to tables; nothing for changes that are refused.
fn table_changes(recorded: &Recorded, schema: &Schema) -> Vec<TableChange> {
    let change = |collection: &recto_model::schema::Collection| {
        let table = collection.base_table();
        let Some(there) = recorded.schema.collection(&collection.name) else {
            return Some(TableChange::Make(table));
        };
        let there = there.base_table();
        let adds = added_columns(&there, &table).is_ok_and(|added| !added.is_empty());
        adds.then_some(TableChange::Extend { there, table })
    };
    schema
        .collections
        .iter()
        .filter_map(|collection| change(collection))
        .collect()
}

/// Makes the store hold `schema`, with the fields of collections that are there in recorded order.
pub(crate) async fn apply(
    store: &Arc<dyn Store>,
    catalog: &Catalog<'_>,
    recorded: &Recorded,
    schema: &Schema,
) -> Result<Applied> {
    let schema = &schema.in_recorded_order(&recorded.schema);
    let plan = plan(recorded, schema, |_| Vec::new());
    if let Some(first) = plan.refused.first() {
        let more = plan.refused.len() - 1;
        let message = if more == 0 {
            first.clone()
        } else {
            format!("{first} (and {more} more)")
        };
        let kind = if schema.unsupported().is_empty() {
            ErrorKind::SchemaMismatch
        } else {
            ErrorKind::Unsupported
        };
        return Err(Error::new(kind, message)
            .with_hint("a plan of the same schema shows everything that stands in the way"));
    }
    if plan.changes.is_empty() && recorded.generation > 0 {
        return Ok(Applied {
            generation: recorded.generation,
            changes: Vec::new(),
        });
    }
    catalog.create().await?;
    for change in table_changes(recorded, schema) {
        change_table(store, &change).await?;
    }
    // Last, so that a schema is recorded only when all its tables are there; a crash before leaves
    // empty tables and columns without values, which the next apply finds made.
    let generation = catalog.record_schema(schema, recorded.generation).await?;
    Ok(Applied {
        generation,
        changes: plan.changes,
    })
}

/// Changes a table, however often it takes to know that it is changed.
pub(crate) async fn change_table(store: &Arc<dyn Store>, change: &TableChange) -> Result<()> {
    let mut last = None;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        let outcome = match change {
            TableChange::Make(table) => store.create_table(table).await?,
            TableChange::Extend { there, table } => {
                store.add_columns(there, table).await.map_err(not_extended)?
            }
        };
        match outcome {
            TableOutcome::Done => return Ok(()),
            TableOutcome::Unknown(error) => last = Some(error),
        }
    }
    let done = match change {
        TableChange::Make(_) => "made",
        TableChange::Extend { .. } => "extended",
    };
    let mut error = Error::new(
        ErrorKind::OutcomeUnknown,
        format!(
            "it is not known whether table {} was {done}",
            change.table().name()
        ),
    )
    .with_hint("run apply again: it finds out");
    if let Some(last) = last {
        error = error.with_source(last);
    }
    Err(error)
}

/// The recorded table can be extended, so if the one that is there cannot, it is another.
fn not_extended(error: StoreError) -> Error {
    if error.kind() != StoreErrorKind::Table {
        return error.into();
    }
    Error::new(ErrorKind::SchemaMismatch, error.to_string())
        .with_hint(
            "the table is not as recorded: another apply changes it now, or one was interrupted; \
             run plan again, and apply a schema that has the columns the table has",
        )
        .with_source(error)
}
