//! Catalog of a store: the schema with its generation, the cursor keys and the addresses of attached keyspaces.
//!
//! The catalog is one table, `recto_catalog`. It is written only by compare-and-set, so that two processes that apply a
//! schema at the same time cannot both succeed. The bodies are versioned text (docs/format.md, "Catalog").
//!
//! | module | content |
//! |---|---|
//! | `change` | creation, extension and drop of one table |
//! | `tables` | comparison of the existing tables with the recorded schema |
//! | `views` | the tables of views, with their states, and of unique constraints |
//! | `queues` | settings of all queues, which a schema declares and the catalog does not record |
//! | `attached` | addresses of the keyspaces whose tables are attached |
//! | `apply` | application of a schema to a store |

pub(crate) mod apply;
pub(crate) mod attached;
pub(crate) mod change;
pub(crate) mod queues;
pub(crate) mod tables;
mod unsupported;
pub(crate) mod views;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use recto_model::collation::{COLLATION_NUMBER, IS_BUILT_IN};
use recto_model::schema::Schema;
use recto_model::table::{Column, ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Environment, Table, Type};
use recto_plan::cursor::{KeyRing, MAX_KEYS};
use recto_store::{
    Cas, CasCondition, CasOutcome, ConsistencyLevel, Mutation, Operation, PointRead, ReadOptions, RowAddress,
    Store, StoreErrorKind, TableState, WriteOptions,
};

use crate::error::{Error, ErrorKind, Result};
use crate::options::{read_options, write_options};
use crate::settle::{Attempt, Policy, settle};
use change::{TableChange, change_table};
use views::{KeptView, KeptViews};

const TABLE: &str = "recto_catalog";
/// Version of the format of the catalog row that contains the schema.
const SCHEMA_VERSION: i32 = 5;
/// Format version 4 of the schema row. Recto writes it if a view or unique constraint lacks records that it
/// cannot store, but no table allows an empty partition.
const WITHOUT_EMPTY_PARTITIONS: i32 = 4;
/// Format version 3 of the schema row. Recto writes it if the store has unique constraints or attached
/// tables, but no views that lack records and no tables that allow an empty partition.
const WITHOUT_MISFITS: i32 = 3;
/// Format version 2 of the schema row. Recto writes it for a store that needs no later version, so that
/// releases without unique constraints and attached tables can open the store.
const WITHOUT_UNIQUE_OR_ATTACHED: i32 = 2;
/// Format version 1 of the schema row, which has no list of views. Recto only reads it.
const WITHOUT_VIEWS: i32 = 1;
/// Version of the format of the catalog row that contains the cursor keys.
const CURSOR_KEYS_VERSION: i32 = 1;
/// Name of the catalog row that contains the schema.
const SCHEMA: &str = "schema";
/// Name of the catalog row that contains the cursor keys.
const CURSOR_KEYS: &str = "cursor_keys";
/// Maximum number of reads while another process is creating the read table or cursor keys.
const MAX_LOOKS: u32 = 3;
/// Maximum number of attempts to rotate or replace the cursor keys when other writers change them.
const MAX_ROTATIONS: u32 = 16;
/// Wait before the next read of the catalog's table while another process creates it.
const TABLE_PAUSE: Duration = Duration::from_millis(500);

/// Schema and views that the catalog of a store contains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Recorded {
    /// Number of schemas recorded so far; 0 for a store without a schema.
    pub(crate) generation: u64,
    pub(crate) schema: Arc<Schema>,
    /// Tables of the schema's views and unique constraints, with their states.
    pub(crate) views: Arc<KeptViews>,
}

impl Recorded {
    /// Returns the tables of the schema, each with the name of its collection. For each collection, the base
    /// table comes first, then the tables of its views, then the tables of its unique constraints.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        let mut tables = Vec::new();
        for collection in &self.schema.collections {
            tables.push((collection.name.clone(), collection.base_table()));
            let views = self.views.of(&collection.name).filter(|view| view.is_written());
            let views = views.filter_map(|view| view.table(collection).ok());
            tables.extend(views.map(|table| (collection.name.clone(), table)));
            let unique = self.views.unique_of(&collection.name);
            let unique = unique.filter_map(|unique| unique.table(collection).ok());
            tables.extend(unique.map(|table| (collection.name.clone(), table)));
        }
        tables
    }
}

