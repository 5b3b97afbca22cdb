//! Listening, connections, shutting down.

use std::net::SocketAddr;

use axum::body::Body;
use axum::{Extension, Router};
use futures::FutureExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use recto::LocalSession;
use tokio::net::TcpListener;

use crate::access::Access;
use crate::app::{App, router};
use crate::config::Config;

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// Without authentication it listens on loopback only.
    #[error("{address} can be reached from other machines, and no tokens are set")]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

impl Server {
    /// Listens; requests are answered once it [runs](Self::run).
    ///
    /// # Errors
    /// The address cannot be listened on, or must not be without authentication.
    pub async fn bind(session: LocalSession, config: &Config) -> Result<Self, ServeError> {
        let address = config.listen;
        if !address.ip().is_loopback() {
            return Err(ServeError::Unprotected { address });
        }
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let router = router(App::new(session)).layer(Extension(Access::all()));
        Ok(Self {
            listener,
            address,
            router,
        })
    }

    /// Where it listens: the port that was given where port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a browser finds it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers until `stop`, then finishes what it is answering.
    ///
    /// # Errors
    /// None yet.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop.fuse());
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(_) => continue,
                },
                () = &mut stop => break,
            };
            let mut router = self.router.clone();
            let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                tower_service::Service::call(&mut router.clone(), request.map(Body::new))
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder
                .serve_connection(TokioIo::new(stream), service)
                .into_owned();
            tokio::spawn(graceful.watch(connection));
        }
        drop(self.listener);
        graceful.shutdown().await;
        Ok(())
    }
}
