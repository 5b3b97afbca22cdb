//! State machine that sends messages into a shard: it writes their bodies, then appends the
//! messages to the log of a segment. If the segment is sealed, it repeats both steps in the next
//! segment.
//!
//! ```text
//!  begin ► open segment ► bodies ► append ─┬─ appended ► answer
//!             ▲                │           │
//!             │                └ no table ►│
//!             └── recorded in the head ◄───┴─ sealed, or released
//! ```

use std::sync::Arc;

use crate::queues::append::{Entered, Entering, ShardAction, ShardEvent};
use crate::queues::limits::{FAR_MICROS, Protocol};
use crate::queues::log::{Entry, LogCommand, LogResponse, Placed};
use crate::queues::names::{Address, BodyTable, Chunk, Segment, Tenure};
use crate::queues::rules::Rule;
use crate::queues::shard_manifest::{HeadCommand, Live, Reach};

/// Event that the caller reports to [`Sending`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendEvent {
    /// The caller starts without a copy of the shard's manifest. With a copy that has an [open
    /// segment](crate::queues::Head::open), the caller reports the segment as a `Shard` event
    /// instead.
    Begin,
    /// Event in the shard.
    Shard(ShardEvent),
}

/// Action that the caller of [`Sending`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendAction {
    /// Execute an action in this shard.
    Shard(Address, ShardAction),
    /// Give this result to the waiting sender. The machine has ended.
    Response(SendResponse),
}

/// Result of sending messages into a shard (part of a queue).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendResponse {
    /// The messages are in this segment. For each, the position in the segment, or the message that
    /// it duplicates.
    Sent(Segment, Vec<Placed>),
    /// No message was sent, because the shard is full.
    Full,
    /// No message was sent, because the queue was deleted.
    NoQueue,
    /// No message was sent, because together the messages are too large for any segment (message
    /// batch).
    TooLarge,
    /// It is unknown whether the messages were sent: another segment uses the log's cell by now.
    Unknown,
    /// No message was sent. The shard's manifest lists a segment whose cell belongs to another
    /// segment, or whose body table was dropped. The two are from different times, as after a
    /// partial restore.
    Damaged,
}

/// State machine that sends messages of one kind ([`Reach`]) into a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sending {
    chunk: Chunk,
    entries: Arc<[Entry]>,
    entering: Entering,
    open: Option<(Segment, Live)>,
    protocol: Protocol,
}

/// Returns the kind of segment that takes a message: `Far` for messages that are due much later.
/// Messages with a deduplication id always go to `Near` segments, so that duplicates are found
/// there.
pub fn reach(entry: &Entry) -> Reach {
    let delay = entry.not_before.saturating_sub(entry.sent);
    if delay > FAR_MICROS && entry.deduplication.is_none() {
        Reach::Far
    } else {
        Reach::Near
    }
}

impl Sending {
    /// Creates the sending of at least one message, all with this [`reach`], to a shard. `tenure`
    /// is the epoch of its slot (use by one queue). `chunk` is a new random id for the bodies.
    pub fn new(
        address: Address,
        tenure: Tenure,
        reach: Reach,
        chunk: Chunk,
        entries: Arc<[Entry]>,
        protocol: Protocol,
    ) -> Self {
        Self {
            chunk,
            entries,
            entering: Entering::new(address, tenure, reach),
            open: None,
            protocol,
        }
    }

    /// Directs the messages to a temporary queue, which alone uses this table for message bodies.
    #[must_use]
    pub fn in_table(mut self, table: BodyTable) -> Self {
        self.entering.own = Some(table);
        self
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: SendEvent) -> SendAction {
        match (event, self.open) {
            (SendEvent::Shard(ShardEvent::Head(response)), _) => match self.entering.hears(response) {
                Entered::Asks(action) => self.asks(action),
                Entered::Open(segment, live) => self.opened(segment, live),
                Entered::Full => SendAction::Response(SendResponse::Full),
                Entered::NoQueue => SendAction::Response(SendResponse::NoQueue),
                Entered::Damaged => SendAction::Response(SendResponse::Damaged),
            },
            (SendEvent::Shard(ShardEvent::Ring(ring)), _) => self.asks_head(Some(HeadCommand::Fence(ring))),
            (SendEvent::Shard(ShardEvent::Written), Some((segment, live))) => self.append(segment, live),
            (SendEvent::Shard(ShardEvent::TableGone), Some((_, live))) => {
                self.entering.misses_table(live.table);
                self.asks_head(None)
            }
            (SendEvent::Shard(ShardEvent::Log(response)), Some((segment, _))) => {
                self.logged(segment, response)
            }
            (SendEvent::Begin | SendEvent::Shard(_), _) => self.asks_head(None),
        }
    }

    fn asks(&self, action: ShardAction) -> SendAction {
        SendAction::Shard(self.entering.address, action)
    }

    fn asks_head(&mut self, before: Option<HeadCommand>) -> SendAction {
        self.open = None;
        self.asks(self.entering.asks(before))
    }

    fn opened(&mut self, segment: Segment, live: Live) -> SendAction {
        self.open = Some((segment, live));
        if !self.protocol.rules.keeps(Rule::BodiesFirst) {
            return self.append(segment, live);
        }
        let chunk = self.chunk;
        self.asks(ShardAction::Write { live, segment, chunk })
    }

    fn append(&self, segment: Segment, live: Live) -> SendAction {
        let command = LogCommand::Append {
            chunk: self.chunk,
            entries: self.entries.clone(),
        };
        self.asks(ShardAction::Log {
            live,
            segment,
            command,
        })
    }

    fn logged(&mut self, segment: Segment, response: LogResponse) -> SendAction {
        SendAction::Response(match response {
            LogResponse::Appended(placed) => SendResponse::Sent(segment, placed),
            LogResponse::Sealed(count) => {
                return self.asks_head(Some(HeadCommand::Sealed { segment, count }));
            }
            LogResponse::Gone => {
                self.entering.misses_segment(self.entering.address, segment);
                return self.asks_head(None);
            }
            LogResponse::TooLarge => SendResponse::TooLarge,
            LogResponse::Unknown => SendResponse::Unknown,
        })
    }
}
