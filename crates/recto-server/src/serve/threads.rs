//! The threads that serve connections, each those that it was handed: a request is read, answered and
//! sent on one of them, so that it wakes no other. Where the store has no answer at once, other
//! connections of the thread take turns with it.
//!
//! What is no connection's (accepting, looking after the store, taking over what changed) runs on the
//! runtime that the server was started on.

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

/// The most connections that wait for one thread to take them over; more are not accepted meanwhile.
const MAX_HANDED: usize = 1_024;

/// The most threads, of all that serve connections together, that wait for the disk meanwhile.
const MAX_BLOCKING_THREADS: usize = 512;

/// The threads that serve connections. Dropped, they cut what they have.
#[derive(Debug)]
pub(crate) struct Threads {
    threads: Vec<Thread>,
    /// Told whenever a connection ended.
    ended: Arc<Notify>,
}

#[derive(Debug)]
struct Thread {
    handed: mpsc::Sender<Handed>,
    open: Arc<AtomicUsize>,
    end: oneshot::Receiver<()>,
}

/// A connection that was accepted.
struct Handed {
    stream: std::net::TcpStream,
    peer: IpAddr,
    place: Place,
}

/// The place of a connection, from when it was accepted to its end.
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
    /// Starts as many as the runtime has workers.
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

    /// Hands a connection to the thread that has the fewest.
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
            // A thread that is gone drops it.
            Ok(stream) => drop(thread.handed.send(Handed { stream, peer, place }).await),
            Err(error) => crate::log::error!(%error, "a connection could not be handed on"),
        }
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        let open = self.threads.iter();
        open.map(|thread| thread.open.load(Ordering::Relaxed)).sum()
    }

    /// Waits until there is no connection.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.connections() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Cuts the connections that there are, and waits for the threads' ends.
    pub(crate) async fn end(self) {
        for Thread { handed, end, .. } in self.threads {
            drop(handed);
            // One that panicked has ended, too.
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
            // A read of the store that nobody waits for any more holds nobody up.
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

/// Serves what is handed until nobody hands any more; then what is left is cut.
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
                        Err(error) => crate::log::error!(%error, "a connection could not be taken over"),
                    }
                    drop(place);
                });
            }
            // Tasks that ended are let go.
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}
