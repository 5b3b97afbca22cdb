//! Removal of segments (batches of consecutive messages) even if their messages are not resolved:
//! purged segments, and all segments of a deleted queue.
//!
//! ```text
//!  a segment:  seal ► told to the head ► its log and state are read ► release, purging
//!  a shard:    the head is closed ─► a segment that is live ─► the next …
//!                                 └► none: over
//! ```
//!
//! When the manifests (lists of live segments) of all shards of a slot are [cleared](Clearing), the
//! caller [informs the registry](crate::queues::RegistryCommand::Cleared), and the next queue can get
//! the slot. No message of the old queue reaches the next queue. A message on its way into a
//! segment finds the segment sealed. A process that requests another segment knows only an older
//! [epoch](Tenure), and the manifest rejects the request.

use crate::queues::claims::{State, StateCommand, StateResponse};
use crate::queues::limits::{LEASE_MARGIN_MICROS, Protocol};
use crate::queues::log::{Log, LogResponse, Origin};
use crate::queues::names::{Address, Micros, Segment, Seq, Tenure};
use crate::queues::rules::Rule;
use crate::queues::segment_release::{ReleaseAction, ReleaseEvent, Released, Releasing};
use crate::queues::shard_manifest::{Head, HeadCommand, HeadResponse, Live, Settled};

/// Event that the caller reports to [`Purging`] or [`Clearing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearEvent {
    /// Start the task.
    Begin,
    /// Response of the shard's manifest (list of live segments), and the newest known manifest.
    Head(HeadResponse, Head),
    /// Response of the segment's log to the command that seals it.
    Log(LogResponse),
    /// Log and state of the segment (message batch). The state was read after the log.
    Read(Log, State),
    /// Response of the state of a source segment (one from which a message was moved). Report
    /// [`Gone`](StateResponse::Gone) also if the manifest of the source shard no longer lists the
    /// source segment.
    Source(StateResponse),
    /// Response of the state of the segment (message batch) that is being removed.
    State(StateResponse),
    /// Entry of the segment in the shard's manifest (list of live segments); `None`: the segment
    /// was released.
    Found(Option<Live>),
}

/// Action that the caller of [`Purging`] or [`Clearing`] executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClearAction {
    /// Send a command to the shard's manifest (its list of live segments).
    Head(HeadCommand),
    /// Seal the segment's log, so that no more messages can be appended.
    Seal(Segment, Live),
    /// Read the segment's log and then its state, with serial consistency.
    Read(Segment, Live),
    /// Send a command to the state of a source segment, from which a message was moved to the
    /// removed segment.
    Source(Origin, StateCommand),
    /// Send a command to the state of the segment (message batch) that is being removed.
    State(Segment, Live, StateCommand),
    /// Read the entry of the segment in the shard's manifest (list of live segments), with serial
    /// consistency.
    Find(Segment),
    /// The removal of the segment or shard has ended with this outcome.
    Over(Released),
}

/// Returns the retention bound at the time `now`. A queue no longer keeps messages that were
/// [due](crate::queues::Entry::due) at the bound or earlier.
pub fn expired_by(retention_seconds: u32, now: Micros) -> Micros {
    let kept = Micros::from(retention_seconds) * 1_000_000 + LEASE_MARGIN_MICROS;
    now.saturating_sub(kept)
}

/// Returns whether all messages of a segment were due by the [retention bound](expired_by), so that
/// the segment can be sealed and its messages expired. Returns false for a segment without
/// messages. A newer message may be in the log meanwhile, so the [`Expire`](StateCommand::Expire)
/// command evaluates the log again.
pub fn is_expired(log: &Log, segment: Segment, by: Micros) -> bool {
    let newest = log.messages().map(|(_, _, entry)| entry.due()).max();
    newest.is_some_and(|newest| log.segment == segment && newest <= by)
}

/// State machine that removes a segment from its shard, even if its messages are not resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Purging {
    address: Address,
    segment: Segment,
    live: Live,
    /// True if even messages that are being moved elsewhere are resolved, because their queue is
    /// deleted.
    is_deleted: bool,
    releasing: Option<Releasing>,
    protocol: Protocol,
}

impl Purging {
    /// Creates the removal of a live segment of this shard. Messages that are being moved to other
    /// segments must arrive there first.
    pub fn new(address: Address, segment: Segment, live: Live, protocol: Protocol) -> Self {
        Self {
            address,
            segment,
            live,
            is_deleted: false,
            releasing: None,
            protocol,
        }
    }

