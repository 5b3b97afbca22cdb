//! Messages come into a shard: what sending and moving ask of it, and what they have in common.
//!
//! ```text
//!  head: open segment ──► open
//!   ▲        │
//!   │        └── nobody made it, or its ring is newer: read the ring ──┐
//!   └──────────────────── fenced by that ring ◄────────────────────────┘
//! ```

use crate::queues::head::{HeadAnswer, HeadWish, Live, Reach};
use crate::queues::log::{LogAnswer, LogWish};
use crate::queues::names::{Address, BodyTable, Chunk, Segment, Tenure, Version};

/// What a shard is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardAction {
    /// Ask the head these, in one round.
    Head(Vec<HeadWish>),
    /// Read the ring, serially, and go by no older one from then on.
    ReadRing,
    /// Read what the head says of a segment, serially.
    Find(Segment),
    /// Write the bodies, plainly, until all are written. With table 0 they are put with the log's row, and it is done.
    Write {
        /// Where.
        live: Live,
        /// Of this segment.
        segment: Segment,
        /// By this name.
        chunk: Chunk,
    },
    /// Ask the log of the segment's register.
    Log {
        /// Where.
        live: Live,
        /// Which segment.
        segment: Segment,
        /// What.
        wish: LogWish,
    },
}

/// What became of that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardEvent {
    /// The head answered the last of its wishes.
    Head(HeadAnswer),
    /// The ring is of this version.
    Ring(Version),
    /// What the head says of the segment; none: it was released.
    Found(Option<Live>),
    /// The bodies are written.
    Written,
    /// They are not, nor will be: the table was dropped.
    TableGone,
    /// The log answered.
    Log(LogAnswer),
}

/// Who wants a segment that is open, and what is known to be gone: a head that was read since does not name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Entering {
    pub(crate) address: Address,
    tenure: Tenure,
    pub(crate) reach: Reach,
    /// The table of a work unit.
    pub(crate) own: Option<BodyTable>,
    segment: Option<(Address, Segment)>,
    table: Option<BodyTable>,
}

/// How far that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    /// This is asked of the shard.
    Asks(ShardAction),
    /// The segment is open.
    Open(Segment, Live),
    /// The shard takes no more.
    Full,
    /// The queue was deleted.
    NoQueue,
    /// The head names what is gone.
    Damaged,
}

impl Entering {
    pub(crate) fn new(address: Address, tenure: Tenure, reach: Reach) -> Self {
        Self {
            address,
            tenure,
            reach,
            own: None,
            segment: None,
            table: None,
        }
    }

    /// Asks for an open segment, after what is to be said before.
    pub(crate) fn asks(&self, before: Option<HeadWish>) -> ShardAction {
        let open = HeadWish::Open {
            reach: self.reach,
            tenure: self.tenure,
            table: self.own,
        };
        ShardAction::Head(before.into_iter().chain([open]).collect())
    }

    /// What the head's answer comes to.
    pub(crate) fn hears(&self, answer: HeadAnswer) -> Entered {
        match answer {
            HeadAnswer::Open(segment, live) if self.is_gone(self.address, segment, live) => Entered::Damaged,
            HeadAnswer::Open(segment, live) => Entered::Open(segment, live),
            HeadAnswer::Full => Entered::Full,
            HeadAnswer::NoQueue => Entered::NoQueue,
            HeadAnswer::Absent | HeadAnswer::OldRing => Entered::Asks(ShardAction::ReadRing),
            HeadAnswer::Done | HeadAnswer::NotYet | HeadAnswer::Moved => Entered::Asks(self.asks(None)),
        }
    }

    /// The log of the segment is another one's.
    pub(crate) fn misses_segment(&mut self, address: Address, segment: Segment) {
        self.segment = Some((address, segment));
    }

    /// The table was dropped.
    pub(crate) fn misses_table(&mut self, table: BodyTable) {
        self.table = Some(table);
    }

    /// Whether a head names what was gone before it was read.
    pub(crate) fn is_gone(&self, address: Address, segment: Segment, live: Live) -> bool {
        self.segment == Some((address, segment)) || self.table == Some(live.table)
    }
}
