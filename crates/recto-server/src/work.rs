//! Maintenance operations that run on the store: at most one of each kind at a time.

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

/// Settings and state of maintenance operations.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// Folder for backups; `None` if the operator configured none.
    pub(crate) backup_folder: Option<PathBuf>,
    /// Folder for files while they are loaded; `None` if the operator configured none.
    pub(crate) load_folder: Option<PathBuf>,
    /// Maximum size of a file to load, in bytes.
    pub(crate) load_bytes: u64,
    /// Maximum time for which a client that uploads a file may send nothing.
    pub(crate) stall_time: Duration,
    /// Maximum time for which one request moves messages between queues.
    pub(crate) redrive_time: Duration,
    running: Mutex<Vec<(Right, Arc<str>)>>,
    /// Result of the last comparison of each view with its records, by collection. Comparisons that
    /// other programs made are not included.
    compared: Mutex<BTreeMap<String, Vec<Compared>>>,
    environment: Environment,
    tasks: Mutex<JoinSet<()>>,
    /// Runtime that executes the operations, so that they do not occupy the thread of the
    /// connection that requested them. `None`: there is no server, and the caller's runtime
    /// executes them.
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

    /// Returns the running operations, each with the name of its requester.
    pub(crate) fn running(&self) -> Vec<String> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = running
            .iter()
            .map(|(right, who)| format!("{} of {who}", right.name()));
        shown.collect()
    }

    /// Stores the results of a comparison of views.
    pub(crate) fn note_compared(&self, report: &VerifyReport) {
        let at_micros = self.environment.now_micros();
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        for view in &report.views {
            let of_collection = compared.entry(view.collection.clone()).or_default();
            // Keep only results of this report, so that results of views that no longer exist are
            // removed.
            of_collection.retain(|one| one.at_micros == at_micros);
            let found = view.clone();
            of_collection.push(Compared { found, at_micros });
        }
    }

    /// Returns the result of the last comparison of a view, and its age in seconds.
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

    /// Waits until no operation is running.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.running().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Runs an operation until it ends or is [canceled](Self::cut).
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Remove the tasks that have ended, so that the set of tasks does not grow.
        while tasks.try_join_next().is_some() {}
        match &self.runtime {
            Some(runtime) => tasks.spawn_on(work, runtime),
            None => tasks.spawn(work),
        };
    }

    /// Cancels the running operations. Each of them logs that it was stopped.
    pub(crate) async fn cut(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }

    /// Begins an operation. Rejects it if another operation of its kind is running.
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

/// Result of the comparison of a view with its records.
#[derive(Debug)]
struct Compared {
    found: VerifiedView,
    at_micros: i64,
}

/// Running operation. Dropping it ends the operation, whether it succeeded or not.
#[derive(Debug)]
pub(crate) struct Running {
    upkeep: Arc<Upkeep>,
    right: Right,
    who: Arc<str>,
    is_ended: bool,
}

impl Running {
    /// Logs the outcome and returns the result. The log line is the only report if the client has
    /// disconnected.
    pub(crate) fn end(self, result: Outcome<Json>) -> Result<Json, Problem> {
        self.end_as(result, ToString::to_string)
    }

    /// Logs the outcome and returns the result. `shown` formats the result for the log, and must
    /// leave out keys of records.
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
