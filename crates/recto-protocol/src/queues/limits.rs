//! Limits of segments, shards and the ring, and waiting times.

use crate::queues::names::{Micros, Seq, Version};
use crate::queues::options::StoreOptions;
use crate::queues::rules::Rules;

/// Maximum number of messages in a segment.
pub const MAX_SEGMENT_MESSAGES: Seq = 4_096;
/// Maximum number of bytes of a segment's bodies.
pub const MAX_SEGMENT_BYTES: u64 = 16 << 20;
/// Maximum number of messages of a segment that are claimed, given back or leaving at once. It allows all
/// messages of a segment, so that failing messages do not block others.
pub const MAX_PENDING: usize = MAX_SEGMENT_MESSAGES as usize;
/// Maximum number of live segments of a shard. A shard with this number of segments cannot open another
/// segment.
pub const MAX_LIVE_SEGMENTS: usize = 2_048;
/// Number of live segments of a shard above which segment merging moves the unresolved messages of old
/// segments to a new segment. Applies to unordered queues.
pub const MAX_SCATTERED_SEGMENTS: usize = 256;
/// Maximum number of versioned cells of a shard: cells of live segments, and cells at rest after a release.
pub const MAX_REGISTERS: usize = 4_096;
/// Maximum number of commands in one conditional write. More commands wait for the next write.
pub const MAX_CARRIED: usize = 1_024;
/// Maximum number of message bytes in one conditional write, unless a single command has more. Other commands
/// wait for the next write.
pub const MAX_CARRIED_BYTES: u64 = 8 << 20;
/// Maximum number of message bytes in one claim, unless a single message has more.
pub const MAX_CLAIMED_BYTES: u64 = 8 << 20;
/// Maximum number of bytes that a message takes in addition to its own: lengths, keys, and its entry in the
/// log.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 1 << 10;
/// Highest version of a versioned cell: the maximum of a signed 64-bit column.
pub const MAX_VERSION: Version = i64::MAX as Version;
/// Deduplication window: time for which a deduplication id is remembered, in microseconds.
pub const WINDOW_MICROS: Micros = 300_000_000;
/// Delay above which a message goes to a segment for messages that are due much later, in microseconds.
pub const FAR_MICROS: Micros = 900_000_000;
/// Time that all processes except the giver of a lease add to its recorded end, in microseconds: the maximum
/// difference between clocks.
pub const LEASE_MARGIN_MICROS: Micros = 5_000_000;
/// Time for which a versioned cell rests after its segment is released, in microseconds. Meanwhile, its log
/// can be read for deduplication ids. The time includes the maximum clock difference twice. The clock of a
/// sender may be ahead of the clock of the process that releases the segment. The clock of the process that
/// takes the cell next may be ahead of another sender's.
pub const REST_MICROS: Micros = WINDOW_MICROS + 2 * LEASE_MARGIN_MICROS;

/// Time for which a body table must be without references before it is emptied, in microseconds. During this
/// time, a process that read an older manifest may still read bodies.
pub const UNUSED_MICROS: Micros = 300_000_000;
/// Maximum number of body tables of a ring, including retired tables that are not dropped yet.
pub const MAX_TABLES: usize = 64;

/// Maximum number of slots of a registry. A slot has a queue, has a queue that is being deleted, or is free.
pub const MAX_PLACES: usize = 4_096;
/// Maximum number of shards of a queue.
pub const MAX_SHARDS: u16 = 64;
/// Maximum number of characters of a queue's name, including `.fifo`.
pub const MAX_QUEUE_NAME_LENGTH: usize = 80;
/// Maximum number of bytes of the name of a data center.
pub const MAX_DATA_CENTRE_LENGTH: usize = 255;
/// Maximum number of bytes of a message's body and attributes.
pub const MAX_BODY_BYTES: u32 = 1 << 20;
/// Maximum visibility timeout, in seconds.
pub const MAX_VISIBILITY_SECONDS: u32 = 43_200;
/// Maximum delay of a message, in seconds.
pub const MAX_DELAY_SECONDS: u32 = 2_592_000;
/// Minimum retention, if a queue has one, in seconds.
pub const MIN_RETENTION_SECONDS: u32 = 60;
/// Maximum retention, if a queue has one, in seconds.
pub const MAX_RETENTION_SECONDS: u32 = 31_536_000;
/// Default maximum number of messages of a queue that are in flight at once.
pub const DEFAULT_IN_FLIGHT: u32 = 120_000;
/// Largest value of the queue option `max_in_flight`.
pub const MAX_IN_FLIGHT: u32 = 1_000_000;
/// Largest value of the queue option `attempts`: receives of a message before it goes to the dead-letter
/// queue.
pub const MAX_ATTEMPTS: u16 = 1_000;
/// Minimum rotation interval of the ring of body tables, in seconds.
pub const MIN_ROTATION_SECONDS: u32 = 10;
/// Maximum rotation interval of the ring of body tables, in seconds.
pub const MAX_ROTATION_SECONDS: u32 = 604_800;
/// Maximum grace period of a body table before it is emptied, in seconds.
pub const MAX_GRACE_SECONDS: u32 = 86_400;
/// Minimum number of body tables for rotation: while one table is open, another is emptied.
pub const MIN_TABLES: u8 = 2;
/// Maximum number of body tables that options can request, for rotation and for temporary queues together.
/// Retired tables are added to that.
pub const MAX_OPTION_TABLES: u8 = 48;

/// Limits and rules of the state machines of queues. Only tests disable rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    pub(crate) segment_messages: Seq,
    pub(crate) segment_bytes: u64,
    pub(crate) pending: usize,
    pub(crate) live_segments: usize,
    /// Number of live segments above which segment merging moves the unresolved messages of old segments.
    pub scattered_segments: usize,
    pub(crate) registers: usize,
    pub(crate) carried: usize,
    pub(crate) carried_bytes: u64,
    pub(crate) claimed_bytes: u64,
    pub(crate) unused: Micros,
    /// True if cells rest even if no deduplication id needs it. The content of a resting cell shows
    /// whether an append of unknown outcome succeeded.
    pub(crate) rests_always: bool,
    pub(crate) places: usize,
    pub(crate) rules: Rules,
}

impl Protocol {
    /// Returns the limits for a store where a single process makes changes and learns the outcome of each
    /// change. In such a store, a versioned cell rests only for deduplication ids. Otherwise it is reused at
    /// once, so the store does not keep the content of the last minutes.
    #[must_use]
    pub fn alone(self) -> Self {
        Self {
            rests_always: false,
            ..self
        }
    }

    /// Returns the limits for a store that takes at most this many bytes in one conditional write and the
    /// rows written with it.
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
    /// Returns the limits that the options of a store define.
    pub fn of(options: &StoreOptions) -> Self {
        Self {
            unused: Micros::from(options.grace_seconds) * 1_000_000,
            ..Self::default()
        }
    }
}

#[cfg(feature = "testing")]
impl Protocol {
    /// Sets the maximum number of messages in a segment, for tests that depend on it.
    #[must_use]
    pub fn with_segments_of(self, messages: Seq) -> Self {
        Self {
            segment_messages: messages,
            ..self
        }
    }

    /// Sets the number of live segments above which segment merging moves the unresolved messages of old
    /// segments.
    #[must_use]
    pub fn with_scattered_segments(self, segments: usize) -> Self {
        Self {
            scattered_segments: segments,
            ..self
        }
    }

    /// Sets the maximum number of live segments.
    #[must_use]
    pub fn with_live_segments(self, segments: usize) -> Self {
        Self {
            live_segments: segments,
            ..self
        }
    }
}