impl Recorded {
    /// Rejects writes to a collection if a view has sort keys (bytes that order text by a collation) that
    /// this program cannot create. Otherwise readers of the view would miss the written records.
    pub(crate) fn check_sort_keys(&self, collection: &str) -> Result<()> {
        self.views.outdated(collection).map_or(Ok(()), |view| {
            Err(other_sort_keys(view, "cannot be written").with_hint(REBUILD))
        })
    }

    /// Returns the error for a query that no view can serve, or that names an unusable view. The error is
    /// `refusal`, unless the query may need a view with sort keys (bytes that order text by a collation) of
    /// another release. The error then names this view.
    pub(crate) fn unserved(&self, collection: &str, refusal: Error, asked: &str) -> Error {
        match self.views.outdated(collection) {
            Some(view) if asked.is_empty() || asked == view.view.name => {
                other_sort_keys(view, "cannot be read")
                    .with_hint(REBUILD)
                    .with_source(refusal)
            }
            _ => refusal,
        }
    }
}

/// Hint for a view whose sort keys (bytes that order text by a collation) another release created.
const REBUILD: &str = "apply the schema (`recto apply`) when all programs that use the store have this \
    release; writes can continue while it rebuilds the view";

#[cold]
fn other_sort_keys(view: &KeptView, what: &str) -> Error {
    let number = view.collation.unwrap_or_default();
    let here = if IS_BUILT_IN {
        format!("this program uses collation number {COLLATION_NUMBER}")
    } else {
        "this program was built without the feature `collation`".to_owned()
    };
    Error::new(
        ErrorKind::SchemaMismatch,
        format!(
            "view {} of collection {} {what}: its sort keys have collation number {number}, but {here}",
            view.view.name, view.collection
        ),
    )
}

/// Row of the catalog, with the version of its format.
struct Entry {
    version: i32,
    generation: u64,
    body: Vec<u8>,
}

/// Handle to the catalog of a store.
///
/// The catalog is written at the serial consistency level of the whole cluster. At the serial level of one
/// data center, two processes in different data centers could both apply a schema at the same time. Levels
/// must not be mixed on a row, so operations whose result decides a write also read at the serial level.
/// Opening a store decides nothing and must not depend on other data centers. So it reads the rows that are
/// committed in its own data center.
pub(crate) struct Catalog<'a> {
    store: &'a Arc<dyn Store>,
    environment: &'a Environment,
    table: Arc<Table>,
    request_timeout: Option<Duration>,
}

/// Returns the definition of the catalog's table.
pub(crate) fn table() -> Table {
    let cas = ColumnKind::Regular(WriteKind::Cas);
    let column = |name: &str, ty, kind| Column {
        name: name.into(),
        ty,
        kind,
    };
    let columns = vec![
        column("name", Type::Text, ColumnKind::Partition),
        column("version", Type::Int, cas),
        column("generation", Type::BigInt, cas),
        column("body", Type::Blob, cas),
    ];
    Table::new(TABLE, columns, TableOptions::default()).expect("the catalog is a table")
}

/// Returns the condition of a transaction that the recorded schema has the generation `generation`. With it,
/// a write fails if another schema was recorded.
pub(crate) fn is_of_generation(generation: u64) -> Cas {
    static CATALOG: LazyLock<Arc<Table>> = LazyLock::new(|| Arc::new(table()));
    Cas {
        table: Arc::clone(&CATALOG),
        partition: partition(SCHEMA),
        conditions: vec![condition(generation)],
        mutations: Vec::new(),
    }
}

/// Returns the condition that a row of the catalog has the generation `generation`; 0 means that the row does
/// not exist.
fn condition(generation: u64) -> CasCondition {
    CasCondition {
        row: RowAddress::Row(Cells::new()),
        column: 1,
        expected: (generation > 0).then(|| generation.to_be_bytes().to_vec()),
    }
}

impl<'a> Catalog<'a> {
    /// Returns a handle to the catalog of `store`. Does not create the catalog's table. Without a
    /// `request_timeout`, requests have the default time limits of reads and writes.
    pub(crate) fn new(
        store: &'a Arc<dyn Store>,
        environment: &'a Environment,
        request_timeout: Option<Duration>,
    ) -> Self {
        Self {
            store,
            environment,
            table: Arc::new(table()),
            request_timeout,
        }
    }

