//! Snapshots: the state of the store at one commit, shared by all who read until the next commit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Cells, Environment, Slice, Table};
use recto_store::{
    PointRead, ReadOptions, RowsRead, ScanPosition, ScanRead, Snapshot, StoreError, StoreErrorKind,
    TokenRange,
};
use redb::{Database, ReadOnlyDatabase, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition};

use crate::catalog::{Catalog, StoredTable};
use crate::error::{Closing, corrupt, engine, guarded, stopped, stops_engine, timeout};
use crate::meta::{META, MetaValue};
use crate::{partitions, read, scan};

/// A slice of at most this many rows is read at once, on the caller's thread; a longer one on a
/// thread that may block. 2,000 cached rows take less than a millisecond.
pub const INLINE_ROWS: u32 = 2_000;

/// How the engine sees a table of ours.
pub(crate) type RowsDefinition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;
/// A table's rows in a snapshot.
pub(crate) type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The opened data file.
pub(crate) enum Engine {
    Writable(Closing<Database>),
    ReadOnly(Closing<ReadOnlyDatabase>),
    /// Closed because the disk failed; to be opened again.
    Stopped,
}

impl Engine {
    pub(crate) fn writable_of(database: Database) -> Self {
        Self::Writable(Closing::new(database))
    }

    pub(crate) fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        guarded(|| {
            match self {
                Self::Writable(database) => database.begin_read(),
                Self::ReadOnly(database) => database.begin_read(),
                Self::Stopped => return Err(stopped()),
            }
            .map_err(engine)
        })
    }

    pub(crate) fn writable(&self) -> Option<&Database> {
        match self {
            Self::Writable(database) => Some(database),
            Self::ReadOnly(_) | Self::Stopped => None,
        }
    }
}

/// A table of a snapshot, opened.
pub(crate) struct OpenTable {
    pub(crate) stored: Arc<StoredTable>,
    pub(crate) rows: Rows,
}

/// The store as of one commit: its catalog, and a transaction that reads its rows.
///
/// It pins the pages that later commits replace, so the store gives up its own as soon as it
/// commits; whoever reads holds one for one page.
pub(crate) struct State {
    /// Tables opened so far, by number.
    tables: RwLock<HashMap<u32, Arc<OpenTable>>>,
    pub(crate) catalog: Arc<Catalog>,
    transaction: Closing<ReadTransaction>,
    pub(crate) environment: Environment,
    failed: AtomicBool,
    // Last, so that it outlives the transaction: closing the engine ends its transactions.
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
            catalog,
            transaction: Closing::new(engine.begin_read()?),
            environment,
            failed: AtomicBool::new(false),
            _engine: engine,
        })
    }

    /// The table a caller means by `table`.
    pub(crate) fn open(&self, table: &Table) -> Result<Arc<OpenTable>, StoreError> {
        self.open_stored(self.catalog.find(table)?)
    }

    /// The store's single values by name.
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

    /// Whether the file system refused a read of this snapshot: the engine refuses everything from
    /// then on.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Runs a read, and takes note if the file system refuses.
    #[inline]
    fn read<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let result = guarded(work);
        if let Err(error) = &result
            && stops_engine(error)
        {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    pub(crate) fn open_stored(&self, stored: &Arc<StoredTable>) -> Result<Arc<OpenTable>, StoreError> {
        if let Some(open) = self
            .tables
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&stored.id)
        {
            return Ok(Arc::clone(open));
        }
        let rows = guarded(|| {
            self.transaction
                .open_table(RowsDefinition::new(&stored.rows))
                .map_err(|error| match error {
                    redb::TableError::TableDoesNotExist(_) => corrupt(format!(
                        "the rows of table {} are missing",
                        stored.definition.name()
                    )),
                    error => engine(error),
                })
        })?;
        let open = Arc::new(OpenTable {
            stored: Arc::clone(stored),
            rows,
        });
        self.tables
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(stored.id, Arc::clone(&open));
        Ok(open)
    }
}

/// When a read must be done. The clock is first asked after some rows: a page needs it never.
pub(crate) struct Deadline<'a> {
    environment: &'a Environment,
    timeout: Duration,
    end_nanos: Option<u64>,
    visited: u32,
}

/// How many rows are visited between looks at the clock: some tens of microseconds.
const ROWS_PER_LOOK: u32 = 256;

impl<'a> Deadline<'a> {
    pub(crate) fn new(environment: &'a Environment, timeout_after: Duration) -> Result<Self, StoreError> {
        if timeout_after.is_zero() {
            return Err(timeout("a read"));
        }
        Ok(Self {
            environment,
            timeout: timeout_after,
            end_nanos: None,
            visited: 0,
        })
    }

    /// Counts a visited row; an error if the time is over.
    #[inline]
    pub(crate) fn visit(&mut self) -> Result<(), StoreError> {
        self.visited += 1;
        if self.visited < ROWS_PER_LOOK {
            return Ok(());
        }
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Result<(), StoreError> {
        self.visited = 0;
        let now = self.environment.monotonic_nanos();
        let nanos = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        let end = *self.end_nanos.get_or_insert(now.saturating_add(nanos));
        if now > end { Err(timeout("a read")) } else { Ok(()) }
    }
}

/// A [`Snapshot`] of one state.
#[derive(Clone)]
pub(crate) struct EmbeddedSnapshot {
    pub(crate) state: Arc<State>,
}

/// Runs `work` on a thread that may block; on this one if there is no runtime.
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

impl EmbeddedSnapshot {
    fn slice_here(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.state.read(|| read::slice(&self.state, slice, options))
    }
}

#[async_trait]
impl Snapshot for EmbeddedSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        if slice.limit <= INLINE_ROWS {
            return self.slice_here(slice, options);
        }
        let (snapshot, slice, options) = (self.clone(), slice.clone(), *options);
        blocking(move || snapshot.slice_here(&slice, &options)).await
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        (slice.limit <= INLINE_ROWS).then(|| self.slice_here(slice, options))
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.state.read(|| read::get(&self.state, read, options))
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.state
            .read(|| read::get_statics(&self.state, table, partition, options))
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        let (state, table) = (Arc::clone(&self.state), Arc::clone(table));
        blocking(move || state.read(|| scan::token_ranges(&state, &table, pieces))).await
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let (state, table, range) = (Arc::clone(&self.state), Arc::clone(table), range.clone());
        let (after, options) = (after.cloned(), *options);
        let work = move || state.read(|| scan::scan(&state, &table, &range, after.as_ref(), limit, &options));
        if limit <= INLINE_ROWS {
            return work();
        }
        blocking(work).await
    }

    async fn partitions(
        &self,
        table: &Arc<Table>,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let (state, table) = (Arc::clone(&self.state), Arc::clone(table));
        let (after, options) = (after.cloned(), *options);
        // How many rows that ended lie between two partitions is not known.
        blocking(move || {
            state.read(|| partitions::partitions(&state, &table, after.as_ref(), limit, &options))
        })
        .await
    }
}
