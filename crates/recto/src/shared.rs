//! State that every handle on an open store shares.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Environment;
use recto_plan::cursor::KeyRing;
use recto_store::{ClockStatus, ReadOptions, Store, WriteOptions};
use tokio::sync::{Mutex, RwLock as AsyncLock, RwLockReadGuard, RwLockWriteGuard};

use crate::catalog::views::KeptViews;
use crate::catalog::{Catalog, Recorded};
use crate::error::{Error, ErrorKind, Result};
use crate::held::{Held, Holding};
use crate::keys::CursorKeys;
use crate::options::{OpenOptions, read_options, write_options};
use crate::partition_store::PartitionStore;
use crate::stamps::Stamps;
use crate::writer::{PlainWriting, Writer};

/// Maximum number of attempts to record the state of views while other processes apply schemas.
const MAX_RECORDINGS: u32 = 16;

/// State that every handle on one open store shares.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    /// Layer that divides partitions into buckets or keeps them whole. `None` if the store manages buckets
    /// itself.
    pub(crate) partitions: Option<PartitionStore>,
    pub(crate) environment: Environment,
    pub(crate) keys: CursorKeys,
    pub(crate) stamps: Arc<Stamps>,
    pub(crate) holding: Arc<Holding>,
    /// Lock for reads of the catalog: one page reads it on behalf of all waiting pages.
    looking: Mutex<()>,
    /// Registration of this process as one of the writers of the store.
    pub(crate) writer: Writer,
    /// Lock that writers of records share. A caller that must exclude writes holds it exclusively.
    writing: AsyncLock<()>,
    request_timeout: Option<Duration>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("store", &self.store.describe())
            .finish_non_exhaustive()
    }
}

/// Guard of a write of records that is under way. While the guard exists, no view is added that the write
/// does not maintain.
pub(crate) struct Writing<'s> {
    _here: RwLockReadGuard<'s, ()>,
    plain: Option<PlainWriting>,
}

impl Writing<'_> {
    /// Returns an error if this process has no lease (the right to write without conditions). The write must
    /// not be sent after an error.
    pub(crate) fn check_lease(&self) -> Result<()> {
        self.plain.as_ref().map_or(Ok(()), PlainWriting::check_lease)
    }

    /// Waits until this process has a lease (the right to write without conditions), for at most `time`.
    /// Returns the remaining time.
    ///
    /// # Errors
    /// The process gets no lease in time.
    pub(crate) async fn leased(&self, time: Duration) -> Result<Duration> {
        match &self.plain {
            Some(plain) => plain.leased(time).await,
            None => Ok(time),
        }
    }

    /// Returns whether the applied write is in all views. If other processes considered this process dead,
    /// they may have added views without the write. The caller must then repeat the write with the current
    /// schema.
    ///
    /// # Errors
    /// The answer cannot be determined in time.
    pub(crate) async fn is_all(&mut self, shared: &Shared, time: Duration) -> Result<bool> {
        if self.check_lease().is_ok() {
            return Ok(true);
        }
        let begun = shared.writer.plain(time).await?;
        let earlier = std::mem::replace(&mut self.plain, begun);
        let (Some(begun), Some(earlier)) = (&self.plain, earlier) else {
            return Ok(true);
        };
        let goes_on = begun.goes_on(&earlier);
        earlier.ended();
        Ok(goes_on)
    }

    /// Ends the write. The caller must know the outcome of the write.
    pub(crate) fn ended(self) {
        if let Some(plain) = self.plain {
            plain.ended();
        }
    }
}

impl Shared {
    pub(crate) fn new(
        (store, partitions, stamps): (Arc<dyn Store>, Option<PartitionStore>, Arc<Stamps>),
        environment: Environment,
        keys: KeyRing,
        (recorded, asked_nanos): (Recorded, u64),
        options: &OpenOptions,
    ) -> Self {
        let holding = Arc::new(Holding::new(recorded, asked_nanos));
        Self {
            writer: Writer::new(&store, &environment, &holding, options.request_timeout),
            keys: CursorKeys::new(Arc::clone(&store), environment.clone(), keys, options),
            stamps,
            store,
            partitions,
            environment,
            holding,
            looking: Mutex::default(),
            writing: AsyncLock::default(),
            request_timeout: options.request_timeout,
        }
    }