    /// Returns whether the store has a catalog.
    ///
    /// # Errors
    /// The store has another table of the catalog's name.
    pub(crate) async fn exists(&self) -> Result<bool> {
        let table = std::slice::from_ref(&*self.table);
        match self.store.compare_tables(table).await?.pop() {
            Some(TableState::AsAsked) => Ok(true),
            Some(TableState::Other(difference)) => Err(Error::new(
                ErrorKind::Corrupt,
                format!("table {TABLE}, which has the schema, has an unexpected form: {difference}"),
            )
            .with_hint("undo the change, which another program made")),
            Some(TableState::Missing) | None => Ok(false),
        }
    }

    pub(crate) async fn create(&self) -> Result<()> {
        let table = Table::clone(&self.table);
        change_table(self.store, self.environment, &TableChange::Make(table)).await
    }

    /// Returns the recorded schema, read at the serial level: the latest schema of all data centers. Its
    /// generation is 0 if no schema is recorded.
    pub(crate) async fn schema(&self) -> Result<Recorded> {
        read_schema(self.entry(SCHEMA, ConsistencyLevel::Serial).await?)
    }

    /// Returns the recorded schema, read in the local data center, which may lag behind. Its generation is 0
    /// if no schema is recorded.
    pub(crate) async fn known_schema(&self) -> Result<Recorded> {
        read_schema(self.entry(SCHEMA, ConsistencyLevel::LocalQuorum).await?)
    }

