//! Comparison of a store's tables with the recorded schema. The comparison finds tables that are missing,
//! tables that differ, and tables that no schema names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use recto_model::Table;
use recto_model::schema::{AttachedTable, Change, ChangeKind, Collection, Schema};
use recto_protocol::views::claims::OWNER_COLUMN;
use recto_store::{ReadOptions, Store, StoreError, TableState};

use super::queues::FoundQueues;
use super::views::KeptUnique;
use super::{Catalog, Recorded};
use crate::error::{Error, ErrorKind, Result};
use crate::reach::{Away, Reach};
use crate::session::{ApplyOptions, UnavailableCollection};

/// Prefix of the names of Recto's own tables. Names of collections cannot begin with it.
const OWN_PREFIX: &str = "recto_";
/// Maximum number of rows that are counted to tell the user how many rows the drop of a table loses.
const MAX_COUNTED_ROWS: u64 = 10_000;
/// Maximum time of the count of rows that the drop of a table loses.
const COUNT_TIME: Duration = Duration::from_secs(5);

/// Reason why a collection is unavailable: its table is missing or differs from the schema, or its keyspace
/// is unreachable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    kind: ErrorKind,
    message: String,
    hint: Cow<'static, str>,
}

impl Problem {
    fn of(collection: &str, table: &Table, state: TableState) -> Option<Self> {
        let name = table.name();
        if AttachedTable::keyspace_of(name).is_some() {
            return Self::of_attached(collection, name, state);
        }
        let (message, hint) = match state {
            TableState::AsAsked => return None,
            TableState::Missing if is_claims(table) => (
                format!("table {name}, which keeps fields of collection {collection} unique, is missing"),
                "apply the schema again, which rebuilds the table from the collection's records",
            ),
            TableState::Missing if name != collection => (
                format!("table {name}, a view of collection {collection}, is missing"),
                "apply the schema again, which fills the table from the collection's records",
            ),
            TableState::Missing => (
                format!("table {name} is missing"),
                "restore the table from a backup; or apply the schema again, which creates the table without \
                 rows",
            ),
            TableState::Other(difference) => {
                let hint = if is_claims(table) || name != collection {
                    "undo the change, which another program made; or drop the table and apply the schema again, \
                     which fills it from the collection's records. Other collections stay available"
                } else {
                    "undo the change, which another program made; or drop the table and apply the schema again, \
                     which creates it without rows. Other collections stay available"
                };
                (
                    format!("table {name} differs from the schema: {difference}"),
                    hint,
                )
            }
        };
        Some(Self::of_schema(message, hint))
    }

    fn of_schema(message: String, hint: &'static str) -> Self {
        Self {
            kind: ErrorKind::SchemaMismatch,
            message,
            hint: Cow::Borrowed(hint),
        }
    }

    fn of_away(collection: &str, away: &Away) -> Self {
        Self {
            kind: away.kind,
            message: format!("collection {collection} is unavailable: {}", away.message),
            hint: Cow::Owned(away.hint.clone()),
        }
    }

    fn of_attached(collection: &str, table: &str, state: TableState) -> Option<Self> {
        let difference = match state {
            TableState::AsAsked => return None,
            TableState::Missing => "is missing".to_owned(),
            TableState::Other(difference) => format!("has changed: {difference}"),
        };
        Some(Self::of_schema(
            format!("table {table}, which is the source of collection {collection}, {difference}"),
            "undo the change; or run `recto attach` again, which uses the table in its present form; or \
             remove the collection with `recto apply --remove COLLECTION`. Other collections stay available",
        ))
    }

    /// Returns the description of an unavailable collection for users, with this problem as the reason.
    pub(crate) fn refused(&self, collection: &str) -> UnavailableCollection {
        UnavailableCollection {
            collection: collection.to_owned(),
            message: self.message.clone(),
            hint: self.hint.clone().into_owned(),
        }
    }

    pub(crate) fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone()).with_hint(self.hint.clone())
    }
}

