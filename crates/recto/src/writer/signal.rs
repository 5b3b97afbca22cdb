//! Waiting until something holds.

use std::pin::pin;

use tokio::sync::Notify;

/// Wakes all who wait, in the order in which they came. (Tokio's `watch` wakes them in one that it draws, and a run could
/// not be replayed.)
#[derive(Debug, Default)]
pub(super) struct Signal(Notify);

impl Signal {
    /// Something has changed.
    pub(super) fn give(&self) {
        self.0.notify_waiters();
    }

    /// Waits until `asked` gives something; it is asked now, and at each signal.
    pub(super) async fn until<T>(&self, mut asked: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut given = pin!(self.0.notified());
            given.as_mut().enable();
            if let Some(answer) = asked() {
                return answer;
            }
            given.await;
        }
    }
}
