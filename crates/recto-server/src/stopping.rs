//! Signal that the server is stopping.

use tokio::sync::watch;

/// Signal that the server is stopping. Tasks can wait for it.
#[derive(Debug)]
pub(crate) struct Stopping(watch::Sender<bool>);

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stopping {
    /// Begins to stop the server.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the server begins to stop.
    pub(crate) async fn begun(&self) {
        // `wait_for` cannot fail, because `self` has the sender.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}
