//! Byte stream of a connection, with time limits for slow clients.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// First bytes of an HTTP/2 connection. HTTP/2 has no time limit for headers, because a connection
/// also receives frames without a request, such as pings.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2";

/// Activity of a connection: its requests, and whether it uses HTTP/2.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Number of requests that the connection has received so far.
    begun: AtomicU64,
    /// Number of requests on the connection that have no complete response yet.
    in_flight: AtomicU64,
    is_http2: AtomicBool,
}

impl Activity {
    /// Records that a request began: its headers have been read. Dropping the result ends the
    /// request.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) == 0
    }
}

/// Request in flight on a connection. Dropping it ends the request.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Byte stream that fails if its client is too slow: in sending the headers of a request, or in
/// reading replies. It has a timer only while it waits for the client.
pub(crate) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    header_time: Duration,
    stall_time: Duration,
    /// Number of bytes of [`HTTP2_PREFACE`] that have arrived so far; `None` when the protocol is
    /// known.
    preface_seen: Option<usize>,
    /// Value of `Activity::begun` when the first header bytes of a request arrived; `None` if no
    /// headers are incomplete.
    head_after: Option<u64>,
    head_timer: Option<Pin<Box<Sleep>>>,
    stall_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(crate) fn new(
        stream: S,
        activity: Arc<Activity>,
        header_time: Duration,
        stall_time: Duration,
    ) -> Self {
        Self {
            stream,
            activity,
            header_time,
            stall_time,
            preface_seen: Some(0),
            head_after: None,
            head_timer: None,
            stall_timer: None,
        }
    }

    /// Records that bytes arrived. If they are the first of an HTTP/1 request, the time limit for
    /// its headers begins.
    fn arrived(&mut self, bytes: &[u8]) {
        let begun = self.activity.begun();
        self.look_for_preface(bytes);
        if self.activity.is_idle()
            && !self.activity.is_http2.load(Ordering::Relaxed)
            && self.head_after != Some(begun)
        {
            self.head_after = Some(begun);
            self.head_timer = None;
        }
    }

    /// Detects HTTP/2 by the first bytes of the connection ([`HTTP2_PREFACE`]), which may arrive in
    /// several reads.
    fn look_for_preface(&mut self, bytes: &[u8]) {
        let Some(seen) = self.preface_seen else {
            return;
        };
        let expected = &HTTP2_PREFACE[seen..];
        let length = expected.len().min(bytes.len());
        self.preface_seen = (bytes[..length] == expected[..length]).then_some(seen + length);
        if self.preface_seen == Some(HTTP2_PREFACE.len()) {
            self.activity.is_http2.store(true, Ordering::Relaxed);
            self.preface_seen = None;
            // Stop the timer for headers, which applies only to HTTP/1.
            self.head_after = None;
            self.head_timer = None;
        }
    }

    /// Completes with an error if the headers of a request take too long to arrive.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self
            .head_after
            .is_some_and(|begun| begun != self.activity.begun())
        {
            self.head_after = None;
            self.head_timer = None;
        }
        if self.head_after.is_none() {
            return Poll::Pending;
        }
        let time = self.header_time;
        let timer = self
            .head_timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        timer
            .as_mut()
            .poll(context)
            .map(|()| io::ErrorKind::TimedOut.into())
    }

    /// Passes on the result of a write. Returns an error if the write made no progress for too
    /// long.
    fn watch_write<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall_timer = None;
            return written;
        }
        let time = self.stall_time;
        let timer = self
            .stall_timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        timer
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                self.arrived(&buffer.filled()[before..]);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_head(context).map(Err),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch_write(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_http2(pieces: &[&[u8]]) -> bool {
        let activity = Arc::new(Activity::default());
        let second = Duration::from_secs(1);
        let mut stream = Watched::new((), Arc::clone(&activity), second, second);
        for piece in pieces {
            stream.arrived(piece);
        }
        activity.is_http2.load(Ordering::Relaxed) && stream.head_after.is_none()
    }

    #[test]
    fn the_preface_is_found_in_pieces() {
        assert!(is_http2(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]));
        assert!(is_http2(&[b"P", b"RI * ", b"HTTP/2.0\r\n", b"\r\nSM\r\n\r\n"]));
        let by_byte: Vec<&[u8]> = HTTP2_PREFACE.chunks(1).collect();
        assert!(is_http2(&by_byte));
        for other in [
            &[&b"GET / HTTP/1.1"[..]][..],
            &[b"P", b"OST"],
            &[b"GET /", HTTP2_PREFACE],
        ] {
            assert!(!is_http2(other));
        }
    }
}