    /// Returns the recorded schema, read in the local data center. Returns `None` if its generation is
    /// `generation`.
    pub(crate) async fn known_schema_other_than(&self, generation: u64) -> Result<Option<Recorded>> {
        let entry = self.entry(SCHEMA, ConsistencyLevel::LocalQuorum).await?;
        // An equal generation means an equal schema, so do not parse its text again.
        match entry.filter(|entry| entry.generation != generation) {
            Some(entry) => read_schema(Some(entry)).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the cursor keys, read in the local data center. Returns `None` if the store has none there.
    pub(crate) async fn known_cursor_keys(&self) -> Result<Option<KeyRing>> {
        let entry = self.entry(CURSOR_KEYS, ConsistencyLevel::LocalQuorum).await?;
        entry.as_ref().map(read_keys).transpose()
    }

    /// Records a schema and its views as the successor of generation `after`. Returns the new generation.
    ///
    /// # Errors
    /// Another schema was recorded after generation `after`.
    pub(crate) async fn record_schema(&self, schema: &Schema, views: &KeptViews, after: u64) -> Result<u64> {
        let generation = after + 1;
        let is_attached = schema.collections.iter().any(|one| one.attached.is_some());
        let entry = Entry {
            version: if views.allow_empty() {
                SCHEMA_VERSION
            } else if views.have_misfits() {
                WITHOUT_EMPTY_PARTITIONS
            } else if views.unique.is_empty() && !is_attached {
                WITHOUT_UNIQUE_OR_ATTACHED
            } else {
                WITHOUT_MISFITS
            },
            generation,
            body: format!("{}\n{}", views.to_text(), schema.to_toml()).into_bytes(),
        };
        if self.replace(SCHEMA, after, &entry).await? {
            return Ok(generation);
        }
        Err(Error::new(
            ErrorKind::SchemaMismatch,
            "another process applied a schema at the same time",
        )
        .with_hint("run plan again, and check the changes"))
    }

    /// Returns the cursor keys, and creates them if they do not exist.
    pub(crate) async fn cursor_keys(&self) -> Result<KeyRing> {
        let mut level = ConsistencyLevel::LocalQuorum;
        for _ in 0..MAX_LOOKS {
            if let Some(entry) = self.entry(CURSOR_KEYS, level).await? {
                return read_keys(&entry);
            }
            let ring = KeyRing::generate(self.environment);
            if self.replace(CURSOR_KEYS, 0, &keys_entry(1, &ring)).await? {
                return Ok(ring);
            }
            // Another process created the keys. Read them at the serial level, because the local
            // data center may not have them yet.
            level = ConsistencyLevel::Serial;
        }
        Err(keys_change())
    }

    /// Returns the cursor keys, read at the serial level: the latest keys of all data centers. Returns `None`
    /// if the store has none.
    pub(crate) async fn decided_cursor_keys(&self) -> Result<Option<KeyRing>> {
        let entry = self.entry(CURSOR_KEYS, ConsistencyLevel::Serial).await?;
        entry.as_ref().map(read_keys).transpose()
    }

    /// Adds a new cursor key, which encrypts from now on, and keeps the newest `earlier` keys before the new
    /// key. Concurrent rotations happen one after another.
    pub(crate) async fn rotate_cursor_keys(&self, earlier: usize) -> Result<KeyRing> {
        for _ in 0..MAX_ROTATIONS {
            let Some(entry) = self.entry(CURSOR_KEYS, ConsistencyLevel::Serial).await? else {
                return Err(no_keys());
            };
            let mut ring = read_keys(&entry)?;
            ring.retire(earlier.min(MAX_KEYS - 2));
            ring.rotate(self.environment)
                .map_err(|error| Error::new(ErrorKind::LimitExceeded, error.to_string()))?;
            ring.retire(earlier);
            let rotated = keys_entry(entry.generation + 1, &ring);
            if self.replace(CURSOR_KEYS, entry.generation, &rotated).await? {
                return Ok(ring);
            }
        }
        Err(keys_change())
    }

    /// Replaces the current cursor keys of the store with `ring`. A copy adopts the keys of its source store,
    /// so that cursors of the source remain valid.
    pub(crate) async fn adopt_cursor_keys(&self, ring: &KeyRing) -> Result<()> {
        for _ in 0..MAX_ROTATIONS {
            let entry = self.entry(CURSOR_KEYS, ConsistencyLevel::Serial).await?;
            let before = entry.as_ref().map_or(0, |entry| entry.generation);
            if entry.is_some_and(|entry| entry.body == *ring.to_bytes()) {
                return Ok(());
            }
            if self
                .replace(CURSOR_KEYS, before, &keys_entry(before + 1, ring))
                .await?
            {
                return Ok(());
            }
        }
        Err(keys_change())
    }

    async fn entry(&self, name: &str, level: ConsistencyLevel) -> Result<Option<Entry>> {
        let read = PointRead {
            table: Arc::clone(&self.table),
            partition: partition(name),
            clustering: Cells::new(),
        };
        let options = ReadOptions {
            consistency: Some(level),
            ..read_options(self.request_timeout)
        };
        let mut looks = 1;
        let found = loop {
            match self.store.snapshot()?.get(&read, &options).await {
                // If another process is creating the catalog, the table may not have reached every node yet.
                // So read again after a pause.
                Err(error) if error.kind() == StoreErrorKind::Table && looks < MAX_LOOKS => {
                    looks += 1;
                    tokio::time::sleep(TABLE_PAUSE).await;
                }
                found => break found?,
            }
        };
        let Some(row) = found.rows.iter().next() else {
            return Ok(None);
        };
        let damaged = || {
            Error::new(
                ErrorKind::Corrupt,
                format!("the row {name} of the catalog is damaged"),
            )
        };
        let version = row
            .get(1)
            .and_then(|cell| cell.try_into().ok())
            .map(i32::from_be_bytes);
        let newest = match name {
            SCHEMA => SCHEMA_VERSION,
            attached::ATTACHED => attached::ATTACHED_VERSION,
            _ => CURSOR_KEYS_VERSION,
        };
        let version = match version {
            Some(version) if (1..=newest).contains(&version) => version,
            Some(version) if version > newest => {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!("the store was written by a newer release (catalog version {version})"),
                )
                .with_hint("use that release"));
            }
            _ => return Err(damaged()),
        };
        let generation = row
            .get(2)
            .and_then(|cell| cell.try_into().ok())
            .map(u64::from_be_bytes);
        let body = row.get(3).map(<[u8]>::to_vec);
        let (Some(generation), Some(body)) = (generation, body) else {
            return Err(damaged());
        };
        Ok(Some(Entry {
            version,
            generation,
            body,
        }))
    }

