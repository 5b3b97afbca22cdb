//! The body of an answer that is made while it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

/// A body that keeps something until it has been sent or given up: its place among the requests
/// that may be answered at the same time.
#[derive(Debug)]
pub(crate) struct Keeping<T> {
    body: Body,
    _kept: T,
}

impl<T: Send + Unpin + 'static> Keeping<T> {
    /// The body, keeping `kept` if it is still being made; a body in memory keeps nothing.
    pub(crate) fn wrap(body: Body, kept: T) -> Body {
        if http_body::Body::size_hint(&body).exact().is_some() {
            return body;
        }
        Body::new(Self { body, _kept: kept })
    }
}

impl<T: Unpin> http_body::Body for Keeping<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
