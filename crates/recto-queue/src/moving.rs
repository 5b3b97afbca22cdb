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

use crate::head::{HeadAnswer, HeadWish, Live, Reach};
use crate::limits::Protocol;
use crate::log::{Entry, Log, LogAnswer, LogWish, Origin, Placed};
use crate::names::{Chunk, ClaimId, Place, Segment, Seq, Shard};
use crate::rules::Rule;
use crate::state::{StateAnswer, StateWish, Target};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MoveEvent {
    /// It can begin.
    Begin,
    /// The target's head answered the last of its wishes; the ring was read since, serially, if that is asked for.
    Head(HeadAnswer),
    /// The source's state answered; [`Gone`](StateAnswer::Gone) too if its head has the segment no more.
    Source(StateAnswer),
    /// What the target's head says of the segment, serially; none: it was released.
    Found(Option<Live>),
    /// The bodies are written.
    Written,
    /// The target's log answered.
    Log(LogAnswer),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MoveAction {
    /// Ask the target's head these, in one round.
    Head(Vec<HeadWish>),
    /// Ask the source's state.
    Source(StateWish),
    /// Read the target's head, serially.
    Find(Segment),
    /// Write the message's body, plainly, until it is written.
    Write {
        /// Where.
        live: Live,
        /// Of this segment.
        segment: Segment,
        /// By this name.
        chunk: Chunk,
    },
    /// Ask the log of the target's register.
    Log {
        /// Where.
        live: Live,
        /// Which segment.
        segment: Segment,
        /// What.
        wish: LogWish,
    },
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
    /// The target's head names a segment that its register has no more: they are not of one time. A mark stays.
    Damaged,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Move {
    seq: Seq,
    claim: Option<ClaimId>,
    to: (Place, Shard),
    chunk: Chunk,
    entry: Entry,
    /// Where it is marked as leaving to, as far as is known.
    mark: Option<Target>,
    live: Option<Live>,
    /// What the log said is gone: a head that was read since does not have it.
    gone: Option<Segment>,
    protocol: Protocol,
}

impl Move {
    /// Of the message there, which was received by this claim, if it was, to this shard, as this entry, under a chunk that
    /// nothing else has.
    pub fn new(
        origin: Origin,
        claim: Option<ClaimId>,
        to: (Place, Shard),
        chunk: Chunk,
        entry: Entry,
        protocol: Protocol,
    ) -> Self {
        Self {
            seq: origin.seq,
            claim,
            to,
            chunk,
            entry: Entry {
                index: 0,
                // Where it was it has that already, and would be its own duplicate.
                deduplication: None,
                origin: Some(origin),
                ..entry
            },
            mark: None,
            live: None,
            gone: None,
            protocol,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: MoveEvent) -> MoveAction {
        match event {
            MoveEvent::Head(HeadAnswer::Open(segment, live)) => self.opened(segment, live),
            MoveEvent::Head(HeadAnswer::Full) => MoveAction::Over(Moved::Full),
            MoveEvent::Head(HeadAnswer::Absent) => open(Some(HeadWish::Fence)),
            MoveEvent::Begin | MoveEvent::Head(_) => open(None),
            MoveEvent::Source(answer) => self.marked(answer),
            MoveEvent::Found(live) => self.found(live),
            MoveEvent::Written => self.append(),
            MoveEvent::Log(answer) => self.logged(answer),
        }
    }

    fn opened(&mut self, segment: Segment, live: Live) -> MoveAction {
        if self.gone == Some(segment) {
            return MoveAction::Over(Moved::Damaged);
        }
        let target = self.target(segment);
        if self.protocol.rules.keeps(Rule::MarkedFirst) {
            return self.marks(target);
        }
        self.mark = Some(target);
        self.found(Some(live))
    }

    fn target(&self, segment: Segment) -> Target {
        let (place, shard) = self.to;
        Target {
            place,
            shard,
            segment,
            chunk: self.chunk,
        }
    }

    fn marks(&self, target: Target) -> MoveAction {
        let (seq, claim) = (self.seq, self.claim);
        MoveAction::Source(match self.mark {
            None => StateWish::Leave { seq, claim, target },
            Some(from) => StateWish::Redirect { seq, from, target },
        })
    }

    fn marked(&mut self, answer: StateAnswer) -> MoveAction {
        match answer {
            StateAnswer::Leaving(mark) => {
                let is_new = self.mark.is_none() && mark.chunk != self.chunk;
                self.mark = Some(mark);
                if is_new && !self.protocol.rules.keeps(Rule::RedirectedFromSealed) {
                    return open(None);
                }
                MoveAction::Find(mark.segment)
            }
            StateAnswer::Done | StateAnswer::Gone => MoveAction::Over(Moved::Done),
            StateAnswer::Stale | StateAnswer::Full | StateAnswer::Claimed(_) => {
                MoveAction::Over(Moved::NotNow)
            }
        }
    }

    fn found(&mut self, live: Option<Live>) -> MoveAction {
        self.live = live;
        match (live, self.mark) {
            (Some(_), Some(mark)) if self.gone == Some(mark.segment) => MoveAction::Over(Moved::Damaged),
            (Some(live), Some(mark)) => MoveAction::Write {
                live,
                segment: mark.segment,
                chunk: mark.chunk,
            },
            _ => open(None),
        }
    }

    fn append(&self) -> MoveAction {
        let (Some(live), Some(mark)) = (self.live, self.mark) else {
            return open(None);
        };
        MoveAction::Log {
            live,
            segment: mark.segment,
            wish: LogWish::Append {
                chunk: mark.chunk,
                entries: [self.entry].into(),
            },
        }
    }

    fn logged(&mut self, answer: LogAnswer) -> MoveAction {
        let Some(mark) = self.mark else {
            return open(None);
        };
        let segment = mark.segment;
        match answer {
            LogAnswer::Appended(placed) => {
                if !matches!(placed[..], [Placed::At(_)]) {
                    return MoveAction::Over(Moved::NotNow);
                }
                let (seq, target) = (self.seq, mark);
                if self.protocol.rules.keeps(Rule::MarkedFirst) {
                    MoveAction::Source(StateWish::Left { seq, target })
                } else {
                    self.mark = None;
                    self.marks(target)
                }
            }
            LogAnswer::Sealed(count) => open(Some(HeadWish::Sealed { segment, count })),
            // Whether it was appended shows at the source: its segment was not released before that was resolved.
            LogAnswer::Gone | LogAnswer::Unknown => {
                self.gone = Some(segment);
                open(None)
            }
            LogAnswer::TooLarge => MoveAction::Over(Moved::Full),
        }
    }
}

/// Asks for an open segment, after what is to be said before.
fn open(before: Option<HeadWish>) -> MoveAction {
    let wishes = before.into_iter().chain([HeadWish::Open(Reach::Near)]);
    MoveAction::Head(wishes.collect())
}

/// What is to be done to release a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    /// Ask the state of a message that was moved here, where it was; it is no matter what that answers.
    Source(Origin, StateWish),
    /// Ask the segment's head. Then it is over.
    Head(HeadWish),
}

/// A segment leaves the list, done with or purged, when whatever was moved here is resolved where it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    last: HeadWish,
    /// The last one first.
    sources: Vec<(Origin, Target)>,
}

impl Releasing {
    /// Of a segment of this shard, whose log is sealed, and so many of whose messages are resolved.
    pub fn new(here: (Place, Shard), log: &Log, resolved: u32, protocol: Protocol) -> Self {
        let segment = log.segment;
        Self::ending(HeadWish::Release { segment, resolved }, here, log, protocol)
    }

    /// Of a segment of this shard, whose log is sealed, whatever its messages are.
    pub fn purging(here: (Place, Shard), log: &Log, protocol: Protocol) -> Self {
        Self::ending(HeadWish::Purge(log.segment), here, log, protocol)
    }

    fn ending(last: HeadWish, here: (Place, Shard), log: &Log, protocol: Protocol) -> Self {
        let (place, shard) = here;
        let segment = log.segment;
        let source = |(_, chunk, entry): (Seq, Chunk, &Entry)| {
            let target = Target {
                place,
                shard,
                segment,
                chunk,
            };
            Some((entry.origin?, target))
        };
        let is_settled = protocol.rules.keeps(Rule::OriginsSettledFirst);
        Self {
            last,
            sources: log.messages().filter_map(source).filter(|_| is_settled).collect(),
        }
    }

    /// What is to be done first; and then, each time that is answered.
    pub fn step(&mut self) -> ReleaseAction {
        let last = ReleaseAction::Head(self.last);
        self.sources.pop().map_or(last, |(origin, target)| {
            let seq = origin.seq;
            ReleaseAction::Source(origin, StateWish::Left { seq, target })
        })
    }
}
