//! Messages on their way into a shard: bodies, then the log, and all again in the next segment where one is sealed.
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

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendEvent {
    /// It can begin, and nothing is known of the head. Otherwise what the copy [has open](crate::queues::Head::open) can be
    /// told at once.
    Begin,
    /// The shard did as it was asked.
    Shard(ShardEvent),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendAction {
    /// Ask this shard.
    Shard(Address, ShardAction),
    /// Tell whoever waits; it is over.
    Answer(SendAnswer),
}

/// What became of the messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendAnswer {
    /// Each stands there, or is a duplicate.
    Sent(Segment, Vec<Placed>),
    /// Nothing was sent: the shard is full.
    Full,
    /// Nothing was sent: the queue was deleted.
    NoQueue,
    /// Nothing was sent: no segment holds as much.
    TooLarge,
    /// They may have been sent: too much time has passed to tell.
    Unknown,
    /// Nothing was sent: the head names a segment that its register has no more, or a table that was dropped. They are not
    /// of one time, as when some were restored and others were not.
    Damaged,
}

/// Messages of one reach, on their way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sending {
    chunk: Chunk,
    entries: Arc<[Entry]>,
    entering: Entering,
    open: Option<(Segment, Live)>,
    protocol: Protocol,
}

/// Which segment takes a message. One with a deduplication id stands with all others that may have the same.
pub fn reach(entry: &Entry) -> Reach {
    let delay = entry.not_before.saturating_sub(entry.sent);
    if delay > FAR_MICROS && entry.deduplication.is_none() {
        Reach::Far
    } else {
        Reach::Near
    }
}

impl Sending {
    /// Of these messages, one at least, all of one [`reach`], to this shard of the queue that has its place by this use,
    /// under a chunk that nothing else has.
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

    /// The same, to a work unit, which has this table to itself.
    #[must_use]
    pub fn in_table(mut self, table: BodyTable) -> Self {
        self.entering.own = Some(table);
        self
    }

    /// What is to be done about what happened.
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
