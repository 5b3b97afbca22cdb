//! Request that the current task handles, for logs and metrics in code that does not get the
//! request as an argument.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recto::Error;

use super::{Observer, Parent};
use crate::problem;

tokio::task_local! {
    static CONTEXT: Context;
}

/// Client of a request, for logs.
#[derive(Debug, Clone)]
pub(crate) struct RequestClient {
    pub(crate) request_id: String,
    /// Id of the access token; `None` without a token.
    pub(crate) token: Option<Arc<str>>,
    /// Name of the access token, or of anonymous access.
    pub(crate) name: Arc<str>,
    pub(crate) client: IpAddr,
}

/// Error of the store for logs, without stored data.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
    pub(crate) node: Option<String>,
    pub(crate) table: Option<String>,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        Self {
            kind: problem::kind_of(error.kind()),
            detail: error.to_string(),
            node: recto::error_node(error).map(str::to_owned),
            table: recto::error_table(error).map(str::to_owned),
        }
    }
}

/// Context of the request that the current task handles: its client, and the destination of metrics
/// and traces.
#[derive(Debug, Clone)]
pub(crate) struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: RequestClient,
    observer: Arc<Observer>,
    parent: Parent,
    /// Last error of the store during the request, for its log line.
    failure: Mutex<Option<Failure>>,
    has_written: AtomicBool,
}

impl Context {
    pub(crate) fn new(client: RequestClient, observer: Arc<Observer>, parent: Parent) -> Self {
        Self(Arc::new(Inner {
            client,
            observer,
            parent,
            failure: Mutex::default(),
            has_written: AtomicBool::new(false),
        }))
    }

    /// Returns the context of the request that the current task handles; `None` outside a request.
    pub(crate) fn current() -> Option<Self> {
        CONTEXT.try_with(Self::clone).ok()
    }

    /// Runs `work` as part of the request, so that [`current`](Self::current) returns the context.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CONTEXT.scope(self, work).await
    }

    pub(crate) fn request_client(&self) -> &RequestClient {
        &self.0.client
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.0.observer
    }

    /// Returns the trace span under which spans of the request are created.
    pub(crate) fn parent(&self) -> &Parent {
        &self.0.parent
    }

    /// Records that the request sends a change to the store. If the request then exceeds its time
    /// limit, the reply says that the outcome is unknown.
    pub(crate) fn begin_write(&self) {
        self.0.has_written.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_written(&self) -> bool {
        self.0.has_written.load(Ordering::Relaxed)
    }

    pub(crate) fn note_failure(&self, error: &Error) {
        let mut failure = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some(Failure::of(error));
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
