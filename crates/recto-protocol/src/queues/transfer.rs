//! Move of a message to another segment (batch of messages) of the same queue or another queue.
//! Dead-lettering, its reverse (redrive), and segment merging use it.
//!
//! ```text
//!  begin ► open target ► mark the source as leaving there ► bodies ► append ─┬─ appended ► resolve the source
//!             ▲                      ▲    │                                  │
//!             │                      └────┴─ marked by another: go on there  │
//!             └───────────────── sealed without it, or released ◄────────────┘
//! ```
//!
//! Before the move, a mark with the target is stored in the source segment. Any process that finds
//! a mark continues the move. A conditional write changes the target only if the marked segment did
//! not take the message and can no longer take it. A segment is released only after all messages
//! that were moved there are resolved in their sources. So if the target is released, either it did
//! not take the message, or the source is resolved.

use crate::queues::append::{Entered, Entering, ShardAction, ShardEvent};
use crate::queues::claims::{StateCommand, StateResponse, Target};
use crate::queues::limits::Protocol;
use crate::queues::log::{Entry, LogCommand, LogResponse, Origin, Placed};
use crate::queues::names::{Address, BodyTable, Chunk, ClaimId, Segment, Tenure};
use crate::queues::rules::Rule;
use crate::queues::shard_manifest::{HeadCommand, Live, Reach};

/// Event that the caller reports to [`Moving`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MoveEvent {
    /// Start the move.
    Begin,
    /// Response of the state of the source segment. Report [`Gone`](StateResponse::Gone) also if the
    /// manifest of the source shard no longer lists the segment.
    Source(StateResponse),
    /// Event in the target shard.
    Shard(ShardEvent),
}

/// Action that the caller of [`Moving`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MoveAction {
    /// Send a command to the state of the source segment (message batch), which contains the
    /// message.
    Source(Origin, StateCommand),
    /// Execute an action in this shard: the requested target, or the target that another process
    /// has marked.
    Shard(Address, ShardAction),
    /// The move has ended with this outcome.
    Over(Moved),
}

/// Outcome of moving a message to another segment (message batch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moved {
    /// The message is in its target, and resolved in its source.
    Done,
    /// The message was resolved in its source before this process appended it to the target: it had been
    /// moved, acknowledged or removed.
    AlreadyResolved,
    /// The message was not moved. A receiver has it, its segment has the maximum number of pending messages,
    /// the target did not append it, or another process moves it to a different kind of target.
    NotNow,
    /// The target shard is full. A mark in the source segment stays, so that the move can be
    /// continued.
    Full,
    /// The target queue was deleted. A mark in the source segment stays, so that the message can be
    /// moved to another queue.
    NoQueue,
    /// The manifest of the target shard lists a segment whose cell belongs to another segment, or
    /// whose body table was dropped. The two are from different times, as after a partial restore.
    /// A mark in the source segment stays.
    Damaged,
}

/// State machine that moves one message to another segment (message batch).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Moving {
    origin: Origin,
    claim: Option<ClaimId>,
    chunk: Chunk,
    entry: Entry,
    entering: Entering,
    /// Target that the source segment records for the message; `None`: this process has not read a
    /// mark.
    mark: Option<Target>,
    live: Option<Live>,
    /// True if the target segment has the message.
    is_appended: bool,
    /// True if the message stays in its shard.
    goes_on: bool,
    protocol: Protocol,
}