/// Returns the problems of the recorded collections whose tables cannot serve them, by collection.
/// Collections in unreachable keyspaces have problems too. A keyspace that does not answer counts as
/// unreachable.
pub(crate) async fn problems(
    store: &Arc<dyn Store>,
    recorded: &Recorded,
    reach: &Reach,
) -> Result<BTreeMap<String, Problem>> {
    let mut by_keyspace: BTreeMap<Option<String>, (Vec<String>, Vec<Table>)> = BTreeMap::new();
    for (name, table) in recorded.tables() {
        let keyspace = AttachedTable::keyspace_of(table.name()).map(str::to_owned);
        let (names, tables) = by_keyspace.entry(keyspace).or_default();
        names.push(name);
        tables.push(table);
    }
    let mut problems = BTreeMap::new();
    for (keyspace, (names, tables)) in by_keyspace {
        let away = |keyspace: &String| reach.away().remove(keyspace);
        let mut gone = keyspace.as_ref().and_then(away);
        if gone.is_none() {
            match (store.compare_tables(&tables).await, &keyspace) {
                (Ok(states), _) => note_states(&mut problems, names.iter().zip(&tables).zip(states)),
                (Err(error), Some(keyspace)) => {
                    reach.lost(keyspace, &error.into());
                    gone = away(keyspace);
                }
                (Err(error), None) => return Err(error.into()),
            }
        }
        for name in names {
            let problem = gone.as_ref().map(|away| Problem::of_away(&name, away));
            problems.extend(problem.map(|problem| (name, problem)));
        }
    }
    Ok(problems)
}

fn note_states<'t>(
    problems: &mut BTreeMap<String, Problem>,
    compared: impl Iterator<Item = ((&'t String, &'t Table), TableState)>,
) {
    for ((name, table), state) in compared {
        if let Some(problem) = Problem::of(name, table, state) {
            problems.entry(name.clone()).or_insert(problem);
        }
    }
}

/// State of the tables of a store; empty if there is no store yet.
#[derive(Debug, Default)]
pub(crate) struct FoundTables {
    /// Names of recorded collections whose table is missing.
    pub(crate) gone: BTreeSet<String>,
    /// Ids of the recorded views and unique constraints whose table is missing.
    pub(crate) gone_views: BTreeSet<u64>,
    /// Names of recorded collections that are attached to tables of other programs.
    attached: BTreeSet<String>,
    /// Names of collections, recorded or requested, whose table differs from the schema, with the difference.
    pub(crate) other: BTreeMap<String, String>,
    /// Names of tables of Recto that the recorded schema does not name.
    pub(crate) strays: BTreeSet<String>,
    /// Row counts of tables that are to be dropped, or that exist although their collection is not recorded.
    rows: BTreeMap<String, Rows>,
    /// Settings of the store's queues. `None` if the schema declares no queue settings.
    pub(crate) queues: Option<FoundQueues>,
}

/// Number of rows of a table, from a count with limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    Exactly(u64),
    MoreThan(u64),
    Unknown,
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(0) => f.write_str("it has no rows"),
            Self::Exactly(1) => f.write_str("its 1 row is lost"),
            Self::Exactly(rows) => write!(f, "its {rows} rows are lost"),
            Self::MoreThan(rows) => write!(f, "its more than {rows} rows are lost"),
            Self::Unknown => f.write_str("its rows, which could not be counted, are lost"),
        }
    }
}