    /// Replaces the row `name` if its generation is `expected` (0: no row). Returns false if the generation
    /// differs.
    async fn replace(&self, name: &str, expected: u64, entry: &Entry) -> Result<bool> {
        let cas = self.cas(name, expected, entry);
        let options = WriteOptions {
            consistency: Some(ConsistencyLevel::Serial),
            ..write_options(self.request_timeout)
        };
        let attempt = |_| self.try_replace(name, &cas, options, entry);
        let replaced = settle(self.environment, Policy::CATALOG, attempt).await;
        replaced.map_err(|unsettled| {
            unsettled.or(|unknown| {
                Error::new(
                    ErrorKind::OutcomeUnknown,
                    format!("it is not known whether the catalog's {name} was written"),
                )
                .with_hint("run the command again to find out")
                .with_source(unknown)
            })
        })
    }

    async fn try_replace(
        &self,
        name: &str,
        cas: &Cas,
        options: WriteOptions,
        entry: &Entry,
    ) -> Attempt<bool, Error> {
        match self.store.cas(cas.clone(), options).await {
            Ok(CasOutcome::Applied) => Attempt::Known(true),
            // An earlier attempt whose outcome was unknown may have succeeded, so compare the
            // stored entry with the new one.
            Ok(CasOutcome::NotApplied { .. }) => {
                match self.entry(name, ConsistencyLevel::Serial).await {
                    Ok(found) => Attempt::Known(found.is_some_and(|found| {
                        found.generation == entry.generation && found.body == entry.body
                    })),
                    Err(error) => Attempt::Failed(error),
                }
            }
            Ok(CasOutcome::Unknown(error)) => Attempt::Unknown(error),
            Ok(CasOutcome::Refused(error)) => Attempt::Refused(error.into()),
            Err(error) => Attempt::Failed(error.into()),
        }
    }

    /// Waits until the store has executed all earlier requests, if the store executes requests one after
    /// another. Sends a conditional write that changes nothing, which the store executes after the earlier
    /// requests.
    pub(crate) async fn wait_its_turn(&self) -> Result<()> {
        let never = Entry {
            version: SCHEMA_VERSION,
            generation: u64::MAX,
            body: Vec::new(),
        };
        let cas = self.cas(SCHEMA, u64::MAX, &never);
        let options = write_options(self.request_timeout);
        let attempt = |_| async {
            match self.store.cas(cas.clone(), options).await {
                Ok(CasOutcome::Applied | CasOutcome::NotApplied { .. }) => Attempt::Known(()),
                Ok(CasOutcome::Unknown(error)) => Attempt::Unknown(error),
                Ok(CasOutcome::Refused(error)) => Attempt::Refused(Error::from(error)),
                Err(error) => Attempt::Failed(error.into()),
            }
        };
        let settled = settle(self.environment, Policy::CATALOG, attempt).await;
        settled.map_err(|unsettled| unsettled.or(Error::from))
    }

    fn cas(&self, name: &str, expected: u64, entry: &Entry) -> Cas {
        let mut cells = Cells::new();
        cells.push(Some(&entry.version.to_be_bytes()));
        cells.push(Some(&entry.generation.to_be_bytes()));
        cells.push(Some(&entry.body));
        Cas {
            table: Arc::clone(&self.table),
            partition: partition(name),
            conditions: vec![condition(expected)],
            mutations: vec![Mutation {
                operation: Operation::Put {
                    clustering: Cells::new(),
                    cells,
                    replace: true,
                },
                stamp: None,
                ttl_seconds: None,
            }],
        }
    }
}

fn partition(name: &str) -> Cells {
    let mut cells = Cells::new();
    cells.push(Some(name.as_bytes()));
    cells
}

/// Decodes the cursor keys from their row of the catalog.
fn read_keys(entry: &Entry) -> Result<KeyRing> {
    KeyRing::from_bytes(&entry.body).map_err(|error| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the store's cursor keys cannot be read: {error}"),
        )
        .with_hint(error.hint())
    })
}

fn keys_entry(generation: u64, ring: &KeyRing) -> Entry {
    Entry {
        version: CURSOR_KEYS_VERSION,
        generation,
        body: ring.to_bytes().to_vec(),
    }
}

/// Returns the error for a rotation in a store without cursor keys.
pub(crate) fn no_keys() -> Error {
    Error::new(ErrorKind::NotFound, "the store has no cursor keys to rotate yet")
        .with_hint("apply a schema first, which creates the keys")
}

fn keys_change() -> Error {
    Error::new(
        ErrorKind::Store,
        "the store's cursor keys cannot be read or rotated, because other processes keep changing them",
    )
    .with_hint("try again when other processes have finished rotating them")
}

