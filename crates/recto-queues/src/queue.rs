//! Handle to one queue or work unit (temporary queue).

use recto_protocol::queues::{QueueId, QueueName, QueueOptions, Version};

use crate::shards::Shards;

/// Queue, with the options at the time of its lookup. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    /// Identifier of the queue. No other queue ever has it, even under the same name.
    pub id: QueueId,
    /// Name of the queue.
    pub name: QueueName,
    /// Name of the work unit within its queue. `None`: this is a queue, not a work unit (temporary queue).
    pub unit: Option<QueueName>,
    /// Options of the queue.
    pub options: QueueOptions,
    /// Version of the registry (list of queues) at the last change of the queue. Each change of the
    /// queue has another version.
    pub changed: Version,
    /// Shards, which hold the messages of the queue.
    pub shards: Shards,
}

impl Queue {
    /// Returns the name of the queue, and the name of the work unit (temporary queue). The second
    /// name is `None` for a queue that is no work unit.
    pub(crate) fn names(&self) -> (&QueueName, Option<&QueueName>) {
        (&self.name, self.unit.as_ref())
    }
}
