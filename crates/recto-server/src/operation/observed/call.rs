//! Calls of a session: errors for the metrics, and changes for the audit log.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use recto::{Error, Result, Session};
use serde_json::Value as Json;

use crate::operation::{AuditEvent, Context};
use crate::problem::is_not_unique;

/// Session that is observed for one request.
pub(crate) struct Observed<S> {
    /// Visible only in this module, so that each operation uses [`call`](Self::call).
    session: S,
    pub(super) context: Option<Context>,
    /// Row filters of the token, by collection. They apply in addition to the filters of the
    /// request.
    pub(super) rows: BTreeMap<String, String>,
}

impl<S: Session> Observed<S> {
    /// Observes a session for the request that the current task handles. Outside a request, nothing
    /// is recorded.
    pub(crate) fn new(session: S) -> Self {
        Self::of_rows(session, BTreeMap::new())
    }

    /// Observes a session that is restricted to the rows of these filters.
    pub(crate) fn of_rows(session: S, rows: BTreeMap<String, String>) -> Self {
        Self {
            session,
            context: Context::current(),
            rows,
        }
    }

    /// Executes an operation of the session, and records its errors, its changes and its audit
    /// event. If the request is aborted, the audit log has the outcome `unknown`.
    pub(super) async fn call<T>(
        &self,
        operation: Operation<T>,
        work: impl AsyncFnOnce(&S) -> Result<T>,
    ) -> Result<T> {
        if let Some(context) = self.context.as_ref().filter(|_| operation.changes_store) {
            context.begin_write();
        }
        let audited = self.context.as_ref().filter(|_| operation.action.is_some());
        let mut event = AuditEvent::begin(audited, operation.action.unwrap_or_default(), "unknown");
        for (name, value) in operation.details {
            event.detail(name, value);
        }
        let result = self.observed(work(&self.session).await);
        event.end(&result);
        let reply = result?;
        if let Some((name, value)) = (operation.reply_detail)(&reply) {
            event.detail(name, value);
        }
        let errors = (operation.item_errors)(&reply);
        for error in &errors {
            self.count_error(error);
        }
        if let Some(error) = errors.first() {
            event.failed(error);
            event.detail("refused", errors.len());
        }
        Ok(reply)
    }

    /// Returns a stream of the session, and records its errors.
    pub(super) fn stream<'a, T: 'a>(
        &'a self,
        open: impl FnOnce(&'a S) -> BoxStream<'a, Result<T>>,
    ) -> BoxStream<'a, Result<T>> {
        open(&self.session).map(|step| self.observed(step)).boxed()
    }

    /// Returns a part of the session, such as its queues. Records the error if it is missing.
    pub(super) fn part<'a, T>(&'a self, find: impl FnOnce(&'a S) -> Result<T>) -> Result<T> {
        self.observed(find(&self.session))
    }

    /// Returns the session itself, for calls that the client did not request.
    pub(super) fn unobserved(&self) -> &S {
        &self.session
    }

    /// Returns whether the audit log is on.
    pub(super) fn has_audit(&self) -> bool {
        let context = self.context.as_ref();
        context.is_some_and(|context| context.observer().audit.is_on())
    }

    fn observed<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.count_error(error))
    }

    fn count_error(&self, error: &Error) {
        let Some(context) = &self.context else {
            return;
        };
        let metrics = &context.observer().metrics;
        if metrics.error(error.kind()) {
            context.note_failure(error);
        }
        if is_not_unique(error) {
            metrics.unique_conflicts.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Operation with the reply `T`, as the metrics and the audit log see it.
pub(super) struct Operation<T> {
    /// Name in the audit log. `None`: the audit log omits the operation.
    action: Option<&'static str>,
    /// Whether the operation can change the store, even if its request is aborted.
    changes_store: bool,
    /// Details for the audit log. They contain no key and no value.
    details: Vec<(&'static str, Json)>,
    /// Returns the detail that the reply adds.
    reply_detail: fn(&T) -> Option<(&'static str, Json)>,
    /// Returns the errors of items in a reply.
    item_errors: fn(&T) -> Vec<&Error>,
}

impl<T> Operation<T> {
    /// Describes an operation that the audit log omits.
    pub(super) fn unaudited() -> Self {
        Self {
            action: None,
            changes_store: false,
            details: Vec::new(),
            reply_detail: |_| None,
            item_errors: |_| Vec::new(),
        }
    }

    /// Describes an operation that the audit log has, and that does not change the store.
    pub(super) fn audited(action: &'static str) -> Self {
        Self {
            action: Some(action),
            ..Self::unaudited()
        }
    }

    /// Describes an operation that changes the store.
    pub(super) fn change(action: &'static str) -> Self {
        Self {
            changes_store: true,
            ..Self::audited(action)
        }
    }

    /// Adds a detail for the audit log.
    pub(super) fn detail(mut self, name: &'static str, value: impl Into<Json>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// Sets the detail that the reply adds.
    pub(super) fn reply_detail(self, reply_detail: fn(&T) -> Option<(&'static str, Json)>) -> Self {
        Self { reply_detail, ..self }
    }

    /// Sets the function that returns the errors of items in a reply.
    pub(super) fn item_errors(self, item_errors: fn(&T) -> Vec<&Error>) -> Self {
        Self { item_errors, ..self }
    }
}

/// Returns the errors among the results of items.
pub(super) fn errors_of<T>(results: &[Result<T>]) -> Vec<&Error> {
    results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .collect()
}
