//! Signal that wakes tasks which wait for a condition.

use std::pin::pin;

use tokio::sync::Notify;

/// Wakes all waiting tasks in the order in which they began to wait. Tokio's `watch` wakes tasks in
/// a random order, so with it a simulated run could not be repeated.
#[derive(Debug, Default)]
pub(super) struct Signal(Notify);

impl Signal {
    /// Wakes all waiting tasks, because a condition may have changed.
    pub(super) fn give(&self) {
        self.0.notify_waiters();
    }

    /// Waits until `asked` returns a value. Calls `asked` at once and after each signal.
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
