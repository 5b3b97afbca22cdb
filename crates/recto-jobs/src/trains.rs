//! Conditional writes leave together, where the store makes one commit at a time.
//!
//! What is sent while a commit is under way waits for the next one in the store, where nothing can be added to it any more. So it
//! waits here instead, where what is asked meanwhile is added; and what several registers are asked shares a commit.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The conditional writes of a store that are under way.
#[derive(Default)]
pub(crate) struct Trains {
    under_way: AtomicUsize,
    arrived: Notify,
}

/// One that is under way, until it is dropped.
pub(crate) struct Departed<'t>(&'t Trains);

impl Trains {
    /// Waits until none is under way: whoever waits for that may leave together.
    pub(crate) async fn wait(&self) {
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            // What arrives while it is looked is not missed.
            arrived.as_mut().enable();
            if self.under_way.load(Ordering::Acquire) == 0 {
                return;
            }
            arrived.await;
        }
    }

    /// One leaves.
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
    fn who_comes_later_leaves_when_all_have_arrived() {
        let trains = Trains::default();
        // Two leave together: neither waits for the other.
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
