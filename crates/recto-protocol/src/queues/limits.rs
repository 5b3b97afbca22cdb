//! Limits and waiting times of queues.

use crate::queues::names::{Micros, Seq, Version};
use crate::queues::options::StoreOptions;
use crate::queues::rules::Rules;

/// Maximum number of messages in a segment: a batch of consecutive messages that is stored and
/// removed together.
pub const MAX_SEGMENT_MESSAGES: Seq = 4_096;
/// Maximum size of the message bodies of a segment (message batch), in bytes.
pub const MAX_SEGMENT_BYTES: u64 = 16 << 20;
/// Maximum number of pending messages in a segment: claimed, given back, or being moved. It is the
/// number of all messages, so that failing messages do not block others.
pub const MAX_PENDING: usize = MAX_SEGMENT_MESSAGES as usize;
/// Maximum number of live segments (batches of messages) of a shard. At the limit, the shard opens
/// no new segment.
pub const MAX_LIVE_SEGMENTS: usize = 2_048;
/// Number of live segments of a shard above which segment merging moves the unresolved messages of
/// old segments to a new segment. Only in unordered queues.
pub const MAX_SCATTERED_SEGMENTS: usize = 256;
/// Maximum number of pairs of versioned cells in a shard. Each live segment uses one pair, and
/// released pairs rest.
pub const MAX_REGISTERS: usize = 4_096;
/// Maximum number of commands in one conditional write. Further commands wait for the next write.
pub const MAX_CARRIED: usize = 1_024;
/// Maximum size of the messages in one conditional write, in bytes. A single larger command is
/// still sent. Further commands wait for the next write.
pub const MAX_CARRIED_BYTES: u64 = 8 << 20;
/// Maximum size of the messages in one claim, in bytes. A single larger message can still be
/// claimed.
pub const MAX_CLAIMED_BYTES: u64 = 8 << 20;
/// Maximum bytes that a message takes in addition to its body and attributes: lengths, keys, and
/// its entry in the log.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 1 << 10;
/// Highest version of a versioned cell (changed by compare-and-set): the maximum of a signed 64-bit
/// column.
pub const MAX_VERSION: Version = i64::MAX as Version;
/// Deduplication window: time for which a deduplication id is remembered, in microseconds.
pub const WINDOW_MICROS: Micros = 300_000_000;
/// Delay above which a message goes to a separate segment for messages that are due much later, in
/// microseconds.
pub const FAR_MICROS: Micros = 900_000_000;
/// Assumed maximum difference between two clocks, in microseconds. A process adds it to the end of
/// a lease that another process gave.
pub const LEASE_MARGIN_MICROS: Micros = 5_000_000;
/// Time for which versioned cells rest after their segment is released, in microseconds. Meanwhile
/// their log can be read for deduplication ids. It includes the clock difference twice: a sender's
/// clock may be ahead of the releasing process's clock, and the clock of the process that reuses
/// the cells may be ahead of another sender's.
pub const REST_MICROS: Micros = WINDOW_MICROS + 2 * LEASE_MARGIN_MICROS;

/// Default time for which no segment may use a body table before the table is emptied, in
/// microseconds. During this time, a process with an older manifest may still read bodies.
pub const UNUSED_MICROS: Micros = 300_000_000;
/// Maximum number of tables for message bodies, including retired tables that are not dropped.
pub const MAX_TABLES: usize = 64;