impl Moving {
    /// Creates the move of the message at `origin` to the shard `to`, given with the epoch (use of
    /// its slot by one queue). `claim` is the claim by which the message was received; `None`: it
    /// was not. `chunk` is a new random id for its body. `entry` is its entry in the log.
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
                // Leave out the deduplication id. The source segment still has it, so the moved
                // message would be rejected as a duplicate of itself.
                deduplication: None,
                origin: Some(origin),
                // In another queue, the number of receives starts from 0. For a move within the
                // shard, `marked` sets it.
                received: None,
                ..entry
            },
            entering: Entering::new(to.0, to.1, Reach::Near),
            mark: None,
            live: None,
            is_appended: false,
            goes_on: false,
            protocol,
        }
    }

    /// Directs the move to a later segment of the same shard, for messages of this kind. The
    /// message keeps its number of receives, and the time from which it can be received. Allowed
    /// only if no receiver has the message.
    #[must_use]
    pub fn on(mut self, reach: Reach) -> Self {
        self.goes_on = true;
        self.entering.reach = reach;
        self
    }

    /// Directs the move to a temporary queue, which alone uses this table for message bodies.
    #[must_use]
    pub fn in_table(mut self, table: BodyTable) -> Self {
        self.entering.own = Some(table);
        self
    }

    /// Returns the shard to which the message is moved.
    pub fn address(&self) -> Address {
        self.entering.address
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: MoveEvent) -> MoveAction {
        match event {
            MoveEvent::Begin => self.asks_head(None),
            MoveEvent::Source(response) => self.marked(response),
            MoveEvent::Shard(ShardEvent::Head(response)) => match self.entering.hears(response) {
                Entered::Asks(action) => MoveAction::Shard(self.entering.address, action),
                Entered::Open(segment, live) => self.opened(segment, live),
                Entered::Full => MoveAction::Over(Moved::Full),
                Entered::NoQueue => MoveAction::Over(Moved::NoQueue),
                Entered::Damaged => MoveAction::Over(Moved::Damaged),
            },
            MoveEvent::Shard(ShardEvent::Ring(ring)) => self.asks_head(Some(HeadCommand::Fence(ring))),
            MoveEvent::Shard(ShardEvent::Found(live)) => self.found(live),
            MoveEvent::Shard(ShardEvent::Written) => self.append(),
            MoveEvent::Shard(ShardEvent::TableGone) => self.finds_again(),
            MoveEvent::Shard(ShardEvent::Log(response)) => self.logged(response),
        }
    }

    /// Asks the target shard's manifest (list of live segments) for an open segment, after sending
    /// it the command `before`.
    fn asks_head(&self, before: Option<HeadCommand>) -> MoveAction {
        MoveAction::Shard(self.entering.address, self.entering.asks(before))
    }

    /// Executes an action in the shard of the marked target, even if another process chose that
    /// target.
    fn asks(&self, mark: Target, action: ShardAction) -> MoveAction {
        let address = if self.protocol.rules.keeps(Rule::AskedWhereMarked) {
            mark.address
        } else {
            self.entering.address
        };
        MoveAction::Shard(address, action)
    }

    fn asks_source(&self, command: StateCommand) -> MoveAction {
        MoveAction::Source(self.origin, command)
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
            None if self.goes_on => StateCommand::MoveOn { seq, target },
            None => StateCommand::Leave { seq, claim, target },
            Some(from) => StateCommand::Redirect { seq, from, target },
        })
    }

    fn marked(&mut self, response: StateResponse) -> MoveAction {
        match response {
            // Another process has begun the other kind of move (within the shard, or to another
            // queue). Leave the message to that process.
            StateResponse::Leaving(mark, _) if !self.means(mark) => MoveAction::Over(Moved::NotNow),
            StateResponse::Leaving(mark, received) => {
                self.entry.received = received.filter(|_| self.goes_on);
                let is_new = self.mark.is_none() && mark.chunk != self.chunk;
                self.mark = Some(mark);
                if is_new && !self.protocol.rules.keeps(Rule::RedirectedFromSealed) {
                    return self.asks_head(None);
                }
                self.asks(mark, ShardAction::Find(mark.segment))
            }
            StateResponse::Done | StateResponse::Gone if self.is_appended => MoveAction::Over(Moved::Done),
            StateResponse::Done | StateResponse::Gone => MoveAction::Over(Moved::AlreadyResolved),
            StateResponse::Stale
            | StateResponse::NoMessage
            | StateResponse::Full
            | StateResponse::Claimed(_) => MoveAction::Over(Moved::NotNow),
        }
    }

    /// Returns whether a mark belongs to the same kind of move as this one: within the shard, or to
    /// another queue.
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

    /// Reads the segment's entry in the manifest again after its table for message bodies was
    /// dropped: the segment has another table now, or was released.
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
        let command = LogCommand::Append { chunk, entries };
        self.asks(
            mark,
            ShardAction::Log {
                live,
                segment,
                command,
            },
        )
    }

    fn logged(&mut self, response: LogResponse) -> MoveAction {
        let Some(mark) = self.mark else {
            return self.asks_head(None);
        };
        let (segment, address) = (mark.segment, self.entering.address);
        match response {
            LogResponse::Appended(placed) => {
                if !matches!(placed[..], [Placed::At(_)]) {
                    return MoveAction::Over(Moved::NotNow);
                }
                self.is_appended = true;
                let (seq, target) = (self.origin.seq, mark);
                if self.protocol.rules.keeps(Rule::MarkedFirst) {
                    self.asks_source(StateCommand::Left { seq, target })
                } else {
                    self.mark = None;
                    self.marks(target)
                }
            }
            // If the target is the shard to which this process moves the message, record in its
            // manifest that the segment is sealed. In any other shard, the senders of that shard
            // record it.
            LogResponse::Sealed(count) => {
                let sealed = HeadCommand::Sealed { segment, count };
                self.asks_head((mark.address == address).then_some(sealed))
            }
            // The target segment was released, so ask for another one. It was released only after
            // its messages were resolved in their sources. If it took the message, the source
            // segment will respond that the message is resolved.
            LogResponse::Gone | LogResponse::Unknown => {
                self.entering.misses_segment(mark.address, segment);
                self.asks_head(None)
            }
            LogResponse::TooLarge => MoveAction::Over(Moved::Full),
        }
    }
}
