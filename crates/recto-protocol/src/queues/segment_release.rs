//! Release of a segment (batch of consecutive messages): removes the segment from the manifest of
//! its shard.
//!
//! ```text
//!  begin ► each source: messages moved from it are resolved there ► purge ► release in the head
//! ```
//!
//! After a failed action, [`Begin`](ReleaseEvent::Begin) continues the release without repeating
//! commands that were answered.

use crate::queues::claims::{State, StateCommand, StateResponse, Target};
use crate::queues::limits::Protocol;
use crate::queues::log::{Log, Origin};
use crate::queues::names::{Address, Segment, Seq};
use crate::queues::rules::Rule;
use crate::queues::shard_manifest::{HeadCommand, HeadResponse, Live, Settled};

/// Event that the caller reports to [`Releasing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReleaseEvent {
    /// The caller starts the release, or continues it after an action failed.
    Begin,
    /// Any response of the state of a source segment, from which a message was moved. Report
    /// [`Gone`](StateResponse::Gone) also if the manifest of the source shard no longer lists the
    /// source segment.
    Source(StateResponse),
    /// Response of the state of the segment (message batch) that is being released.
    State(StateResponse),
    /// Response of the shard's manifest (list of live segments).
    Head(HeadResponse),
    /// Entry of the segment in the shard's manifest (list of live segments); `None`: the segment
    /// was released.
    Found(Option<Live>),
}

/// Action that the caller of [`Releasing`] executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    /// Send a command to the state of a source segment, from which a message was moved to the
    /// segment that is being released.
    Source(Origin, StateCommand),
    /// Send a command to the state of the segment (message batch) that is being released.
    State(StateCommand),
    /// Send a command to the shard's manifest (list of live segments).
    Head(HeadCommand),
    /// Read the segment's entry in the shard's manifest (list of live segments), with serial
    /// consistency.
    Find(Segment),
    /// The release has ended with this outcome.
    Over(Released),
}

/// Outcome of the release of a segment (batch of messages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The segment is released: the manifest (list of live segments) does not list it.
    Done,
    /// The segment cannot be released yet: it is open, has unresolved messages, or has a message
    /// that is being moved to another segment.
    NotYet,
    /// The shard's manifest lists the segment, but its cells belong to another segment. The two are
    /// from different times, as after a partial restore.
    Damaged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Purges {
    /// Unresolved messages prevent the release.
    Nothing,
    /// Unresolved messages are resolved, except those that are being moved.
    WhatStays,
    /// All unresolved messages are resolved.
    All,
}

/// State machine that releases a segment when all of its messages are resolved or purged. First, it
/// resolves messages that were moved into the segment in the segments from which they came.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    segment: Segment,
    /// True if a later segment already uses a cell in which this segment stored its log or its
    /// state, so this segment was released before. The release then only checks that the manifest
    /// no longer lists this segment.
    is_gone: bool,
    /// True if the log of the segment (message batch) is sealed, so that it lists all messages.
    is_whole: bool,
    count: Seq,
    resolved: u32,
    has_ids: bool,
    purges: Purges,
    /// Messages in source segments (message batches) that are still to be resolved, in reverse
    /// order.
    sources: Vec<(Origin, Target)>,
    protocol: Protocol,
}

impl Releasing {
    /// Creates the release of a segment that the manifest of this shard lists. It succeeds only if
    /// all messages are resolved. The caller must read `log` and `state` after the manifest.
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

    /// Creates a release that first resolves all messages, so that no receiver gets them. Messages
    /// that are being moved prevent it until they have arrived elsewhere.
    pub fn purging(address: Address, segment: Segment, log: &Log, state: &State, protocol: Protocol) -> Self {
        Self {
            purges: Purges::WhatStays,
            ..Self::new(address, segment, log, state, protocol)
        }
    }

    /// Creates a release for a deleted queue, which first resolves all messages, even those that
    /// are being moved.
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

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: ReleaseEvent) -> ReleaseAction {
        match event {
            ReleaseEvent::Begin => {}
            ReleaseEvent::Source(_) => {
                self.sources.pop();
            }
            ReleaseEvent::State(StateResponse::Gone) => self.is_gone = true,
            ReleaseEvent::State(StateResponse::Leaving(..)) => return ReleaseAction::Over(Released::NotYet),
            ReleaseEvent::State(_) => self.resolved = u32::from(self.count),
            ReleaseEvent::Head(HeadResponse::Done) | ReleaseEvent::Found(None) => {
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
            return ReleaseAction::Source(*origin, StateCommand::Left { seq, target });
        }
        if !is_resolved {
            let count = self.count;
            return ReleaseAction::State(match self.purges {
                Purges::All => StateCommand::Clear { count },
                _ => StateCommand::Purge { count },
            });
        }
        ReleaseAction::Head(HeadCommand::Release(Settled {
            segment: self.segment,
            resolved: self.resolved,
            has_ids: self.has_ids,
        }))
    }
}
