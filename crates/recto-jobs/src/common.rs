//! What all shards of a queue share in this process.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use recto_queue::QueueId;
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
}
