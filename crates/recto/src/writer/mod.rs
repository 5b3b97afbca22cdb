//! Changes of records on stores without transactions. This process is one of several writers of the
//! store.
//!
//! The writer executes the steps of `recto_protocol::views`. `docs/design/views.md` gives the reasons.
//!
//! | module | content |
//! |---|---|
//! | `process` | registration of the process: renewals, lease, segments of intents |
//! | `drive` | one running change |
//! | `record` | requests of a change to the store |
//! | `requests` | rows and entries as mutations |
//! | `claims` | requests that take and release unique values |
//! | `plain` | plain writes, for which a schema change waits |
//! | `recovery` | detection of dead processes, and resolution of their intents |
//! | `stale` | removal of stale view entries that pages found |
//! | `signal` | waits for a condition |
//! | `tables` | `recto_writers` and `recto_intents` |
//! | `common` | state that these modules share |

mod claims;
mod common;
mod drive;
mod plain;
mod process;
mod record;
mod recovery;
mod requests;
mod signal;
mod stale;
mod tables;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use recto_model::schema::WriteMode;
use recto_model::{Cells, Environment};
use recto_protocol::views::{
    EntryKey, FieldCells, Generation, Incarnation, KeyCells, Micros, Request, Token, Writer as Registered,
    barrier,
};
use recto_store::{ConsistencyLevel, PartitionWrite, Store};
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

use self::common::{Common, Deadline, MAX_UNDER_WAY};
use self::drive::{Drive, End, Unreleased, Waiting};
use self::process::Process;
use self::record::{Record, UnderWay};
use self::recovery::{RECOVERY_PAUSE, Recovery};
use self::stale::StaleEntries;
use crate::error::{Error, ErrorKind, Result};
use crate::held::Holding;
use crate::session::RecoveryPass;

pub(crate) use self::drive::Outcome;
pub(crate) use self::plain::PlainWriting;

/// Wait of a schema change before it checks again whether processes still use an older schema.
const BARRIER_PAUSE: Duration = Duration::from_secs(1);

/// Maximum time for which a schema change waits for processes that still use an older schema. It is
/// longer than the minute in which a dead process is detected.
const MAX_BARRIER: Duration = Duration::from_secs(300);
/// Maximum number of processes with an older schema that a progress message names.
const MAX_NAMED: usize = 5;
/// Wait before the next attempt to get a lease in order to release claims (reservations of unique
/// values).
const RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// Writer of this process to a store. It makes changes of records if the store has no transactions.
pub(crate) struct Writer(Arc<Joining>);

/// Counters and state of a process that writes to a store without transactions, since it opened the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriterMetrics {
    /// True if the process is registered as a writer.
    pub is_registered: bool,
    /// True if the process has a lease, because it renewed its registration in time. A process
    /// without a lease does not write.
    pub has_lease: bool,
    /// Number of changes of records that are running.
    pub under_way: usize,
    /// Number of intents of this process that are not settled. An intent is the stored record of a
    /// change that is not complete.
    pub intents: u64,
    /// Age of the oldest unsettled intent, in seconds; 0 without intents.
    pub oldest_intent_seconds: u64,
    /// Number of records for which this process completed an unfinished change of a dead process.
    pub resolved: u64,
    /// Number of stale view entries that pages of this process found and removed.
    pub removed_stale: u64,
    /// Number of processes that this process found dead.
    pub found_dead: u64,
    /// Number of times that other processes declared this process dead and it registered again.
    pub lost: u64,
    /// Number of recovery passes. A pass looks for dead processes and completes their changes.
    pub recovery_passes: u64,
    /// Result of the last recovery pass.
    pub last_pass: RecoveryPass,
}

/// State that a [`Writer`] shares with the tasks of its changes. The tasks continue when their
/// callers stop waiting.
struct Joining {
    common: Arc<Common>,
    process: RwLock<Option<Arc<Process>>>,
    /// Lock that is held while this process registers as a writer, so that it registers only once.
    registering: Mutex<()>,
}

