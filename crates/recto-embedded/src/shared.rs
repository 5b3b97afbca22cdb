//! State that the callers of a store and its writer share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use recto_model::Environment;
use recto_store::clock::RecordedClock;
use recto_store::{StoreError, StoreErrorKind};
use redb::{Database, Durability};

use crate::catalog::{Catalog, read_catalog};
use crate::directory::Directory;
use crate::error::{closed, engine, guarded, stopped, stops_engine};
use crate::log::{Counters, Log, Plan, Transaction};
use crate::meta;
use crate::options::EmbeddedOptions;
use crate::snapshot::EmbeddedSnapshot;
use crate::state::{Engine, State};
use crate::verified::Met;

/// Size of the data, in bytes, from which durable commits also save the state of the engine's allocator
/// (redb's quick repair). With that state, opening the store after a crash is quick. A smaller file is read
/// completely after a crash, which takes about 2 ms per MiB, and its commits take half as long.
pub const QUICK_REPAIR_BYTES: u64 = 128 << 20;

/// Engine, catalog and snapshot of the last commit. Commits and reopening the data file replace them.
struct Current {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    /// Snapshot of the last commit, which all readers share. `None` until the first read after the commit.
    snapshot: Option<Arc<EmbeddedSnapshot>>,
    /// True if the file system failed when a snapshot was opened.
    refuses: bool,
}

/// Function that opens the data file again, after the disk failed and the engine was closed.
pub(crate) type Reopen = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// How a commit becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durable {
    /// By a later durable commit. A crash may lose the commit.
    Later,
    /// By a record of the log, or by a durable commit of the engine.
    ByRecord,
    /// By a durable commit of the engine, together with all earlier commits.
    Now,
    /// Like `Now`, and the log gets no further record before the store is closed.
    AtClose,
}

pub(crate) struct Shared {
    pub(crate) environment: Environment,
    /// Guard against a wrong local clock, which would delete data too early.
    pub(crate) clock: RecordedClock,
    reopen: Reopen,
    current: RwLock<Current>,
    pub(crate) options: EmbeddedOptions,
    data_bytes: AtomicU64,
    /// Newest timestamp of a plain write, as stored in the data file.
    newest_stamp: Mutex<Option<i64>>,
    /// Set when the store was closed. A closed store is not reopened. The reference count of the value
    /// becomes zero when the data file is closed.
    closed: OnceLock<Weak<()>>,
    /// Record of damaged pages that were read since the store was opened.
    pub(crate) met: Arc<Met>,
    log: Mutex<Log>,
    pub(crate) log_counters: Arc<Counters>,
    // Keep this field last, so that the data file and the log are closed before the lock of the directory
    // is released.
    pub(crate) directory: Option<Directory>,
}

impl Shared {
    #[allow(clippy::too_many_arguments)] // each argument becomes a field
    pub(crate) fn new(
        engine: Engine,
        catalog: Catalog,
        reopen: Reopen,
        directory: Option<Directory>,
        options: EmbeddedOptions,
        clock: RecordedClock,
        environment: Environment,
        newest_stamp: Option<i64>,
        met: Arc<Met>,
        log: Log,
    ) -> Self {
        let shared = Self {
            clock,
            environment,
            reopen,
            current: RwLock::new(Current {
                engine: Arc::new(engine),
                catalog: Arc::new(catalog),
                snapshot: None,
                refuses: false,
            }),
            options,
            data_bytes: AtomicU64::new(0),
            newest_stamp: Mutex::new(newest_stamp),
            closed: OnceLock::new(),
            met,
            log_counters: log.counters(),
            log: Mutex::new(log),
            directory,
        };
        shared.measure();
        shared
    }

    pub(crate) fn data_file(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(Directory::data_file)
    }

