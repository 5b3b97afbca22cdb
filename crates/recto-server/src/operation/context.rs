//! The request that a task is answering, for what is observed far from the socket.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recto::Error;

use super::{Observer, Parent};
use crate::problem;

tokio::task_local! {
    static CONTEXT: Context;
}

/// Whose request it is, for logs.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) request_id: String,
    /// The id of the token, if there is one.
    pub(crate) token: Option<Arc<str>>,
    /// The token's name.
    pub(crate) name: Arc<str>,
    pub(crate) client: IpAddr,
}

/// Why the store failed, without anything that it holds.
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
            node: error.node().map(str::to_owned),
            table: error.table().map(str::to_owned),
        }
    }
}

/// The request that a task is answering.
#[derive(Debug, Clone)]
pub(crate) struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    who: Who,
    observer: Arc<Observer>,
    parent: Parent,
    /// The store's last failure.
    failure: Mutex<Option<Failure>>,
    has_written: AtomicBool,
}

impl Context {
    pub(crate) fn new(who: Who, observer: Arc<Observer>, parent: Parent) -> Self {
        Self(Arc::new(Inner {
            who,
            observer,
            parent,
            failure: Mutex::default(),
            has_written: AtomicBool::new(false),
        }))
    }

    /// The one of the task; none outside a request.
    pub(crate) fn current() -> Option<Self> {
        CONTEXT.try_with(Self::clone).ok()
    }

    /// Runs a request's work with the context.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CONTEXT.scope(self, work).await
    }

    pub(crate) fn who(&self) -> &Who {
        &self.0.who
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.0.observer
    }

    /// What spans of its work are below.
    pub(crate) fn parent(&self) -> &Parent {
        &self.0.parent
    }

    /// Something is sent to the store that changes what it holds: from now on nobody knows for sure whether
    /// it was, unless the store says so.
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
