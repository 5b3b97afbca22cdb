//! One connection, from its acceptance to its end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::stream::{Activity, Watched};
use super::tls::Tls;
use crate::config::{Limits, MAX_HEADERS};
use crate::guard::Guard;
use crate::operation::Counted;

/// The most requests of one HTTP/2 connection at the same time.
const MAX_STREAMS: u32 = 128;
/// How often an HTTP/2 client is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// The most bytes kept of what one HTTP/2 stream is sent.
const MAX_STREAM_BYTES: usize = 256 << 10;

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Connections {
    guard: Arc<Guard>,
    builder: Arc<Builder<TokioExecutor>>,
    header_time: Duration,
    idle_time: Duration,
    stall_time: Duration,
    stop: watch::Receiver<bool>,
}

impl Connections {
    pub(crate) fn new(guard: Arc<Guard>, limits: &Limits, stop: watch::Receiver<bool>) -> Self {
        Self {
            guard,
            builder: Arc::new(builder(limits)),
            header_time: limits.header_time,
            idle_time: limits.idle_time,
            stall_time: limits.stall_time,
            stop,
        }
    }

    /// Serves a connection until its end.
    pub(crate) async fn serve(&self, stream: TcpStream, peer: IpAddr, tls: Option<&Tls>) {
        let metrics = &self.guard.observer.metrics;
        let _open = Counted::enter(&self.guard.observer, |metrics| &metrics.connections);
        metrics.connections_accepted.fetch_add(1, Ordering::Relaxed);
        match tls {
            None => self.serve_stream(stream, peer).await,
            Some(tls) => {
                let handshake = tokio::time::timeout(self.header_time, tls.accept(stream));
                match handshake.await {
                    Ok(Ok(stream)) => self.serve_stream(stream, peer).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                }
            }
        }
    }

    async fn serve_stream(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: IpAddr) {
        let activity = Arc::new(Activity::default());
        let stream = Watched::new(stream, Arc::clone(&activity), self.header_time, self.stall_time);
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let busy = activity.begin();
            let guard = Arc::clone(&self.guard);
            async move {
                let response = guard.answer(request, peer).await;
                drop(busy);
                Ok::<_, Infallible>(response)
            }
        });
        let mut connection = pin!(self.builder.serve_connection(TokioIo::new(stream), service));
        let mut idle = pin!(tokio::time::sleep(self.idle_time));
        let mut begun = activity.begun();
        let mut stop = self.stop.clone();
        let mut ending = false;
        loop {
            tokio::select! {
                // How a client went away is no concern of ours.
                _ = connection.as_mut() => return,
                _ = stop.wait_for(|stop| *stop), if !ending => {
                    ending = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = idle.as_mut(), if !ending => {
                    if activity.is_idle() && activity.begun() == begun {
                        ending = true;
                        connection.as_mut().graceful_shutdown();
                    } else {
                        begun = activity.begun();
                        idle.set(tokio::time::sleep(self.idle_time));
                    }
                }
            }
        }
    }
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let header_bytes = usize::try_from(limits.header_bytes).unwrap_or(usize::MAX);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Timed by the stream: this one would run while a connection is idle, too.
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_STREAM_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(limits.header_time);
    builder
}