impl FoundTables {
    /// Inspects the tables of the recorded schema and of the schema to apply, and the tables that the options
    /// remove.
    pub(crate) async fn look(
        catalog: &Catalog<'_>,
        recorded: &Recorded,
        asked: &Schema,
        options: &ApplyOptions,
    ) -> Result<Self> {
        let store = catalog.store;
        let mut found = Self::default();
        if !asked.queues.is_empty() {
            found.queues = Some(FoundQueues::look(catalog).await?);
        }
        found.look_at_kept(store, recorded).await?;
        found.look_at_attached(store, asked).await?;
        let kept = recorded;
        let recorded = &recorded.schema;
        let added = asked.collections.iter();
        let added = added.filter(|one| recorded.collection(&one.name).is_none());
        let tables: Vec<Table> = recorded
            .collections
            .iter()
            .chain(added)
            .filter(|one| one.attached.is_none())
            .map(|one| one.base_table())
            .collect();
        let attached = recorded.collections.iter().filter(|one| one.attached.is_some());
        found.attached = attached.map(|one| one.name.clone()).collect();
        let mut uncounted = Vec::new();
        for (table, state) in tables.iter().zip(store.compare_tables(&tables).await?) {
            let name = table.name().to_owned();
            let is_recorded = recorded.collection(&name).is_some();
            match state {
                TableState::AsAsked if !is_recorded || options.removes(&name) => {
                    uncounted.push(table.clone());
                }
                TableState::Missing if is_recorded => {
                    found.gone.insert(name);
                }
                TableState::AsAsked | TableState::Missing => {}
                state @ TableState::Other(_) => found.note(&name, table, state),
            }
        }
        if options
            .remove
            .iter()
            .any(|name| recorded.collection(name).is_none())
        {
            for stray in strays(store, kept).await? {
                found.strays.insert(stray.name().to_owned());
                if options.removes(stray.name()) {
                    uncounted.push(stray);
                }
            }
        }
        for table in uncounted {
            let name = table.name().to_owned();
            found.rows.insert(name, count(store, table).await);
        }
        Ok(found)
    }

    /// Inspects the tables of the recorded views and unique constraints.
    async fn look_at_kept(&mut self, store: &Arc<dyn Store>, recorded: &Recorded) -> Result<()> {
        let views = recorded.views.tables.iter().filter(|view| view.is_written());
        let views = views.filter_map(|view| {
            let collection = recorded.schema.collection(&view.collection)?;
            let collection = Some(collection).filter(|one| one.attached.is_none())?;
            Some(((view.number, &view.collection), view.table(collection).ok()?))
        });
        let unique = recorded.views.unique.iter().filter_map(|unique| {
            let collection = recorded.schema.collection(&unique.collection)?;
            Some((
                (unique.number, &unique.collection),
                unique.table(collection).ok()?,
            ))
        });
        let (kept, tables): (Vec<_>, Vec<Table>) = views.chain(unique).unzip();
        if tables.is_empty() {
            return Ok(());
        }
        let states = store.compare_tables(&tables).await?;
        for (((number, collection), table), state) in kept.into_iter().zip(&tables).zip(states) {
            if state == TableState::Missing {
                self.gone_views.insert(number);
            } else {
                self.note(collection, table, state);
            }
        }
        Ok(())
    }

    /// Records the difference between a table and the schema, if the two differ.
    fn note(&mut self, collection: &str, table: &Table, state: TableState) {
        if let Some(problem) = Problem::of(collection, table, state) {
            self.other
                .insert(collection.to_owned(), problem.error().to_string());
        }
    }

    /// Inspects the tables that are to be attached.
    async fn look_at_attached(&mut self, store: &Arc<dyn Store>, asked: &Schema) -> Result<()> {
        let attached = asked.collections.iter().filter(|one| one.attached.is_some());
        let tables = attached.flat_map(|one| {
            let tables = tables_there(one).into_iter();
            tables.map(|table| (one.name.clone(), table))
        });
        let (names, tables): (Vec<String>, Vec<Table>) = tables.unzip();
        if tables.is_empty() {
            return Ok(());
        }
        let states = store.compare_tables(&tables).await?;
        for ((name, table), state) in names.iter().zip(&tables).zip(states) {
            self.note(name, table, state);
        }
        Ok(())
    }

    /// Describes the rows that are lost if the table `name` is dropped.
    pub(crate) fn rows_lost(&self, name: &str) -> String {
        if self.gone.contains(name) {
            return "its table is already missing".to_owned();
        }
        self.rows.get(name).unwrap_or(&Rows::Unknown).to_string()
    }