    /// Begins a write of records, so that no view is added without the write. The writer must determine its
    /// changes while it holds the result, and must hold the result until the outcome is known. A caller that
    /// holds the result must not call this method again. For writes without conditions, use
    /// [`writing_plainly`](Self::writing_plainly).
    pub(crate) async fn writing(&self) -> Writing<'_> {
        Writing {
            _here: self.writing.read().await,
            plain: None,
        }
    }

    /// Begins a plain write (a write without a condition on a version). Other processes know of a plain write
    /// only if this process announces it. Its order among the writes of other processes depends on the local
    /// clock.
    ///
    /// # Errors
    /// The write cannot be announced in time, or the local clock is wrong. The caller must then write
    /// nothing.
    pub(crate) async fn writing_plainly(&self, time: Duration) -> Result<Writing<'_>> {
        if let Some(guard) = self.store.clock_guard()
            && !guard.may_stamp().await
        {
            return Err(wrong_clock(guard.status(None)));
        }
        let mut writing = self.writing().await;
        writing.plain = self.writer.plain(time).await?;
        Ok(writing)
    }

    /// Changes the states of views and unique constraints in the catalog. `change` returns whether it changed
    /// them. If another process records a schema at the same time, calls `change` again.
    ///
    /// # Errors
    /// The catalog cannot be read or written.
    pub(crate) async fn record_views(&self, change: impl Fn(&mut KeptViews) -> bool) -> Result<()> {
        let catalog = Catalog::new(&self.store, &self.environment, self.request_timeout);
        for _ in 0..MAX_RECORDINGS {
            let recorded = catalog.schema().await?;
            let mut views = KeptViews::clone(&recorded.views);
            if change(&mut views) {
                let (schema, after) = (&recorded.schema, recorded.generation);
                match catalog.record_schema(schema, &views, after).await {
                    Err(error) if error.kind() == ErrorKind::SchemaMismatch => continue,
                    recorded => recorded?,
                };
            }
            let recorded = catalog.schema().await?;
            self.holding.hold_newer(recorded);
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Store,
            "the state of a view cannot be saved, because other processes keep changing the store's schema",
        )
        .with_hint("run the command again when other processes have finished applying schemas"))
    }

    /// Waits until no write of this process is under way, and prevents new writes while the caller holds the
    /// result.
    pub(crate) async fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.writing.write().await
    }

    /// Returns the cached schema.
    pub(crate) fn held(&self) -> Arc<Held> {
        self.holding.held()
    }

    /// Returns the version of the cached schema.
    pub(crate) fn version(&self) -> u64 {
        self.holding.version()
    }

    /// Adopts a schema that another process has recorded, if this process has not adopted it yet.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) async fn look_for_schema(&self) -> Result<()> {
        let catalog = Catalog::new(&self.store, &self.environment, self.request_timeout);
        self.holding.look(&catalog, &self.environment).await
    }

    /// Returns whether the cached schema is too old for reads of views. Another process may have dropped a
    /// view since the cached schema was read.
    pub(crate) fn is_old(&self) -> bool {
        self.store.limits().remote && self.holding.is_old(&self.environment)
    }

    /// Reads the catalog if the cached schema is too old. One read serves all callers that wait at the same
    /// time.
    ///
    /// # Errors
    /// The catalog cannot be read, so it is not known which views are written.
    pub(crate) async fn look_for_all(&self) -> Result<()> {
        let _one_asks_for_all = self.looking.lock().await;
        if !self.is_old() || self.held().recorded.views.has_none() {
            return Ok(());
        }
        self.look_for_schema().await
    }

    pub(crate) fn read_options(&self) -> ReadOptions {
        read_options(self.request_timeout)
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        write_options(self.request_timeout)
    }

    /// Returns the options of writes of a load. If `relaxed` is true, no caller waits until a single request
    /// is on disk.
    pub(crate) fn load_options(&self, timeout: Duration, relaxed: bool) -> WriteOptions {
        WriteOptions {
            timeout: self.request_timeout.unwrap_or(timeout),
            relaxed,
            row_by_row: relaxed,
            ..WriteOptions::default()
        }
    }
}

fn wrong_clock(status: ClockStatus) -> Error {
    let warning = status.warning().unwrap_or_default();
    let error = Error::new(ErrorKind::Unavailable, format!("nothing was written: {warning}"));
    match status.hint() {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
