//! Group commit: conditional writes of several versioned cells share a commit, on a store that executes one
//! commit at a time.
//!
//! A write that is sent during a commit waits in the store for the next commit, and can no longer be
//! extended. Writes therefore wait in this module until the commit has ended. Commands that arrive in the
//! meantime join these writes.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Number of conditional writes of a store that are in progress, and a notification of their end.
#[derive(Default)]
pub(crate) struct Trains {
    under_way: AtomicUsize,
    arrived: Notify,
}

/// Guard of a conditional write that is in progress. Dropping the guard records that the write has
/// ended.
pub(crate) struct Departed<'t>(&'t Trains);

impl Trains {
    /// Waits until no conditional write is in progress. Callers that wait at the same time may then
    /// send their writes together.
    pub(crate) async fn wait(&self) {
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            // Register first, so that no notification between the check and the wait is missed.
            arrived.as_mut().enable();
            if self.under_way.load(Ordering::Acquire) == 0 {
                return;
            }
            arrived.await;
        }
    }

    /// Records that a conditional write is being sent, until the returned guard is dropped.
    pub(crate) fn depart(&self) -> Departed<'_> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Departed(self)
    }
}

impl Drop for Departed<'_> {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.arrived.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn later_callers_wait_until_all_writes_have_ended() {
        let trains = Trains::default();
        // While no write is in progress, two callers may send together: neither waits for the
        // other.
        assert!(trains.wait().now_or_never().is_some());
        assert!(trains.wait().now_or_never().is_some());
        let (first, second) = (trains.depart(), trains.depart());
        let mut later = Box::pin(trains.wait());
        assert!(later.as_mut().now_or_never().is_none());
        drop(first);
        assert!(later.as_mut().now_or_never().is_none());
        drop(second);
        assert!(later.now_or_never().is_some());
    }
}