impl Writer {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        environment: &Environment,
        holding: &Arc<Holding>,
        request_timeout: Option<Duration>,
    ) -> Self {
        Self(Arc::new(Joining {
            common: Arc::new(Common::new(store, environment, holding, request_timeout)),
            process: RwLock::default(),
            registering: Mutex::default(),
        }))
    }

    /// Changes the record with this key, in a collection whose records can change. `key` has the
    /// cells of the key fields, in the order of the schema. A request that puts a record has the
    /// cells of all fields.
    ///
    /// A separate task makes the change, and continues if the caller stops waiting. When the time
    /// is over, the method returns the state that the change has reached.
    ///
    /// # Errors
    /// The change was not made, and nothing was written. Exception: if the kind is
    /// [`ErrorKind::OutcomeUnknown`], the change may have been written.
    pub(crate) async fn change(
        &self,
        collection: &str,
        key: Cells,
        request: Request<Cells, FieldCells>,
        time: Duration,
    ) -> Result<Outcome> {
        self.begin(None, collection, key, request, time).await
    }

    /// Changes a record like [`change`](Self::change), with `at` as the current time. `at` may be
    /// at most a day in the past. It becomes the version of the change, unless the record already
    /// has a greater version.
    ///
    /// # Errors
    /// The errors of [`change`](Self::change).
    pub(crate) async fn change_at(
        &self,
        at: Micros,
        collection: &str,
        key: Cells,
        request: Request<Cells, FieldCells>,
        time: Duration,
    ) -> Result<Outcome> {
        self.begin(Some(at), collection, key, request, time).await
    }

    async fn begin(
        &self,
        at: Option<Micros>,
        collection: &str,
        key: Cells,
        request: Request<Cells, FieldCells>,
        time: Duration,
    ) -> Result<Outcome> {
        let held = self.0.common.holding.held();
        held.recorded.check_sort_keys(collection)?;
        let deadline = self.0.common.deadline(time);
        let permits = Arc::clone(&self.0.common.permits);
        let permit = timeout(time, permits.acquire_owned()).await;
        let permit = permit.map_err(|_| too_many())?.map_err(|_| closed())?;
        let (answer, told) = oneshot::channel();
        let (joining, collection) = (Arc::clone(&self.0), collection.to_owned());
        tokio::spawn(async move {
            let waiting = Waiting { answer, deadline, at };
            joining.change(&collection, key, request, waiting).await;
            drop(permit);
        });
        told.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Releases a claim (a reservation of unique values) whose record does not contain the claimed
    /// values, if the stored claim has the given token. Returns false if the record contains the
    /// values.
    ///
    /// # Errors
    /// The store cannot be read or written in time.
    pub(crate) async fn release_unheld(
        &self,
        collection: &str,
        key: Cells,
        (claim, token): (&EntryKey<KeyCells>, Token),
        time: Duration,
    ) -> Result<bool> {
        let common = &self.0.common;
        let process = self.0.leased(common.deadline(time)).await?;
        let record = Record::new(common, &process, collection, key);
        let released = timeout(time, record.release_unheld(claim, token)).await;
        released.unwrap_or_else(|_| Err(late()))
    }

    /// Begins a plain write: a write without conditions, for which a process that adds a view
    /// waits. Returns `None` in two cases: the store has transactions, so no process waits for
    /// plain writes, or its consistency levels are too weak for this process to learn of other
    /// writers.
    ///
    /// # Errors
    /// This process did not get a lease in time, so it must not write.
    pub(crate) async fn plain(&self, time: Duration) -> Result<Option<PlainWriting>> {
        let store = &self.0.common.store;
        if store.limits().transactions || store.check_decisions().is_err() {
            return Ok(None);
        }
        PlainWriting::begin(&self.0, time).await.map(Some)
    }

    /// Starts the removal of stale entries (view rows whose record has changed) that a page found.
    /// The removal continues after the call returns.
    pub(crate) fn remove_stale(&self, removals: Vec<PartitionWrite>) {
        StaleEntries::remove(&self.0.common, removals);
    }

    /// Disables the removal of stale view entries in this process.
    pub(crate) fn leave_stale(&self) {
        self.0.common.stale.stop();
    }

    /// Waits until no change uses a schema older than `needed`, which must be recorded. Every
    /// living process must have announced that it uses this schema or a newer one, and the intents
    /// of dead processes must be resolved. `told` receives the list of processes that the method
    /// waits for.
    ///
    /// # Errors
    /// - The store cannot be read.
    /// - This process cannot be registered; only a registered process recovers dead processes.
    /// - Another process does not announce the schema in time.
    pub(crate) async fn barrier(&self, needed: Generation, told: impl Fn(&str)) -> Result<()> {
        let common = &self.0.common;
        self.0.joined().await?.renew_now();
        let deadline = common.deadline(MAX_BARRIER);
        loop {
            self.0.joined().await?;
            let level = Some(ConsistencyLevel::Serial);
            let (tables, timeout) = (&common.tables, common.request_timeout);
            let all = tables.registrations(&common.store, level, timeout).await?;
            let registrations: Vec<_> = all.iter().map(|(_, one)| one.registration()).collect();
            let Err(waits_for) = barrier(&registrations, needed) else {
                return Ok(());
            };
            let waits_for = waits_for.iter().filter_map(|index| all.get(*index));
            let awaited = awaited(waits_for);
            told(&awaited);
            if common.left(deadline).is_zero() {
                return Err(not_passed(needed, &awaited));
            }
            tokio::time::sleep(BARRIER_PAUSE).await;
        }
    }

    /// Recovers the changes of dead processes until nothing remains to be done for now. `told`
    /// receives the result of each pass, and returns whether to continue. `bears` receives the
    /// errors of a pass, and returns an error to end the recovery.
    ///
    /// # Errors
    /// The store cannot be read or written and `bears` returned the error. The work that was done remains.
    pub(crate) async fn recover(
        &self,
        mut told: impl FnMut(&RecoveryPass) -> bool,
        mut bears: impl FnMut(Error) -> Result<()>,
    ) -> Result<RecoveryPass> {
        if self.0.common.store.limits().transactions {
            return Ok(RecoveryPass::default());
        }
        let mut recovery = None;
        loop {
            let (pass, failure) = match self.look_after_the_dead(&mut recovery).await {
                Ok((pass, failure)) => (Some(pass), failure),
                Err(error) => (None, Some(error)),
            };
            let is_enough = pass.filter(|pass| !told(pass));
            failure.map_or(Ok(()), &mut bears)?;
            if let Some(pass) = is_enough {
                return Ok(pass);
            }
            tokio::time::sleep(RECOVERY_PAUSE).await;
        }
    }

    /// Makes one recovery pass, which completes changes of dead processes. Uses the current
    /// registration of this process, because the registration of the last pass may have been lost.
    async fn look_after_the_dead(
        &self,
        recovery: &mut Option<Recovery>,
    ) -> Result<(RecoveryPass, Option<Error>)> {
        let common = &self.0.common;
        if common.has_ended() {
            return Err(closed());
        }
        let process = self.0.joined().await?;
        let recovery = recovery.get_or_insert_with(|| Recovery::new(common, &process));
        recovery.act_for(process);
        recovery.recover(Duration::ZERO).await
    }

    /// Registers this process if the schema has collections in which dead processes may leave
    /// intents (records of unfinished changes). The registered process then makes recovery passes
    /// until it is closed.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(crate) async fn watch(&self) -> Result<()> {
        let common = &self.0.common;
        let held = common.holding.held();
        let mut collections = held.recorded.schema.collections.iter();
        let may_leave = collections.any(|one| one.writes == WriteMode::Update);
        if may_leave && !common.store.limits().transactions {
            self.0.joined().await?;
        }
        Ok(())
    }

    /// Returns the counters and the state of this process as a writer, since it opened the store.
    pub(crate) fn metrics(&self) -> WriterMetrics {
        let common = &self.0.common;
        let under_way = MAX_UNDER_WAY.saturating_sub(common.permits.available_permits());
        let process = self.0.living();
        WriterMetrics {
            is_registered: process.is_some(),
            has_lease: process.as_ref().is_some_and(|process| process.has_lease(common)),
            under_way,
            intents: process.as_ref().map_or(0, |process| process.intents()),
            oldest_intent_seconds: process.map_or(0, |process| process.oldest_intent_seconds(common)),
            resolved: common.counts.resolved.load(Ordering::Relaxed),
            removed_stale: common.stale.removed(),
            found_dead: common.counts.found_dead.load(Ordering::Relaxed),
            lost: common.counts.lost.load(Ordering::Relaxed),
            recovery_passes: common.counts.recovery_passes.load(Ordering::Relaxed),
            last_pass: common.counts.last_pass(),
        }
    }

    /// Waits at most `time` until no change is running, and lets no further change begin. Then
    /// removes the registration of this process.
    pub(crate) async fn close(&self, time: Duration) {
        let common = &self.0.common;
        let deadline = common.deadline(time);
        let all = u32::try_from(MAX_UNDER_WAY).unwrap_or(u32::MAX);
        let idle = timeout(time, common.permits.acquire_many(all)).await;
        common.permits.close();
        drop(idle);
        common.end();
        if let Some(process) = self.0.living() {
            // Ignore a timeout: if the registration is not removed in time, other processes
            // find this process dead.
            let _ = timeout(common.left(deadline), process.left()).await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.common.end();
    }
}

