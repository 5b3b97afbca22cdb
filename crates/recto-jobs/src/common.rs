//! What all shards of a queue share in this process.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use recto_protocol::queues::QueueId;
use tokio::sync::Notify;

use crate::affinity::Affinity;
use crate::options::NewestOptions;
use crate::totals::Counters;

/// What all shards of a queue share in this process.
#[derive(Default)]
pub(crate) struct Common {
    /// The work unit that has them, if they are one's.
    pub(crate) unit: OnceLock<QueueId>,
    /// What the queue is like.
    pub(crate) options: Arc<NewestOptions>,
    /// What was done here.
    pub(crate) counters: Counters,
    /// Whether the queue was deleted, and what is known here is not so any more.
    pub(crate) is_deleted: AtomicBool,
    /// Something may be received in one of them that could not before.
    pub(crate) news: Notify,
    /// Where this process sends.
    pub(crate) sends: Affinity,
    /// Where it receives first.
    pub(crate) receives: Affinity,
    /// Number of messages that receivers claim just now, and that no state counts yet.
    claiming: Mutex<usize>,
}

/// Messages in flight that a receiver may claim. They count as claimed until this is dropped.
pub(crate) struct Room<'c> {
    common: &'c Common,
    count: usize,
}

impl Common {
    /// Returns as much as `find_room` leaves of the messages that a receiver wants. It is given how many others claim just now.
    pub(crate) fn take_room(&self, find_room: impl FnOnce(usize) -> usize) -> Room<'_> {
        let mut claiming = self.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        let count = find_room(*claiming);
        *claiming += count;
        Room { common: self, count }
    }
}

impl Room<'_> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut claiming = self
            .common
            .claiming
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *claiming -= self.count;
    }
}
