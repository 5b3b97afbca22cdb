//! Application of a schema to a store.

use std::collections::HashSet;
use std::sync::Arc;

use recto_model::Table;
use recto_model::schema::{Change, ChangeKind, Collection, MAX_UNIQUE, MAX_VIEWS, Schema, StoreQueues, View};
use recto_protocol::views::ViewState;
use recto_store::Store;
use recto_store::tables::added_columns;

use super::change::{TableChange, change_table};
use super::queues::{FoundQueues, change_of, is_of_queues};
use super::tables::FoundTables;
use super::unsupported::unsupported;
use super::views::{KeptUnique, KeptView, KeptViews};
use super::{Catalog, Recorded};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Applied, ApplyOptions, Misfits, QueueTableSettings, SchemaPlan};

/// Changes that the application of a schema would make to a store.
pub(crate) struct Intent {
    /// Schema to record: the applied schema, and the parts of the recorded schema that it does not remove.
    schema: Schema,
    /// Tables of the views and unique constraints of `schema`, with their states.
    views: KeptViews,
    /// Plan of the changes as it is shown to the user.
    pub(crate) plan: SchemaPlan,
    /// Changes of tables to make before the schema is recorded.
    tables: Vec<TableChange>,
    after: DeferredChanges,
}

/// Changes to make after a schema is recorded.
#[derive(Debug, Default)]
pub(crate) struct DeferredChanges {
    /// Names of the tables to drop.
    pub(crate) dropped: Vec<String>,
    /// Change of the settings that all queues share.
    pub(crate) queues: Option<QueueTableSettings>,
}

impl Intent {
    /// Creates the intent to apply `asked` to a store with the recorded schema `recorded` and the tables
    /// `found`. `show` returns the statements that the store would run for a change of a table.
    pub(crate) fn new(
        recorded: &Recorded,
        found: &FoundTables,
        asked: &Schema,
        options: &ApplyOptions,
        show: impl Fn(&TableChange) -> Vec<String>,
    ) -> Self {
        let is_removed = |name: &str| asked.collection(name).is_none() && options.removes(name);
        let mut schema = asked.keeping(&without(&recorded.schema, asked, options));
        let is_new = |name: &str| recorded.schema.collection(name).is_none() && !found.has_rows(name);
        let views = recorded.views.following(&schema, found, is_new);
        let mut plan = SchemaPlan {
            generation: recorded.generation,
            kept: kept(&schema, asked, found),
            rejected: unsupported(&schema).iter().map(ToString::to_string).collect(),
            ..SchemaPlan::default()
        };
        let mut queues = None;
        for change in before(recorded, found).difference(&schema) {
            plan.changes.push(found.tell(&change));
            if !is_of_attached(&change, &recorded.schema, &schema) {
                plan.rejected.extend(refusal(&change));
            }
            if is_of_queues(&change) {
                queues = Some(change_of(asked));
            }
        }
        plan.rejected
            .extend(found.queues.as_ref().and_then(|queues| queues.refusal(asked)));
        plan.rejected.extend(too_many(&schema));
        // The queue tables store the settings of queues, so omit the settings from the recorded schema.
        schema.queues = StoreQueues::default();
        let named = asked.collections.iter();
        plan.rejected
            .extend(named.filter_map(|one| found.other.get(&one.name).cloned()));
        let mut dropped = Vec::new();
        for name in &options.remove {
            if let Some(collection) = recorded.schema.collection(name)
                && is_removed(name)
            {
                if collection.attached.is_none() {
                    dropped.push(name.clone());
                    let views = recorded.views.of(name);
                    dropped.extend(views.map(|view| view.table_name(collection)));
                    dropped.extend(recorded.views.unique_of(name).map(KeptUnique::table_name));
                }
            } else if found.strays.contains(name) && asked.collection(name).is_none() {
                dropped.push(name.clone());
                let rows = found.rows_lost(name);
                plan.changes
                    .push(format!("table {name}, which is in no schema: dropped; {rows}"));
            } else if !removes_part(name, &recorded.schema, asked) {
                plan.rejected.push(not_removed(name, recorded, asked));
            }
        }
        let gone = recorded.views.tables.iter();
        let gone = gone.filter(|view| found.gone_views.contains(&view.number));
        plan.changes.extend(gone.map(|view| {
            format!(
                "view {} of collection {}: its table is missing, and is filled again",
                view.view.name, view.collection
            )
        }));
        let gone = schema
            .collections
            .iter()
            .filter(|one| found.gone.contains(&one.name));
        plan.changes.extend(gone.map(|one| {
            format!(
                "table {}: it is missing and is created again, empty; its rows are lost",
                one.name
            )
        }));
        plan.changes
            .extend(views_on_their_way(recorded, found, &schema, &views));
        plan.changes.extend(unique_on_its_way(recorded, &views));
        let freed = recorded.views.unique.iter();
        let freed = freed.filter(|one| !views.has_unique(one.number));
        let freed = freed.filter(|one| {
            schema.collection(&one.collection).is_some() && !found.gone_views.contains(&one.number)
        });
        dropped.extend(freed.map(KeptUnique::table_name));
        let tables = table_changes(recorded, found, &schema, &views);
        if !plan.changes.is_empty() || recorded.generation == 0 {
            let mut drops = dropped.clone();
            drops.extend(views_that_go(&schema, &views));
            let opened = found.queues.iter().filter(|_| queues.is_some());
            let opened = opened.flat_map(|queues| queues.missing.iter().cloned().map(TableChange::Make));
            let opened: Vec<_> = opened.collect();
            let changes: Vec<_> = tables.iter().chain(&opened).collect();
            plan.statements = statements(recorded, found, &changes, &drops, show);
        }
        Self {
            schema,
            views,
            plan,
            tables,
            after: DeferredChanges { dropped, queues },
        }
    }
}

