//! Handling of Ctrl-C. An operation that can be resumed stops at a safe point, and tells the user how to
//! resume it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinError;

use crate::failure::Exit;

/// Maximum time to wait until an aborted operation has ended.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs an operation that can be resumed. If the process gets a signal to stop, aborts the operation and
/// returns `None`.
pub(crate) async fn unless_stopped<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<Result<T, JoinError>> {
    let mut stop = Stop::listen();
    // Run the operation in its own task, so that a signal is received even during a busy step.
    let mut work = tokio::spawn(work);
    tokio::select! {
        outcome = &mut work => Some(outcome),
        () = stop.requested() => {
            work.abort();
            // Ignore the result. If the operation ended before the abort, the next run finds its
            // result, too.
            let _ = tokio::time::timeout(STOP_TIMEOUT, work).await;
            None
        }
    }
}

/// Receiver of Ctrl-C and SIGTERM, for an operation that stops at a safe point.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// Number of signals to stop that were received.
    told: watch::Receiver<u32>,
}

impl Stop {
    /// Starts to receive signals. The first Ctrl-C (or, on Unix, SIGTERM) only requests a stop. The
    /// second ends the process at once.
    pub(crate) fn listen() -> Self {
        Self::listen_times(1)
    }

    /// Starts to receive signals, like [`listen`](Self::listen). The first two signals only request
    /// a stop, and the third ends the process at once.
    pub(crate) fn listen_twice() -> Self {
        Self::listen_times(2)
    }

    fn listen_times(times: u32) -> Self {
        let (tell, told) = watch::channel(0);
        let mut signals = Signals::listen();
        tokio::spawn(async move {
            for time in 1..=times {
                signals.next().await;
                // Ignore an error: it means that nothing waits for signals.
                let _ = tell.send(time);
            }
            signals.next().await;
            std::process::exit(Exit::Interrupted.code().into());
        });
        Self { told }
    }

    /// Returns whether the process got at least one signal to stop.
    pub(crate) fn is_requested(&self) -> bool {
        *self.told.borrow() > 0
    }

    /// Returns whether the process got at least two signals to stop.
    pub(crate) fn is_insisted(&self) -> bool {
        *self.told.borrow() > 1
    }

    /// Waits for the first signal to stop.
    pub(crate) async fn requested(&mut self) {
        self.times(1).await;
    }

    /// Waits for the second signal to stop.
    pub(crate) async fn insisted(&mut self) {
        self.times(2).await;
    }

    async fn times(&mut self, times: u32) {
        if self.told.wait_for(|&told| told >= times).await.is_err() {
            // The task that counts signals has ended, so no signal can arrive. Never return.
            std::future::pending::<()>().await;
        }
    }
}

/// Source of the signals that stop the process. Creating it registers the signals, so that even an
/// early signal does not end the process at once.
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
        // The source of signals is closed, so no signal can arrive. Never return.
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
