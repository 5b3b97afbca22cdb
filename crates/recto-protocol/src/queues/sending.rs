//! Sends messages into a shard: writes the bodies, then appends to the log. If the segment is sealed, both
//! steps are repeated in the next segment.
//!
//! ```text
//!  begin ► open segment ► bodies ► append ─┬─ appended ► answer
//!             ▲                │           │
//!             │                └ no table ►│
//!             └── recorded in the head ◄───┴─ sealed, or released
//! ```

use std::sync::Arc;

use crate::queues::entering::{Entered, Entering, ShardAction, ShardEvent};
use crate::queues::head::{HeadWish, Live, Reach};
use crate::queues::limits::{FAR_MICROS, Protocol};
use crate::queues::log::{Entry, LogAnswer, LogWish, Placed};
use crate::queues::names::{Address, BodyTable, Chunk, Segment, Tenure};
use crate::queues::rules::Rule;

/// Input of [`Sending`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendEvent {
    /// Start without a known manifest. If a copy of the manifest has an [open
    /// segment](crate::queues::Head::open), the caller can report that segment as a `Shard` event instead.
    Begin,
    /// Result of an action in the shard.
    Shard(ShardEvent),
}

/// Action of [`Sending`] that the caller must execute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendAction {
    /// Execute an action in this shard.
    Shard(Address, ShardAction),
    /// Give the result to the caller that waits; sending has ended.
    Answer(SendAnswer),
}

/// Result of sending messages into a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendAnswer {
    /// The messages were sent into this segment. Each message is at the given position, or is a duplicate.
    Sent(Segment, Vec<Placed>),
    /// Nothing was sent: the shard is full.
    Full,
    /// Nothing was sent: the queue was deleted.
    NoQueue,
    /// Nothing was sent: the messages are larger than a segment can hold.
    TooLarge,
    /// It is unknown whether the messages were sent, because too much time has passed.
    Unknown,
    /// Nothing was sent. The shard's manifest refers to a segment whose versioned cell now has another
    /// segment, or to a dropped table. They are from different points in time, for example after a partial
    /// restore.
    Damaged,
}

/// State machine that sends messages of the same [`Reach`] into a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sending {
    chunk: Chunk,
    entries: Arc<[Entry]>,
    entering: Entering,
    open: Option<(Segment, Live)>,
    protocol: Protocol,
}

/// Returns the kind of segment that takes a message. Messages with a deduplication id go to `Near` segments,
/// so that all messages that may have the same id are together.
pub fn reach(entry: &Entry) -> Reach {
    let delay = entry.not_before.saturating_sub(entry.sent);
    if delay > FAR_MICROS && entry.deduplication.is_none() {
        Reach::Far
    } else {
        Reach::Near
    }
}

impl Sending {
    /// Creates the sending of one or more messages, which all have this [`reach`]. The target is a shard of a
    /// queue, given with the epoch of the queue's slot. `chunk` must be unique.
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

    /// Directs the messages to a temporary queue. The body table has no bodies of other queues.
    #[must_use]
    pub fn in_table(mut self, table: BodyTable) -> Self {
        self.entering.own = Some(table);
        self
    }

    /// Handles an event and returns the next action.
    pub fn step(&mut self, event: SendEvent) -> SendAction {
        match (event, self.open) {
            (SendEvent::Shard(ShardEvent::Head(answer)), _) => match self.entering.hears(answer) {
                Entered::Asks(action) => self.asks(action),
                Entered::Open(segment, live) => self.opened(segment, live),
                Entered::Full => SendAction::Answer(SendAnswer::Full),
                Entered::NoQueue => SendAction::Answer(SendAnswer::NoQueue),
                Entered::Damaged => SendAction::Answer(SendAnswer::Damaged),
            },
            (SendEvent::Shard(ShardEvent::Ring(ring)), _) => self.asks_head(Some(HeadWish::Fence(ring))),
            (SendEvent::Shard(ShardEvent::Written), Some((segment, live))) => self.append(segment, live),
            (SendEvent::Shard(ShardEvent::TableGone), Some((_, live))) => {
                self.entering.misses_table(live.table);
                self.asks_head(None)
            }
            (SendEvent::Shard(ShardEvent::Log(answer)), Some((segment, _))) => self.logged(segment, answer),
            (SendEvent::Begin | SendEvent::Shard(_), _) => self.asks_head(None),
        }
    }

    fn asks(&self, action: ShardAction) -> SendAction {
        SendAction::Shard(self.entering.address, action)
    }

    fn asks_head(&mut self, before: Option<HeadWish>) -> SendAction {
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
        let wish = LogWish::Append {
            chunk: self.chunk,
            entries: self.entries.clone(),
        };
        self.asks(ShardAction::Log { live, segment, wish })
    }

    fn logged(&mut self, segment: Segment, answer: LogAnswer) -> SendAction {
        SendAction::Answer(match answer {
            LogAnswer::Appended(placed) => SendAnswer::Sent(segment, placed),
            LogAnswer::Sealed(count) => {
                return self.asks_head(Some(HeadWish::Sealed { segment, count }));
            }
            LogAnswer::Gone => {
                self.entering.misses_segment(self.entering.address, segment);
                return self.asks_head(None);
            }
            LogAnswer::TooLarge => SendAnswer::TooLarge,
            LogAnswer::Unknown => SendAnswer::Unknown,
        })
    }
}
