//! Opening of a segment in a shard for new messages: the part that sending and moving have in common.
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

/// Action that the caller must execute in a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardAction {
    /// Send these commands to the shard's manifest, in one conditional write.
    Head(Vec<HeadWish>),
    /// Read the ring with serial consistency, and use no older ring from then on.
    ReadRing,
    /// Read the entry of a segment in the shard's manifest, with serial consistency.
    Find(Segment),
    /// Write the bodies with plain writes, until all are written. If the table is 0, write nothing:
    /// the row of the log will contain the bodies.
    Write {
        /// Versioned cells and body table of the segment.
        live: Live,
        /// Segment that gets the bodies.
        segment: Segment,
        /// Identifier of the bodies.
        chunk: Chunk,
    },
    /// Send a command to the log of the segment's versioned cell.
    Log {
        /// Versioned cells and body table of the segment.
        live: Live,
        /// Segment of the log.
        segment: Segment,
        /// Command to the log.
        wish: LogWish,
    },
}

/// Result of an action in a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardEvent {
    /// Response of the shard's manifest to the last of its commands.
    Head(HeadAnswer),
    /// Version of the ring that was read.
    Ring(Version),
    /// Entry of the segment in the shard's manifest; `None`: the segment was released.
    Found(Option<Live>),
    /// All bodies of [`ShardAction::Write`] are written.
    Written,
    /// The bodies are not written, and will not be, because the table was dropped.
    TableGone,
    /// Response of the log to the command.
    Log(LogAnswer),
}

/// Request for an open segment. It remembers the segment and the table that are known to be gone. A manifest
/// that is read later and still refers to them is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Entering {
    pub(crate) address: Address,
    tenure: Tenure,
    pub(crate) reach: Reach,
    /// Body table of a temporary queue; `None` for any other queue.
    pub(crate) own: Option<BodyTable>,
    segment: Option<(Address, Segment)>,
    table: Option<BodyTable>,
}

/// Progress of the request for an open segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The caller has to execute this action in the shard next.
    Asks(ShardAction),
    /// The segment is open.
    Open(Segment, Live),
    /// The shard is full.
    Full,
    /// The queue was deleted.
    NoQueue,
    /// The shard's manifest refers to a segment or a table that is gone.
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

    /// Returns the commands for the shard's manifest: `before`, if any, and then the request for an open
    /// segment.
    pub(crate) fn asks(&self, before: Option<HeadWish>) -> ShardAction {
        let open = HeadWish::Open {
            reach: self.reach,
            tenure: self.tenure,
            table: self.own,
        };
        ShardAction::Head(before.into_iter().chain([open]).collect())
    }

    /// Evaluates the response of the shard's manifest.
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

    /// Records that the versioned cell of the segment's log now belongs to another segment.
    pub(crate) fn misses_segment(&mut self, address: Address, segment: Segment) {
        self.segment = Some((address, segment));
    }

    /// Records that a body table was dropped.
    pub(crate) fn misses_table(&mut self, table: BodyTable) {
        self.table = Some(table);
    }

    /// Returns whether a manifest refers to a segment or a table that was gone before the manifest was read.
    pub(crate) fn is_gone(&self, address: Address, segment: Segment, live: Live) -> bool {
        self.segment == Some((address, segment)) || self.table == Some(live.table)
    }
}
