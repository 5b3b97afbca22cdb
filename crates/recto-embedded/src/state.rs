//! State of the store at one commit: its tables in the engine.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, Weak};

use recto_model::{Environment, Table};
use recto_store::{StoreError, StoreErrorKind};
use redb::{Database, ReadOnlyDatabase, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition};

use crate::catalog::{Catalog, StoredTable};
use crate::error::{Closing, corrupt, engine, guarded, stopped, stops_engine};
use crate::meta::{META, MetaValue};

/// Name and types of a table of the engine that contains entries of Recto: rows, blocks or sums.
pub(crate) type RowsDefinition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;
/// Rows of one table, as a snapshot reads them.
pub(crate) type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Value that only an engine owns, to detect when its data file is closed. The reference count of the value
/// becomes zero after the file is closed. The reference count of the engine becomes zero before that.
pub(crate) type HoldsFile = Arc<()>;

/// Open data file of a store, with the access that the engine has to it.
pub(crate) enum Engine {
    Writable(Closing<Database>, HoldsFile),
    ReadOnly(Closing<ReadOnlyDatabase>, HoldsFile),
    /// Closed, because the disk failed or the store was closed. A data file of a store that is not closed can
    /// be opened again.
    Stopped,
}

impl Engine {
    pub(crate) fn writable_of(database: Database) -> Self {
        Self::Writable(Closing::new(database), HoldsFile::default())
    }

    pub(crate) fn read_only_of(database: ReadOnlyDatabase) -> Self {
        Self::ReadOnly(Closing::new(database), HoldsFile::default())
    }

    /// Returns a reference whose count is zero when the data file is closed.
    pub(crate) fn holds_file(&self) -> Weak<()> {
        match self {
            Self::Writable(_, holds) | Self::ReadOnly(_, holds) => Arc::downgrade(holds),
            Self::Stopped => Weak::new(),
        }
    }

    pub(crate) fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        guarded(|| {
            match self {
                Self::Writable(database, _) => database.begin_read(),
                Self::ReadOnly(database, _) => database.begin_read(),
                Self::Stopped => return Err(stopped()),
            }
            .map_err(engine)
        })
    }

    pub(crate) fn writable(&self) -> Option<&Database> {
        match self {
            Self::Writable(database, _) => Some(database),
            Self::ReadOnly(..) | Self::Stopped => None,
        }
    }
}

/// Table that a snapshot has opened in the engine, for reading.
pub(crate) struct OpenTable {
    pub(crate) stored: Arc<StoredTable>,
    pub(crate) rows: Rows,
}

/// Store at one commit: its catalog, and a transaction that reads its rows.
///
/// A state prevents the engine from freeing the pages that later commits replace. The store therefore drops
/// its own state when it commits, and a reader holds a state only while it reads one page of a result.
pub(crate) struct State {
    /// Open tables of rows, by the id of the table.
    tables: RwLock<HashMap<u32, Arc<OpenTable>>>,
    /// Open tables of blocks (row counts by key range) and of sums over blocks, by the name of the engine's
    /// table.
    companions: RwLock<HashMap<String, Arc<OpenTable>>>,
    pub(crate) catalog: Arc<Catalog>,
    transaction: Closing<ReadTransaction>,
    pub(crate) environment: Environment,
    failed: AtomicBool,
    // Keep this field last, so that the engine outlives the transaction: closing the engine ends
    // its transactions.
    _engine: Arc<Engine>,
}

impl State {
    pub(crate) fn begin(
        engine: Arc<Engine>,
        catalog: Arc<Catalog>,
        environment: Environment,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            tables: RwLock::default(),
            companions: RwLock::default(),
            catalog,
            transaction: Closing::new(engine.begin_read()?),
            environment,
            failed: AtomicBool::new(false),
            _engine: engine,
        })
    }

    /// Opens the stored table that has the name of `table` and at least its columns.
    pub(crate) fn open(&self, table: &Table) -> Result<Arc<OpenTable>, StoreError> {
        self.open_stored(self.catalog.find(table)?)
    }

    /// Returns all single values of the store, with their names.
    pub(crate) fn meta(&self) -> Result<Vec<MetaValue>, StoreError> {
        let meta = self.transaction.open_table(META).map_err(engine)?;
        let entries = meta.range::<&[u8]>(..).map_err(engine)?;
        entries
            .map(|entry| {
                let (name, value) = entry.map_err(engine)?;
                Ok((name.value().to_vec(), value.value().to_vec()))
            })
            .collect()
    }

    /// Returns all entries of all tables of the engine, by the names of the tables.
    #[cfg(feature = "testing")]
    pub(crate) fn dump(&self) -> Result<std::collections::BTreeMap<String, Vec<MetaValue>>, StoreError> {
        let tables = self.transaction.list_tables().map_err(engine)?;
        let names = tables.map(|table| redb::TableHandle::name(&table).to_owned());
        let entries = |name: String| {
            let table = self
                .transaction
                .open_table(RowsDefinition::new(&name))
                .map_err(engine)?;
            let entries = table.range::<&[u8]>(..).map_err(engine)?;
            let entries = entries.map(|entry| {
                let (key, value) = entry.map_err(engine)?;
                Ok((key.value().to_vec(), value.value().to_vec()))
            });
            Ok((name, entries.collect::<Result<_, StoreError>>()?))
        };
        names.map(entries).collect()
    }

    /// Returns whether a read of this snapshot met a failure of the file system. After such a failure the
    /// engine rejects all calls.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Runs a read, and records whether the file system failed.
    #[inline]
    pub(crate) fn read<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let result = guarded(work);
        if let Err(error) = &result
            && stops_engine(error)
        {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    pub(crate) fn open_stored(&self, stored: &Arc<StoredTable>) -> Result<Arc<OpenTable>, StoreError> {
        self.open_in(&self.tables, &stored.id, stored)
    }

    /// Opens the blocks (row counts by key range) of a table, or the sums over these blocks.
    pub(crate) fn open_companion(&self, companion: &Arc<StoredTable>) -> Result<Arc<OpenTable>, StoreError> {
        self.open_in(&self.companions, &companion.rows, companion)
    }

    fn open_in<K: Hash + Eq + Clone>(
        &self,
        opened: &RwLock<HashMap<K, Arc<OpenTable>>>,
        key: &K,
        stored: &Arc<StoredTable>,
    ) -> Result<Arc<OpenTable>, StoreError> {
        if let Some(open) = opened
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(key)
        {
            return Ok(Arc::clone(open));
        }
        let rows = guarded(|| {
            self.transaction
                .open_table(RowsDefinition::new(&stored.rows))
                .map_err(|error| match error {
                    redb::TableError::TableDoesNotExist(_) => corrupt(format!(
                        "the {}s of table {} are missing",
                        stored.entry,
                        stored.definition.name()
                    )),
                    error => engine(error),
                })
        })?;
        let open = Arc::new(OpenTable {
            stored: Arc::clone(stored),
            rows,
        });
        opened
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(key.clone(), Arc::clone(&open));
        Ok(open)
    }
}

/// Runs `work` on a thread that may block, or on the current thread if there is no runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    if tokio::runtime::Handle::try_current().is_err() {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(StoreError::new(
            StoreErrorKind::Other,
            "the runtime stopped while the store was read",
        )
        .with_source(error)),
    }
}
