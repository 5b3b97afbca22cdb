//! Ctrl-C: work that can go on later is stopped at a good moment, and the user told how to go on.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinError;

use crate::failure::Exit;

/// How long work that was told to stop is waited for.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Does work that can go on later until it is done, or the process is told to stop: then it is dropped, and there is none.
pub(crate) async fn unless_stopped<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<Result<T, JoinError>> {
    let mut stop = Stop::listen();
    // A task of its own, so that a signal is heard while a step of the work is busy.
    let mut work = tokio::spawn(work);
    tokio::select! {
        outcome = &mut work => Some(outcome),
        () = stop.requested() => {
            work.abort();
            // It may have ended all the same; what it did is found again either way.
            let _ = tokio::time::timeout(STOP_TIMEOUT, work).await;
            None
        }
    }
}

/// Hears when the process is told to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// How often it was.
    told: watch::Receiver<u32>,
}

impl Stop {
    /// Listens from now on. The first Ctrl-C (or, on Unix, SIGTERM) is heard here; a second one ends the
    /// process at once.
    pub(crate) fn listen() -> Self {
        Self::listen_times(1)
    }

    /// As [`listen`](Self::listen), but the second one is heard, too; the third ends the process.
    pub(crate) fn listen_twice() -> Self {
        Self::listen_times(2)
    }

    fn listen_times(times: u32) -> Self {
        let (tell, told) = watch::channel(0);
        let mut signals = Signals::listen();
        tokio::spawn(async move {
            for time in 1..=times {
                signals.next().await;
                // Nobody listens any more: the work is done.
                let _ = tell.send(time);
            }
            signals.next().await;
            std::process::exit(Exit::Interrupted.code().into());
        });
        Self { told }
    }

    /// Whether the process was told to stop.
    pub(crate) fn is_requested(&self) -> bool {
        *self.told.borrow() > 0
    }

    /// Whether it was told so twice.
    pub(crate) fn is_insisted(&self) -> bool {
        *self.told.borrow() > 1
    }

    /// Waits until the process is told to stop.
    pub(crate) async fn requested(&mut self) {
        self.times(1).await;
    }

    /// Waits until the process is told to stop for the second time.
    pub(crate) async fn insisted(&mut self) {
        self.times(2).await;
    }

    async fn times(&mut self, times: u32) {
        if self.told.wait_for(|&told| told >= times).await.is_err() {
            // No signal can come any more.
            std::future::pending::<()>().await;
        }
    }
}

/// What tells the process to stop. Registered when made, and not when first waited for: until then a
/// signal would end the process as if nobody listened.
#[cfg(unix)]
struct Signals([Option<tokio::signal::unix::Signal>; 2]);

#[cfg(unix)]
impl Signals {
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self([SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok()))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            () = heard(interrupt) => {}
            () = heard(terminate) => {}
        }
    }
}

#[cfg(unix)]
async fn heard(signal: &mut Option<tokio::signal::unix::Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        // No signal can come any more.
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Self {
        Self
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
