//! Audit log: who changed what. Each line has the token, the change, the client's address, and the
//! outcome.
//!
//! A line is a JSON object. It names collections and counts changes. It contains no key and no
//! value of a record, because a reader of the log may not be allowed to read records.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use recto::Environment;
use serde_json::{Map, Value as Json};

use super::Context;
use super::context::RequestClient;
use crate::auth::TokenChanges;
use crate::problem;

/// Setting that writes the audit log to standard output instead of a file.
const STDOUT: &str = "stdout";

/// Audit log of a server, which may be off.
pub(crate) struct Audit {
    lines: Option<Mutex<Box<dyn Write + Send>>>,
    environment: Environment,
    /// True if the last line could not be written. Only the first of consecutive failures is
    /// logged.
    failing: AtomicBool,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens the audit log: a file, to which lines are appended, or standard output. `None` turns
    /// it off.
    ///
    /// # Errors
    /// The file cannot be opened or created.
    pub(crate) fn open(target: Option<&Path>, environment: Environment) -> io::Result<Self> {
        let lines = match target {
            None => None,
            Some(target) if target.as_os_str() == STDOUT => Some(boxed(io::stdout())),
            Some(path) => Some(boxed(file(path)?)),
        };
        Ok(Self {
            lines,
            environment,
            failing: AtomicBool::new(false),
        })
    }

    pub(super) fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Writes a line to the audit log. An error is logged, but does not stop the change.
    fn write(&self, action: &str, outcome: &str, client: Option<&RequestClient>, details: Map<String, Json>) {
        let Some(lines) = &self.lines else {
            return;
        };
        let now = jiff::Timestamp::from_microsecond(self.environment.now_micros());
        let mut line = Map::new();
        line.insert("time".into(), now.unwrap_or_default().to_string().into());
        line.insert("action".into(), action.into());
        line.insert("outcome".into(), outcome.into());
        if let Some(client) = client {
            line.insert("token".into(), client.token.as_deref().into());
            line.insert("name".into(), (*client.name).into());
            line.insert("client".into(), client.client.to_string().into());
            line.insert("request_id".into(), client.request_id.as_str().into());
        }
        line.extend(details);
        let text = format!("{}\n", Json::Object(line));
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        // Write the line in one call, so that lines of several processes do not mix in a file.
        let written = lines.write_all(text.as_bytes()).and_then(|()| lines.flush());
        drop(lines);
        let failed = written.is_err();
        if let (Err(error), false) = (written, self.failing.swap(failed, Ordering::Relaxed)) {
            crate::log::error!(%error, "the audit log cannot be written");
        }
    }

    /// Writes a line about a request that was rejected because of its token.
    pub(crate) fn refused(&self, client: &RequestClient, route: &str, method: &str, status: u16) {
        if self.is_on() {
            let details = [
                ("route", route.into()),
                ("method", method.into()),
                ("status", status.into()),
            ];
            self.write("request", "refused", Some(client), map(details));
        }
    }

    /// Writes an audit line for each token that was added to, changed in or removed from the token file.
    pub(crate) fn tokens(&self, changes: &TokenChanges) {
        let all = [
            ("token made", &changes.made),
            ("token changed", &changes.changed),
            ("token revoked", &changes.revoked),
        ];
        for (action, names) in all {
            for (id, name) in names {
                let details = [("token", id.as_str().into()), ("name", name.as_str().into())];
                self.write(action, "seen", None, map(details));
            }
        }
    }

    /// Writes a line about a schema change that another process made. `generation` is the version
    /// of the schema.
    pub(crate) fn schema(&self, generation: u64) {
        self.write("schema", "seen", None, map([("generation", generation.into())]));
    }
}

fn map<const N: usize>(details: [(&str, Json); N]) -> Map<String, Json> {
    details
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn boxed(lines: impl Write + Send + 'static) -> Mutex<Box<dyn Write + Send>> {
    Mutex::new(Box::new(lines))
}

fn file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    // Let only the owner read a new file. Operators can add readers, because an existing file keeps
    // its mode.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Operation that the audit log records. Dropping the value writes the line, so that an aborted
/// request is recorded too.
pub(crate) struct AuditEvent {
    context: Option<Context>,
    action: &'static str,
    details: Map<String, Json>,
    outcome: &'static str,
}

impl AuditEvent {
    /// Begins an operation for the audit log. `if_cut` is its outcome unless [`end`](Self::end)
    /// sets another.
    pub(crate) fn begin(context: Option<&Context>, action: &'static str, if_cut: &'static str) -> Self {
        let context = context.filter(|context| context.observer().audit.is_on());
        Self {
            context: context.cloned(),
            action,
            details: Map::new(),
            outcome: if_cut,
        }
    }

    /// Adds a detail to the line of the audit log. It must not be a key or a value of a record.
    pub(crate) fn detail(&mut self, name: &str, value: impl Into<Json>) {
        if self.context.is_some() {
            self.details.insert(name.to_owned(), value.into());
        }
    }

    /// Sets the outcome in the audit log from the result of the operation.
    pub(crate) fn end<T>(&mut self, result: &recto::Result<T>) {
        match result {
            Ok(_) => self.done(),
            Err(error) => self.failed(error),
        }
    }

    /// Sets the outcome `done` in the audit log.
    pub(crate) fn done(&mut self) {
        self.outcome = "done";
    }

    /// Sets the kind of an error as the outcome in the audit log.
    pub(crate) fn failed(&mut self, error: &recto::Error) {
        self.outcome = problem::kind_of(error.kind());
    }
}

impl Drop for AuditEvent {
    fn drop(&mut self) {
        if let Some(context) = &self.context {
            let details = std::mem::take(&mut self.details);
            let audit = &context.observer().audit;
            audit.write(self.action, self.outcome, Some(context.request_client()), details);
        }
    }
}
