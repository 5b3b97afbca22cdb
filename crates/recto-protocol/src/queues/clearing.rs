//! Removal of segments whether or not their messages are resolved: purged segments, and all segments of a
//! deleted queue.
//!
//! ```text
//!  a segment:  seal ► told to the head ► its log and state are read ► release, purging
//!  a shard:    the head is closed ─► a segment that is live ─► the next …
//!                                 └► none: over
//! ```
//!
//! When the manifests of all shards of a slot are [cleared](Clearing), the registry is
//! [informed](crate::queues::RegistryWish::Cleared) and the next queue can take the slot. No message of the
//! old queue reaches the next queue. A message on its way into a segment finds the segment sealed. A process
//! that requests another segment knows only an older [epoch](Tenure), and the manifest rejects it.

use crate::queues::head::{Head, HeadAnswer, HeadWish, Live, Settled};
use crate::queues::limits::{LEASE_MARGIN_MICROS, Protocol};
use crate::queues::log::{Log, LogAnswer, Origin};
use crate::queues::names::{Address, Micros, Segment, Seq, Tenure};
use crate::queues::releasing::{ReleaseAction, ReleaseEvent, Released, Releasing};
use crate::queues::rules::Rule;
use crate::queues::state::{State, StateAnswer, StateWish};

/// Input of [`Purging`] and [`Clearing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearEvent {
    /// Start the task.
    Begin,
    /// Response of the shard's manifest, and the manifest as it is known after the response.
    Head(HeadAnswer, Head),
    /// Response of the segment's log to the command that seals it.
    Log(LogAnswer),
    /// The segment's log and then its state, as they were read.
    Read(Log, State),
    /// Response of the state of a source segment. Report [`Gone`](StateAnswer::Gone) also if the manifest of
    /// the source shard no longer has the segment.
    Source(StateAnswer),
    /// Response of the segment's own state.
    State(StateAnswer),
    /// Entry of the segment in the shard's manifest; `None`: the segment was released.
    Found(Option<Live>),
}

/// Action of [`Purging`] or [`Clearing`] that the caller must execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClearAction {
    /// Send a command to the shard's manifest.
    Head(HeadWish),
    /// Seal the segment's log.
    Seal(Segment, Live),
    /// Read the segment's log and then its state, with serial consistency.
    Read(Segment, Live),
    /// Send a command to the state of a source segment, from which a message was moved to this segment.
    Source(Origin, StateWish),
    /// Send a command to the segment's own state.
    State(Segment, Live, StateWish),
    /// Read the entry of the segment in the shard's manifest, with serial consistency.
    Find(Segment),
    /// The task has ended with this outcome.
    Over(Released),
}

/// Returns the retention bound at the time `now`: a queue no longer keeps messages that were
/// [due](crate::queues::Entry::due) by the bound.
pub fn expired_by(retention_seconds: u32, now: Micros) -> Micros {
    let kept = Micros::from(retention_seconds) * 1_000_000 + LEASE_MARGIN_MICROS;
    now.saturating_sub(kept)
}

/// Returns whether all messages of a segment were due by the [retention bound](expired_by), so that the
/// segment can be sealed. Returns false for a segment without messages. Another message may have come since
/// then. The [`Expire`](StateWish::Expire) command therefore evaluates the stored log again.
pub fn is_expired(log: &Log, segment: Segment, by: Micros) -> bool {
    let newest = log.messages().map(|(_, _, entry)| entry.due()).max();
    newest.is_some_and(|newest| log.segment == segment && newest <= by)
}

/// Task that removes a segment from its shard, whether or not its messages are resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Purging {
    address: Address,
    segment: Segment,
    live: Live,
    /// True if leaving messages are resolved, too.
    is_deleted: bool,
    releasing: Option<Releasing>,
    protocol: Protocol,
}

impl Purging {
    /// Creates the task for a live segment of this shard. Messages that are leaving must complete their moves
    /// first.
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

    /// Creates the task for a segment of a deleted queue.
    fn of_deleted(address: Address, segment: Segment, live: Live, protocol: Protocol) -> Self {
        Self {
            is_deleted: true,
            ..Self::new(address, segment, live, protocol)
        }
    }

    /// Handles an event and returns the next action.
    pub fn step(&mut self, event: ClearEvent) -> ClearAction {
        let event = match event {
            ClearEvent::Begin => return ClearAction::Seal(self.segment, self.live),
            ClearEvent::Log(LogAnswer::Sealed(count)) if self.live.count != Some(count) => {
                return self.sealed(count);
            }
            ClearEvent::Head(answer, _) if self.releasing.is_some() => ReleaseEvent::Head(answer),
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
            ClearEvent::Source(answer) => ReleaseEvent::Source(answer),
            ClearEvent::State(answer) => ReleaseEvent::State(answer),
            ClearEvent::Found(live) => ReleaseEvent::Found(live),
        };
        self.releases(event)
    }

    fn sealed(&mut self, count: Seq) -> ClearAction {
        self.live.count = Some(count);
        let segment = self.segment;
        ClearAction::Head(HeadWish::Sealed { segment, count })
    }

    fn releases(&mut self, event: ReleaseEvent) -> ClearAction {
        let Some(releasing) = &mut self.releasing else {
            return ClearAction::Read(self.segment, self.live);
        };
        match releasing.step(event) {
            ReleaseAction::Source(origin, wish) => ClearAction::Source(origin, wish),
            ReleaseAction::State(wish) => ClearAction::State(self.segment, self.live, wish),
            ReleaseAction::Head(wish) => ClearAction::Head(wish),
            ReleaseAction::Find(segment) => ClearAction::Find(segment),
            ReleaseAction::Over(released) => ClearAction::Over(released),
        }
    }
}

/// Task that clears a shard of a deleted queue: no process that knows the queue can open a segment there, and
/// no segment is left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clearing {
    address: Address,
    tenure: Tenure,
    purging: Option<Purging>,
    protocol: Protocol,
}

impl Clearing {
    /// Creates the task for one shard of a deleted queue. The task has to run for all
    /// [shards](crate::queues::PlaceRow::shards) of the queue's slot.
    pub fn new(address: Address, tenure: Tenure, protocol: Protocol) -> Self {
        Self {
            address,
            tenure,
            purging: None,
            protocol,
        }
    }

    /// Handles an event and returns the next action.
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

    /// Returns the command that closes the shard's manifest. Its response also gives a fresh copy of the
    /// manifest, because a response without a write needs a read.
    fn closes(&self) -> ClearAction {
        ClearAction::Head(if self.protocol.rules.keeps(Rule::HeadsClosed) {
            HeadWish::Close(self.tenure)
        } else {
            HeadWish::Close(Tenure::default())
        })
    }

    fn looks(&mut self, head: &Head) -> ClearAction {
        if !head.serves(self.tenure) && self.protocol.rules.keeps(Rule::ClearedByTheNewest) {
            // Another process has already cleared the head, and the slot belongs to the next queue,
            // so nothing is left to clear.
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

    /// Removes a missing segment from the shard's manifest. Its messages cannot be resolved, and no reader
    /// misses them, since its queue was deleted.
    fn takes_off(&mut self) -> ClearAction {
        let Some(Purging { segment, live, .. }) = self.purging.take() else {
            return self.closes();
        };
        ClearAction::Head(match live.count {
            Some(count) => HeadWish::Release(Settled {
                segment,
                resolved: count.into(),
                // The missing log cannot show whether its messages had deduplication ids, so assume
                // that they had some.
                has_ids: true,
            }),
            None => HeadWish::Sealed { segment, count: 0 },
        })
    }
}
