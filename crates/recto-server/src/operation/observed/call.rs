//! Calls of an observed session: errors go to the metrics, and changes to the audit log.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use recto::{Error, Result, Session};
use serde_json::Value as Json;

use crate::operation::{AuditEvent, Context};
use crate::problem::is_not_unique;

/// Session wrapper that records metrics, errors and changes for one request.
pub(crate) struct Observed<S> {
    /// Wrapped session. It is private to the module, so that every operation uses
    /// [`call`](Self::call).
    session: S,
    pub(super) context: Option<Context>,
    /// Row filters of the token by collection. They apply in addition to the filter of a request.
    pub(super) rows: BTreeMap<String, String>,
}

impl<S: Session> Observed<S> {
    /// Wraps a session for the request that the current task handles. Outside a request, the
    /// wrapper records nothing.
    pub(crate) fn new(session: S) -> Self {
        Self::of_rows(session, BTreeMap::new())
    }

    /// Wraps a session that is restricted by the row filters `rows` of the token.
    pub(crate) fn of_rows(session: S, rows: BTreeMap<String, String>) -> Self {
        Self {
            session,
            context: Context::current(),
            rows,
        }
    }

    /// Executes an operation of the session, and records its errors and its line in the audit log.
    /// If the request is aborted, the line has the outcome `unknown`.
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

    /// Opens a stream of the session, and records the errors of its items.
    pub(super) fn stream<'a, T: 'a>(
        &'a self,
        open: impl FnOnce(&'a S) -> BoxStream<'a, Result<T>>,
    ) -> BoxStream<'a, Result<T>> {
        open(&self.session).map(|step| self.observed(step)).boxed()
    }

    /// Returns a part of the session, such as its queues. Records the error if the store has no
    /// such part.
    pub(super) fn part<'a, T>(&'a self, find: impl FnOnce(&'a S) -> Result<T>) -> Result<T> {
        self.observed(find(&self.session))
    }

    /// Returns the wrapped session, for calls that no client requested. They are not recorded.
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

/// Description of an operation with the reply `T`, for metrics and the audit log.
pub(super) struct Operation<T> {
    /// Name of the operation in the audit log. `None`: the audit log omits the operation.
    action: Option<&'static str>,
    /// True if the operation can change the store, even if its request is aborted.
    changes_store: bool,
    /// Details for the line in the audit log. They must not contain keys or values of records.
    details: Vec<(&'static str, Json)>,
    /// Returns the detail of a reply for the audit log, such as a number of rows.
    reply_detail: fn(&T) -> Option<(&'static str, Json)>,
    /// Returns the errors of single items in a reply, for the metrics.
    item_errors: fn(&T) -> Vec<&Error>,
}

impl<T> Operation<T> {
    /// Describes an operation that does not appear in the audit log.
    pub(super) fn unaudited() -> Self {
        Self {
            action: None,
            changes_store: false,
            details: Vec::new(),
            reply_detail: |_| None,
            item_errors: |_| Vec::new(),
        }
    }

    /// Describes an operation that appears in the audit log, but does not change the store.
    pub(super) fn audited(action: &'static str) -> Self {
        Self {
            action: Some(action),
            ..Self::unaudited()
        }
    }

    /// Describes an operation that changes the store, and appears in the audit log.
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

    /// Sets the function that returns a detail of the reply for the audit log.
    pub(super) fn reply_detail(self, reply_detail: fn(&T) -> Option<(&'static str, Json)>) -> Self {
        Self { reply_detail, ..self }
    }

    /// Sets the function that returns the errors of single items in a reply.
    pub(super) fn item_errors(self, item_errors: fn(&T) -> Vec<&Error>) -> Self {
        Self { item_errors, ..self }
    }
}

/// Returns the errors in a list of results.
pub(super) fn errors_of<T>(results: &[Result<T>]) -> Vec<&Error> {
    results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .collect()
}