/// Collection that has records, with the views and unique constraints to add to it.
#[derive(Debug, Clone)]
pub(crate) struct Added {
    /// Definition by which the existing records are stored.
    pub(crate) stored: Arc<Collection>,
    /// Definition that the applied schema declares.
    pub(crate) declared: Arc<Collection>,
    pub(crate) views: Vec<KeptView>,
    pub(crate) unique: Vec<KeptUnique>,
}

/// Collection that has records, and whose retention time (`keep`) becomes shorter.
#[derive(Debug, Clone)]
pub(crate) struct ShorterKeep {
    /// Definition by which the existing records are stored.
    pub(crate) stored: Arc<Collection>,
    /// Definition that the applied schema declares.
    pub(crate) declared: Arc<Collection>,
}

impl Intent {
    /// Returns the collections whose records may not fit the views or unique constraints to add. Returns an
    /// empty list if the plan already rejects the schema.
    pub(crate) fn added(&self, recorded: &Recorded, found: &FoundTables) -> Vec<Added> {
        let added = self.stored_collections(found).filter_map(|declared| {
            let views = self.views.of(&declared.name);
            let views = views.filter(|view| view.state == ViewState::Building).cloned();
            let unique = self.views.unique_of(&declared.name);
            let unique = unique.filter(|unique| unique.is_building).cloned();
            // A table may have records although no collection is recorded for it. Such records are assumed to
            // have the declared definition.
            let stored = recorded.schema.collection(&declared.name).unwrap_or(declared);
            Some(Added {
                stored: Arc::clone(stored),
                declared: Arc::clone(declared),
                views: views.collect(),
                unique: unique.collect(),
            })
            .filter(|added| !added.views.is_empty() || !added.unique.is_empty())
        });
        added.collect()
    }

    /// Returns the collections of the applied schema that can have records in this store. Returns no
    /// collections if the plan already rejects the schema.
    fn stored_collections(&self, found: &FoundTables) -> impl Iterator<Item = &Arc<Collection>> {
        self.schema.collections.iter().filter(|one| {
            self.plan.rejected.is_empty() && one.attached.is_none() && !found.gone.contains(&one.name)
        })
    }

