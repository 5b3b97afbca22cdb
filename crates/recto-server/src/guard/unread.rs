//! Request bodies that a handler did not read, for example because the server rejected the headers.
//!
//! On HTTP/1, the next request of a connection starts after the previous body. So the server reads
//! and drops the rest of a small body. After a large or late body, the reply has
//! `Connection: close`. Without the header, the client would send its next request to a closing
//! connection, and could not know whether the server handled it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Request, Response, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

/// Maximum size of an unread rest of a body that the server reads and drops, in bytes.
const MAX_DROPPED_BYTES: u64 = 64 << 10;
/// Maximum time that a reply waits for the unread rest of a body.
const DROP_TIME: Duration = Duration::from_secs(1);

/// Body of a request that a handler borrows. The connection gets the body back when the handler
/// drops it.
pub(super) struct Lent<B> {
    /// Body of the request. `None`: the request has no body.
    body: Option<Arc<Mutex<Tracked<B>>>>,
}

/// Handle with which the connection gets back a body that a handler borrowed.
pub(super) struct Unread<B> {
    body: Option<Arc<Mutex<Tracked<B>>>>,
    /// True if the request has `Expect: 100-continue`: the client sends its body only when the
    /// server starts to read.
    is_expected: bool,
    is_http1: bool,
}

struct Tracked<B> {
    body: B,
    is_over: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Unread<B> {
    /// Lends the body of a request to its handler.
    pub(super) fn lend(request: Request<B>) -> (Request<Lent<B>>, Self) {
        let is_http1 = request.version() < Version::HTTP_2;
        let is_expected = request.headers().contains_key(header::EXPECT);
        let mut shared = None;
        let request = request.map(|body| {
            let has_body = !body.is_end_stream();
            let is_over = false;
            shared = has_body.then(|| Arc::new(Mutex::new(Tracked { body, is_over })));
            Lent { body: shared.clone() }
        });
        let unread = Self {
            body: shared,
            is_expected,
            is_http1,
        };
        (request, unread)
    }

    /// Reads the rest of the body before the reply, or adds `Connection: close` to the reply.
    pub(super) async fn settle<R>(self, answer: &mut Response<R>) {
        if self.is_http1 && self.has_rest().await {
            close(answer.headers_mut());
        }
    }

    async fn has_rest(self) -> bool {
        // If the handler still has the body, it reads the rest. So the connection can stay open.
        let Some(Ok(tracked)) = self.body.map(Arc::try_unwrap) else {
            return false;
        };
        let Tracked { body, is_over } = tracked.into_inner().unwrap_or_else(PoisonError::into_inner);
        if is_over || body.is_end_stream() {
            return false;
        }
        let is_small = body.size_hint().lower() <= MAX_DROPPED_BYTES;
        if self.is_expected || !is_small {
            return true;
        }
        !matches!(tokio::time::timeout(DROP_TIME, drop_rest(body)).await, Ok(true))
    }
}

/// Reads a body to its end and drops it. Returns false if the body is too long, or the client
/// disconnected.
async fn drop_rest<B: Body<Data = Bytes> + Unpin>(mut body: B) -> bool {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        if bytes > MAX_DROPPED_BYTES {
            return false;
        }
    }
    true
}

fn close(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
}

impl<B: Body<Data = Bytes> + Unpin> Body for Lent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(shared) = &self.body else {
            return Poll::Ready(None);
        };
        let mut tracked = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = Pin::new(&mut tracked.body).poll_frame(context);
        tracked.is_over |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.tracked(true, |tracked| tracked.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.tracked(SizeHint::with_exact(0), |tracked| tracked.body.size_hint())
    }
}

impl<B> Lent<B> {
    fn tracked<T>(&self, absent: T, of: impl FnOnce(&Tracked<B>) -> T) -> T {
        match &self.body {
            Some(shared) => of(&shared.lock().unwrap_or_else(PoisonError::into_inner)),
            None => absent,
        }
    }
}
