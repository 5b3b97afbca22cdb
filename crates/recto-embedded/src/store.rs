//! [`EmbeddedStore`]: opening, and the methods of the trait.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Environment, Slice, Table};
use recto_store::clock::RecordedClock;
use recto_store::tables::added_columns;
use recto_store::{
    Atomicity, Cas, CasOutcome, ClockGuard, ClockStatus, Limits, PartitionWrite, ReadOptions, RowsMet,
    Snapshot, Stamp, Store, StoreError, StoreErrorKind, StoreKind, TableOutcome, TransactionOutcome,
    WriteOptions, WriteOutcome,
};
#[cfg(feature = "testing")]
use redb::Builder;

use crate::batch::Batch;
use crate::catalog::read_catalog;
use crate::clock::now_seconds;
#[cfg(feature = "testing")]
use crate::data::{has_tables, prepare};
use crate::data::{is_unclean, make_data, open_data, open_read_only};
use crate::describe;
use crate::directory::{Contents, Directory, Purpose};
use crate::error::{DAMAGE_HINT, engine, guarded, stopped, timeout};
use crate::limits::LIMITS;
#[cfg(feature = "testing")]
use crate::log::LogFolder;
use crate::log::{FolderOfStore, Log, is_in_use};
use crate::meta;
use crate::options::EmbeddedOptions;
use crate::queue::Queue;
use crate::shared::{Reopen, Shared};
use crate::state::Engine;
use crate::verified::Met;
#[cfg(feature = "testing")]
use crate::verified::Verified;
use crate::work::{Conditional, Reply, Work, guard};

/// Maximum time to create, extend, drop or empty a table. Emptying a table of many gigabytes visits all its pages.
const TABLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of attempts of a reader to open a store that another process is repairing.
const ORDERING_ATTEMPTS: u32 = 50;
/// Pause between two attempts of a reader to open a store that another process is repairing.
const ORDERING_PAUSE: Duration = Duration::from_millis(10);

/// Maximum time for which closing the store waits for operations that began earlier.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks whether the earlier operations of a closing store have ended.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// Store in a directory of this machine.
///
/// Its methods need a tokio runtime with time enabled. Dropping the store makes all writes durable and closes it.
/// Remaining snapshots keep the files open until they are dropped, too.
pub struct EmbeddedStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Queue,
}