/// Maximum number of slots (reusable rows) of the registry of queues. A slot has a queue or a work
/// unit, is being cleared after a deletion, or is free.
pub const MAX_PLACES: usize = 4_096;
/// Maximum number of shards of a queue.
pub const MAX_SHARDS: u16 = 64;
/// Maximum length of a queue's name, in ASCII characters, including `.fifo`.
pub const MAX_QUEUE_NAME_LENGTH: usize = 80;
/// Maximum length of the name of a data center, in bytes.
pub const MAX_DATA_CENTRE_LENGTH: usize = 255;
/// Maximum size of a message's body and attributes together, in bytes.
pub const MAX_BODY_BYTES: u32 = 1 << 20;
/// Maximum visibility timeout (time for which a receiver has a message exclusively), in seconds.
pub const MAX_VISIBILITY_SECONDS: u32 = 43_200;
/// Maximum delay of a message before its first receive, in seconds.
pub const MAX_DELAY_SECONDS: u32 = 2_592_000;
/// Minimum retention time of unacknowledged messages, in seconds, if a queue has one.
pub const MIN_RETENTION_SECONDS: u32 = 60;
/// Maximum retention time of unacknowledged messages, in seconds, if a queue has one.
pub const MAX_RETENTION_SECONDS: u32 = 31_536_000;
/// Default maximum number of messages of a queue that receivers have at once.
pub const DEFAULT_IN_FLIGHT: u32 = 120_000;
/// Maximum of the queue option `max_in_flight`: number of messages that receivers have at once.
pub const MAX_IN_FLIGHT: u32 = 1_000_000;
/// Maximum of the queue option `attempts`: number of receives of a message before it goes to the
/// dead-letter queue.
pub const MAX_ATTEMPTS: u16 = 1_000;
/// Minimum time for which a table for message bodies is open before the next one is used, in
/// seconds.
pub const MIN_ROTATION_SECONDS: u32 = 10;
/// Maximum time for which a table for message bodies is open before the next one is used, in
/// seconds.
pub const MAX_ROTATION_SECONDS: u32 = 604_800;
/// Maximum time for which a table for message bodies must be unused before it is emptied, in
/// seconds.
pub const MAX_GRACE_SECONDS: u32 = 86_400;
/// Minimum number of tables for message bodies in rotation: one is open while another is emptied.
pub const MIN_TABLES: u8 = 2;
/// Maximum number of body tables that the options can request, for rotation and temporary queues
/// together. Retired tables do not count.
pub const MAX_OPTION_TABLES: u8 = 48;

/// Limits and enabled rules of the protocol of queues. Only tests change the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    pub(crate) segment_messages: Seq,
    pub(crate) segment_bytes: u64,
    pub(crate) pending: usize,
    pub(crate) live_segments: usize,
    /// Number of live segments of a shard above which segment merging moves the unresolved messages
    /// of old segments.
    pub scattered_segments: usize,
    pub(crate) registers: usize,
    pub(crate) carried: usize,
    pub(crate) carried_bytes: u64,
    pub(crate) claimed_bytes: u64,
    pub(crate) unused: Micros,
    /// True if released cells always rest before their reuse, not only for deduplication ids. Their
    /// old content then shows whether an append of unknown outcome succeeded.
    pub(crate) rests_always: bool,
    pub(crate) places: usize,
    pub(crate) rules: Rules,
}

impl Protocol {
    /// Returns the limits for a store that only one process changes, and that reports the outcome
    /// of each change. Then a released versioned cell rests only for deduplication ids. Otherwise
    /// it is reused at once, which saves storage.
    #[must_use]
    pub fn alone(self) -> Self {
        Self {
            rests_always: false,
            ..self
        }
    }

    /// Returns the limits for a store that accepts at most `bytes` bytes in one conditional write,
    /// including the rows that are written with it.
    #[must_use]
    pub fn carrying(self, bytes: u64) -> Self {
        Self {
            carried_bytes: self.carried_bytes.min(bytes),
            ..self
        }
    }
}

impl Default for Protocol {
    fn default() -> Self {
        Self {
            segment_messages: MAX_SEGMENT_MESSAGES,
            segment_bytes: MAX_SEGMENT_BYTES,
            pending: MAX_PENDING,
            live_segments: MAX_LIVE_SEGMENTS,
            scattered_segments: MAX_SCATTERED_SEGMENTS,
            registers: MAX_REGISTERS,
            carried: MAX_CARRIED,
            carried_bytes: MAX_CARRIED_BYTES,
            claimed_bytes: MAX_CLAIMED_BYTES,
            unused: UNUSED_MICROS,
            rests_always: true,
            places: MAX_PLACES,
            rules: Rules::default(),
        }
    }
}

impl Protocol {
    /// Returns the limits that follow from the options of a store.
    pub fn of(options: &StoreOptions) -> Self {
        Self {
            unused: Micros::from(options.grace_seconds) * 1_000_000,
            ..Self::default()
        }
    }
}

#[cfg(feature = "testing")]
impl Protocol {
    /// Sets the maximum number of messages in a segment (message batch), for tests.
    #[must_use]
    pub fn with_segments_of(self, messages: Seq) -> Self {
        Self {
            segment_messages: messages,
            ..self
        }
    }

    /// Sets the number of live segments (message batches) above which segment merging starts, for
    /// tests.
    #[must_use]
    pub fn with_scattered_segments(self, segments: usize) -> Self {
        Self {
            scattered_segments: segments,
            ..self
        }
    }

    /// Sets the maximum number of live segments (message batches) of a shard, for tests.
    #[must_use]
    pub fn with_live_segments(self, segments: usize) -> Self {
        Self {
            live_segments: segments,
            ..self
        }
    }
}
