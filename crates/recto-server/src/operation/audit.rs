//! The audit log: who changed what, from where, and what came of it.
//!
//! A line is a JSON object. It names collections and counts changes; it holds no key and no value: whoever
//! reads logs need not be one of those who may read records.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use recto::Environment;
use serde_json::{Map, Value as Json};

use super::Context;
use super::context::Who;
use crate::auth::TokenChanges;
use crate::problem;

/// In the place of a file's name: the standard output.
const STDOUT: &str = "stdout";

/// The audit log, which may be off.
pub(crate) struct Audit {
    lines: Option<Mutex<Box<dyn Write + Send>>>,
    environment: Environment,
    /// Whether the last line could not be written: said once.
    failing: AtomicBool,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens the file and appends to it; `None` is an audit log that is off.
    ///
    /// # Errors
    /// The file cannot be opened or made.
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

    /// Whether there is one.
    fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Writes a line; the change it tells of is not held up by one that cannot be written.
    fn write(&self, action: &str, outcome: &str, who: Option<&Who>, details: Map<String, Json>) {
        let Some(lines) = &self.lines else {
            return;
        };
        let now = jiff::Timestamp::from_microsecond(self.environment.now_micros());
        let mut line = Map::new();
        line.insert("time".into(), now.unwrap_or_default().to_string().into());
        line.insert("action".into(), action.into());
        line.insert("outcome".into(), outcome.into());
        if let Some(who) = who {
            line.insert("token".into(), who.token.as_deref().into());
            line.insert("name".into(), (*who.name).into());
            line.insert("client".into(), who.client.to_string().into());
            line.insert("request_id".into(), who.request_id.as_str().into());
        }
        line.extend(details);
        let text = format!("{}\n", Json::Object(line));
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        // In one piece, so that lines of several writers of a file do not mix.
        let written = lines.write_all(text.as_bytes()).and_then(|()| lines.flush());
        drop(lines);
        let failed = written.is_err();
        if let (Err(error), false) = (written, self.failing.swap(failed, Ordering::Relaxed)) {
            crate::log::error!(%error, "the audit log cannot be written");
        }
    }

    /// A request that was refused because of its token.
    pub(crate) fn refused(&self, who: &Who, route: &str, method: &str, status: u16) {
        if self.is_on() {
            let details = [
                ("route", route.into()),
                ("method", method.into()),
                ("status", status.into()),
            ];
            self.write("request", "refused", Some(who), map(details));
        }
    }

    /// Tokens that came, went or were changed in their file.
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

    /// A schema that another process applied.
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
    // Who is made readers of it is for the operator to say.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Something that is done for a request and stands in the audit log: its line is written when it ends,
/// and also if its request ends before.
pub(crate) struct Deed {
    context: Option<Context>,
    action: &'static str,
    details: Map<String, Json>,
    outcome: &'static str,
}

impl Deed {
    /// Something begins; `if_cut` is its outcome unless another is [told](Self::end).
    pub(crate) fn begin(context: Option<&Context>, action: &'static str, if_cut: &'static str) -> Self {
        let context = context.filter(|context| context.observer().audit.is_on());
        Self {
            context: context.cloned(),
            action,
            details: Map::new(),
            outcome: if_cut,
        }
    }

    /// Whether it will be written at all.
    pub(crate) fn is_noted(&self) -> bool {
        self.context.is_some()
    }

    /// Adds a detail: no key and no value.
    pub(crate) fn detail(&mut self, name: &str, value: impl Into<Json>) {
        if self.is_noted() {
            self.details.insert(name.to_owned(), value.into());
        }
    }

    /// It ended.
    pub(crate) fn end<T>(&mut self, result: &recto::Result<T>) {
        match result {
            Ok(_) => self.done(),
            Err(error) => self.failed(error),
        }
    }

    /// It ended well.
    pub(crate) fn done(&mut self) {
        self.outcome = "done";
    }

    /// It failed.
    pub(crate) fn failed(&mut self, error: &recto::Error) {
        self.outcome = problem::kind_of(error.kind());
    }
}

impl Drop for Deed {
    fn drop(&mut self) {
        if let Some(context) = &self.context {
            let details = std::mem::take(&mut self.details);
            let audit = &context.observer().audit;
            audit.write(self.action, self.outcome, Some(context.who()), details);
        }
    }
}