    /// Creates the removal of a segment (message batch) of a deleted queue.
    fn of_deleted(address: Address, segment: Segment, live: Live, protocol: Protocol) -> Self {
        Self {
            is_deleted: true,
            ..Self::new(address, segment, live, protocol)
        }
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: ClearEvent) -> ClearAction {
        let event = match event {
            ClearEvent::Begin => return ClearAction::Seal(self.segment, self.live),
            ClearEvent::Log(LogResponse::Sealed(count)) if self.live.count != Some(count) => {
                return self.sealed(count);
            }
            ClearEvent::Head(response, _) if self.releasing.is_some() => ReleaseEvent::Head(response),
            ClearEvent::Head(..) | ClearEvent::Log(_) => return ClearAction::Read(self.segment, self.live),
            ClearEvent::Read(log, state) => {
                let (address, segment, protocol) = (self.address, self.segment, self.protocol);
                let releasing = if self.is_deleted {
                    Releasing::clearing(address, segment, &log, &state, protocol)
                } else {
                    Releasing::purging(address, segment, &log, &state, protocol)
                };
                self.releasing = Some(releasing);
                ReleaseEvent::Begin
            }
            ClearEvent::Source(response) => ReleaseEvent::Source(response),
            ClearEvent::State(response) => ReleaseEvent::State(response),
            ClearEvent::Found(live) => ReleaseEvent::Found(live),
        };
        self.releases(event)
    }

    fn sealed(&mut self, count: Seq) -> ClearAction {
        self.live.count = Some(count);
        let segment = self.segment;
        ClearAction::Head(HeadCommand::Sealed { segment, count })
    }

    fn releases(&mut self, event: ReleaseEvent) -> ClearAction {
        let Some(releasing) = &mut self.releasing else {
            return ClearAction::Read(self.segment, self.live);
        };
        match releasing.step(event) {
            ReleaseAction::Source(origin, command) => ClearAction::Source(origin, command),
            ReleaseAction::State(command) => ClearAction::State(self.segment, self.live, command),
            ReleaseAction::Head(command) => ClearAction::Head(command),
            ReleaseAction::Find(segment) => ClearAction::Find(segment),
            ReleaseAction::Over(released) => ClearAction::Over(released),
        }
    }
}

/// State machine that clears one shard of a deleted queue. Afterwards, the shard has no segments,
/// and no process that knows only the deleted queue can open one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clearing {
    address: Address,
    tenure: Tenure,
    purging: Option<Purging>,
    protocol: Protocol,
}

impl Clearing {
    /// Creates the clearing of one shard of a deleted queue. The caller has to clear all
    /// [shards](crate::queues::PlaceRow::shards) of the queue's slot.
    pub fn new(address: Address, tenure: Tenure, protocol: Protocol) -> Self {
        Self {
            address,
            tenure,
            purging: None,
            protocol,
        }
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: ClearEvent) -> ClearAction {
        let action = match (event, &mut self.purging) {
            (ClearEvent::Head(_, head), None) => return self.looks(&head),
            (_, None) => return self.closes(),
            (event, Some(purging)) => purging.step(event),
        };
        match action {
            ClearAction::Over(Released::Damaged) => self.takes_off(),
            ClearAction::Over(Released::Done) => {
                self.purging = None;
                self.closes()
            }
            action => action,
        }
    }

    /// Returns the command that closes the shard's manifest, so that no segment can be opened for
    /// the deleted queue. Its response also contains the present manifest.
    fn closes(&self) -> ClearAction {
        ClearAction::Head(if self.protocol.rules.keeps(Rule::HeadsClosed) {
            HeadCommand::Close(self.tenure)
        } else {
            HeadCommand::Close(Tenure::default())
        })
    }

    fn looks(&mut self, head: &Head) -> ClearAction {
        if !head.serves(self.tenure) && self.protocol.rules.keeps(Rule::ClearedByTheNewest) {
            // The slot (row of the registry) already belongs to a later queue, so another process
            // has cleared the shard, and nothing is left to do.
            return ClearAction::Over(Released::Done);
        }
        let first = head.live.iter().next();
        let first = first.filter(|_| self.protocol.rules.keeps(Rule::ClearedWhenEmpty));
        let Some((segment, live)) = first else {
            return ClearAction::Over(Released::Done);
        };
        let purging = self
            .purging
            .insert(Purging::of_deleted(self.address, *segment, *live, self.protocol));
        purging.step(ClearEvent::Begin)
    }

    /// Removes a segment whose log or state is missing from the shard's manifest. Its messages
    /// cannot be resolved. No reader misses them, because their queue was deleted.
    fn takes_off(&mut self) -> ClearAction {
        let Some(Purging { segment, live, .. }) = self.purging.take() else {
            return self.closes();
        };
        ClearAction::Head(match live.count {
            Some(count) => HeadCommand::Release(Settled {
                segment,
                resolved: count.into(),
                // The missing log cannot show whether its messages had deduplication ids, so assume
                // that they had.
                has_ids: true,
            }),
            None => HeadCommand::Sealed { segment, count: 0 },
        })
    }
}
