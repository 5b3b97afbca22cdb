//! Maintenance operations that run on the store, such as backups: at most one of each kind at a
//! time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recto::session::{REDRIVE_TIME, VerifiedView, VerifyReport};
use recto::{Environment, Result as Outcome};
use serde_json::Value as Json;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::config::{Config, DEFAULT_LOAD_BYTES, DEFAULT_STALL_TIME_MS};
use crate::problem::Problem;
use crate::rights::Right;
use recto::problem::ProblemType;

/// Maintenance operations of a server (such as backups): their settings, and which ones are
/// running.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// Folder for backups; `None` if the operator configured none.
    pub(crate) backup_folder: Option<PathBuf>,
    /// Folder for files while they are loaded; `None` if the operator configured none.
    pub(crate) load_folder: Option<PathBuf>,
    /// Maximum size of a file to load, in bytes.
    pub(crate) load_bytes: u64,
    /// Maximum time without data from a client that uploads a file.
    pub(crate) stall_time: Duration,
    /// Maximum time that one request may spend on moving messages between queues.
    pub(crate) redrive_time: Duration,
    running: Mutex<Vec<(Right, Arc<str>)>>,
    /// Results of the last comparison of each view with its records, by collection. They exclude
    /// comparisons by other processes.
    compared: Mutex<BTreeMap<String, Vec<Compared>>>,
    environment: Environment,
    tasks: Mutex<JoinSet<()>>,
    /// Runtime that executes the operations, so that they do not block the serving thread of the
    /// request. `None`: without a server, the caller's runtime executes them.
    runtime: Option<Handle>,
    ended: Notify,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            backup_folder: None,
            load_folder: None,
            load_bytes: DEFAULT_LOAD_BYTES,
            stall_time: Duration::from_millis(DEFAULT_STALL_TIME_MS),
            redrive_time: REDRIVE_TIME,
            running: Mutex::default(),
            compared: Mutex::default(),
            environment: Environment::system(),
            tasks: Mutex::default(),
            runtime: None,
            ended: Notify::new(),
        }
    }
}

impl Upkeep {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            redrive_time: (config.limits.request_time / 2).min(REDRIVE_TIME),
            backup_folder: config.backup_folder.clone(),
            load_folder: config.load_folder.clone(),
            load_bytes: config.limits.load_bytes,
            stall_time: config.limits.stall_time,
            runtime: Handle::try_current().ok(),
            ..Self::default()
        }
    }

    /// Returns the running operations as text, each with the name of the token that started it.
    pub(crate) fn running(&self) -> Vec<String> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = running
            .iter()
            .map(|(right, who)| format!("{} of {who}", right.name()));
        shown.collect()
    }

    /// Stores the results of comparing views with records, for the console.
    pub(crate) fn note_compared(&self, report: &VerifyReport) {
        let at_micros = self.environment.now_micros();
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        for view in &report.views {
            let of_collection = compared.entry(view.collection.clone()).or_default();
            // Keep only results of this report. Older results may be of views that no longer exist.
            of_collection.retain(|one| one.at_micros == at_micros);
            let found = view.clone();
            of_collection.push(Compared { found, at_micros });
        }
    }

    /// Returns the result of the last comparison of a view with its records, and its age in
    /// seconds.
    pub(crate) fn compared(&self, collection: &str, view: &str) -> Option<(VerifiedView, u64)> {
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let one = compared
            .get(collection)?
            .iter()
            .find(|one| one.found.view == view)?;
        let micros = self.environment.now_micros().saturating_sub(one.at_micros);
        let ago = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        Some((one.found.clone(), ago.as_secs()))
    }

    /// Waits until no maintenance operation is running.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.running().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Runs a maintenance operation until it ends or is [canceled](Self::cut).
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Remove tasks that have ended, so that the set of tasks does not grow.
        while tasks.try_join_next().is_some() {}
        match &self.runtime {
            Some(runtime) => tasks.spawn_on(work, runtime),
            None => tasks.spawn(work),
        };
    }

    /// Cancels all running operations. Each logs that it was stopped.
    pub(crate) async fn cut(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }

    /// Begins a maintenance operation. Rejects it if an operation of the same kind is running.
    pub(crate) fn begin(self: &Arc<Self>, right: Right, who: &Arc<str>) -> Result<Running, Problem> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let name = right.name();
        if let Some((_, other)) = running.iter().find(|(other, _)| *other == right) {
            let detail = format!("{other} is already running a {name}");
            let problem = Problem::new(ProblemType::UnderWay, detail);
            return Err(problem.with_hint(
                "try again when it has ended: the server runs one operation of a kind at a time",
            ));
        }
        crate::log::info!(operation = name, bearer = &**who, "begun");
        running.push((right, Arc::clone(who)));
        Ok(Running {
            upkeep: Arc::clone(self),
            right,
            who: Arc::clone(who),
            is_ended: false,
        })
    }
}

/// Result of comparing a view with its records, and the time of the comparison.
#[derive(Debug)]
struct Compared {
    found: VerifiedView,
    at_micros: i64,
}

/// Running maintenance operation. Dropping it lets the next operation of its kind start.
#[derive(Debug)]
pub(crate) struct Running {
    upkeep: Arc<Upkeep>,
    right: Right,
    who: Arc<str>,
    is_ended: bool,
}

impl Running {
    /// Logs the outcome of the operation and returns its result. If the client has disconnected,
    /// the log is the only report.
    pub(crate) fn end(self, result: Outcome<Json>) -> Result<Json, Problem> {
        self.end_as(result, ToString::to_string)
    }

    /// Logs the outcome of the operation and returns its result. `shown` formats the result for the
    /// log, and must leave out keys of records.
    pub(crate) fn end_as<T>(
        mut self,
        result: Outcome<T>,
        shown: impl FnOnce(&T) -> String,
    ) -> Result<T, Problem> {
        self.is_ended = true;
        let (operation, bearer) = (self.right.name(), &*self.who);
        match &result {
            Ok(result) => {
                crate::log::info!(operation, bearer, result = shown(result), "done");
            }
            Err(error) => crate::log::warn!(operation, bearer, kind = ?error.kind(), "failed"),
        }
        Ok(result?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_ended {
            let (operation, bearer) = (self.right.name(), &*self.who);
            crate::log::info!(operation, bearer, "stopped");
        }
        let mut running = self.upkeep.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(right, _)| *right != self.right);
        self.upkeep.ended.notify_waiters();
    }
}
