//! Opening of a segment (batch of consecutive messages) in a shard. Sending and moving of messages
//! both use this module.
//!
//! ```text
//!  head: open segment ──► open
//!   ▲        │
//!   │        └── nobody made it, or its ring is newer: read the ring ──┐
//!   └──────────────────── fenced by that ring ◄────────────────────────┘
//! ```

use crate::queues::log::{LogCommand, LogResponse};
use crate::queues::names::{Address, BodyTable, Chunk, Segment, Tenure, Version};
use crate::queues::shard_manifest::{HeadCommand, HeadResponse, Live, Reach};

/// Action in a shard that the caller executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardAction {
    /// Send these commands to the shard's manifest (list of live segments), in one conditional
    /// write.
    Head(Vec<HeadCommand>),
    /// Read the ring (list of body tables) with serial consistency. From then on, use no older
    /// ring.
    ReadRing,
    /// Read the segment's entry in the shard's manifest (list of live segments), with serial
    /// consistency.
    Find(Segment),
    /// Write the message bodies with plain writes, until all are written. If the table in `live` is
    /// 0, write nothing: the row of the log will contain the bodies.
    Write {
        /// Location of the segment (message batch): its versioned cells, and its table for bodies.
        live: Live,
        /// Segment to which the messages will be appended.
        segment: Segment,
        /// Id under which the bodies are stored.
        chunk: Chunk,
    },
    /// Send a command to the segment's log (list of its messages).
    Log {
        /// Location of the segment (message batch): its versioned cells, and its table for bodies.
        live: Live,
        /// Segment to whose log the command is sent.
        segment: Segment,
        /// Command to the log.
        command: LogCommand,
    },
}

/// Event in a shard that the caller reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardEvent {
    /// Response of the shard's manifest (list of live segments) to the last command of
    /// [`ShardAction::Head`].
    Head(HeadResponse),
    /// The caller has executed [`ShardAction::ReadRing`]. It now has a ring (list of the tables for
    /// message bodies) of this version.
    Ring(Version),
    /// Result of [`ShardAction::Find`]: the segment's entry in the shard's manifest (list of live
    /// segments); `None`: the segment was released.
    Found(Option<Live>),
    /// The caller has written all bodies of [`ShardAction::Write`].
    Written,
    /// The caller cannot write the bodies of [`ShardAction::Write`], because their table was
    /// dropped.
    TableGone,
    /// Response of the log to the command of [`ShardAction::Log`].
    Log(LogResponse),
}

/// Request for an open segment in a shard. It remembers a segment and a body table that were found
/// to be gone. If a manifest that is read later still lists them, the manifest is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Entering {
    pub(crate) address: Address,
    tenure: Tenure,
    pub(crate) reach: Reach,
    /// Table for message bodies that belongs to a temporary queue alone; `None`: use the open table
    /// of the ring.
    pub(crate) own: Option<BodyTable>,
    segment: Option<(Address, Segment)>,
    table: Option<BodyTable>,
}

/// Result of one step of the request for an open segment (message batch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The caller has to execute this action next.
    Asks(ShardAction),
    /// This segment (message batch) is open for new messages, at this location.
    Open(Segment, Live),
    /// The shard has the maximum number of segments (message batches).
    Full,
    /// The queue of the shard was deleted.
    NoQueue,
    /// The shard's manifest lists a segment (message batch) or a body table that is gone.
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

    /// Returns the action that asks the shard's manifest (list of live segments) for an open
    /// segment, after the command `before`.
    pub(crate) fn asks(&self, before: Option<HeadCommand>) -> ShardAction {
        let open = HeadCommand::Open {
            reach: self.reach,
            tenure: self.tenure,
            table: self.own,
        };
        ShardAction::Head(before.into_iter().chain([open]).collect())
    }

    /// Evaluates the response of the shard's manifest (list of live segments), and returns the
    /// result.
    pub(crate) fn hears(&self, response: HeadResponse) -> Entered {
        match response {
            HeadResponse::Open(segment, live) if self.is_gone(self.address, segment, live) => {
                Entered::Damaged
            }
            HeadResponse::Open(segment, live) => Entered::Open(segment, live),
            HeadResponse::Full => Entered::Full,
            HeadResponse::NoQueue => Entered::NoQueue,
            HeadResponse::Absent | HeadResponse::OldRing => Entered::Asks(ShardAction::ReadRing),
            HeadResponse::Done | HeadResponse::NotYet | HeadResponse::Moved => Entered::Asks(self.asks(None)),
        }
    }

    /// Records that the segment (message batch) is gone: the versioned cell of its log now belongs
    /// to another segment.
    pub(crate) fn misses_segment(&mut self, address: Address, segment: Segment) {
        self.segment = Some((address, segment));
    }

    /// Records that this table for message bodies was dropped.
    pub(crate) fn misses_table(&mut self, table: BodyTable) {
        self.table = Some(table);
    }

    /// Returns whether a manifest lists a segment or body table that was found to be gone before
    /// the manifest was read.
    pub(crate) fn is_gone(&self, address: Address, segment: Segment, live: Live) -> bool {
        self.segment == Some((address, segment)) || self.table == Some(live.table)
    }
}
