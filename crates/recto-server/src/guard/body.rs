//! Bodies of requests, and of streamed replies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};

use super::Admitted;
use super::route::RoutePattern;
use crate::operation::{Counted, RequestClient};
use crate::stopping::Stopping;

/// Body of a request that reports whether its reader waits for more bytes.
pub(crate) struct Awaited<B> {
    body: Pin<Box<B>>,
    waits: Arc<AtomicBool>,
}

impl<B> Awaited<B> {
    /// Wraps a body. Returns also a flag that is true while the reader waits for bytes from the
    /// client.
    pub(crate) fn new(body: B) -> (Self, Arc<AtomicBool>) {
        let waits = Arc::new(AtomicBool::new(false));
        let awaited = Self {
            body: Box::pin(body),
            waits: Arc::clone(&waits),
        };
        (awaited, waits)
    }
}

impl<B: http_body::Body> http_body::Body for Awaited<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = self.body.as_mut().poll_frame(context);
        self.waits.store(polled.is_pending(), Ordering::Relaxed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Resources that a reply holds until it has been sent or dropped, such as a place in a limit.
pub(crate) struct Held {
    admitted: Option<Admitted>,
    who: RequestClient,
    stopping: Arc<Stopping>,
    _counted: [Counted; 2],
}

impl Held {
    pub(crate) fn new(
        admitted: Option<Admitted>,
        who: RequestClient,
        stopping: &Arc<Stopping>,
        counted: [Counted; 2],
    ) -> Self {
        Self {
            admitted,
            who,
            stopping: Arc::clone(stopping),
            _counted: counted,
        }
    }
}

/// Body of a streamed reply. It ends early if the request's token expires, or is revoked or
/// changed.
pub(crate) struct Streaming {
    body: Body,
    held: Held,
    route: Option<RoutePattern>,
    /// Completes when the token becomes invalid. `None`: the server has no tokens.
    token_ended: Option<BoxFuture<'static, ()>>,
    is_over: bool,
}

/// Error that ends a streamed reply when its token becomes invalid.
#[derive(Debug, thiserror::Error)]
#[error("the token is no longer valid")]
struct TokenEnded;

impl Streaming {
    pub(crate) fn new(body: Body, held: Held, route: Option<RoutePattern>) -> Self {
        let validity = held
            .admitted
            .as_ref()
            .and_then(|admitted| admitted.validity.clone());
        Self {
            body,
            token_ended: validity.map(|validity| -> BoxFuture<'static, ()> { Box::pin(validity.ended()) }),
            held,
            route,
            is_over: false,
        }
    }

    fn log(&self, message: &str) {
        let who = &self.held.who;
        crate::log::warn!(
            request_id = who.request_id,
            bearer = &*who.name,
            client = %who.client,
            route = self.route.as_ref().map_or("none", |route| &*route.0),
            "{message}"
        );
    }
}

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(ended) = &mut self.token_ended
            && ended.as_mut().poll(context).is_ready()
        {
            self.is_over = true;
            self.log("an answer was cut: its token is no longer taken");
            return Poll::Ready(Some(Err(axum::Error::new(TokenEnded))));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.is_over = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if !self.is_over && self.held.stopping.has_begun() {
            self.log("an answer was cut: the server stops");
        }
    }
}
