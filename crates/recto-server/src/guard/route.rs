//! Route pattern of a request (such as `/v1/collections/{collection}`), which its reply carries for
//! metrics and logs. Paths cannot be labels, because they contain keys.
//!
//! It is a layer of its own, because axum's function middleware allocates three times per request.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use axum::routing::Route;
use axum::routing::future::RouteFuture;
use tower_layer::Layer;
use tower_service::Service;

/// Pattern of the route that handled a request, attached to its reply.
#[derive(Debug, Clone)]
pub(crate) struct RoutePattern(pub(super) Arc<str>);

/// Layer that attaches the pattern of the route to each reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoteRoute;

impl Layer<Route> for NoteRoute {
    type Service = Noting;

    fn layer(&self, route: Route) -> Noting {
        Noting(route)
    }
}

/// Route that attaches its pattern to its replies.
#[derive(Debug, Clone)]
pub(crate) struct Noting(Route);

impl Service<Request> for Noting {
    type Response = Response;
    type Error = Infallible;
    type Future = Noted;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: Request) -> Noted {
        let pattern = request.extensions().get::<MatchedPath>();
        let pattern = pattern.map(|path| RoutePattern(path.as_str().into()));
        Noted {
            answer: self.0.call(request),
            pattern,
        }
    }
}

/// Future of a reply, which attaches the pattern of the route.
pub(crate) struct Noted {
    answer: RouteFuture<Infallible>,
    pattern: Option<RoutePattern>,
}

impl Future for Noted {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = ready!(Pin::new(&mut self.answer).poll(context));
        if let (Ok(response), Some(pattern)) = (&mut answer, self.pattern.take()) {
            response.extensions_mut().insert(pattern);
        }
        Poll::Ready(answer)
    }
}
