//! [`EmbeddedStore`]: opening, and what the trait asks.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Environment, Slice, Table};
use recto_store::tables::added_columns;
use recto_store::{
    Atomicity, Cas, CasOutcome, Limits, PartitionWrite, RowAddress, RowsMet, Snapshot, Stamp, Store,
    StoreError, StoreErrorKind, StoreKind, TableOutcome, TransactionOutcome, WriteOptions, WriteOutcome,
};
use redb::backends::FileBackend;
use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, ReadableTableMetadata as _, StorageBackend as _,
};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::batch::Batch;
use crate::catalog::{self, Catalog};
use crate::directory::{Contents, Directory, Purpose, open_private};
use crate::error::{Closing, DAMAGE_HINT, closed, corrupt, engine, file, guarded, timeout};
use crate::keys;
use crate::limits::{LIMITS, MAX_WAITING_BYTES, MAX_WAITING_REQUESTS};
use crate::meta::{self, META};
use crate::read::now_seconds;
use crate::shared::{Reopen, Shared};
use crate::snapshot::Engine;
use crate::verified::{Met, Verified};
use crate::writer::{self, CATALOG, Conditional, Exclusive, Guard, Reply, Request, Work};

/// The memory for pages that are read and written, unless [`EmbeddedOptions`] say otherwise.
pub const DEFAULT_CACHE_BYTES: usize = 256 << 20;

/// How long making, extending, dropping and emptying a table may take: emptying one of many gigabytes walks
/// all its pages.
const TABLE_TIMEOUT: Duration = Duration::from_secs(600);

/// How often one who only reads asks for a store that another brings in order.
const ORDERING_ATTEMPTS: u32 = 50;
/// How long lies between two of these.
const ORDERING_PAUSE: Duration = Duration::from_millis(10);

/// How long closing the store waits for what began before.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it looks whether that has ended.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// How long the store lets pass between two attempts to open itself again because reads fail.
pub const REVIVE_INTERVAL: Duration = Duration::from_secs(1);

/// The unit the room in the queue is counted in.
const ROOM_BYTES: usize = 1_024;

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddedOptions {
    /// The memory for pages that are read and written.
    pub cache_bytes: usize,
    /// Whether to open without changing anything. Several processes may then, if none writes. A
    /// store that was not closed is brought in order first, as if opened for writing once.
    pub read_only: bool,
    /// Whether a store is made where there is none. What is open read-only makes none.
    pub create: bool,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            cache_bytes: DEFAULT_CACHE_BYTES,
            read_only: false,
            create: true,
        }
    }
}

impl EmbeddedOptions {
    fn purpose(self) -> Purpose {
        match self {
            Self { read_only: true, .. } => Purpose::Read,
            Self { create: true, .. } => Purpose::Create,
            _ => Purpose::Write,
        }
    }
}

/// A store in a directory of this machine.
///
/// Its calls want a tokio runtime with time enabled. Dropping it makes all writes durable and closes
/// the store; snapshots that are left keep the files open until they are dropped too.
pub struct EmbeddedStore {
    pub(crate) shared: Arc<Shared>,
    requests: Option<mpsc::Sender<Request>>,
    room: Arc<Semaphore>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// When a read may next ask for the store to be opened again, by the monotonic clock.
    next_revival_nanos: AtomicU64,
}

