//! What the shards of a queue go by: the options of its queue, as the registry has them.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use recto_api::queues::DeduplicationScope;
use recto_protocol::queues::{Place, QueueOptions, Tenure, Version};

/// What holds for the shards of a queue: of the options of its queue what the engine goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardOptions {
    /// The version of the registry that says so: what an older one says changes nothing any more.
    pub version: Version,
    /// For how long a message is its receiver's, if that says nothing else.
    pub visibility: Duration,
    /// How much later than sent a message is due, if its sender says nothing else.
    pub delay: Duration,
    /// For how long a message is kept that is not done with; none: until it is.
    pub retention_seconds: Option<u32>,
    /// Bytes of a message's body, attributes and names.
    pub body_bytes: u32,
    /// Maximum number of messages in flight at once.
    pub max_in_flight: u32,
    /// Whether the queue accepts messages and delivers none.
    pub is_paused: bool,
    /// Whether each message has a group, and of each group one is received at a time, in the order in which they were sent.
    pub is_ordered: bool,
    /// Whether messages of different groups with one deduplication id are different.
    pub deduplicates_by_group: bool,
    /// What becomes of messages that are received too often; none: they are received again and again.
    pub dead_letters: Option<DeadLetters>,
}

/// What becomes of messages that are received too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetters {
    /// How often a message is received before.
    pub attempts: u16,
    /// Where it goes.
    pub to: Destination,
}

/// A queue where messages go: to which of its shards, each says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// Where it is.
    pub place: Place,
    /// By which use of its place.
    pub tenure: Tenure,
    /// How many shards it has.
    pub shards: u16,
}

impl ShardOptions {
    /// Of a queue's options, and where the queue of its dead letters is, both by this version of the registry.
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

/// Those of a queue of which nothing else was said.
impl Default for ShardOptions {
    fn default() -> Self {
        Self::of(&QueueOptions::default(), 0, None)
    }
}

/// The newest options of a shard that anybody here knows: all who use it go by them.
#[derive(Debug, Default)]
pub(crate) struct NewestOptions(RwLock<ShardOptions>);

impl NewestOptions {
    pub(crate) fn get(&self) -> ShardOptions {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of a registry that is older than what is known are passed over.
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
    fn what_an_older_registry_says_is_passed_over() {
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
