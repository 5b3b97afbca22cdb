//! How much a segment, a shard and a ring hold, and for how long things wait.

use crate::queues::names::{Micros, Seq, Version};
use crate::queues::options::StoreOptions;
use crate::queues::rules::Rules;

/// Messages of a segment.
pub const MAX_SEGMENT_MESSAGES: Seq = 4_096;
/// Bytes of a segment's bodies.
pub const MAX_SEGMENT_BYTES: u64 = 16 << 20;
/// Maximum number of messages of a segment that are claimed, given back, or leaving at once: all of them, so that failing messages
/// hold up no others.
pub const MAX_PENDING: usize = MAX_SEGMENT_MESSAGES as usize;
/// Live segments of a shard; then it is full.
pub const MAX_LIVE_SEGMENTS: usize = 2_048;
/// Live segments of a shard of a queue that is not ordered, above which what is left in old ones is moved on.
pub const MAX_SCATTERED_SEGMENTS: usize = 256;
/// Registers of a shard: those of live segments, and those that rest.
pub const MAX_REGISTERS: usize = 4_096;
/// Wishes that one conditional write carries; more wait for the next.
pub const MAX_CARRIED: usize = 1_024;
/// Bytes of messages that one conditional write carries, unless one wish has more; others wait for the next.
pub const MAX_CARRIED_BYTES: u64 = 8 << 20;
/// Bytes of messages that one claim has, unless one message has more.
pub const MAX_CLAIMED_BYTES: u64 = 8 << 20;
/// What a message takes at most beside its own bytes: lengths of what it says, keys, and what the log has of it.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 1 << 10;
/// Of a register's versions: as much as a column of 64 bits with a sign holds.
pub const MAX_VERSION: Version = i64::MAX as Version;
/// For how long a deduplication id is known.
pub const WINDOW_MICROS: Micros = 300_000_000;
/// Messages that are due later than this go to a segment of their own.
pub const FAR_MICROS: Micros = 900_000_000;
/// How long after its end a lease is over for others than its giver: as much as clocks may be apart.
pub const LEASE_MARGIN_MICROS: Micros = 5_000_000;
/// For how long a register rests, so that its log can be read for deduplication ids: one sender's clock may be ahead of that of
/// who releases the segment, and that of who has the register next ahead of another sender's.
pub const REST_MICROS: Micros = WINDOW_MICROS + 2 * LEASE_MARGIN_MICROS;

/// For how long nothing refers to a table before it is emptied: who read a head before may still read bodies.
pub const UNUSED_MICROS: Micros = 300_000_000;
/// Body tables of a ring, those that are retired and not dropped yet among them.
pub const MAX_TABLES: usize = 64;

/// Places of a registry: queues, those that are being deleted, and places that were given back.
pub const MAX_PLACES: usize = 4_096;
/// Shards of a queue.
pub const MAX_SHARDS: u16 = 64;
/// Characters of a queue's name, `.fifo` among them.
pub const MAX_QUEUE_NAME_LENGTH: usize = 80;
/// Bytes of a data centre's name.
pub const MAX_DATA_CENTRE_LENGTH: usize = 255;
/// Bytes of a message's body and attributes.
pub const MAX_BODY_BYTES: u32 = 1 << 20;
/// For how long a message is its receiver's, if it is not extended.
pub const MAX_VISIBILITY_SECONDS: u32 = 43_200;
/// How much later than sent a message may be due.
pub const MAX_DELAY_SECONDS: u32 = 2_592_000;
/// For how long a message is kept at least, where a queue says for how long.
pub const MIN_RETENTION_SECONDS: u32 = 60;
/// For how long a message is kept at most, where a queue says for how long.
pub const MAX_RETENTION_SECONDS: u32 = 31_536_000;
/// Maximum number of messages of a queue that are in flight at once, if its options say nothing else.
pub const DEFAULT_IN_FLIGHT: u32 = 120_000;
/// Largest value of `max_in_flight`.
pub const MAX_IN_FLIGHT: u32 = 1_000_000;
/// How often a message may be received before it is a dead letter.
pub const MAX_ATTEMPTS: u16 = 1_000;
/// How short a slice of the ring may be.
pub const MIN_ROTATION_SECONDS: u32 = 10;
/// How long a slice of the ring may be.
pub const MAX_ROTATION_SECONDS: u32 = 604_800;
/// For how long a body table may be left alone before it is emptied.
pub const MAX_GRACE_SECONDS: u32 = 86_400;
/// Body tables that slices have at least: while one is open another is emptied.
pub const MIN_TABLES: u8 = 2;
/// Body tables that options ask for, for slices and for work units. More than that are those that are retired.
pub const MAX_OPTION_TABLES: u8 = 48;

/// By which limits and rules the machines go: the release's, outside of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    pub(crate) segment_messages: Seq,
    pub(crate) segment_bytes: u64,
    pub(crate) pending: usize,
    pub(crate) live_segments: usize,
    /// Above so many live segments what is left in old ones is moved on.
    pub scattered_segments: usize,
    pub(crate) registers: usize,
    pub(crate) carried: usize,
    pub(crate) carried_bytes: u64,
    pub(crate) claimed_bytes: u64,
    pub(crate) unused: Micros,
    /// Whether registers rest that no deduplication id needs: what is in doubt is told by what lies there.
    pub(crate) rests_always: bool,
    pub(crate) places: usize,
    pub(crate) rules: Rules,
}

impl Protocol {
    /// For a store where one process alone makes changes, and hears of each what became of it: a register rests only for
    /// deduplication ids, so that space is taken by what is there, and not by what was within minutes.
    #[must_use]
    pub fn alone(self) -> Self {
        Self {
            rests_always: false,
            ..self
        }
    }

    /// For a store that takes no more bytes in one conditional write, and what is put with it.
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
    /// As the options of a store say.
    pub fn of(options: &StoreOptions) -> Self {
        Self {
            unused: Micros::from(options.grace_seconds) * 1_000_000,
            ..Self::default()
        }
    }
}

#[cfg(feature = "testing")]
impl Protocol {
    /// With segments of so few messages, for tests of what goes by it.
    #[must_use]
    pub fn with_segments_of(self, messages: Seq) -> Self {
        Self {
            segment_messages: messages,
            ..self
        }
    }

    /// That moves on what is left in old segments where there are more than so many.
    #[must_use]
    pub fn with_scattered_segments(self, segments: usize) -> Self {
        Self {
            scattered_segments: segments,
            ..self
        }
    }

    /// With so few live segments at most.
    #[must_use]
    pub fn with_live_segments(self, segments: usize) -> Self {
        Self {
            live_segments: segments,
            ..self
        }
    }
}