    /// Returns the collections whose retention time becomes shorter. Returns an empty list if the plan
    /// already rejects the schema.
    pub(crate) fn shorter_keeps(&self, recorded: &Recorded, found: &FoundTables) -> Vec<ShorterKeep> {
        let shorter = self.stored_collections(found).filter_map(|declared| {
            let stored = recorded.schema.collection(&declared.name)?;
            let length = |of: &Collection| Some(of.bucket.as_ref()?.keep?.longest_ms());
            (length(declared)? < length(stored)?).then(|| ShorterKeep {
                stored: Arc::clone(stored),
                declared: Arc::clone(declared),
            })
        });
        shorter.collect()
    }

    /// Adds to the plan the records that do not fit the views or unique constraints to add. Rejects the plan,
    /// unless the options allow such records.
    pub(crate) fn add_misfits(&mut self, misfits: Vec<Misfits>, options: &ApplyOptions) {
        if !options.allow_misfits {
            let refused = misfits
                .iter()
                .map(|one| format!("{one}; change these records, or allow misfits (--allow-misfits)"));
            self.plan.rejected.extend(refused);
        }
        self.plan.misfits = misfits;
    }
}

/// Returns whether a change concerns a collection that was attached and stays attached. Another program
/// changes the table of such a collection, and Recto only records the change.
fn is_of_attached(change: &Change, recorded: &Schema, schema: &Schema) -> bool {
    let is_attached =
        |schema: &Schema, name: &str| schema.collection(name).is_some_and(|one| one.attached.is_some());
    let is_both = |name: &String| is_attached(recorded, name) && is_attached(schema, name);
    change.kind.collection().is_some_and(is_both)
}

/// Returns the recorded schema together with the settings that all queues share, for the comparison with the
/// new schema.
fn before(recorded: &Recorded, found: &FoundTables) -> Schema {
    let mut before = Schema::clone(&recorded.schema);
    before.queues = found.queues.as_ref().map(FoundQueues::said).unwrap_or_default();
    before
}

/// Returns a line for each view whose table is created or dropped while other programs write. The lines cover
/// new views, which must be filled with existing records, and views that an interrupted `apply` did not
/// finish.
fn views_on_their_way(
    recorded: &Recorded,
    found: &FoundTables,
    schema: &Schema,
    views: &KeptViews,
) -> Vec<String> {
    let is_recorded = |one: &KeptView| recorded.views.tables.iter().any(|view| view.number == one.number);
    let was_gone = |one: &KeptView| {
        let gone = recorded.views.tables.iter();
        let mut gone = gone.filter(|view| found.gone_views.contains(&view.number));
        gone.any(|view| view.collection == one.collection && view.view.name == one.view.name)
    };
    let line = |one: &KeptView| {
        let view = format!("view {} of collection {}", one.view.name, one.collection);
        match one.state {
            ViewState::Building if is_recorded(one) => Some(format!("{view}: an interrupted fill continues")),
            ViewState::Building if !was_gone(one) => {
                Some(format!("{view}: it is filled from the collection's records"))
            }
            ViewState::Retiring | ViewState::Dropping if is_recorded(one) => {
                let was = recorded
                    .views
                    .tables
                    .iter()
                    .find(|view| view.number == one.number);
                let went = was.is_some_and(|view| !view.stays());
                let collection = schema.collection(&one.collection).filter(|_| went)?;
                let table = one.table_name(collection);
                Some(format!(
                    "{view}: the interrupted drop of its table {table} continues"
                ))
            }
            _ => None,
        }
    };
    views.tables.iter().filter_map(line).collect()
}

/// Returns a line for each unique constraint that is added to existing records or whose check was
/// interrupted.
fn unique_on_its_way(recorded: &Recorded, views: &KeptViews) -> Vec<String> {
    let building = views.unique.iter().filter(|one| one.is_building);
    let line = |one: &KeptUnique| {
        let fields = one.fields.join(", ");
        let is_recorded = recorded.views.has_unique(one.number);
        let what = if is_recorded {
            "an interrupted check for equal values continues"
        } else {
            "the existing records are checked for equal values"
        };
        format!("unique {fields} of collection {}: {what}", one.collection)
    };
    building.map(line).collect()
}

