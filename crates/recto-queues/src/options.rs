//! Options of shards: the part of a queue's options that the engine uses, as stored in the registry.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use recto_api::queues::DeduplicationScope;
use recto_protocol::queues::{Place, QueueOptions, Tenure, Version};

/// Options of a queue, in the form that its shards use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardOptions {
    /// Version of the registry that contained the options. Options of an older version never
    /// replace them.
    pub version: Version,
    /// Visibility timeout of received messages, unless a receive sets its own.
    pub visibility: Duration,
    /// Delay of new messages, unless a message has its own.
    pub delay: Duration,
    /// Retention of messages, in seconds. `None`: messages are kept until they are resolved.
    pub retention_seconds: Option<u32>,
    /// Maximum number of bytes of a message's body, attributes and names.
    pub body_bytes: u32,
    /// Maximum number of messages in flight at once.
    pub max_in_flight: u32,
    /// True if the queue is paused: it accepts messages but delivers none.
    pub is_paused: bool,
    /// True if the queue is ordered. Each message has a group, and the messages of a group are
    /// delivered one at a time, in the order in which they were sent.
    pub is_ordered: bool,
    /// True if a deduplication id applies only within a group: messages of different groups with
    /// the same id are no duplicates.
    pub deduplicates_by_group: bool,
    /// Treatment of messages that were received too often. `None`: they are delivered again without a limit.
    pub dead_letters: Option<DeadLetters>,
}

/// Treatment of messages that were received too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetters {
    /// Number of times that a message is received before it goes to the dead-letter queue.
    pub attempts: u16,
    /// Queue to which messages go that were received too often.
    pub to: Destination,
}

/// Target queue of moved messages. The shard of the queue is chosen for each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// Slot (numbered place for a queue) in the registry.
    pub place: Place,
    /// Epoch, which distinguishes the queue from other queues that use the registry slot before or
    /// after it.
    pub tenure: Tenure,
    /// Number of shards of the queue.
    pub shards: u16,
}

impl ShardOptions {
    /// Creates the shard options from the options of a queue and the registry slot of its
    /// dead-letter queue. `version` is the version of the registry from which the options and the
    /// slot were read.
    pub fn of(options: &QueueOptions, version: Version, dead_letters: Option<Destination>) -> Self {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let said = options.dead_letters.as_ref().zip(dead_letters);
        Self {
            version,
            visibility: seconds(options.visibility_seconds),
            delay: seconds(options.delay_seconds),
            retention_seconds: options.retention_seconds,
            body_bytes: options.body_bytes,
            max_in_flight: options.max_in_flight,
            is_paused: options.is_paused,
            is_ordered: options.is_ordered,
            deduplicates_by_group: options.deduplication == DeduplicationScope::Group,
            dead_letters: said.map(|(said, to)| DeadLetters {
                attempts: said.attempts,
                to,
            }),
        }
    }
}

/// Options of a queue that was created with default options.
impl Default for ShardOptions {
    fn default() -> Self {
        Self::of(&QueueOptions::default(), 0, None)
    }
}

/// Newest options of a queue that this process knows. All users of its shards share them.
#[derive(Debug, Default)]
pub(crate) struct NewestOptions(RwLock<ShardOptions>);

impl NewestOptions {
    pub(crate) fn get(&self) -> ShardOptions {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the options, unless they are from an older version of the registry than the current options.
    pub(crate) fn set(&self, options: ShardOptions) {
        let mut newest = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if newest.version <= options.version {
            *newest = options;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_options_of_an_older_registry() {
        let of = |version, delay| ShardOptions {
            version,
            delay: Duration::from_secs(delay),
            ..ShardOptions::default()
        };
        let newest = NewestOptions::default();
        for (said, holds) in [
            (of(3, 1), of(3, 1)),
            (of(2, 2), of(3, 1)),
            (of(3, 1), of(3, 1)),
            (of(4, 3), of(4, 3)),
        ] {
            newest.set(said);
            assert_eq!(newest.get(), holds);
        }
    }
}