impl Joining {
    /// Makes a change. If the registration is lost before anything was written, repeats the change
    /// with the next registration. Finally releases the claims (reservations of unique values) that
    /// were taken with lost registrations.
    async fn change(
        &self,
        collection: &str,
        key: Cells,
        request: Request<Cells, FieldCells>,
        mut waiting: Waiting,
    ) {
        let mut all_unreleased = Vec::new();
        loop {
            let leased = self.leased(waiting.deadline).await;
            let begun = leased.and_then(|process| {
                let under_way = UnderWay::begin(&self.common, &process).ok_or_else(closed)?;
                Ok((process, under_way))
            });
            let (process, under_way) = match begun {
                Ok(begun) => begun,
                Err(error) => {
                    drop(waiting.answer.send(Err(error)));
                    break;
                }
            };
            let record = Record::new(&self.common, &process, collection, key.clone());
            let change = Drive::change(record, request.clone(), under_way, waiting);
            let unmade = match change.run().await {
                End::Settled(_) => None,
                End::Lost { waiting, unreleased } => {
                    all_unreleased.extend(unreleased);
                    waiting
                }
            };
            match unmade {
                Some(unmade) => waiting = unmade,
                None => break,
            }
        }
        for unreleased in all_unreleased {
            self.release(collection, &key, unreleased).await;
        }
    }

