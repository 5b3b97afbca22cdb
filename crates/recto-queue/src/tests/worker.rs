//! Who receives and acks, in the models.

use std::collections::BTreeMap;

use super::event_of;
use super::store::{Reply, Request};
use super::world::{Ghost, Now};
use crate::{
    Action, ClaimId, Clock, Delivery, Event, Leases, Live, Log, Order, Round, Segment, State, StateAnswer,
    StateContext, StateWish, Ticket,
};

/// Looks through all live segments so often; what it receives it acks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    name: u8,
    passes: u8,
    claims: u8,
    /// What it sees of the segments before, of an ordered queue.
    seen: BTreeMap<Segment, (Log, State)>,
    left: Vec<(Segment, Live)>,
    log: Option<Log>,
    round: Option<Round<State>>,
    has: Vec<Delivery>,
    acking: Option<ClaimId>,
}

impl Worker {
    pub(crate) fn new(name: u8, passes: u8) -> Self {
        Self {
            name,
            passes,
            claims: 0,
            seen: BTreeMap::new(),
            left: Vec::new(),
            log: None,
            round: None,
            has: Vec::new(),
            acking: None,
        }
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        match reply {
            Reply::Start if !self.has.is_empty() => self.acks(now, ghosts),
            Reply::Start => {
                self.passes -= 1;
                Some(Request::ReadHead)
            }
            Reply::Head(head) => {
                self.left = head
                    .live()
                    .iter()
                    .map(|(segment, live)| (*segment, *live))
                    .collect();
                self.left.reverse();
                if !self.seen.is_empty() {
                    // Of the others it goes by what it saw.
                    self.left.truncate(1);
                }
                self.looks_at_next()
            }
            Reply::Log(log) => {
                self.log = Some(log);
                self.claims += 1;
                self.round = Some(Round::new(now.config.protocol()));
                let claim = ClaimId(u128::from(self.name) << 8 | u128::from(self.claims));
                let wish = StateWish::Claim {
                    claim,
                    most: 1,
                    until: now.micros + 1,
                };
                self.tells(Event::Asked(vec![(Ticket(0), wish)]), now, ghosts)
            }
            reply => self.tells(event_of(reply), now, ghosts),
        }
    }

    fn looks_at_next(&mut self) -> Option<Request> {
        let (_, live) = self.left.last()?;
        Some(Request::ReadLog(live.register))
    }

    fn acks(&mut self, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let Delivery { seq, claim, .. } = *self.has.last()?;
        self.acking = Some(claim);
        let wish = StateWish::Ack { seq, claim };
        self.tells(Event::Asked(vec![(Ticket(0), wish)]), now, ghosts)
    }

    fn tells(&mut self, event: Event<State>, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let (segment, live) = *self.left.last()?;
        let seen = self
            .seen
            .iter()
            .map(|(segment, (log, state))| (*segment, log, state));
        let order = Order::of(seen, now.config.protocol());
        let log = self.log.as_ref()?;
        let context = StateContext {
            segment,
            log,
            most_attempts: None,
            order: now.config.is_ordered.then_some(&order),
            leases: &Leases::default(),
            clock: Clock {
                wall: now.micros,
                monotonic: now.micros,
            },
            protocol: now.config.protocol(),
        };
        match self.round.as_mut()?.step(event, &context).into_iter().next()? {
            Action::Read => Some(Request::ReadState(live.register)),
            Action::Cas { expected, put } => {
                Some(Request::CasState(live.register, expected, put, self.acking))
            }
            Action::Answer(_, StateAnswer::Claimed(deliveries)) if !deliveries.is_empty() => {
                // It works on it: the ack comes by and by.
                self.has = deliveries;
                None
            }
            Action::Answer(_, answer) => {
                if let (StateAnswer::Done, Some(claim)) = (answer, self.acking) {
                    ghosts.push(Ghost::Acked(claim));
                }
                self.acking = None;
                self.has.clear();
                let state = self.round.take().and_then(|round| round.copy().cloned())?;
                let log = self.log.take()?;
                if now.config.is_ordered {
                    self.seen.entry(segment).or_insert((log, state));
                }
                self.left.pop();
                self.looks_at_next()
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.passes == 0 && self.has.is_empty()
    }
}
