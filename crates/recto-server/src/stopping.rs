//! Signal that the server is stopping.

use tokio::sync::watch;

/// Signal that the server is stopping, for which tasks can wait.
#[derive(Debug)]
pub(crate) struct Stopping(watch::Sender<bool>);

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stopping {
    /// Signals that the server stops.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the server starts to stop.
    pub(crate) async fn begun(&self) {
        // `wait_for` cannot fail, because `self` keeps the sender alive.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}
