//! Data that all shards of a queue share in this process.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use recto_protocol::queues::QueueId;
use tokio::sync::Notify;

use crate::affinity::Affinity;
use crate::options::NewestOptions;
use crate::totals::Counters;

/// Data that all shards of a queue share in this process.
#[derive(Default)]
pub(crate) struct LocalQueue {
    /// Work unit (temporary queue) that the shards belong to; not set for the shards of a queue.
    pub(crate) unit: OnceLock<QueueId>,
    /// Newest options of the queue that this process knows. All users of the queue in this process
    /// share them.
    pub(crate) options: Arc<NewestOptions>,
    /// Counters of the work that this process did in the queue.
    pub(crate) counters: Counters,
    /// True if the queue was deleted, so that the cached data is no longer valid.
    pub(crate) is_deleted: AtomicBool,
    /// Notification for waiting receivers that a message may have become available in a shard.
    pub(crate) news: Notify,
    /// Choice of the shard to which this process sends messages that may go to any shard.
    pub(crate) sends: Affinity,
    /// Shard at which the next receive of this process begins.
    pub(crate) receives: Affinity,
    /// Number of messages that receivers of this process are claiming now and that no stored state counts
    /// yet.
    claiming: Mutex<usize>,
}

/// Reservation of a part of the queue's limit of messages in flight, for a claim that is in
/// progress. The reserved messages count as claimed until this value is dropped.
pub(crate) struct ClaimReservation<'c> {
    queue: &'c LocalQueue,
    count: usize,
}

impl LocalQueue {
    /// Reserves a part of the queue's limit of messages in flight for a receiver. `count_receivable` gets
    /// the number of messages that other receivers of this process are claiming now, and returns
    /// the number of messages to reserve.
    pub(crate) fn reserve_claim(
        &self,
        count_receivable: impl FnOnce(usize) -> usize,
    ) -> ClaimReservation<'_> {
        let mut claiming = self.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        let count = count_receivable(*claiming);
        *claiming += count;
        ClaimReservation { queue: self, count }
    }
}

impl ClaimReservation<'_> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for ClaimReservation<'_> {
    fn drop(&mut self) {
        let mut claiming = self.queue.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        *claiming -= self.count;
    }
}