impl EmbeddedStore {
    /// Opens the store in the directory `path`, which is made if it is not there and the options say so.
    ///
    /// Blocks while the file is opened: milliseconds, or longer after a crash (see the crate's
    /// documentation). After that the store is held until it is dropped.
    ///
    /// # Errors
    /// `Table`: there is no store there, and none is to be made. `Conflict`: another process holds it; the
    /// message says which. `Version`: a newer release made it. `Corrupt`: it is damaged, unfinished, or no
    /// store. `Storage`: the file system refused. What is refused is not changed.
    pub fn open(
        path: impl AsRef<Path>,
        options: EmbeddedOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, StoreError> {
        let mut attempts = if options.read_only { ORDERING_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match Self::open_here(path.as_ref(), options, environment.clone()) {
                // After a crash, of several readers one brings the store in order, and holds it meanwhile.
                Err(error) if attempts > 0 && error.kind() == StoreErrorKind::Conflict => {
                    std::thread::sleep(ORDERING_PAUSE);
                }
                opened => return opened.map_err(unopened),
            }
        }
    }

    fn open_here(
        path: &Path,
        options: EmbeddedOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, StoreError> {
        let (directory, contents) = Directory::take(path, options.purpose())?;
        let met = Arc::new(Met::default());
        let engine = match contents {
            Contents::Store if options.read_only => match open_read_only(&directory, options, &met) {
                Err(error) if is_unclean(&error) => {
                    drop(directory);
                    return Self::open_in_order(path, options, environment);
                }
                opened => opened?,
            },
            Contents::Store => Engine::writable_of(open_data(&directory.data_file(), options, &met)?),
            _ => Engine::writable_of(make_data(&directory, options, &met)?),
        };
        let (data, met_again) = (directory.data_file(), Arc::clone(&met));
        let reopen = move || open_data(&data, options, &met_again);
        Self::start(
            engine,
            Box::new(reopen),
            Some(directory),
            options,
            environment,
            met,
        )
    }

    /// Opens a store read-only that was not closed: it is opened for writing once before.
    fn open_in_order(
        path: &Path,
        options: EmbeddedOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, StoreError> {
        let (directory, _) = Directory::take(path, Purpose::Write)?;
        let database = open_data(&directory.data_file(), options, &Arc::default())?;
        guarded(|| database.close().map_err(engine))?;
        let (data, met) = (directory.data_file(), Arc::new(Met::default()));
        directory.share()?;
        let opened = open_read_only(&directory, options, &met)?;
        let met_again = Arc::clone(&met);
        let reopen = move || open_data(&data, options, &met_again);
        Self::start(
            opened,
            Box::new(reopen),
            Some(directory),
            options,
            environment,
            met,
        )
    }

    /// Opens a store on a backend of the engine, for tests of what a store does when its disk fails.
    /// `backend` is asked for one at once, and again each time the store opens itself again after a
    /// failure; all it returns must share their bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "testing")]
    pub fn open_with_backend<B: redb::StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
        options: EmbeddedOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, StoreError> {
        let met = Arc::new(Met::default());
        let met_by_file = Arc::clone(&met);
        let open = move || {
            guarded(|| {
                let backend = Verified::new(backend(), Arc::clone(&met_by_file));
                let database = Builder::new()
                    .set_cache_size(options.cache_bytes)
                    .create_with_backend(backend)
                    .map_err(engine)?;
                prepare(&database)?;
                Ok(database)
            })
        };
        let database = open()?;
        Self::start(
            Engine::writable_of(database),
            Box::new(open),
            None,
            options,
            environment,
            met,
        )
    }

    /// From now on durable commits save what makes reopening quick, as those of large files do.
    #[cfg(feature = "testing")]
    pub fn save_for_quick_repair(&self) {
        self.shared.save_for_quick_repair();
    }

    fn start(
        engine: Engine,
        reopen: Reopen,
        directory: Option<Directory>,
        options: EmbeddedOptions,
        environment: Environment,
        met: Arc<Met>,
    ) -> Result<Arc<Self>, StoreError> {
        let (catalog, newest_stamp) = guarded(|| match &engine {
            Engine::Writable(database) => Ok((read_catalog(&**database)?, meta::newest_stamp(&**database)?)),
            // Nobody writes, so nobody needs the stamp: the store is read even if that is damaged.
            Engine::ReadOnly(database) => Ok((read_catalog(&**database)?, None)),
            Engine::Stopped => Err(crate::error::stopped()),
        })?;
        met.begin();
        let shared = Arc::new(Shared::new(
            engine,
            catalog,
            reopen,
            directory,
            options,
            environment,
            newest_stamp,
            met,
        ));
        let (sender, receiver) = mpsc::channel(MAX_WAITING_REQUESTS);
        let writer = if options.read_only {
            None
        } else {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("recto-writer".to_owned());
            let spawned = thread.spawn(move || writer::run(&shared, receiver));
            Some(spawned.map_err(|error| file("starting the writer's thread", error))?)
        };
        Ok(Arc::new(Self {
            shared,
            requests: (!options.read_only).then_some(sender),
            room: Arc::new(Semaphore::new(MAX_WAITING_BYTES / ROOM_BYTES)),
            writer: Mutex::new(writer),
            next_revival_nanos: AtomicU64::new(0),
        }))
    }

    /// Asks the writer and waits for its answer, or until `timeout_after` has passed.
    pub(crate) async fn ask(
        &self,
        work: Work,
        bytes: usize,
        relaxed: bool,
        timeout_after: Duration,
    ) -> Result<Reply, StoreError> {
        if timeout_after.is_zero() {
            return Err(timeout("a write"));
        }
        self.shared.check_open()?;
        let Some(requests) = &self.requests else {
            return Err(read_only());
        };
        let nanos = u64::try_from(timeout_after.as_nanos()).unwrap_or(u64::MAX);
        let deadline_nanos = self.shared.environment.monotonic_nanos().saturating_add(nanos);
        let units = (bytes / ROOM_BYTES + 1).min(MAX_WAITING_BYTES / ROOM_BYTES) as u32;
        let (reply, answer) = oneshot::channel();
        let queue = async {
            let room = Arc::clone(&self.room).acquire_many_owned(units).await;
            let request = Request {
                work,
                relaxed,
                deadline_nanos,
                reply,
                _room: room.map_err(|_| closed())?,
            };
            requests.send(request).await.map_err(|_| closed())
        };
        let wait = async {
            queue.await?;
            Ok(answer.await)
        };
        match tokio::time::timeout(timeout_after, wait).await {
            Ok(Ok(Ok(reply))) => reply,
            Ok(Ok(Err(_))) => Ok(Reply::Unknown(closed())),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Reply::Unknown(timeout("a write"))),
        }
    }

    /// Asks the writer to open the store again, without waiting for it; not if that was asked just now.
    fn revive(&self) {
        let Some(requests) = &self.requests else { return };
        let now = self.shared.environment.monotonic_nanos();
        let next = self.next_revival_nanos.load(Ordering::Relaxed);
        let after = now.saturating_add(REVIVE_INTERVAL.as_nanos() as u64);
        let exchanged = |next| {
            self.next_revival_nanos
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
        };
        if now < next || exchanged(next).is_err() {
            return;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return; // Writes wait, and do the same.
        };
        let (reply, _) = oneshot::channel();
        let work: Exclusive = Box::new(Shared::resume);
        let _ = requests.try_send(Request {
            work: Work::Exclusive(work),
            relaxed: false,
            deadline_nanos: u64::MAX,
            reply,
            _room: room,
        });
    }

    async fn write_batch(
        &self,
        writes: &[PartitionWrite],
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let mut batch = Batch::default();
        batch.row_by_row = options.row_by_row;
        let catalog = self.shared.catalog();
        let now = now_seconds(&self.shared.environment);
        for write in writes {
            let place = (&*write.table, &write.partition);
            if let Err(error) = batch.add(&catalog, place, &write.mutations, now) {
                return Ok(WriteOutcome::Refused(error));
            }
        }
        if batch.changes.is_empty() {
            return Ok(if options.row_by_row {
                WriteOutcome::Counted(RowsMet::default())
            } else {
                WriteOutcome::Done
            });
        }
        batch.sort();
        let bytes = batch.byte_len();
        match self
            .ask(Work::Write(batch), bytes, options.relaxed, options.timeout)
            .await?
        {
            Reply::Done | Reply::NotApplied(_) => Ok(WriteOutcome::Done),
            Reply::Counted(met) => Ok(WriteOutcome::Counted(met)),
            Reply::Conflict(number) => Ok(WriteOutcome::Conflict(number)),
            Reply::Unknown(error) => Ok(WriteOutcome::Unknown(error)),
        }
    }

    async fn ask_tables(&self, work: Work) -> Result<TableOutcome, StoreError> {
        match self.ask(work, 0, false, TABLE_TIMEOUT).await? {
            Reply::Unknown(error) => Ok(TableOutcome::Unknown(error)),
            _ => Ok(TableOutcome::Done),
        }
    }

    /// Makes checked writes ready. Plain ones come first, so that the numbers of conflicts count them only.
    fn prepare(&self, conditional: &[Cas], plain: &[PartitionWrite]) -> Result<Conditional, StoreError> {
        let catalog = self.shared.catalog();
        let now = now_seconds(&self.shared.environment);
        let mut batch = Batch::default();
        for write in plain {
            batch.add(&catalog, (&write.table, &write.partition), &write.mutations, now)?;
        }
        let mut guards = Vec::with_capacity(conditional.len());
        for cas in conditional {
            batch.add(&catalog, (&cas.table, &cas.partition), &cas.mutations, now)?;
            guards.push(guard(&catalog, cas)?);
        }
        batch.sort();
        Ok(Conditional { guards, batch })
    }

    async fn ask_conditional(
        &self,
        conditional: Conditional,
        options: WriteOptions,
    ) -> Result<Reply, StoreError> {
        let bytes = conditional.byte_len();
        self.ask(Work::Conditional(conditional), bytes, false, options.timeout)
            .await
    }
}

/// The conditions of a conditional write with the keys of their rows.
fn guard(catalog: &Catalog, cas: &Cas) -> Result<Guard, StoreError> {
    let mut conditions = Vec::with_capacity(cas.conditions.len());
    for condition in &cas.conditions {
        let mut key = Vec::new();
        keys::push_partition(&cas.table, &cas.partition, &mut key)?;
        match &condition.row {
            RowAddress::Static => key.push(keys::STATIC),
            RowAddress::Row(clustering) => {
                key.push(keys::ROW);
                keys::push_clustering(&cas.table, clustering, &mut key)?;
            }
        }
        conditions.push((key, condition.clone()));
    }
    Ok(Guard {
        table: Arc::clone(catalog.find(&cas.table)?),
        conditions,
    })
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        // The writer ends when nobody can ask any more, having done what was asked.
        self.requests = None;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // A panic of the writer has been answered where it happened.
            let _ = writer.join();
        }
    }
}

