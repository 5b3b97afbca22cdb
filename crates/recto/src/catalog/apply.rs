//! Making a store hold a schema.

use std::collections::HashSet;
use std::sync::Arc;

use recto_model::schema::{Change, ChangeKind, Collection, Schema};
use recto_store::Store;
use recto_store::tables::added_columns;

use super::change::{TableChange, change_table};
use super::tables::FoundTables;
use super::unsupported::unsupported;
use super::{Catalog, Recorded};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Applied, ApplyOptions, SchemaPlan};

/// What applying a schema would do.
pub(crate) struct Intent {
    /// What would be recorded: the schema, and what the store has beyond it.
    schema: Schema,
    /// For people.
    pub(crate) plan: SchemaPlan,
    /// What is done to tables before the schema is recorded.
    tables: Vec<TableChange>,
    /// Tables that are dropped after it is recorded.
    dropped: Vec<String>,
}

impl Intent {
    /// What applying `asked` to a store that holds `recorded`, and in which the tables are as `found`,
    /// would do. `show` renders what the store would run to change a table.
    pub(crate) fn new(
        recorded: &Recorded,
        found: &FoundTables,
        asked: &Schema,
        options: &ApplyOptions,
        show: impl Fn(&TableChange) -> Vec<String>,
    ) -> Self {
        let is_removed = |name: &str| asked.collection(name).is_none() && options.removes(name);
        let mut rest = Schema::clone(&recorded.schema);
        rest.collections.retain(|one| !is_removed(&one.name));
        let schema = asked.keeping(&rest);
        let mut plan = SchemaPlan {
            generation: recorded.generation,
            kept: kept(&schema, asked, found),
            refused: unsupported(&schema).iter().map(ToString::to_string).collect(),
            ..SchemaPlan::default()
        };
        for change in recorded.schema.difference(&schema) {
            plan.changes.push(found.tell(&change));
            plan.refused.extend(refusal(&change));
        }
        let named = asked.collections.iter();
        plan.refused
            .extend(named.filter_map(|one| found.other.get(&one.name).cloned()));
        let mut dropped = Vec::new();
        for name in &options.remove {
            if recorded.schema.collection(name).is_some() && is_removed(name) {
                dropped.push(name.clone());
            } else if found.strays.contains(name) && asked.collection(name).is_none() {
                dropped.push(name.clone());
                let rows = found.rows_lost(name);
                plan.changes
                    .push(format!("table {name}, which no schema names: dropped; {rows}"));
            } else {
                plan.refused.push(not_removed(name, recorded, asked));
            }
        }
        let gone = schema
            .collections
            .iter()
            .filter(|one| found.gone.contains(&one.name));
        plan.changes.extend(gone.map(|one| {
            format!(
                "table {}: it is gone and is made again, empty; its rows are lost",
                one.name
            )
        }));
        let tables = table_changes(recorded, found, &schema);
        if !plan.changes.is_empty() || recorded.generation == 0 {
            plan.statements = statements(recorded, found, &tables, &dropped, show);
        }
        Self {
            schema,
            plan,
            tables,
            dropped,
        }
    }
}

/// What the store has and `asked` does not name, a line each.
fn kept(schema: &Schema, asked: &Schema, found: &FoundTables) -> Vec<String> {
    let changes = schema.difference(asked).into_iter();
    changes
        .filter_map(|change| match change.kind {
            ChangeKind::TypeRemoved { name } => Some(format!("type {name}")),
            ChangeKind::FieldRemoved { collection, field } => {
                Some(format!("field {field} of collection {collection}"))
            }
            ChangeKind::CollectionRemoved { name } => Some(match found.other.get(&name) {
                Some(difference) => format!("collection {name}: {difference}"),
                None => format!("collection {name}"),
            }),
            _ => None,
        })
        .collect()
}

/// Why something is not removed.
fn not_removed(name: &str, recorded: &Recorded, asked: &Schema) -> String {
    if let Some((collection, field)) = name.split_once('.')
        && let Some(collection) = recorded.schema.collection(collection)
        && collection.field(field).is_some()
    {
        return format!(
            "field {field} of collection {} cannot be removed: its values would be lost, and come back if a \
             field of its name did; keep it and stop writing it",
            collection.name
        );
    }
    if asked.collection(name).is_some() {
        return format!(
            "collection {name} is to be removed, and the schema has it: leave it out of the schema"
        );
    }
    let nearest = recorded.schema.nearest_collection(name);
    let nearest = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
    format!("there is no collection {name} to remove{nearest}")
}

