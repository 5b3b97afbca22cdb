//! Whether the server was told to stop, for those who wait.

use tokio::sync::watch;

/// Whether the server was told to stop.
#[derive(Debug)]
pub(crate) struct Stopping(watch::Sender<bool>);

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stopping {
    /// From now on it stops.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it stops.
    pub(crate) async fn begun(&self) {
        // The sender is here: it does not go before.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}
