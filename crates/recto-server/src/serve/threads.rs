//! Threads that serve connections. Each connection belongs to one thread, which reads, handles and
//! answers its requests without waking other threads. While the store works on a request, the
//! thread serves its other connections.
//!
//! Work that belongs to no connection (accepting, maintenance of the store, loading changes) runs
//! on the runtime that started the server.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

use super::connection::Connections;
use super::tls::Tls;

/// Maximum number of accepted connections that wait for one thread. At the maximum, the server
/// accepts no more.
const MAX_HANDED: usize = 1_024;

/// Maximum number of blocking threads (for reads of the disk), over all serving threads together.
const MAX_BLOCKING_THREADS: usize = 512;

/// Threads that serve connections. Dropping them closes their connections.
#[derive(Debug)]
pub(crate) struct Threads {
    threads: Vec<Thread>,
    /// Notification that a connection has ended.
    ended: Arc<Notify>,
}

#[derive(Debug)]
struct Thread {
    handed: mpsc::Sender<Handed>,
    open: Arc<AtomicUsize>,
    end: oneshot::Receiver<()>,
}

/// Accepted connection that is passed to a serving thread.
struct Handed {
    stream: std::net::TcpStream,
    peer: IpAddr,
    place: Place,
}

/// Count of one connection in its thread. Dropping it, at the end of the connection, ends the
/// count.
struct Place {
    open: Arc<AtomicUsize>,
    ended: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.ended.notify_waiters();
    }
}

impl Threads {
    /// Starts the serving threads, as many as the current runtime has worker threads.
    pub(crate) async fn start(connections: &Connections, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let count = Handle::current().metrics().num_workers();
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let blocking = (MAX_BLOCKING_THREADS / count).max(1);
            threads.push(Thread::start(number, blocking, connections.clone(), tls.clone()).await?);
        }
        Ok(Self {
            threads,
            ended: Arc::default(),
        })
    }

    /// Passes an accepted connection to the thread with the fewest connections.
    pub(crate) async fn hand(&self, stream: TcpStream, peer: IpAddr, permit: OwnedSemaphorePermit) {
        let working = self.threads.iter().filter(|thread| !thread.handed.is_closed());
        let Some(thread) = working.min_by_key(|thread| thread.open.load(Ordering::Relaxed)) else {
            crate::log::error!("no thread is left that serves connections");
            return;
        };
        thread.open.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            open: Arc::clone(&thread.open),
            ended: Arc::clone(&self.ended),
            _permit: permit,
        };
        match stream.into_std() {
            // Ignore an error: if the thread has ended, the connection is dropped and so closed.
            Ok(stream) => drop(thread.handed.send(Handed { stream, peer, place }).await),
            Err(error) => crate::log::error!(%error, "a connection could not be handed on"),
        }
    }

    /// Returns the number of open connections of all threads.
    pub(crate) fn connections(&self) -> usize {
        let open = self.threads.iter();
        open.map(|thread| thread.open.load(Ordering::Relaxed)).sum()
    }

    /// Waits until no connection is open.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.connections() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Closes all connections, and waits until the serving threads have ended.
    pub(crate) async fn end(self) {
        for Thread { handed, end, .. } in self.threads {
            drop(handed);
            // Ignore an error: it means that the thread panicked, so it has ended.
            let _ = end.await;
        }
    }
}

impl Thread {
    async fn start(
        number: usize,
        blocking: usize,
        connections: Connections,
        tls: Option<Arc<Tls>>,
    ) -> io::Result<Self> {
        let (handed, receiver) = mpsc::channel(MAX_HANDED);
        let (tell_ready, ready) = oneshot::channel();
        let (tell_end, end) = oneshot::channel();
        let work = move || {
            let mut builder = Builder::new_current_thread();
            let runtime = match builder.enable_all().max_blocking_threads(blocking).build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell_ready.send(Err(error))),
            };
            let _ = tell_ready.send(Ok(()));
            runtime.block_on(serve(receiver, connections, tls));
            // Do not wait for blocking reads of the store, whose results nobody needs.
            runtime.shutdown_background();
            let _ = tell_end.send(());
        };
        thread::Builder::new()
            .name(format!("recto-serve-{number}"))
            .spawn(work)?;
        ready.await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        Ok(Self {
            handed,
            open: Arc::default(),
            end,
        })
    }
}

/// Serves the connections from a channel until the channel closes. Then closes the remaining
/// connections.
async fn serve(mut handed: mpsc::Receiver<Handed>, connections: Connections, tls: Option<Arc<Tls>>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            one = handed.recv() => {
                let Some(Handed { stream, peer, place }) = one else {
                    break;
                };
                let (connections, tls) = (connections.clone(), tls.clone());
                tasks.spawn(async move {
                    match TcpStream::from_std(stream) {
                        Ok(stream) => connections.serve(stream, peer, tls.as_deref()).await,
                        Err(error) => crate::log::error!(%error, "a connection could not be received by a \
                                                                  thread"),
                    }
                    drop(place);
                });
            }
            // Remove finished tasks, so that the set of tasks does not grow.
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}