impl EmbeddedStore {
    /// Opens the store in the directory `path`. Creates the store if it does not exist and the options permit it.
    ///
    /// Blocks while the file is opened: for milliseconds, or for longer after a crash (see the documentation of the
    /// crate). The store is locked until it is closed or dropped.
    ///
    /// # Errors
    /// `Table`: there is no complete store at `path`, and the options do not permit to create one. `Conflict`: another
    /// process has the store open; the message names the process. `Version`: a newer release created it. `Corrupt`: it
    /// is damaged, an unfinished backup, or not a store. `Storage`: the file system failed. A directory that is
    /// rejected is not changed.
    pub fn open(
        path: impl AsRef<Path>,
        options: EmbeddedOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, StoreError> {
        let mut attempts = if options.read_only { ORDERING_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match Self::open_here(path.as_ref(), options, environment.clone()) {
                // After a crash, one of several readers locks the store and repairs it, so the
                // other readers wait and try again.
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
            Contents::Store if options.read_only => match open_applied(&directory, options, &met) {
                Err(error) if is_unclean(&error) => {
                    drop(directory);
                    return Self::open_in_order(path, options, environment);
                }
                Ok(None) => {
                    drop(directory);
                    return Self::open_in_order(path, options, environment);
                }
                Ok(Some(engine)) => engine,
                Err(error) => return Err(error),
            },
            Contents::Store => Engine::writable_of(open_data(&directory.data_file(), options, &met)?),
            _ => Engine::writable_of(make_data(&directory, options, &met)?),
        };
        let (data, met_again) = (directory.data_file(), Arc::clone(&met));
        let reopen = move || open_data(&data, options, &met_again);
        let log = log_of(&directory, options, &environment);
        Self::start(
            engine,
            Box::new(reopen),
            Some(directory),
            options,
            environment,
            met,
            log,
        )
    }

    /// Opens a store read-only although it was not closed properly. First opens the store once for writing,
    /// which repairs it.
    fn open_in_order(
        path: &Path,
        options: EmbeddedOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, StoreError> {
        let (directory, _) = Directory::take(path, Purpose::Write)?;
        let database = open_data(&directory.data_file(), options, &Arc::default())?;
        let mut log = log_of(&directory, options, &environment);
        guarded(|| {
            log.recover(&database)?;
            log.finish(&database)
        })?;
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
            log,
        )
    }

    /// Gives up the records of the commit log after the number `last`, because the log is damaged or one of
    /// them cannot be applied. Then the store can be opened. The writes of the records are lost. Renames the log
    /// files to `log.0.dropped` and `log.1.dropped`. Returns the number of the last applied record.
    ///
    /// The error of opening the store names the record that cannot be applied: `last` is the number before it.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open). `Corrupt`: a record up to `last` cannot be applied.
    pub fn drop_log_after(
        path: impl AsRef<Path>,
        last: u64,
        environment: Environment,
    ) -> Result<u64, StoreError> {
        let options = EmbeddedOptions::default();
        let (directory, _) = Directory::take(path.as_ref(), Purpose::Write)?;
        let database = open_data(&directory.data_file(), options, &Arc::default())?;
        let mut log = log_of(&directory, options, &environment);
        let applied = guarded(|| log.drop_after(&database, last))?;
        guarded(|| database.close().map_err(engine))?;
        folder_of(&directory).set_aside()?;
        Ok(applied)
    }

    /// Opens a store on a storage backend of the engine, for tests of failing disks. `backend` is called once
    /// at the start, and each time that the store reopens itself after a failure. All backends that it
    /// returns must share their bytes. The store has a log if `log` is a storage for it.
    ///
    /// # Errors
    /// Same errors as [`open`](Self::open).
    #[cfg(feature = "testing")]
    pub fn open_with_backend<B: redb::StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
        log: Option<Arc<dyn crate::log::LogStorage>>,
        options: EmbeddedOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, StoreError> {
        let folder = log.map(|log| Arc::new(crate::log::FolderOfTest(log)) as Arc<dyn LogFolder>);
        let log = Log::new(folder, options.log(), environment.clone());
        let met = Arc::new(Met::default());
        let met_by_file = Arc::clone(&met);
        let open = move || {
            guarded(|| {
                let backend = Verified::new(backend(), Arc::clone(&met_by_file));
                let database = Builder::new()
                    .set_cache_size(options.cache_bytes)
                    .create_with_backend(backend)
                    .map_err(engine)?;
                if !has_tables(&database)? {
                    prepare(&database)?;
                }
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
            log,
        )
    }

    /// Returns all entries of all tables of the engine, by the names of the tables, except the position of the
    /// log.
    ///
    /// # Errors
    /// A table cannot be read.
    #[cfg(feature = "testing")]
    #[allow(clippy::type_complexity)]
    pub fn dump(&self) -> Result<std::collections::BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>, StoreError> {
        let mut tables = self.shared.snapshot()?.state.dump()?;
        for entries in tables.values_mut() {
            entries.retain(|(key, _)| key != crate::log::LOG_ENTRY);
        }
        Ok(tables)
    }

    /// Makes later durable commits save the state for quick opening after a crash, as for stores of
    /// [`QUICK_REPAIR_BYTES`](crate::QUICK_REPAIR_BYTES).
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
        mut log: Log,
    ) -> Result<Arc<Self>, StoreError> {
        let (catalog, newest_stamp, recorded_time) = guarded(|| match &engine {
            Engine::Writable(database, _) => {
                log.recover(database)?;
                Ok((
                    read_catalog(&**database)?,
                    meta::newest_stamp(&**database)?,
                    meta::clock_record(&**database)?,
                ))
            }
            // A read-only store needs neither the newest timestamp nor the clock record, so ignore
            // their damage.
            Engine::ReadOnly(database, _) => {
                let recorded_time = meta::clock_record(&**database).unwrap_or_default();
                Ok((read_catalog(&**database)?, None, recorded_time))
            }
            Engine::Stopped => Err(stopped()),
        })?;
        let clock = RecordedClock::new(environment.clone(), recorded_time);
        met.begin();
        let shared = Arc::new(Shared::new(
            engine,
            catalog,
            reopen,
            directory,
            options,
            clock,
            environment,
            newest_stamp,
            met,
            log,
        ));
        Ok(Arc::new(Self {
            queue: Queue::start(&shared)?,
            shared,
        }))
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
            .queue
            .ask(Work::Write(batch), bytes, options.relaxed, options.timeout)
            .await?
        {
            Reply::Done | Reply::NotApplied(_) => Ok(WriteOutcome::Done),
            Reply::Counted(met) => Ok(WriteOutcome::Counted(met)),
            Reply::Conflict(number) => Ok(WriteOutcome::Conflict(number)),
            Reply::Unknown(error) => Ok(WriteOutcome::Unknown(error)),
        }
    }

    async fn record_time(&self, micros: i64, timeout_after: Duration) -> Result<(), StoreError> {
        match self
            .queue
            .ask(Work::RecordTime(micros), 0, false, timeout_after)
            .await?
        {
            Reply::Unknown(error) => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask_tables(&self, work: Work) -> Result<TableOutcome, StoreError> {
        match self.queue.ask(work, 0, false, TABLE_TIMEOUT).await? {
            Reply::Unknown(error) => Ok(TableOutcome::Unknown(error)),
            _ => Ok(TableOutcome::Done),
        }
    }

    /// Encodes the writes of a transaction, whose limits the caller has checked. Plain writes come first, so
    /// that the index of a conflicting mutation counts only plain writes.
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
        relaxed: bool,
        options: WriteOptions,
    ) -> Result<Reply, StoreError> {
        let bytes = conditional.byte_len();
        self.queue
            .ask(Work::Conditional(conditional), bytes, relaxed, options.timeout)
            .await
    }
}

/// Opens a store read-only. Returns `None` if its log has records that must be applied first.
fn open_applied(
    directory: &Directory,
    options: EmbeddedOptions,
    met: &Arc<Met>,
) -> Result<Option<Engine>, StoreError> {
    let engine = open_read_only(directory, options, met)?;
    let is_in_use = match &engine {
        Engine::ReadOnly(database, _) => is_in_use(&**database, &folder_of(directory))?,
        _ => false,
    };
    Ok((!is_in_use).then_some(engine))
}

pub(crate) fn folder_of(directory: &Directory) -> FolderOfStore {
    FolderOfStore(directory.path().to_owned())
}

fn log_of(directory: &Directory, options: EmbeddedOptions, environment: &Environment) -> Log {
    Log::new(
        Some(Arc::new(folder_of(directory))),
        options.log(),
        environment.clone(),
    )
}

/// Replaces the hint of an error that occurred when the store was opened. The usual hint to check the store
/// would not help, because a store that cannot be opened cannot be checked.
#[cold]
fn unopened(error: StoreError) -> StoreError {
    if error.kind() == StoreErrorKind::Corrupt && error.hint() == Some(DAMAGE_HINT) {
        return error.with_hint("restore the store from the last backup: it cannot be opened");
    }
    error
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
            Ok(_) => stopped(),
            Err(error) => error,
        };
        if error.kind() == StoreErrorKind::Storage {
            self.queue.revive();
        }
        Err(error)
    }

    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        Some(self)
    }

    fn newest_stamp(&self) -> Option<Stamp> {
        self.shared.newest_stamp().map(Stamp)
    }

    async fn close(&self) -> Result<(), StoreError> {
        let mut synced = Ok(());
        // A store that can only be read, because a record of its log cannot be applied, has nothing to sync.
        let is_written = self.queue.has_writer() && self.shared.log().check_applied().is_ok();
        if is_written && self.shared.check_open().is_ok() {
            // Sync before closing, so that earlier relaxed writes become durable, too. Close the
            // store even if the sync fails.
            synced = match self.queue.ask(Work::Close, 0, false, CLOSE_TIMEOUT).await {
                Ok(Reply::Unknown(error)) | Err(error) => Err(error),
                Ok(_) => Ok(()),
            };
        }
        let holds_file = self.shared.close();
        let given_up = async {
            while holds_file.strong_count() > 0 {
                tokio::time::sleep(CLOSE_PAUSE).await;
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, given_up).await.is_err() {
            return Err(timeout("closing the store, which earlier reads still use,"));
        }
        if let Some(directory) = &self.shared.directory {
            directory.give_up()?;
        }
        synced
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
        match self.ask_conditional(prepared, false, options).await? {
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
        match self.ask_conditional(prepared, options.relaxed, options).await? {
            Reply::NotApplied(current) => Ok(TransactionOutcome::NotApplied { current }),
            Reply::Conflict(number) => Ok(TransactionOutcome::Conflict(number)),
            Reply::Unknown(error) => Ok(TransactionOutcome::Unknown(error)),
            Reply::Done | Reply::Counted(_) => Ok(TransactionOutcome::Applied),
        }
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.limits().check_table(table)?;
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

    fn describe_slice(&self, slice: &Slice, _options: &ReadOptions) -> Vec<String> {
        vec![describe::slice(slice)]
    }
}

#[async_trait]
impl ClockGuard for EmbeddedStore {
    fn allows(&self, retention: Duration) -> bool {
        self.shared.clock.allows(retention)
    }

    async fn record(&self, shortest: Duration, timeout_after: Duration) -> Result<(), StoreError> {
        let due = self
            .shared
            .clock
            .due(shortest)
            .filter(|_| self.queue.has_writer());
        if let Some(micros) = due {
            self.record_time(micros, timeout_after).await?;
            self.shared.clock.set_recorded(micros);
        }
        Ok(())
    }

    fn status(&self, shortest: Option<Duration>) -> ClockStatus {
        self.shared.clock.status(shortest)
    }

    async fn confirm(&self, timeout_after: Duration) -> Result<i64, StoreError> {
        let micros = self.shared.environment.now_micros();
        self.record_time(micros, timeout_after).await?;
        self.shared.clock.set_confirmed(micros);
        Ok(micros)
    }
}