#[cold]
fn read_only() -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, "the store is open read-only").with_hint("open it for writing")
}

/// What cannot be opened cannot be checked either.
#[cold]
fn unopened(error: StoreError) -> StoreError {
    if error.kind() == StoreErrorKind::Corrupt && error.hint() == Some(DAMAGE_HINT) {
        return error.with_hint("it cannot be opened; restore it from the last backup");
    }
    error
}

/// Opens a data file for the engine, verified.
fn backend(path: &Path, is_writable: bool, met: &Arc<Met>) -> Result<Verified<FileBackend>, StoreError> {
    let opening = |error| file("opening the data file", error);
    let data = OpenOptions::new().read(true).write(is_writable).open(path);
    let data = data.map_err(opening)?;
    let file = FileBackend::new(data).map_err(engine)?;
    Ok(Verified::new(file, Arc::clone(met)))
}

/// Opens the data file of a store.
pub(crate) fn open_data(
    path: &Path,
    options: EmbeddedOptions,
    met: &Arc<Met>,
) -> Result<Database, StoreError> {
    guarded(|| {
        let backend = backend(path, true, met)?;
        // The engine would take an empty file for one to begin.
        if backend
            .len()
            .map_err(|error| file("measuring the data file", error))?
            == 0
        {
            return Err(corrupt("the store's data file is empty"));
        }
        Builder::new()
            .set_cache_size(options.cache_bytes)
            .create_with_backend(backend)
            .map_err(engine)
    })
}

