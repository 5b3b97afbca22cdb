//! State that all writers of one open store share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recto_model::Environment;
use recto_protocol::views::{BaseTable, Generation, Micros, ViewedCollection};
use recto_store::{PartitionWrite, Store, WriteOptions, WriteOutcome};
use tokio::sync::Semaphore;

use super::signal::Signal;
use super::stale::StaleEntries;
use super::tables::Tables;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::held::Holding;
use crate::options::write_options;
use crate::session::RecoveryPass;
use crate::settle::{Attempt, Policy, settle};
use crate::viewed::Viewed;

/// Maximum number of changes of records that run at the same time, including changes whose entries
/// are still being written. Further changes wait within their time limits.
pub(super) const MAX_UNDER_WAY: usize = 4_096;

/// State that all changes and background tasks of a writer share.
pub(super) struct Common {
    pub(super) store: Arc<dyn Store>,
    pub(super) environment: Environment,
    pub(super) holding: Arc<Holding>,
    pub(super) request_timeout: Option<Duration>,
    pub(super) tables: Tables,
    pub(super) permits: Arc<Semaphore>,
    pub(super) counts: Counts,
    pub(super) stale: StaleEntries,
    has_ended: AtomicBool,
    ended: Signal,
    /// Version number of a cached schema, and collections by name, as this schema defines them.
    known: Mutex<(u64, HashMap<String, Arc<Known>>)>,
}

/// Time on the monotonic clock at which a wait ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    monotonic_nanos: u64,
}

/// Counters of the writer since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) resolved: AtomicU64,
    pub(super) found_dead: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) recovery_passes: AtomicU64,
    last_pass: Mutex<RecoveryPass>,
}

impl Counts {
    /// Counts a recovery pass (a search for dead processes), and keeps its result.
    pub(super) fn count_pass(&self, pass: RecoveryPass) {
        self.recovery_passes.fetch_add(1, Ordering::Relaxed);
        *self.last_pass.lock().unwrap_or_else(PoisonError::into_inner) = pass;
    }

    /// Returns the result of the last recovery pass.
    pub(super) fn last_pass(&self) -> RecoveryPass {
        *self.last_pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Collection whose records can change, with the views and the base table that one schema defines.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) views: ViewedCollection,
    pub(super) base: BaseTable,
}

impl Common {
    pub(super) fn new(
        store: &Arc<dyn Store>,
        environment: &Environment,
        holding: &Arc<Holding>,
        request_timeout: Option<Duration>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            environment: environment.clone(),
            holding: Arc::clone(holding),
            request_timeout,
            tables: Tables::new(),
            permits: Arc::new(Semaphore::new(MAX_UNDER_WAY)),
            counts: Counts::default(),
            stale: StaleEntries::default(),
            has_ended: AtomicBool::new(false),
            ended: Signal::default(),
            known: Mutex::default(),
        }
    }

    /// Returns the current time by the clock that measures leases. This clock continues while the
    /// machine is suspended.
    pub(super) fn continuous_micros(&self) -> Micros {
        Micros::try_from(self.environment.continuous_nanos() / 1_000).unwrap_or(Micros::MAX)
    }

    /// Returns the deadline that is `time` from now.
    pub(super) fn deadline(&self, time: Duration) -> Deadline {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Deadline {
            monotonic_nanos: self.environment.monotonic_nanos().saturating_add(nanos),
        }
    }

    /// Returns the time that remains until a deadline; zero if the deadline has passed.
    pub(super) fn left(&self, deadline: Deadline) -> Duration {
        let now_nanos = self.environment.monotonic_nanos();
        Duration::from_nanos(deadline.monotonic_nanos.saturating_sub(now_nanos))
    }

    pub(super) fn write_options(&self) -> WriteOptions {
        write_options(self.request_timeout)
    }

    fn catalog(&self) -> Catalog<'_> {
        Catalog::new(&self.store, &self.environment, self.request_timeout)
    }

    /// Returns the generation (version number) of the cached schema.
    pub(super) fn generation(&self) -> Generation {
        Generation(self.holding.held().recorded.generation)
    }

    /// Reads the schema from the catalog with serial consistency, and caches the schema if it is
    /// newer.
    pub(super) async fn reload(&self) -> Result<()> {
        let recorded = self.catalog().schema().await?;
        self.holding.hold_newer(recorded);
        Ok(())
    }

    /// Caches a newer schema if there is one. This is necessary because a process that applies a
    /// schema waits until this process uses that schema.
    pub(super) async fn look_at_schema(&self) {
        // Ignore a failed read, because the schema is read again before the next renewal.
        let _ = self.holding.look(&self.catalog(), &self.environment).await;
    }

    /// Returns a collection as the cached schema defines it; `None` if the schema has no collection
    /// of this name whose records can change.
    pub(super) fn known(&self, collection: &str) -> Option<Arc<Known>> {
        let held = self.holding.held();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != held.version {
            *known = (held.version, HashMap::new());
        }
        if let Some(known) = known.1.get(collection) {
            return Some(Arc::clone(known));
        }
        let definition = held.recorded.schema.collection(collection)?;
        let viewed = Viewed::new(&held.recorded, definition)?;
        let found = Arc::new(Known {
            views: viewed.views,
            base: viewed.base?,
        });
        known.1.insert(collection.to_owned(), Arc::clone(&found));
        Some(found)
    }

    /// Sends a write without conditions, and repeats it while its outcome is unknown.
    pub(super) async fn write(&self, write: PartitionWrite) -> Result<()> {
        self.write_within(write, self.write_options().timeout).await
    }

    /// Sends a write like [`write`](Self::write), within the given time.
    pub(super) async fn write_within(&self, write: PartitionWrite, time: Duration) -> Result<()> {
        let options = self.write_options();
        let attempt = |left| {
            let options = WriteOptions {
                timeout: left,
                ..options
            };
            let sent = self.store.write(write.clone(), options);
            async move {
                match sent.await {
                    Ok(WriteOutcome::Unknown(error)) => Attempt::Unknown(error),
                    Ok(WriteOutcome::Refused(error)) => Attempt::Refused(Error::from(error)),
                    Ok(_) => Attempt::Known(()),
                    Err(error) => Attempt::Failed(Error::from(error)),
                }
            }
        };
        let sent = settle(&self.environment, Policy::write(time), attempt).await;
        sent.map_err(|unsettled| unsettled.or(Error::from))
    }

    /// Ends the writer of this process, so that no further change can begin.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.ended.give();
    }

    /// Returns whether the writer of this process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Waits until the writer of this process has ended.
    pub(super) async fn ended(&self) {
        self.ended.until(|| self.has_ended().then_some(())).await;
    }

    pub(super) fn count(of: &AtomicU64) {
        of.fetch_add(1, Ordering::Relaxed);
    }
}
