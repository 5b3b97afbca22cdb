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
pub(crate) struct InFlightCommits {
    count: AtomicUsize,
    ended: Notify,
}

/// Guard of a conditional write that is in progress. Dropping the guard records that the write has
/// ended.
pub(crate) struct CommitGuard<'t>(&'t InFlightCommits);

impl InFlightCommits {
    /// Waits until no conditional write is in progress. Callers that wait at the same time may then
    /// send their writes together.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // Register first, so that no notification between the check and the wait is missed.
            ended.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Records that a conditional write is being sent, until the returned guard is dropped.
    pub(crate) fn begin(&self) -> CommitGuard<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        CommitGuard(self)
    }
}

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn later_callers_wait_until_all_writes_have_ended() {
        let commits = InFlightCommits::default();
        // While no write is in progress, two callers may send together: neither waits for the
        // other.
        assert!(commits.wait_until_idle().now_or_never().is_some());
        assert!(commits.wait_until_idle().now_or_never().is_some());
        let (first, second) = (commits.begin(), commits.begin());
        let mut later = Box::pin(commits.wait_until_idle());
        assert!(later.as_mut().now_or_never().is_none());
        drop(first);
        assert!(later.as_mut().now_or_never().is_none());
        drop(second);
        assert!(later.now_or_never().is_some());
    }
}
