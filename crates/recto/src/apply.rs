//! Making a store hold a schema.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Table;
use recto_model::schema::Schema;
use recto_store::{Store, TableOutcome};

use crate::catalog::{Catalog, Recorded};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Applied, SchemaPlan};

/// How often making a table is tried again when its outcome is unknown.
const MAX_ATTEMPTS: u32 = 3;
/// How long to wait before trying again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// What applying `schema` to a store that holds `recorded` would do.
///
/// `show` renders what the store would run to make a table.
pub(crate) fn plan(recorded: &Recorded, schema: &Schema, show: impl Fn(&Table) -> Vec<String>) -> SchemaPlan {
    let changes = recorded.schema.difference(schema);
    let mut refused: Vec<String> = schema.unsupported().iter().map(ToString::to_string).collect();
    let mut shown = Vec::with_capacity(changes.len());
    for change in &changes {
        shown.push(change.to_string());
        if let Some(reason) = refusal(change) {
            refused.push(reason);
        }
    }
    let statements = new_tables(recorded, schema).iter().flat_map(show).collect();
    SchemaPlan { generation: recorded.generation, changes: shown, statements, refused }
}

/// Why this release does not make a change; `None` if it does.
fn refusal(change: &recto_model::schema::Change) -> Option<String> {
    use recto_model::schema::ChangeKind;
    if !change.compatible {
        return Some(change.to_string());
    }
    match &change.kind {
        ChangeKind::CollectionAdded { .. } | ChangeKind::TypeAdded { .. } => None,
        _ => Some(format!("{change}: this release cannot change a table that is there")),
    }
}

fn new_tables(recorded: &Recorded, schema: &Schema) -> Vec<Table> {
    let added = schema.collections.iter().filter(|c| recorded.schema.collection(&c.name).is_none());
    added.map(|collection| collection.base_table()).collect()
}

/// Makes the store hold `schema`.
pub(crate) async fn apply(store: &Arc<dyn Store>, recorded: &Recorded, schema: &Schema) -> Result<Applied> {
    let plan = plan(recorded, schema, |_| Vec::new());
    if let Some(first) = plan.refused.first() {
        let more = plan.refused.len() - 1;
        let message = if more == 0 { first.clone() } else { format!("{first} (and {more} more)") };
        let kind =
            if schema.unsupported().is_empty() { ErrorKind::SchemaMismatch } else { ErrorKind::Unsupported };
        return Err(Error::new(kind, message).with_hint("`recto plan` shows everything that stands in the way"));
    }
    let catalog = Catalog::new(store);
    if plan.changes.is_empty() && recorded.generation > 0 {
        return Ok(Applied { generation: recorded.generation, changes: Vec::new() });
    }
    catalog.create().await?;
    for table in new_tables(recorded, schema) {
        create_table(store, &table).await?;
    }
    // Last, so that a schema is recorded only when all its tables are there; a crash before leaves
    // empty tables, which the next apply finds made.
    let generation = catalog.record_schema(schema, recorded.generation).await?;
    Ok(Applied { generation, changes: plan.changes })
}

/// Makes a table, however often it takes to know that it is there.
pub(crate) async fn create_table(store: &Arc<dyn Store>, table: &Table) -> Result<()> {
    let mut last = None;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        match store.create_table(table).await? {
            TableOutcome::Done => return Ok(()),
            TableOutcome::Unknown(error) => last = Some(error),
        }
    }
    let mut error = Error::new(
        ErrorKind::OutcomeUnknown,
        format!("it is not known whether table {} was made", table.name()),
    )
    .with_hint("run apply again: it finds out");
    if let Some(last) = last {
        error = error.with_source(last);
    }
    Err(error)
}