    /// Releases claims (reservations of unique values) that a record took with a lost registration.
    /// Retries until they are released or the store is closed.
    async fn release(&self, collection: &str, key: &Cells, unreleased: Unreleased) {
        let mut left = Some(unreleased);
        while let Some(mut unreleased) = left.take() {
            unreleased.arrived().await;
            let Some((process, under_way)) = self.begin_release().await else {
                return;
            };
            let record = Record::new(&self.common, &process, collection, key.clone());
            let releasing = Drive::resolve(record, unreleased.release(), under_way);
            if let End::Lost { unreleased, .. } = releasing.run().await {
                left = unreleased;
            }
        }
    }

    /// Waits until this process has a lease, and marks a release of claims as running. Returns
    /// `None` if the store is closed.
    async fn begin_release(&self) -> Option<(Arc<Process>, UnderWay)> {
        loop {
            let leased = self.leased(self.common.deadline(Duration::MAX)).await;
            let begun = leased.ok().and_then(|process| {
                let under_way = UnderWay::begin(&self.common, &process)?;
                Some((process, under_way))
            });
            if begun.is_some() || self.common.has_ended() {
                return begun;
            }
            tokio::time::sleep(RELEASE_PAUSE).await;
        }
    }

    /// Waits until this process is registered and has its lease, the permission to write. Returns
    /// the registered process.
    ///
    /// # Errors
    /// The process does not get a lease in time, or the store is closed.
    async fn leased(&self, deadline: Deadline) -> Result<Arc<Process>> {
        let common = &self.common;
        loop {
            if common.has_ended() {
                return Err(closed());
            }
            let joined = timeout(common.left(deadline), self.joined()).await;
            let process = joined.unwrap_or_else(|_| Err(late()))?;
            let leased = tokio::select! {
                biased;
                () = process.lost() => None,
                leased = process.leased_soon(common) => Some(leased),
                () = tokio::time::sleep(common.left(deadline)) => Some(Err(no_lease())),
            };
            if let Some(leased) = leased {
                return leased.map(|()| process);
            }
        }
    }