/// What the store would run to make and change tables, in order: the catalog's before the first schema, and a
/// type that several tables need once, with the first of them.
fn statements(
    recorded: &Recorded,
    found: &FoundTables,
    changes: &[TableChange],
    dropped: &[String],
    show: impl Fn(&TableChange) -> Vec<String>,
) -> Vec<String> {
    let there = recorded.schema.collections.iter();
    let there = there
        .filter(|one| !found.gone.contains(&one.name))
        .map(|one| TableChange::Make(one.base_table()));
    let mut run: HashSet<String> = there.flat_map(|made| show(&made)).collect();
    let catalog = (recorded.generation == 0).then(|| TableChange::Make(super::table()));
    let drops: Vec<TableChange> = dropped.iter().cloned().map(TableChange::Drop).collect();
    catalog
        .iter()
        .chain(changes)
        .chain(&drops)
        .flat_map(show)
        .filter(|statement| run.insert(statement.clone()))
        .collect()
}

/// Why this release does not make a change; `None` if it does.
fn refusal(change: &Change) -> Option<String> {
    match &change.kind {
        ChangeKind::CollectionRemoved { .. }
        | ChangeKind::CollectionAdded { .. }
        | ChangeKind::TypeAdded { .. } => None,
        _ if change.obstacle.is_some() => Some(change.to_string()),
        ChangeKind::FieldAdded { .. } => None,
        ChangeKind::TypeExtended { .. } => Some(format!(
            "{change}: this release cannot change a type that is there"
        )),
        _ => Some(format!(
            "{change}: this release cannot change a table that is there"
        )),
    }
}

/// What `schema`, which keeps what is recorded, needs done to tables before it is recorded; nothing for
/// changes that are refused.
fn table_changes(recorded: &Recorded, found: &FoundTables, schema: &Schema) -> Vec<TableChange> {
    let change = |collection: &Collection| {
        let table = collection.base_table();
        let there = match recorded.schema.collection(&collection.name) {
            Some(there) if !found.gone.contains(&collection.name) => there.base_table(),
            _ => return Some(TableChange::Make(table)),
        };
        let adds = added_columns(&there, &table).is_ok_and(|added| !added.is_empty());
        adds.then_some(TableChange::Extend { there, table })
    };
    schema
        .collections
        .iter()
        .filter_map(|collection| change(collection))
        .collect()
}

/// Makes the store hold a schema, and what it has beyond it; also returns the tables that are to be
/// [dropped](drop_tables) now.
pub(crate) async fn apply(
    store: &Arc<dyn Store>,
    catalog: &Catalog<'_>,
    recorded: &Recorded,
    asked: &Schema,
    options: &ApplyOptions,
) -> Result<(Applied, Vec<String>)> {
    let found = FoundTables::look(store, recorded, asked, options).await?;
    let intent = Intent::new(recorded, &found, asked, options, |_| Vec::new());
    let plan = intent.plan;
    if let Some(first) = plan.refused.first() {
        return Err(refused(first, plan.refused.len() - 1, asked));
    }
    let mut applied = Applied {
        generation: recorded.generation,
        changes: plan.changes,
        kept: plan.kept,
    };
    if applied.changes.is_empty() && recorded.generation > 0 {
        return Ok((applied, Vec::new()));
    }
    catalog.create().await?;
    for change in &intent.tables {
        change_table(store, catalog.environment, change).await?;
    }
    // After its tables are made, so that a schema is recorded only when all of them are there; a crash
    // before leaves empty tables and columns without values, which the next apply finds made.
    let is_another = !recorded.schema.difference(&intent.schema).is_empty();
    if is_another || recorded.generation == 0 {
        applied.generation = catalog.record_schema(&intent.schema, recorded.generation).await?;
    }
    Ok((applied, intent.dropped))
}

/// Drops tables that the recorded schema no longer names. It is recorded before: who lost to another apply must not
/// have dropped what that one keeps. A crash between leaves a table that no schema names, which removing it once more
/// drops.
pub(crate) async fn drop_tables(
    store: &Arc<dyn Store>,
    catalog: &Catalog<'_>,
    names: Vec<String>,
) -> Result<()> {
    for name in names {
        if catalog.schema().await?.schema.collection(&name).is_none() {
            change_table(store, catalog.environment, &TableChange::Drop(name)).await?;
        }
    }
    Ok(())
}

/// The error of a schema that cannot be applied.
fn refused(first: &str, more: usize, asked: &Schema) -> Error {
    let message = match more {
        0 => first.to_owned(),
        more => format!("{first} (and {more} more)"),
    };
    let kind = if unsupported(asked).is_empty() {
        ErrorKind::SchemaMismatch
    } else {
        ErrorKind::Unsupported
    };
    Error::new(kind, message).with_hint("a plan of the same schema shows everything that stands in the way")
}