/// Decodes the schema from its row of the catalog. Without a row, the generation of the result is 0.
fn read_schema(entry: Option<Entry>) -> Result<Recorded> {
    let Some(entry) = entry else {
        return Ok(Recorded::default());
    };
    let damaged = |reason: String| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the schema recorded in the store cannot be read: {reason}"),
        )
    };
    let text = String::from_utf8(entry.body).map_err(|error| damaged(error.to_string()))?;
    let (views, schema) = match entry.version {
        WITHOUT_VIEWS => (None, text.as_str()),
        _ => text
            .split_once("\n\n")
            .map(|(views, schema)| (Some(views), schema))
            .ok_or_else(|| damaged("the list of views has no end".into()))?,
    };
    let schema = Schema::parse(schema).map_err(|errors| damaged(errors.to_string()))?;
    let views = views.map_or_else(
        || Ok(KeptViews::default()),
        |text| KeptViews::from_text(text, &schema),
    );
    Ok(Recorded {
        generation: entry.generation,
        views: Arc::new(views.map_err(damaged)?),
        schema: Arc::new(schema),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use recto_store::memory::MemoryStore;

    use super::*;

    /// Stored catalog row as text: version and generation in hexadecimal, then the body.
    const GOLDEN: &str = include_str!("golden/catalog-v5.txt");
    const GOLDEN_V4: &str = include_str!("golden/catalog-v4.txt");
    const GOLDEN_V3: &str = include_str!("golden/catalog-v3.txt");
    const GOLDEN_V2: &str = include_str!("golden/catalog-v2.txt");
    const GOLDEN_V1: &str = include_str!("golden/catalog-v1.txt");

    const GOLDEN_ATTACHED: &str = include_str!("golden/catalog-v3-attached.txt");

    #[test]
    fn reads_attached_tables_recorded_by_earlier_releases() {
        let recorded = read_schema(Some(entry(GOLDEN_ATTACHED))).unwrap();
        let text = format!("{}\n{}", recorded.views.to_text(), recorded.schema.to_toml());
        assert_eq!(text, GOLDEN_ATTACHED.split_once('\n').unwrap().1);
        let tables: Vec<String> = recorded
            .tables()
            .iter()
            .map(|(_, table)| table.name().to_owned())
            .collect();
        assert_eq!(tables, ["shop.orders", "shop.orders_by_status"]);
    }

    /// Parses a golden text as a catalog row.
    fn entry(golden: &str) -> Entry {
        let (head, body) = golden.split_once('\n').unwrap();
        let (version, generation) = head.split_once(' ').unwrap();
        Entry {
            version: i32::from_str_radix(version, 16).unwrap(),
            generation: u64::from_str_radix(generation, 16).unwrap(),
            body: body.as_bytes().to_vec(),
        }
    }

    #[tokio::test]
    async fn the_schema_is_recorded_as_every_release_reads_it() {
        for golden in [GOLDEN_V2, GOLDEN_V3, GOLDEN_V4, GOLDEN] {
            is_recorded_as(golden).await;
        }
    }

    async fn is_recorded_as(text: &str) {
        let environment = Environment::system();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(environment.clone()));
        let catalog = Catalog::new(&store, &environment, None);
        catalog.create().await.unwrap();
        let first = entry(GOLDEN_V1);
        let before = Entry {
            generation: 2,
            ..first
        };
        assert!(catalog.replace(SCHEMA, 0, &before).await.unwrap());
        let earlier = catalog.known_schema().await.unwrap();
        assert_eq!((earlier.generation, &*earlier.views), (2, &KeptViews::default()));
        assert_eq!(earlier.schema.collections[0].name, "notes");

        let golden = read_schema(Some(entry(text))).unwrap();
        catalog
            .record_schema(&golden.schema, &golden.views, 2)
            .await
            .unwrap();
        let written = catalog
            .entry(SCHEMA, ConsistencyLevel::Serial)
            .await
            .unwrap()
            .unwrap();
        let body = std::str::from_utf8(&written.body).unwrap();
        assert_eq!(
            format!("{:08x} {:016x}\n{body}", written.version, written.generation),
            text
        );
        assert_eq!(catalog.known_schema_other_than(2).await.unwrap(), Some(golden));
    }
}
