//! A segment leaves the list of its shard.
//!
//! ```text
//!  begin ► each source: what was moved here is resolved where it was ► purge ► release in the head
//! ```
//!
//! Whatever fails is done again by [beginning](ReleaseEvent::Begin) again: what was answered is not asked once more.

use crate::queues::head::{HeadAnswer, HeadWish, Live, Settled};
use crate::queues::limits::Protocol;
use crate::queues::log::{Log, Origin};
use crate::queues::names::{Address, Segment, Seq};
use crate::queues::rules::Rule;
use crate::queues::state::{State, StateAnswer, StateWish, Target};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReleaseEvent {
    /// It can begin; or what was to be done failed, and it goes on.
    Begin,
    /// The source's state answered; it is no matter what. [`Gone`](StateAnswer::Gone) too if its head has the segment no
    /// more.
    Source(StateAnswer),
    /// The segment's own state answered.
    State(StateAnswer),
    /// The head answered.
    Head(HeadAnswer),
    /// What the head says of the segment; none: it was released.
    Found(Option<Live>),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    /// Ask the state of a message that was moved here, where it was.
    Source(Origin, StateWish),
    /// Ask the segment's own state.
    State(StateWish),
    /// Ask the segment's head.
    Head(HeadWish),
    /// Read what the head says of the segment, serially.
    Find(Segment),
    /// It is over.
    Over(Released),
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The segment is off the list.
    Done,
    /// Not yet: it is open, or not all of it is done with; or something leaves that is to be gone on with first.
    NotYet,
    /// The head names a segment that its register has no more: they are not of one time.
    Damaged,
}

/// What becomes of messages that are not done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Purges {
    /// They keep the segment on the list.
    Nothing,
    /// They are done with, if they do not leave.
    WhatStays,
    /// They are done with.
    All,
}

/// A segment leaves the list, done with or purged, when whatever was moved here is resolved where it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    segment: Segment,
    /// Whether its registers are another segment's by now.
    is_gone: bool,
    /// Whether its log says all that it ever will.
    is_whole: bool,
    count: Seq,
    resolved: u32,
    has_ids: bool,
    purges: Purges,
    /// The last one first.
    sources: Vec<(Origin, Target)>,
    protocol: Protocol,
}

impl Releasing {
    /// Of a segment that the head of this shard has, if all of it is done with, by its log and state as they were read since.
    pub fn new(address: Address, segment: Segment, log: &Log, state: &State, protocol: Protocol) -> Self {
        let sources = log.messages().filter_map(|(_, chunk, entry)| {
            let target = Target {
                address,
                segment,
                chunk,
            };
            Some((entry.origin?, target))
        });
        let is_settled = protocol.rules.keeps(Rule::OriginsSettledFirst);
        Self {
            segment,
            is_gone: log.segment > segment || state.segment > segment,
            is_whole: log.segment == segment && log.is_sealed,
            count: log.next(),
            resolved: if state.segment == segment {
                state.resolved.count()
            } else {
                0
            },
            has_ids: log.fingerprints().next().is_some(),
            purges: Purges::Nothing,
            sources: sources.filter(|_| is_settled).collect(),
            protocol,
        }
    }

    /// The same, whatever its messages are: none of them is received any more. One that leaves is gone on with first.
    pub fn purging(address: Address, segment: Segment, log: &Log, state: &State, protocol: Protocol) -> Self {
        Self {
            purges: Purges::WhatStays,
            ..Self::new(address, segment, log, state, protocol)
        }
    }

    /// The same, of a queue that was deleted: what leaves is done with, too.
    pub fn clearing(
        address: Address,
        segment: Segment,
        log: &Log,
        state: &State,
        protocol: Protocol,
    ) -> Self {
        Self {
            purges: Purges::All,
            ..Self::new(address, segment, log, state, protocol)
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: ReleaseEvent) -> ReleaseAction {
        match event {
            ReleaseEvent::Begin => {}
            ReleaseEvent::Source(_) => {
                self.sources.pop();
            }
            ReleaseEvent::State(StateAnswer::Gone) => self.is_gone = true,
            ReleaseEvent::State(StateAnswer::Leaving(..)) => return ReleaseAction::Over(Released::NotYet),
            ReleaseEvent::State(_) => self.resolved = u32::from(self.count),
            ReleaseEvent::Head(HeadAnswer::Done) | ReleaseEvent::Found(None) => {
                return ReleaseAction::Over(Released::Done);
            }
            ReleaseEvent::Head(_) => return ReleaseAction::Over(Released::NotYet),
            ReleaseEvent::Found(Some(_)) => return ReleaseAction::Over(Released::Damaged),
        }
        self.goes_on()
    }

    fn goes_on(&self) -> ReleaseAction {
        let rules = self.protocol.rules;
        let is_resolved = self.resolved == u32::from(self.count) || !rules.keeps(Rule::ReleaseOnlyResolved);
        if self.is_gone {
            return ReleaseAction::Find(self.segment);
        }
        let may = (self.is_whole || !rules.keeps(Rule::ReleaseOnlySealed))
            && (is_resolved || self.purges != Purges::Nothing);
        if !may {
            return ReleaseAction::Over(Released::NotYet);
        }
        if let Some((origin, target)) = self.sources.last() {
            let (seq, target) = (origin.seq, *target);
            return ReleaseAction::Source(*origin, StateWish::Left { seq, target });
        }
        if !is_resolved {
            let count = self.count;
            return ReleaseAction::State(match self.purges {
                Purges::All => StateWish::Clear { count },
                _ => StateWish::Purge { count },
            });
        }
        ReleaseAction::Head(HeadWish::Release(Settled {
            segment: self.segment,
            resolved: self.resolved,
            has_ids: self.has_ids,
        }))
    }
}
