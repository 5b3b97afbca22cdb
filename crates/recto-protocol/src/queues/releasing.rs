//! Release of a segment: it leaves the list of its shard.
//!
//! ```text
//!  begin ► each source: messages moved from it are resolved there ► purge ► release in the head
//! ```
//!
//! After a failure, [`Begin`](ReleaseEvent::Begin) continues the release: commands that were answered are not
//! sent again.

use crate::queues::head::{HeadAnswer, HeadWish, Live, Settled};
use crate::queues::limits::Protocol;
use crate::queues::log::{Log, Origin};
use crate::queues::names::{Address, Segment, Seq};
use crate::queues::rules::Rule;
use crate::queues::state::{State, StateAnswer, StateWish, Target};

/// Input of the release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReleaseEvent {
    /// Start the release, or continue it after an action failed.
    Begin,
    /// Response of the source's state; its content does not matter. [`Gone`](StateAnswer::Gone) also if the
    /// source's head no longer has the segment.
    Source(StateAnswer),
    /// Response of the segment's own state.
    State(StateAnswer),
    /// Response of the head.
    Head(HeadAnswer),
    /// Entry of the segment in the head; `None`: the segment was released.
    Found(Option<Live>),
}

/// Action that the caller must execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    /// Send a command to the state of a message's source, for a message that was moved to this segment.
    Source(Origin, StateWish),
    /// Send a command to the segment's own state.
    State(StateWish),
    /// Send a command to the segment's head.
    Head(HeadWish),
    /// Read the entry of the segment in the head, with serial consistency.
    Find(Segment),
    /// The release has ended.
    Over(Released),
}

/// Outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The segment is off the list.
    Done,
    /// Not yet: the segment is open, or has unresolved messages. Or a message is leaving, and its move must
    /// complete first.
    NotYet,
    /// The head refers to a segment whose versioned cell now has another segment: they are from different
    /// points in time.
    Damaged,
}

/// Treatment of unresolved messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Purges {
    /// Unresolved messages keep the segment on the list.
    Nothing,
    /// Unresolved messages are resolved, except leaving ones.
    WhatStays,
    /// All unresolved messages are resolved.
    All,
}

/// Task that takes a segment off the list, with all messages resolved or purged. First, it resolves in their
/// sources all messages that were moved into the segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    segment: Segment,
    /// True if another segment now has its versioned cells.
    is_gone: bool,
    /// True if its log is complete.
    is_whole: bool,
    count: Seq,
    resolved: u32,
    has_ids: bool,
    purges: Purges,
    /// Sources that are still to be resolved; taken from the end.
    sources: Vec<(Origin, Target)>,
    protocol: Protocol,
}

impl Releasing {
    /// Creates the release of a segment in the head of this shard, for the case that all its messages are
    /// resolved. The log and the state were read after the head.
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

    /// Creates a release that also resolves all messages except leaving ones, so that they are not received
    /// anymore. Messages that are leaving must complete their moves first.
    pub fn purging(address: Address, segment: Segment, log: &Log, state: &State, protocol: Protocol) -> Self {
        Self {
            purges: Purges::WhatStays,
            ..Self::new(address, segment, log, state, protocol)
        }
    }

    /// Creates a release for a deleted queue, which also resolves leaving messages.
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

    /// Handles an event and returns the next action.
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