/// Returns the names of the tables of views that are no longer declared, or are declared differently.
fn views_that_go<'a>(schema: &'a Schema, views: &'a KeptViews) -> impl Iterator<Item = String> + 'a {
    views.tables.iter().filter_map(|one| {
        let collection = schema.collection(&one.collection)?;
        let collection = Some(collection).filter(|one| one.attached.is_none())?;
        let is_declared = collection.view(&one.view.name) == Some(&one.view);
        (!one.stays() || !is_declared).then(|| one.table_name(collection))
    })
}

/// Returns the recorded schema without the collections, views and unique constraints that the
/// options remove.
fn without(recorded: &Schema, asked: &Schema, options: &ApplyOptions) -> Schema {
    let mut rest = recorded.clone();
    let is_removed = |name: &str| asked.collection(name).is_none() && options.removes(name);
    rest.collections.retain(|one| !is_removed(&one.name));
    for collection in &mut rest.collections {
        let name = &collection.name;
        let views = collection.views.iter();
        let views = views.filter(|view| !options.removes(&format!("{name}.{}", view.name)));
        let views: Vec<View> = views.cloned().collect();
        let unique = collection.unique.iter();
        let unique =
            unique.filter(|fields| !options.remove.iter().any(|text| names_unique(text, name, fields)));
        let unique: Vec<Vec<String>> = unique.cloned().collect();
        if (views.len(), unique.len()) != (collection.views.len(), collection.unique.len()) {
            let collection = Arc::make_mut(collection);
            (collection.views, collection.unique) = (views, unique);
        }
    }
    rest
}

/// Reports collections that would have more views or unique constraints than a schema can declare. Recorded
/// views and constraints that stay count too.
fn too_many(schema: &Schema) -> impl Iterator<Item = String> + '_ {
    schema.collections.iter().flat_map(|one| {
        let counts = [
            ("views", one.views.len(), MAX_VIEWS),
            ("unique constraints", one.unique.len(), MAX_UNIQUE),
        ];
        let exceeded = counts.into_iter().filter(|(_, count, limit)| count > limit);
        exceeded.map(move |(what, count, limit)| {
            format!(
                "collection {} would have {count} {what}, but the limit is {limit}: name some of the \
                 remaining ones to remove",
                one.name
            )
        })
    })
}

/// Returns whether `name` is the name of a recorded view or unique constraint that the new schema
/// does not declare. Examples of names are `flights.by_tail` and `users.unique.email`.
fn removes_part(name: &str, recorded: &Schema, asked: &Schema) -> bool {
    has_part(recorded, name) && !has_part(asked, name)
}

fn has_part(schema: &Schema, name: &str) -> bool {
    let Some((collection, part)) = name.split_once('.') else {
        return false;
    };
    schema.collection(collection).is_some_and(|one| {
        let mut unique = one.unique.iter();
        one.view(part).is_some() || unique.any(|fields| names_unique(name, collection, fields))
    })
}

/// Returns whether a name denotes the unique constraint of the fields `fields`. Examples of names are
/// `users.unique.tenant,slug` and, as `verify` reports it, `users.unique (tenant, slug)`.
fn names_unique(name: &str, collection: &str, fields: &[String]) -> bool {
    let rest = name.strip_prefix(collection);
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix(".unique")) else {
        return false;
    };
    let in_parentheses = |rest: &'_ str| -> Option<String> {
        Some(rest.trim_start().strip_prefix('(')?.strip_suffix(')')?.to_owned())
    };
    let Some(list) = rest
        .strip_prefix('.')
        .map(str::to_owned)
        .or_else(|| in_parentheses(rest))
    else {
        return false;
    };
    let named: Vec<&str> = list.split(',').map(str::trim).collect();
    named.len() == fields.len() && fields.iter().all(|field| named.contains(&field.as_str()))
}

