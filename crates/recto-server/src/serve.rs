//! HTTP server: listening, connections and shutdown.

mod clock;
mod connection;
mod error;
#[cfg(feature = "full")]
mod protocol;
#[cfg(not(feature = "full"))]
#[path = "serve/http1_only.rs"]
mod protocol;
mod recover;
mod scrub;
mod stream;
mod threads;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "serve/no_tls.rs"]
mod tls;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use recto::{Environment, LocalSession};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::app::App;
use crate::asked::AskedQueries;
use crate::auth::{RELOAD_INTERVAL, Tokens};
use crate::config::{Config, permits};
use crate::guard::{Guard, NoteRoute};
use crate::operation::{Audit, Metrics, Observer, Readiness, Traces, tell_applied};
use crate::routes::router;
use crate::stopping::Stopping;
use crate::work::Upkeep;
use connection::Connections;
pub use error::ServeError;
use threads::Threads;
use tls::Tls;

/// Pause after a failed accept, which usually means that no file handle is free. A connection must
/// close before the next accept can succeed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Interval at which the server reads from the store what other processes changed: schema and keys.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that a stopping server waits for its threads after it closed their connections.
const END_TIME: Duration = Duration::from_secs(5);

/// HTTP server that listens, but does not answer until it [runs](Self::run).
#[derive(Debug)]
pub struct Server {
    session: LocalSession,
    listener: TcpListener,
    address: SocketAddr,
    config: Config,
    guard: Arc<Guard>,
    tokens: Option<Arc<Tokens>>,
    tls: Option<Arc<Tls>>,
    upkeep: Arc<Upkeep>,
}

impl Server {
    /// Checks that a server with the configuration could start. [`bind`](Self::bind) does the same
    /// checks before it listens.
    ///
    /// # Errors
    /// The errors of `bind`, except errors of the address.
    pub fn check(config: &Config) -> Result<(), ServeError> {
        read_files(config).map(|_| ())
    }

    /// Listens on the configured address. Requests are answered once the server [runs](Self::run).
    ///
    /// # Errors
    /// The configuration is invalid ([`Config::check`]), tokens or certificate cannot be read, or
    /// the server cannot listen on the address.
    pub async fn bind(session: LocalSession, config: &Config) -> Result<Self, ServeError> {
        let environment = Environment::system();
        let Files { tokens, tls, audit } = read_files(config)?;
        let failed = |source| ServeError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let asked = Arc::new(AskedQueries::default());
        let observer = Arc::new(Observer {
            environment: environment.clone(),
            metrics: Metrics::default(),
            traces: Traces::start(config),
            audit,
            asked: Arc::clone(&asked),
            slow_query: config.slow_query,
        });
        let upkeep = Arc::new(Upkeep::new(config));
        let stopping = Arc::new(Stopping::default());
        let app = App::of_server(session.clone(), Arc::clone(&upkeep), Arc::clone(&stopping), asked);
        let routes = router(app).route_layer(NoteRoute);
        let readiness = Readiness::new(
            session.clone(),
            environment,
            Arc::clone(&observer),
            config.scrub.fails_ready,
        );
        let guard = Guard::new(
            routes,
            config.clone(),
            tokens.clone(),
            readiness,
            stopping,
            observer,
        );
        Ok(Self {
            session,
            listener,
            address,
            config: config.clone(),
            guard: Arc::new(guard),
            tokens,
            tls,
            upkeep,
        })
    }

    /// Returns the address on which the server listens. If the configured port is 0, it has the
    /// port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL under which programs on this machine reach the server.
    pub fn local_url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("{}://{address}", self.scheme())
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the URL of the server for a browser.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address)
    }

    /// Serves requests until `stop` completes. Then the server accepts no more connections,
    /// completes the requests in flight, and closes connections, all within the configured time.
    ///
    /// # Errors
    /// The serving threads cannot be started, or the shutdown time passed before all requests and
    /// all maintenance operations had ended.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (tell, told) = watch::channel(false);
        let observer = Arc::clone(&self.guard.observer);
        let connections = Connections::new(Arc::clone(&self.guard), &self.config.limits, told);
        let threads = Threads::start(&connections, self.tls.clone());
        let threads = threads.await.map_err(ServeError::Threads)?;
        let reloading = reload(self.tokens.clone(), self.tls.clone(), Arc::clone(&observer));
        let reloading = tokio::spawn(reloading);
        let refreshing = tokio::spawn(refresh(self.session.clone(), Arc::clone(&observer)));
        let is_read_only = self.config.read_only;
        let session = self.session.clone();
        let recovering = tokio::spawn(async move {
            if !is_read_only {
                recover::recover(session).await;
            }
        });
        let watching = tokio::spawn(clock::watch(self.session.clone()));
        let scrubbing = tokio::spawn(scrub::scrub(self.session, self.config.scrub, observer));
        crate::log::info!(address = %self.address, tls = self.tls.is_some(), tokens = self.tokens.is_some(), "serving");
        let permits = permits(self.config.limits.connections);
        let mut stop = std::pin::pin!(stop.fuse());
        loop {
            tokio::select! {
                accepted = accept(&self.listener, &permits) => {
                    if let Some((stream, peer, permit)) = accepted {
                        tokio::select! {
                            () = threads.hand(stream, peer.ip(), permit) => {}
                            () = &mut stop => break,
                        }
                    }
                }
                () = &mut stop => break,
            }
        }
        drop(self.listener);
        self.guard.stop();
        // Ignore an error: it means that no connection remains.
        let _ = tell.send(true);
        crate::log::info!(connections = threads.connections(), "stopping");
        let limit = self.config.limits.shutdown_time;
        let outcome = finish(threads, limit, &self.guard, &self.upkeep).await;
        reloading.abort();
        refreshing.abort();
        recovering.abort();
        watching.abort();
        scrubbing.abort();
        self.guard.observer.traces.finish().await;
        outcome
    }
}

