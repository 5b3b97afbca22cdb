//! Serving of one client connection, from its acceptance to its end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::protocol::{Builder, builder};
use super::stream::{Activity, Watched};
use super::tls::Tls;
use crate::config::Limits;
use crate::guard::Guard;
use crate::operation::Counted;

/// State that all connections of a server share.
#[derive(Clone)]
pub(crate) struct Connections {
    guard: Arc<Guard>,
    builder: Arc<Builder>,
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

    /// Serves a client connection until its end.
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
                    Ok(Err(error)) => crate::log::debug!(%error, "a TLS handshake failed"),
                    Err(_) => crate::log::debug!("a TLS handshake took too long"),
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
                // Ignore the result: it does not matter how a client disconnects.
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
