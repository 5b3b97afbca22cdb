//! The request that a task is answering, for what is observed far from the socket.

use std::sync::Arc;

use super::{Observer, Parent};

tokio::task_local! {
    static CONTEXT: Context;
}

/// The request that a task is answering.
#[derive(Debug, Clone)]
pub(crate) struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    request_id: String,
    bearer: Arc<str>,
    observer: Arc<Observer>,
    parent: Parent,
}

impl Context {
    pub(crate) fn new(request_id: String, bearer: Arc<str>, observer: Arc<Observer>, parent: Parent) -> Self {
        Self(Arc::new(Inner {
            request_id,
            bearer,
            observer,
            parent,
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

    pub(crate) fn request_id(&self) -> &str {
        &self.0.request_id
    }

    /// Whose request it is: a token's name.
    pub(crate) fn bearer(&self) -> &str {
        &self.0.bearer
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.0.observer
    }

    /// What spans of its work are below.
    pub(crate) fn parent(&self) -> &Parent {
        &self.0.parent
    }
}
