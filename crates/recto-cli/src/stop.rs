//! Ctrl-C: work that can go on later is stopped at a good moment, and the user told how to go on.

use tokio::sync::watch;

use crate::failure::Exit;

/// Hears when the process is told to stop.
#[derive(Debug)]
pub(crate) struct Stop {
    told: watch::Receiver<bool>,
}

impl Stop {
    /// Listens from now on. The first Ctrl-C (or, on Unix, SIGTERM) is heard here; a second one ends the
    /// process at once.
    pub(crate) fn listen() -> Self {
        let (tell, told) = watch::channel(false);
        tokio::spawn(async move {
            signal().await;
            // Nobody listens any more: the work is done.
            let _ = tell.send(true);
            signal().await;
            std::process::exit(Exit::Interrupted.code().into());
        });
        Self { told }
    }

    /// Waits until the process is told to stop.
    pub(crate) async fn requested(&mut self) {
        if self.told.wait_for(|&told| told).await.is_err() {
            // No signal can come any more.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return control_c().await;
    };
    tokio::select! {
        () = control_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    control_c().await;
}

async fn control_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
