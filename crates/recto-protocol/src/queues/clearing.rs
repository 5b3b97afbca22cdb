//! Segments leave a list whatever their messages are: one that is purged; or all of a queue that was deleted.
//!
//! ```text
//!  a segment:  seal ► told to the head ► its log and state are read ► release, purging
//!  a shard:    the head is closed ─► a segment that is live ─► the next …
//!                                 └► none: over
//! ```
//!
//! When all heads of a place are [cleared](Clearing), the registry is [told](crate::queues::RegistryWish::Cleared), and the place is the
//! next queue's. Nothing of the old one is taken for that one's then: what is on its way into a segment finds it sealed, and
//! who asks the head for another one knows too old a [tenure](Tenure).

use crate::queues::head::{Head, HeadAnswer, HeadWish, Live, Settled};
use crate::queues::limits::{LEASE_MARGIN_MICROS, Protocol};
use crate::queues::log::{Log, LogAnswer, Origin};
use crate::queues::names::{Address, Micros, Segment, Seq, Tenure};
use crate::queues::releasing::{ReleaseAction, ReleaseEvent, Released, Releasing};
use crate::queues::rules::Rule;
use crate::queues::state::{State, StateAnswer, StateWish};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearEvent {
    /// It can begin.
    Begin,
    /// The head answered, and this is what is known of it since.
    Head(HeadAnswer, Head),
    /// The segment's log answered.
    Log(LogAnswer),
    /// The segment's log, and then its state, as they were read.
    Read(Log, State),
    /// The source's state answered; [`Gone`](StateAnswer::Gone) too if its head has the segment no more.
    Source(StateAnswer),
    /// The segment's own state answered.
    State(StateAnswer),
    /// What the head says of the segment; none: it was released.
    Found(Option<Live>),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClearAction {
    /// Ask the shard's head.
    Head(HeadWish),
    /// Have the segment's log sealed.
    Seal(Segment, Live),
    /// Read the segment's log, and then its state, serially.
    Read(Segment, Live),
    /// Ask the state of a message that was moved to the segment, where it was.
    Source(Origin, StateWish),
    /// Ask the segment's own state.
    State(Segment, Live, StateWish),
    /// Read what the head says of the segment, serially.
    Find(Segment),
    /// It is over.
    Over(Released),
}

/// Messages that were [due](crate::queues::Entry::due) by then are older than a queue keeps them, by this clock.
pub fn expired_by(retention_seconds: u32, now: Micros) -> Micros {
    let kept = Micros::from(retention_seconds) * 1_000_000 + LEASE_MARGIN_MICROS;
    now.saturating_sub(kept)
}

/// Whether all messages of a segment were due [by then](expired_by), so that it may as well be sealed. One that has none is not.
/// Another message may have come since: what is done with is [worked out](StateWish::Expire) by what stands there.
pub fn is_expired(log: &Log, segment: Segment, by: Micros) -> bool {
    let newest = log.messages().map(|(_, _, entry)| entry.due()).max();
    newest.is_some_and(|newest| log.segment == segment && newest <= by)
}

/// A segment leaves the list, whatever its messages are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Purging {
    address: Address,
    segment: Segment,
    live: Live,
    /// Whether what leaves is done with, too.
    is_deleted: bool,
    releasing: Option<Releasing>,
    protocol: Protocol,
}

impl Purging {
    /// Of a segment that the head of this shard has. What leaves it is gone on with first.
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

    /// Of one whose queue was deleted.
    fn of_deleted(address: Address, segment: Segment, live: Live, protocol: Protocol) -> Self {
        Self {
            is_deleted: true,
            ..Self::new(address, segment, live, protocol)
        }
    }

    /// What is to be done about what happened.
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

/// A shard of a queue that was deleted is cleared: nobody opens a segment there who knows that queue, and none is left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clearing {
    address: Address,
    tenure: Tenure,
    purging: Option<Purging>,
    protocol: Protocol,
}

impl Clearing {
    /// Returns the clearing of a deletion. It clears all [shards](crate::queues::PlaceRow::shards) of a place.
    pub fn new(address: Address, tenure: Tenure, protocol: Protocol) -> Self {
        Self {
            address,
            tenure,
            purging: None,
            protocol,
        }
    }

    /// What is to be done about what happened.
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

    /// That reads the head, too: an answer for which nothing is written is of one that was read since.
    fn closes(&self) -> ClearAction {
        ClearAction::Head(if self.protocol.rules.keeps(Rule::HeadsClosed) {
            HeadWish::Close(self.tenure)
        } else {
            HeadWish::Close(Tenure::default())
        })
    }

    fn looks(&mut self, head: &Head) -> ClearAction {
        if !head.serves(self.tenure) && self.protocol.rules.keeps(Rule::ClearedByTheNewest) {
            // Another has cleared it before, and the place is the next queue's.
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

    /// Of a segment that is gone nothing can be settled, and nobody misses it: its queue was deleted.
    fn takes_off(&mut self) -> ClearAction {
        let Some(Purging { segment, live, .. }) = self.purging.take() else {
            return self.closes();
        };
        ClearAction::Head(match live.count {
            Some(count) => HeadWish::Release(Settled {
                segment,
                resolved: count.into(),
                // Nothing says that none has.
                has_ids: true,
            }),
            None => HeadWish::Sealed { segment, count: 0 },
        })
    }
}