    /// Returns whether the table of a collection that is not recorded exists and may have rows. Returns true
    /// if the rows could not be counted.
    pub(crate) fn has_rows(&self, collection: &str) -> bool {
        let rows = self.rows.get(collection);
        rows.is_some_and(|rows| *rows != Rows::Exactly(0))
    }

    /// Describes a change of the schema and its effect on rows, for the user.
    pub(crate) fn tell(&self, change: &Change) -> String {
        match &change.kind {
            ChangeKind::QueueOptionChanged { option, .. } => match &self.queues {
                Some(queues) => queues.tell(change, option),
                None => change.to_string(),
            },
            ChangeKind::CollectionRemoved { name } if self.attached.contains(name) => {
                format!("{}; its table stays unchanged", change.kind)
            }
            ChangeKind::CollectionRemoved { name } => format!("{}; {}", change.kind, self.rows_lost(name)),
            ChangeKind::CollectionAdded { name } => match self.rows.get(name) {
                None | Some(Rows::Exactly(0)) => change.to_string(),
                Some(_) => format!("{change}; its table exists already, and keeps its rows"),
            },
            _ => change.to_string(),
        }
    }
}

/// Returns the tables of another program (base table and views) from which an attached collection is read.
fn tables_there(collection: &Collection) -> Vec<Table> {
    let tables = collection.sort_orders().into_iter();
    let tables = tables.filter_map(|one| Some(one.table(&one.table_name(0)).ok()?.0));
    tables.collect()
}

/// Returns the tables of Recto that the schema `recorded` does not name, such as tables of an interrupted
/// `apply`.
pub(crate) async fn strays(store: &Arc<dyn Store>, recorded: &Recorded) -> Result<Vec<Table>, StoreError> {
    let views = recorded.views.tables.iter().filter_map(|view| {
        let collection = recorded.schema.collection(&view.collection)?;
        Some(view.table_name(collection))
    });
    let claims = recorded.views.unique.iter().map(KeptUnique::table_name);
    let views: BTreeSet<String> = views.chain(claims).collect();
    let mut tables = store.list_tables().await?;
    tables.retain(|table| {
        let name = table.name();
        !name.starts_with(OWN_PREFIX) && recorded.schema.collection(name).is_none() && !views.contains(name)
    });
    Ok(tables)
}

/// Returns whether a table belongs to a unique constraint. No other table has the owner column.
fn is_claims(table: &Table) -> bool {
    let mut columns = table.regular().iter();
    columns.any(|column| column.name == OWNER_COLUMN)
}

/// Counts the rows of a table, within limits, so that the user learns how many rows a drop would lose.
async fn count(store: &Arc<dyn Store>, table: Table) -> Rows {
    let counting = tokio::time::timeout(COUNT_TIME, count_all(store, Arc::new(table)));
    match counting.await {
        Ok(Ok(rows)) if rows > MAX_COUNTED_ROWS => Rows::MoreThan(MAX_COUNTED_ROWS),
        Ok(Ok(rows)) => Rows::Exactly(rows),
        Ok(Err(_)) | Err(_) => Rows::Unknown,
    }
}

async fn count_all(store: &Arc<dyn Store>, table: Arc<Table>) -> Result<u64, StoreError> {
    let (snapshot, options) = (store.snapshot()?, ReadOptions::default());
    let mut rows = 0;
    for range in snapshot.token_ranges(&table, 1).await? {
        let mut after = None;
        loop {
            let limit = u32::try_from(MAX_COUNTED_ROWS + 1 - rows).unwrap_or(u32::MAX);
            let read = snapshot
                .scan(&table, &range, after.as_ref(), limit, &options)
                .await?;
            rows += read.rows.len() as u64;
            after = read.next;
            if rows > MAX_COUNTED_ROWS {
                return Ok(rows);
            }
            if after.is_none() {
                break;
            }
        }
    }
    Ok(rows)
}