/// Content of the files that the configuration names. Each of them is optional.
struct Files {
    tokens: Option<Arc<Tokens>>,
    tls: Option<Arc<Tls>>,
    audit: Audit,
}

/// Checks the configuration of a server, and reads the files that it names.
fn read_files(config: &Config) -> Result<Files, ServeError> {
    config.check()?;
    let tokens = match &config.tokens {
        Some(path) => Some(Arc::new(Tokens::open(path, Environment::system())?)),
        None => None,
    };
    let tls = match (&config.tls_certificate, &config.tls_key) {
        (Some(certificate), Some(key)) => Some(Arc::new(Tls::open(certificate, key)?)),
        _ => None,
    };
    let target = config.audit_log.as_deref();
    let audit = Audit::open(target, Environment::system()).map_err(|source| ServeError::AuditLog {
        path: target.unwrap_or(Path::new("")).to_owned(),
        source,
    })?;
    Ok(Files { tokens, tls, audit })
}

/// Waits until the number of connections is below its limit, then accepts a connection. Returns
/// `None` if the accept failed.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Send small segments at once (TCP_NODELAY). The server writes whole responses, so
            // waiting would only delay them.
            let _ = stream.set_nodelay(true);
            Some((stream, peer, permit))
        }
        Err(error) if is_of_one_connection(&error) => None,
        Err(error) => {
            crate::log::error!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Returns whether an accept failed only because the client closed its connection early.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Waits until all connections and maintenance operations have ended, or cancels them after
/// `limit`.
async fn finish(threads: Threads, limit: Duration, guard: &Guard, upkeep: &Upkeep) -> Result<(), ServeError> {
    let all = async {
        threads.idle().await;
        upkeep.idle().await;
    };
    if tokio::time::timeout(limit, all).await.is_ok() {
        threads.end().await;
        crate::log::info!("stopped");
        return Ok(());
    }
    let metrics = &guard.observer.metrics;
    let requests = metrics.in_flight.load(Ordering::Relaxed);
    let streaming = metrics.streaming.load(Ordering::Relaxed);
    let connections = threads.connections();
    let work = upkeep.running();
    // Drop the responses in flight, which log their state when dropped. Limit the wait, so that a
    // hanging thread does not prevent the shutdown.
    let _ = tokio::time::timeout(END_TIME, threads.end()).await;
    upkeep.cut().await;
    let under_way = work.join(", ");
    crate::log::warn!(
        requests,
        streaming,
        connections,
        under_way,
        "stopped before all was done"
    );
    Err(ServeError::Unfinished {
        connections,
        work,
        limit,
    })
}

/// Regularly loads schemas and page-token keys that other processes wrote to the store.
async fn refresh(session: LocalSession, observer: Arc<Observer>) {
    let mut failing = false;
    let mut refused = tell_refused(&session, &[]);
    loop {
        tokio::time::sleep(REFRESH_INTERVAL).await;
        let refreshed = session.refresh().await;
        refused = tell_refused(&session, &refused);
        match &refreshed {
            Ok(true) => tell_applied(&session, &observer).await,
            Err(error) if !failing => {
                crate::log::warn!(kind = ?error.kind(), "the schema of the store cannot be read: the server \
                                                         keeps the last one");
            }
            _ => {}
        }
        failing = refreshed.is_err();
    }
}

/// Logs each collection that cannot be used because of its tables, unless its error is in `before`.
/// Returns the errors of all such collections.
fn tell_refused(session: &LocalSession, before: &[String]) -> Vec<String> {
    let errors = session.unavailable_collections();
    let refused: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for error in errors.iter().filter(|error| !before.contains(&error.to_string())) {
        crate::log::error!(
            error = error.message(),
            hint = error.hint(),
            "a collection is refused"
        );
    }
    if refused.is_empty() && !before.is_empty() {
        crate::log::info!("all tables match the schema again");
    }
    refused
}

/// Reloads the token file and the certificate whenever they change.
async fn reload(tokens: Option<Arc<Tokens>>, tls: Option<Arc<Tls>>, observer: Arc<Observer>) {
    if tokens.is_none() && tls.is_none() {
        return;
    }
    let mut failing = false;
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let (tokens, tls) = (tokens.clone(), tls.clone());
        // Read the files in a blocking task, because file reads block their thread.
        let read = tokio::task::spawn_blocking(move || {
            let tokens = tokens.map_or(Ok(None), |tokens| tokens.reload());
            let tls = tls.map_or(Ok(false), |tls| tls.reload());
            (tokens, tls)
        });
        let Ok((of_tokens, of_tls)) = read.await else {
            return;
        };
        let failed = of_tokens.is_err() || of_tls.is_err();
        match of_tokens {
            Ok(Some(changes)) => {
                crate::log::info!("tokens read again");
                observer.audit.tokens(&changes);
            }
            Err(error) if !failing => crate::log::error!(%error, "tokens cannot be read: all requests are \
                                                                  rejected"),
            _ => {}
        }
        match of_tls {
            Ok(true) => crate::log::info!("certificate read again"),
            Err(error) if !failing => {
                crate::log::error!(%error, "certificate cannot be read: the last one stays");
            }
            _ => {}
        }
        failing = failed;
    }
}
