//! Release of a segment: removes the segment from the live segments of its shard.
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

/// Input of [`Releasing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReleaseEvent {
    /// Start the release, or continue it after an action failed.
    Begin,
    /// Response of the state of a source segment; its content does not matter. Report
    /// [`Gone`](StateAnswer::Gone) also if the manifest of the source shard no longer has the segment.
    Source(StateAnswer),
    /// Response of the state of the segment that is being released.
    State(StateAnswer),
    /// Response of the shard's manifest.
    Head(HeadAnswer),
    /// Entry of the segment in the shard's manifest; `None`: the segment was released.
    Found(Option<Live>),
}

/// Action of [`Releasing`] that the caller must execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    /// Send a command to the state of a source segment, from which a message was moved to this segment.
    Source(Origin, StateWish),
    /// Send a command to the state of the segment that is being released.
    State(StateWish),
    /// Send a command to the shard's manifest.
    Head(HeadWish),
    /// Read the entry of the segment in the shard's manifest, with serial consistency.
    Find(Segment),
    /// The release has ended with this outcome.
    Over(Released),
}

/// Outcome of the release of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The segment is not live any more.
    Done,
    /// The segment cannot be released yet: it is open, has unresolved messages, or has a message whose move
    /// to another segment must complete first.
    NotYet,
    /// The shard's manifest refers to a segment whose versioned cell now has another segment: they are from
    /// different points in time.
    Damaged,
}

/// Treatment of unresolved messages during the release of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Purges {
    /// Unresolved messages prevent the release.
    Nothing,
    /// Unresolved messages are resolved, except messages that are being moved.
    WhatStays,
    /// All unresolved messages are resolved.
    All,
}

/// Task that releases a segment when all its messages are resolved or purged. Before that, the task resolves
/// the source of each message that was moved into the segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    segment: Segment,
    /// True if the versioned cells of the segment now belong to another segment.
    is_gone: bool,
    /// True if the log of the segment is complete.
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
    /// Creates the release of a segment that the manifest of this shard lists. The release succeeds only if
    /// all messages are resolved. The caller has read the log and the state after the manifest.
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

    /// Creates a release that also resolves all messages except leaving messages, so that no receiver gets
    /// them anymore. Messages that are leaving must complete their moves first.
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