/// Returns a line for each recorded collection, field, view or other part that `asked` does not name, and
/// that therefore stays.
fn kept(schema: &Schema, asked: &Schema, found: &FoundTables) -> Vec<String> {
    let changes = schema.difference(asked).into_iter();
    changes
        .filter_map(|change| match change.kind {
            ChangeKind::TypeRemoved { name } => Some(format!("type {name}")),
            ChangeKind::FieldRemoved { collection, field } => {
                Some(format!("field {field} of collection {collection}"))
            }
            ChangeKind::UniqueRemoved { collection, fields } => Some(format!(
                "unique ({}) of collection {collection}",
                fields.join(", ")
            )),
            ChangeKind::ViewRemoved { collection, view } => {
                Some(format!("view {view} of collection {collection}"))
            }
            ChangeKind::OptionChanged {
                collection,
                option: "bucket",
                ..
            } => {
                let declared = asked
                    .collection(&collection)
                    .is_some_and(|one| one.bucket.is_some());
                let what = if declared { "keep of the bucket" } else { "bucket" };
                Some(format!("{what} of collection {collection}"))
            }
            ChangeKind::CollectionRemoved { name } => Some(match found.other.get(&name) {
                Some(difference) => format!("collection {name}: {difference}"),
                None => format!("collection {name}"),
            }),
            _ => None,
        })
        .collect()
}

/// Returns the message for a collection, view or constraint `name` that cannot be removed, with the reason.
fn not_removed(name: &str, recorded: &Recorded, asked: &Schema) -> String {
    if let Some((collection, field)) = name.split_once('.')
        && let Some(collection) = recorded.schema.collection(collection)
        && collection.field(field).is_some()
    {
        return format!(
            "field {field} of collection {} cannot be removed: its values would be lost, and return with a \
             new field of its name; keep the field, and stop writing it",
            collection.name
        );
    }
    if asked.collection(name).is_some() {
        return format!(
            "collection {name} cannot be removed, because the schema still has it: leave it out of the schema"
        );
    }
    if let Some((of, part)) = name.split_once('.')
        && let Some(collection) = recorded.schema.collection(of)
    {
        if has_part(asked, name) {
            return format!(
                "{name} cannot be removed, because the schema still has it: leave it out of the schema"
            );
        }
        let unique = collection.unique.iter();
        let unique = unique.map(|fields| format!("{of}.unique.{}", fields.join(",")));
        let views = collection.views.iter().map(|view| format!("{of}.{}", view.name));
        let parts: Vec<String> = views.chain(unique).collect();
        let parts = if parts.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has {}", parts.join(", "))
        };
        return format!("collection {of} has no view or unique constraint {part}: {parts}");
    }
    let nearest = recorded.schema.nearest_collection(name);
    let nearest = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
    format!("there is no collection {name} to remove{nearest}")
}

/// Returns the statements that the store would run to create and change tables, in order. For a store without
/// a schema, the statements for the catalog come first. A type that several tables need appears once, before
/// the first table that needs it.
fn statements(
    recorded: &Recorded,
    found: &FoundTables,
    changes: &[&TableChange],
    dropped: &[String],
    show: impl Fn(&TableChange) -> Vec<String>,
) -> Vec<String> {
    let there = recorded.tables().into_iter();
    let there = there
        .filter(|(name, table)| table.name() != name || !found.gone.contains(name))
        .map(|(_, table)| TableChange::Make(table));
    let mut run: HashSet<String> = there.flat_map(|made| show(&made)).collect();
    let catalog = (recorded.generation == 0).then(|| TableChange::Make(super::table()));
    let drops: Vec<TableChange> = dropped.iter().cloned().map(TableChange::Drop).collect();
    catalog
        .iter()
        .chain(changes.iter().copied())
        .chain(&drops)
        .flat_map(show)
        .filter(|statement| run.insert(statement.clone()))
        .collect()
}

/// Returns the reason why this release rejects a change of the schema; `None` if it makes the change.
fn refusal(change: &Change) -> Option<String> {
    match &change.kind {
        ChangeKind::CollectionRemoved { .. }
        | ChangeKind::CollectionAdded { .. }
        | ChangeKind::UniqueAdded { .. }
        | ChangeKind::UniqueRemoved { .. }
        | ChangeKind::ViewAdded { .. }
        | ChangeKind::ViewChanged { .. }
        | ChangeKind::ViewRemoved { .. }
        | ChangeKind::QueueOptionChanged { .. }
        | ChangeKind::TypeAdded { .. } => None,
        _ if change.obstacle.is_some() => Some(change.to_string()),
        ChangeKind::FieldAdded { .. } | ChangeKind::OptionChanged { option: "bucket", .. } => None,
        ChangeKind::TypeExtended { .. } => {
            Some(format!("{change}: this release cannot change an existing type"))
        }
        _ => Some(format!("{change}: this release cannot change an existing table")),
    }
}

