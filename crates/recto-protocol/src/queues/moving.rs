//! A message on its way from one segment to another, of the same queue or of another: dead letters, redrives, stragglers.
//!
//! ```text
//!  begin ► open target ► mark the source as leaving there ► bodies ► append ─┬─ appended ► resolve the source
//!             ▲                      ▲    │                                  │
//!             │                      └────┴─ marked by another: go on there  │
//!             └───────────────── sealed without it, or released ◄────────────┘
//! ```
//!
//! Whoever finds a mark goes on from there. Only when its target can take the message no more, and has not, it is
//! redirected, by a conditional write of the mark; and no segment is released before the sources of what was moved there are
//! resolved, so that a target which is gone has not taken it, or the source is resolved.

use crate::queues::entering::{Entered, Entering, ShardAction, ShardEvent};
use crate::queues::head::{HeadWish, Live, Reach};
use crate::queues::limits::Protocol;
use crate::queues::log::{Entry, LogAnswer, LogWish, Origin, Placed};
use crate::queues::names::{Address, BodyTable, Chunk, ClaimId, Segment, Tenure};
use crate::queues::rules::Rule;
use crate::queues::state::{StateAnswer, StateWish, Target};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MoveEvent {
    /// It can begin.
    Begin,
    /// The source's state answered; [`Gone`](StateAnswer::Gone) too if its head has the segment no more.
    Source(StateAnswer),
    /// The shard that was asked did so.
    Shard(ShardEvent),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MoveAction {
    /// Ask the state of the message, where it was.
    Source(Origin, StateWish),
    /// Ask this shard: where the message is to go, or where another began to move it.
    Shard(Address, ShardAction),
    /// It is over.
    Over(Moved),
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moved {
    /// The message is resolved where it was: it was moved, or was done with before.
    Done,
    /// It is claimed, or as much is pending as may be; or it does not stand where it was moved to, so that it is not resolved.
    NotNow,
    /// The target takes no more. A mark stays, and is gone on from later.
    Full,
    /// The queue where it was to go was deleted. A mark stays, and is gone on from to another.
    NoQueue,
    /// The target's head names a segment that its register has no more, or a table that was dropped: they are not of one
    /// time. A mark stays.
    Damaged,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Moving {
    origin: Origin,
    claim: Option<ClaimId>,
    chunk: Chunk,
    entry: Entry,
    entering: Entering,
    /// Where it is marked as leaving to, as far as is known.
    mark: Option<Target>,
    live: Option<Live>,
    /// Whether it stays in its shard.
    goes_on: bool,
    protocol: Protocol,
}

impl Moving {
    /// Of the message there, which was received by this claim, if it was, to this shard of the queue that has its place
    /// by this use, as this entry, under a chunk that nothing else has.
    pub fn new(
        origin: Origin,
        claim: Option<ClaimId>,
        to: (Address, Tenure),
        chunk: Chunk,
        entry: Entry,
        protocol: Protocol,
    ) -> Self {
        Self {
            origin,
            claim,
            chunk,
            entry: Entry {
                index: 0,
                // Where it was it has that already, and would be its own duplicate.
                deduplication: None,
                origin: Some(origin),
                // Elsewhere it begins anew.
                received: None,
                ..entry
            },
            entering: Entering::new(to.0, to.1, Reach::Near),
            mark: None,
            live: None,
            goes_on: false,
            protocol,
        }
    }

    /// The same, to a later segment of its own shard, which takes such messages: how often it was received, and when it may be again, goes
    /// with it. Only of a message that nobody has.
    #[must_use]
    pub fn on(mut self, reach: Reach) -> Self {
        self.goes_on = true;
        self.entering.reach = reach;
        self
    }

    /// The same, to a work unit, which has this table to itself.
    #[must_use]
    pub fn in_table(mut self, table: BodyTable) -> Self {
        self.entering.own = Some(table);
        self
    }

    /// Where the message is to go.
    pub fn address(&self) -> Address {
        self.entering.address
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: MoveEvent) -> MoveAction {
        match event {
            MoveEvent::Begin => self.asks_head(None),
            MoveEvent::Source(answer) => self.marked(answer),
            MoveEvent::Shard(ShardEvent::Head(answer)) => match self.entering.hears(answer) {
                Entered::Asks(action) => MoveAction::Shard(self.entering.address, action),
                Entered::Open(segment, live) => self.opened(segment, live),
                Entered::Full => MoveAction::Over(Moved::Full),
                Entered::NoQueue => MoveAction::Over(Moved::NoQueue),
                Entered::Damaged => MoveAction::Over(Moved::Damaged),
            },
            MoveEvent::Shard(ShardEvent::Ring(ring)) => self.asks_head(Some(HeadWish::Fence(ring))),
            MoveEvent::Shard(ShardEvent::Found(live)) => self.found(live),
            MoveEvent::Shard(ShardEvent::Written) => self.append(),
            MoveEvent::Shard(ShardEvent::TableGone) => self.finds_again(),
            MoveEvent::Shard(ShardEvent::Log(answer)) => self.logged(answer),
        }
    }

    /// Asks where it is to go for an open segment, after what is to be said there before.
    fn asks_head(&self, before: Option<HeadWish>) -> MoveAction {
        MoveAction::Shard(self.entering.address, self.entering.asks(before))
    }

    /// Asks the shard that a mark names, whoever set it.
    fn asks(&self, mark: Target, action: ShardAction) -> MoveAction {
        let address = if self.protocol.rules.keeps(Rule::AskedWhereMarked) {
            mark.address
        } else {
            self.entering.address
        };
        MoveAction::Shard(address, action)
    }

    fn asks_source(&self, wish: StateWish) -> MoveAction {
        MoveAction::Source(self.origin, wish)
    }

    fn opened(&mut self, segment: Segment, live: Live) -> MoveAction {
        let target = Target {
            address: self.entering.address,
            segment,
            chunk: self.chunk,
        };
        if self.protocol.rules.keeps(Rule::MarkedFirst) {
            return self.marks(target);
        }
        self.mark = Some(target);
        self.found(Some(live))
    }

    fn marks(&self, target: Target) -> MoveAction {
        let (seq, claim) = (self.origin.seq, self.claim);
        self.asks_source(match self.mark {
            None if self.goes_on => StateWish::MoveOn { seq, target },
            None => StateWish::Leave { seq, claim, target },
            Some(from) => StateWish::Redirect { seq, from, target },
        })
    }

    fn marked(&mut self, answer: StateAnswer) -> MoveAction {
        match answer {
            // Whoever began to move it elsewhere, or on, goes on with that as it was meant.
            StateAnswer::Leaving(mark, _) if !self.means(mark) => MoveAction::Over(Moved::NotNow),
            StateAnswer::Leaving(mark, received) => {
                self.entry.received = received.filter(|_| self.goes_on);
                let is_new = self.mark.is_none() && mark.chunk != self.chunk;
                self.mark = Some(mark);
                if is_new && !self.protocol.rules.keeps(Rule::RedirectedFromSealed) {
                    return self.asks_head(None);
                }
                self.asks(mark, ShardAction::Find(mark.segment))
            }
            StateAnswer::Done | StateAnswer::Gone => MoveAction::Over(Moved::Done),
            StateAnswer::Stale | StateAnswer::NoMessage | StateAnswer::Full | StateAnswer::Claimed(_) => {
                MoveAction::Over(Moved::NotNow)
            }
        }
    }

    /// Whether a mark is of one who moves the message like this: within its shard, or to another queue.
    fn means(&self, mark: Target) -> bool {
        let (own, here) = (self.origin.address, self.entering.address);
        self.goes_on == (mark.address == own) || !self.goes_on && here == own
    }

    fn found(&mut self, live: Option<Live>) -> MoveAction {
        self.live = live;
        let (Some(live), Some(mark)) = (live, self.mark) else {
            return self.asks_head(None);
        };
        let (segment, chunk) = (mark.segment, mark.chunk);
        if self.entering.is_gone(mark.address, segment, live) {
            return MoveAction::Over(Moved::Damaged);
        }
        self.asks(mark, ShardAction::Write { live, segment, chunk })
    }

    /// The table was dropped: the segment has another one since, or was released.
    fn finds_again(&mut self) -> MoveAction {
        let (Some(live), Some(mark)) = (self.live, self.mark) else {
            return self.asks_head(None);
        };
        self.entering.misses_table(live.table);
        self.asks(mark, ShardAction::Find(mark.segment))
    }

    fn append(&self) -> MoveAction {
        let (Some(live), Some(mark)) = (self.live, self.mark) else {
            return self.asks_head(None);
        };
        let (segment, chunk) = (mark.segment, mark.chunk);
        let entries = [self.entry].into();
        let wish = LogWish::Append { chunk, entries };
        self.asks(mark, ShardAction::Log { live, segment, wish })
    }

    fn logged(&mut self, answer: LogAnswer) -> MoveAction {
        let Some(mark) = self.mark else {
            return self.asks_head(None);
        };
        let (segment, address) = (mark.segment, self.entering.address);
        match answer {
            LogAnswer::Appended(placed) => {
                if !matches!(placed[..], [Placed::At(_)]) {
                    return MoveAction::Over(Moved::NotNow);
                }
                let (seq, target) = (self.origin.seq, mark);
                if self.protocol.rules.keeps(Rule::MarkedFirst) {
                    self.asks_source(StateWish::Left { seq, target })
                } else {
                    self.mark = None;
                    self.marks(target)
                }
            }
            // Elsewhere it is for who sends there to say so.
            LogAnswer::Sealed(count) => {
                let sealed = HeadWish::Sealed { segment, count };
                self.asks_head((mark.address == address).then_some(sealed))
            }
            // Whether it was appended shows at the source: its segment was not released before that was resolved.
            LogAnswer::Gone | LogAnswer::Unknown => {
                self.entering.misses_segment(mark.address, segment);
                self.asks_head(None)
            }
            LogAnswer::TooLarge => MoveAction::Over(Moved::Full),
        }
    }
}
