//! What the store's callers and its writer share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use recto_model::Environment;
use recto_store::{StoreError, StoreErrorKind};
use redb::{Database, WriteTransaction};

use crate::catalog::{Catalog, read_catalog};
use crate::directory::Directory;
use crate::error::{closed, engine, guarded, stopped, stops_engine};
use crate::meta;
use crate::options::EmbeddedOptions;
use crate::snapshot::EmbeddedSnapshot;
use crate::state::{Engine, State};
use crate::verified::Met;

/// From this many bytes of data on, durable commits save what makes reopening after a crash quick
/// (redb's quick repair). Below, reopening reads the whole file, some 2 ms per MiB, and commits take
/// half as long.
pub const QUICK_REPAIR_BYTES: u64 = 128 << 20;

/// What changes as the store is written.
struct Current {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    /// The snapshot of all who read since the last commit.
    snapshot: Option<Arc<EmbeddedSnapshot>>,
    /// Whether the file system refused even to begin one.
    refuses: bool,
}

/// Opens the data file again.
pub(crate) type Reopen = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) environment: Environment,
    reopen: Reopen,
    current: RwLock<Current>,
    pub(crate) options: EmbeddedOptions,
    data_bytes: AtomicU64,
    /// The newest stamp of a plain write, as it stands in the data file.
    newest_stamp: Mutex<Option<i64>>,
    /// Set when the store was closed, which is not opened again. Its count is zero when the data file is closed.
    closed: OnceLock<Weak<()>>,
    /// Damaged pages that were met.
    pub(crate) met: Arc<Met>,
    // Last, so that the data file is closed before the directory is given up.
    pub(crate) directory: Option<Directory>,
}

impl Shared {
    #[allow(clippy::too_many_arguments)] // each is a part of it
    pub(crate) fn new(
        engine: Engine,
        catalog: Catalog,
        reopen: Reopen,
        directory: Option<Directory>,
        options: EmbeddedOptions,
        environment: Environment,
        newest_stamp: Option<i64>,
        met: Arc<Met>,
    ) -> Self {
        let shared = Self {
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

    /// Whether the file system refused a read since the last commit, so that the engine is of no use.
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

    /// Whether a durable commit should save what makes reopening after a crash quick.
    pub(crate) fn wants_quick_repair(&self) -> bool {
        self.data_bytes.load(Ordering::Relaxed) >= QUICK_REPAIR_BYTES
    }

    /// The snapshot of everything committed so far.
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

    /// Commits. Snapshots asked for from now on show it; the store itself holds on to no older one.
    pub(crate) fn commit(
        &self,
        transaction: WriteTransaction,
        catalog: Option<Catalog>,
    ) -> Result<(), StoreError> {
        let commit = || guarded(|| transaction.commit().map_err(engine));
        let Some(catalog) = catalog else {
            commit()?;
            self.forget_snapshot();
            self.measure();
            return Ok(());
        };
        // A snapshot pairs rows with a catalog, so none may be made in between.
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        commit()?;
        current.catalog = Arc::new(catalog);
        current.snapshot = None;
        Ok(())
    }

    fn forget_snapshot(&self) {
        let old = {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            current.snapshot.take()
        };
        // Outside the lock: the last holder ends the snapshot.
        drop(old);
    }

    /// Closes the engine, which refuses everything once a read or a write of its file has failed.
    pub(crate) fn stop(&self) {
        self.replace_engine(Engine::Stopped);
    }

    /// Refuses what is asked of a store that was closed.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get().is_some() {
            return Err(closed());
        }
        Ok(())
    }

    /// Closes the store for good. The count of what it returns is zero when the data file is closed, which reads that began
    /// before delay.
    pub(crate) fn close(&self) -> Weak<()> {
        let holds_file = || self.engine_and_catalog().0.holds_file();
        let holds_file = self.closed.get_or_init(holds_file).clone();
        self.stop();
        holds_file
    }

    /// Opens the engine again if it was stopped. What is on disk is what was durable.
    ///
    /// # Errors
    /// That of opening: the disk still fails, or a snapshot of the stopped engine is left.
    pub(crate) fn resume(&self) -> Result<(), StoreError> {
        let is_stopped = matches!(*self.engine_and_catalog().0, Engine::Stopped);
        if is_stopped {
            self.check_open()?;
            let database = (self.reopen)().map_err(still_held)?;
            let catalog = guarded(|| read_catalog(&database))?;
            // A commit whose outcome is unknown may have raised it, or not.
            self.set_newest_stamp(guarded(|| meta::newest_stamp(&database))?);
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            current.engine = Arc::new(Engine::writable_of(database));
            current.catalog = Arc::new(catalog);
            current.snapshot = None;
            current.refuses = false;
        }
        Ok(())
    }

    /// Goes on with another data file of the same contents.
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

/// The engine's file is locked as long as a snapshot of the stopped engine is read.
#[cold]
fn still_held(error: StoreError) -> StoreError {
    if error.kind() == StoreErrorKind::Conflict {
        return stopped()
            .with_hint("reads that began before hold the file: try again when they have ended")
            .with_source(error);
    }
    error
}