/// Whether reading found a file that was not closed.
fn is_unclean(error: &StoreError) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(redb::DatabaseError::RepairAborted))
}

fn open_read_only(
    directory: &Directory,
    options: EmbeddedOptions,
    met: &Arc<Met>,
) -> Result<Engine, StoreError> {
    let opened = guarded(|| {
        let backend = backend(&directory.data_file(), false, met)?;
        Builder::new()
            .set_cache_size(options.cache_bytes)
            .open_read_only_with_backend(backend)
            .map_err(|error| match error {
                redb::DatabaseError::RepairAborted => {
                    StoreError::new(StoreErrorKind::Storage, "the store was not closed")
                        .with_hint("open it for writing once: that brings it in order")
                        .with_source(error)
                }
                error => engine(error),
            })
    });
    Ok(Engine::ReadOnly(Closing::new(opened?)))
}

/// Makes an empty data file.
pub(crate) fn create_data(path: &Path, cache_bytes: usize, met: &Arc<Met>) -> Result<Database, StoreError> {
    drop(open_private(path).map_err(|error| file("making the data file", error))?);
    Builder::new()
        .set_cache_size(cache_bytes)
        .create_with_backend(backend(path, true, met)?)
        .map_err(engine)
}

/// Makes the data file of a new store.
fn make_data(
    directory: &Directory,
    options: EmbeddedOptions,
    met: &Arc<Met>,
) -> Result<Database, StoreError> {
    let database = guarded(|| {
        let database = create_data(&directory.new_data_file(), options.cache_bytes, met)?;
        prepare(&database)?;
        Ok(database)
    })?;
    directory.publish_first()?;
    Ok(database)
}

/// Makes the tables a store has before it has any.
pub(crate) fn prepare(database: &Database) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(engine)?;
    transaction.open_table(CATALOG).map_err(engine)?;
    transaction.open_table(META).map_err(engine)?;
    transaction.commit().map_err(engine)
}