    pub(crate) fn newest_stamp(&self) -> Option<i64> {
        *self.newest_stamp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_newest_stamp(&self, stamp: Option<i64>) {
        *self.newest_stamp.lock().unwrap_or_else(PoisonError::into_inner) = stamp;
    }

    /// Returns whether a read since the last commit met a failure of the file system, so that the engine
    /// rejects all calls.
    pub(crate) fn has_failed(&self) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let snapshot = current.snapshot.as_ref();
        current.refuses || snapshot.is_some_and(|snapshot| snapshot.state.has_failed())
    }

    fn measure(&self) {
        if let Some(path) = self.data_file() {
            let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            self.data_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn save_for_quick_repair(&self) {
        self.data_bytes.store(QUICK_REPAIR_BYTES, Ordering::Relaxed);
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a durable commit should save the allocator's state, which makes opening after a crash
    /// quick. Every durable commit of a store with a log does.
    fn wants_quick_repair(&self) -> bool {
        self.data_bytes.load(Ordering::Relaxed) >= QUICK_REPAIR_BYTES
    }

    /// Returns the snapshot of the last commit.
    pub(crate) fn snapshot(&self) -> Result<Arc<EmbeddedSnapshot>, StoreError> {
        if let Some(snapshot) = &self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .snapshot
        {
            return Ok(Arc::clone(snapshot));
        }
        self.check_open()?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = &current.snapshot {
            return Ok(Arc::clone(snapshot));
        }
        let (engine, catalog) = (Arc::clone(&current.engine), Arc::clone(&current.catalog));
        let state = State::begin(engine, catalog, self.environment.clone());
        let state = state.inspect_err(|error| current.refuses = stops_engine(error))?;
        let snapshot = Arc::new(EmbeddedSnapshot {
            state: Arc::new(state),
        });
        current.snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(
            &self
                .current
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .catalog,
        )
    }

    pub(crate) fn engine_and_catalog(&self) -> (Arc<Engine>, Arc<Catalog>) {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&current.engine), Arc::clone(&current.catalog))
    }

    /// Commits a transaction. Later snapshots contain the commit. The store drops its own older snapshot.
    ///
    /// # Errors
    /// The commit failed. Its outcome is unknown, and the engine must be stopped: [`Self::has_failed`] is true.
    pub(crate) fn commit(
        &self,
        transaction: Transaction,
        catalog: Option<Catalog>,
        durable: Durable,
    ) -> Result<(), StoreError> {
        let committed = self.commit_engine(transaction, catalog, durable);
        if committed.is_err() {
            self.log().fail();
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            current.refuses = true;
        }
        committed
    }

    fn commit_engine(
        &self,
        transaction: Transaction,
        catalog: Option<Catalog>,
        durable: Durable,
    ) -> Result<(), StoreError> {
        let commit = || guarded(|| self.commit_by_log(transaction, durable));
        let Some(catalog) = catalog else {
            commit()?;
            self.forget_snapshot();
            return Ok(());
        };
        // A snapshot combines rows with a catalog, so prevent new snapshots between the commit and
        // the change of the catalog.
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        commit()?;
        current.catalog = Arc::new(catalog);
        current.snapshot = None;
        Ok(())
    }

    /// Commits a transaction in the engine, after its record was written to the log if it gets one.
    fn commit_by_log(&self, transaction: Transaction, durable: Durable) -> Result<(), StoreError> {
        let mut log = self.log();
        log.check_applied()?;
        let plan = match durable {
            Durable::Later => Plan::Nothing,
            Durable::ByRecord => log.plan(&transaction.changes()),
            Durable::Now | Durable::AtClose => Plan::Durable,
        };
        let in_memory = |transaction: Transaction| {
            let (mut transaction, _) = transaction.into_parts();
            transaction
                .set_durability(Durability::None)
                .map_err(|error| engine(redb::Error::from(error)))?;
            transaction.commit().map_err(engine)
        };
        match plan {
            Plan::Nothing => in_memory(transaction),
            Plan::Record => {
                let position = log.append(&transaction)?;
                in_memory(transaction)?;
                log.recorded(position);
                Ok(())
            }
            Plan::Durable => {
                let position = log.begin_checkpoint(&transaction, durable == Durable::AtClose)?;
                let (mut transaction, _) = transaction.into_parts();
                transaction.set_quick_repair(log.wants_two_phase() || self.wants_quick_repair());
                transaction.commit().map_err(engine)?;
                log.checkpointed(position);
                self.measure();
                Ok(())
            }
        }
    }

    /// Makes all commits durable by an empty durable commit of the engine. Returns false if the engine is
    /// stopped or read-only.
    pub(crate) fn checkpoint(&self, durable: Durable) -> Result<bool, StoreError> {
        let (current, _) = self.engine_and_catalog();
        let Some(database) = current.writable() else {
            return Ok(false);
        };
        let transaction = guarded(|| Transaction::begin(database))?;
        self.commit(transaction, None, durable)?;
        Ok(true)
    }

    /// Makes the last checkpoint before the store is closed, if the log is in use.
    pub(crate) fn finish_log(&self) -> Result<(), StoreError> {
        let is_possible = {
            let mut log = self.log();
            log.join();
            log.is_in_use() && log.check_applied().is_ok()
        };
        if is_possible && !self.has_failed() {
            self.checkpoint(Durable::AtClose)?;
        }
        Ok(())
    }

    fn forget_snapshot(&self) {
        let old = {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            current.snapshot.take()
        };
        // Drop the snapshot outside the lock, because dropping its last reference ends the
        // snapshot.
        drop(old);
    }

    /// Closes the engine, which rejects all calls after a read or a write of its file has failed.
    pub(crate) fn stop(&self) {
        self.replace_engine(Engine::Stopped);
    }

    /// Returns an error if the store was closed.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get().is_some() {
            return Err(closed());
        }
        Ok(())
    }

    /// Closes the store permanently. The reference count of the returned value becomes zero when the data
    /// file is closed, which earlier reads may delay.
    pub(crate) fn close(&self) -> Weak<()> {
        let holds_file = || self.engine_and_catalog().0.holds_file();
        let holds_file = self.closed.get_or_init(holds_file).clone();
        self.stop();
        // Without an engine, nothing begins to prepare another file.
        self.log().join();
        holds_file
    }

    /// Reopens the engine if it was stopped. It then contains only the writes that were durable.
    ///
    /// # Errors
    /// The error of opening: the disk still fails, or a snapshot of the stopped engine still exists.
    pub(crate) fn resume(&self) -> Result<(), StoreError> {
        let is_stopped = matches!(*self.engine_and_catalog().0, Engine::Stopped);
        if is_stopped {
            self.check_open()?;
            let database = (self.reopen)().map_err(still_held)?;
            self.log().recover(&database)?;
            let catalog = guarded(|| read_catalog(&database))?;
            // Read the newest timestamp again, because a commit of unknown outcome may have raised
            // it.
            self.set_newest_stamp(guarded(|| meta::newest_stamp(&database))?);
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            current.engine = Arc::new(Engine::writable_of(database));
            current.catalog = Arc::new(catalog);
            current.snapshot = None;
            current.refuses = false;
        }
        Ok(())
    }

    /// Replaces the engine by one that has opened another data file with the same content.
    pub(crate) fn replace_engine(&self, engine: Engine) {
        let old = {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            let snapshot = current.snapshot.take();
            current.refuses = false;
            (snapshot, std::mem::replace(&mut current.engine, Arc::new(engine)))
        };
        drop(old);
        self.measure();
    }
}

/// Returns the error of an attempt to reopen the engine. A snapshot of the stopped engine keeps the file
/// locked until its reads end.
#[cold]
fn still_held(error: StoreError) -> StoreError {
    if error.kind() == StoreErrorKind::Conflict {
        return stopped()
            .with_hint("wait until earlier reads, which use the file, have ended, then try again")
            .with_source(error);
    }
    error
}