    /// Returns this process with its registration. If it has none, registers it, and starts its
    /// renewals and the recovery of dead processes.
    async fn joined(&self) -> Result<Arc<Process>> {
        if let Some(process) = self.living() {
            return Ok(process);
        }
        let _one_at_a_time = self.registering.lock().await;
        if let Some(process) = self.living() {
            return Ok(process);
        }
        let process = Arc::new(Process::register(&self.common).await?);
        let (common, renewed) = (Arc::clone(&self.common), Arc::clone(&process));
        tokio::spawn(async move { renewed.run(&common).await });
        let recovery = Recovery::new(&self.common, &process);
        tokio::spawn(recovery.run());
        *self.process.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&process));
        Ok(process)
    }

    fn living(&self) -> Option<Arc<Process>> {
        let process = self.process.read().unwrap_or_else(PoisonError::into_inner);
        process.clone().filter(|process| !process.is_lost())
    }
}

/// Describes the processes that a schema change waits for: their count, and the states of the first
/// few of them.
fn awaited<'w>(those: impl Iterator<Item = &'w (Incarnation, Registered)>) -> String {
    let those: Vec<String> = those
        .map(|(incarnation, writer)| {
            let says = match (writer.is_dead, writer.generation) {
                (true, _) => "dead, with unfinished changes".to_owned(),
                (false, Some(generation)) => format!("writes with schema generation {}", generation.0),
                (false, None) => "registers".to_owned(),
            };
            format!("{incarnation} ({says})")
        })
        .collect();
    let more = match those.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let processes = if those.len() == 1 { "process" } else { "processes" };
    let named = &those[..those.len().min(MAX_NAMED)];
    format!("{} {processes}: {}{more}", those.len(), named.join(", "))
}

fn not_passed(needed: Generation, awaited: &str) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!(
            "writers still use a schema older than generation {} after {} s: {awaited}",
            needed.0,
            MAX_BARRIER.as_secs()
        ),
    )
    .with_hint(
        "stop these processes, or wait until their writes have ended, then apply the schema again to \
         continue",
    )
}

fn too_many() -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("{MAX_UNDER_WAY} changes are running, and none ended in time"),
    )
    .with_hint("try again with fewer changes at a time; nothing was written")
}

fn late() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "this process could not register as a writer in time",
    )
    .with_hint("try again; nothing was written")
}

/// Returns the error that this process has no lease, so that it must not write.
fn no_lease() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "this process could not renew its registration in time, and so cannot write",
    )
    .with_hint("try again; nothing was written, because the store did not answer in time")
}

fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the store is closed")
}

/// Returns the error that the task of a change ended because its runtime stopped.
fn ended() -> Error {
    Error::new(ErrorKind::OutcomeUnknown, "the runtime stopped during the change")
        .with_hint("read the record after a minute: by then another writer decides the outcome")
}