/// The tables there are.
pub(crate) fn read_catalog(database: &impl ReadableDatabase) -> Result<Catalog, StoreError> {
    let transaction = database.begin_read().map_err(engine)?;
    let definitions = transaction.open_table(CATALOG).map_err(engine)?;
    let mut catalog = Catalog::default();
    for entry in ReadableTable::iter(&definitions).map_err(engine)? {
        let (_, definition) = entry.map_err(engine)?;
        catalog.insert(catalog::decode(definition.value())?);
    }
    let (expected, found) = (definitions.len().map_err(engine)?, catalog.iter().count());
    if expected != found as u64 {
        return Err(corrupt(format!(
            "the store counts {expected} tables, and {found} are found"
        )));
    }
    Ok(catalog)
}

#[async_trait]
impl Store for EmbeddedStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Embedded
    }

    fn describe(&self) -> String {
        match &self.shared.directory {
            Some(directory) => format!("embedded {}", directory.path().display()),
            None => "embedded (on a test backend)".to_owned(),
        }
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        let error = match self.shared.snapshot() {
            Ok(snapshot) if !snapshot.state.has_failed() => return Ok(snapshot),
            Ok(_) => crate::error::stopped(),
            Err(error) => error,
        };
        if error.kind() == StoreErrorKind::Storage {
            self.revive();
        }
        Err(error)
    }

    fn newest_stamp(&self) -> Option<Stamp> {
        self.shared.newest_stamp().map(Stamp)
    }

    async fn close(&self) -> Result<(), StoreError> {
        if self.requests.is_some() && self.shared.check_open().is_ok() {
            // Relaxed writes that came before become durable, too.
            self.ask(Work::Sync, 0, false, CLOSE_TIMEOUT).await?;
        }
        let engine = self.shared.close();
        let given_up = async {
            while engine.strong_count() > 0 {
                tokio::time::sleep(CLOSE_PAUSE).await;
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, given_up).await.is_err() {
            return Err(timeout(
                "closing the store, which reads that began before still use,",
            ));
        }
        match &self.shared.directory {
            Some(directory) => directory.give_up(),
            None => Ok(()),
        }
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        if let Err(error) = LIMITS.check_write(&write) {
            return Ok(WriteOutcome::Refused(error));
        }
        self.write_batch(std::slice::from_ref(&write), options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        if let Err(error) = LIMITS.check_writes(&writes, atomicity == Atomicity::Logged) {
            return Ok(WriteOutcome::Refused(error));
        }
        self.write_batch(&writes, options).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        let prepared = LIMITS.check_cas(&cas);
        let prepared = prepared.and_then(|()| self.prepare(std::slice::from_ref(&cas), &[]));
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(CasOutcome::Refused(error)),
        };
        match self.ask_conditional(prepared, options).await? {
            Reply::NotApplied(mut current) => Ok(CasOutcome::NotApplied {
                current: current.pop().unwrap_or_default(),
            }),
            Reply::Unknown(error) => Ok(CasOutcome::Unknown(error)),
            _ => Ok(CasOutcome::Applied),
        }
    }

    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        let prepared = LIMITS.check_transaction(&conditional, &plain, &options);
        let prepared = match prepared.and_then(|()| self.prepare(&conditional, &plain)) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(TransactionOutcome::Refused(error)),
        };
        match self.ask_conditional(prepared, options).await? {
            Reply::NotApplied(current) => Ok(TransactionOutcome::NotApplied { current }),
            Reply::Conflict(number) => Ok(TransactionOutcome::Conflict(number)),
            Reply::Unknown(error) => Ok(TransactionOutcome::Unknown(error)),
            Reply::Done | Reply::Counted(_) => Ok(TransactionOutcome::Applied),
        }
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.ask_tables(Work::Create(Arc::new(table.clone()))).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        added_columns(recorded, table)?;
        self.ask_tables(Work::AddColumns(Arc::new(table.clone()))).await
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.ask_tables(Work::Drop(name.to_owned())).await
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.ask_tables(Work::Empty(Arc::new(table.clone()))).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        let catalog = self.shared.catalog();
        Ok(catalog
            .iter()
            .map(|stored| (*stored.definition).clone())
            .collect())
    }

    fn describe_slice(&self, slice: &Slice) -> Vec<String> {
        vec![crate::describe::slice(slice)]
    }
}