/// Returns the changes of tables that must precede the recording of `schema` and `views`. `schema` includes
/// the recorded parts that stay.
fn table_changes(
    recorded: &Recorded,
    found: &FoundTables,
    schema: &Schema,
    views: &KeptViews,
) -> Vec<TableChange> {
    let mut changes = Vec::new();
    for collection in schema.collections.iter().filter(|one| one.attached.is_none()) {
        let there = recorded.schema.collection(&collection.name);
        let is_gone = found.gone.contains(&collection.name);
        let base = there.filter(|_| !is_gone).map(|there| there.base_table());
        changes.extend(table_change(base, collection.base_table()));
        for view in views.of(&collection.name).filter(|view| view.is_written()) {
            let is_kept = recorded.views.tables.iter().any(|one| one.number == view.number);
            let there = there.filter(|_| is_kept).and_then(|there| view.table(there).ok());
            let change = view.table(collection).map(|table| table_change(there, table));
            changes.extend(change.ok().flatten());
        }
        let is_kept = |one: &KeptUnique| recorded.views.has_unique(one.number);
        let unique = views.unique_of(&collection.name).filter(|one| !is_kept(one));
        let unique = unique.filter_map(|one| one.table(collection).ok());
        changes.extend(unique.map(TableChange::Make));
    }
    changes
}

fn table_change(there: Option<Table>, table: Table) -> Option<TableChange> {
    let Some(there) = there else {
        return Some(TableChange::Make(table));
    };
    let adds = added_columns(&there, &table).is_ok_and(|added| !added.is_empty());
    adds.then_some(TableChange::Extend { there, table })
}

/// Applies a schema to the store. Also returns the changes that the caller must make after it.
pub(crate) async fn apply(
    store: &Arc<dyn Store>,
    catalog: &Catalog<'_>,
    recorded: &Recorded,
    asked: &Schema,
    intent: Intent,
) -> Result<(Applied, DeferredChanges)> {
    let plan = intent.plan;
    if let Some(refusal) = refusal_of(&plan, asked) {
        return Err(refusal);
    }
    let mut applied = Applied {
        generation: recorded.generation,
        changes: plan.changes,
        kept: plan.kept,
        misfits: plan.misfits,
    };
    if applied.changes.is_empty() && recorded.generation > 0 {
        return Ok((applied, DeferredChanges::default()));
    }
    catalog.create().await?;
    for change in &intent.tables {
        change_table(store, catalog.environment, change).await?;
    }
    // Record the schema after its tables are created, so that every recorded schema has all its tables. A
    // crash before the recording leaves empty tables and columns without values. The next `apply` finds and
    // uses them.
    let is_another =
        !recorded.schema.difference(&intent.schema).is_empty() || *recorded.views != intent.views;
    if is_another || recorded.generation == 0 {
        let (schema, views) = (&intent.schema, &intent.views);
        applied.generation = catalog.record_schema(schema, views, recorded.generation).await?;
    }
    Ok((applied, intent.after))
}

/// Drops tables that the recorded schema no longer names. The caller must have recorded the schema, so that
/// an `apply` that lost to a concurrent `apply` drops no tables of the winner. A crash before the drop leaves
/// a table that no schema names. A later `apply` that removes the table's name drops it.
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

/// Returns the error for a plan that rejects its schema; `None` if the schema can be applied.
pub(crate) fn refusal_of(plan: &SchemaPlan, asked: &Schema) -> Option<Error> {
    let first = plan.rejected.first()?;
    let message = match plan.rejected.len() - 1 {
        0 => first.to_owned(),
        more => format!("{first} (and {more} more)"),
    };
    let kind = if unsupported(asked).is_empty() {
        ErrorKind::SchemaMismatch
    } else {
        ErrorKind::Unsupported
    };
    let error = Error::new(kind, message);
    Some(error.with_hint("run a plan of the same schema, which shows all obstacles"))
}
