//! Process of the models that receives messages, and acknowledges them or gives them back.

use std::collections::BTreeMap;

use super::HERE;
use super::driver::{Driver, Next, Spot};
use super::store::{Reply, Request, ResolvedBy};
use super::world::{Config, Ghost, Now};
use crate::queues::{ClaimId, Delivery, Head, Live, Log, Order, Segment, State, StateCommand, StateResponse};

/// Action of a worker on a message that it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    Ack,
    /// Give the message back, so that it can be received again at once.
    Nack,
    /// Extend the claim, and continue.
    Extend,
    GiveBack,
}

/// Process that receives messages from all live segments (message batches), `passes` times. It
/// finally acknowledges each message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    name: u8,
    passes: u8,
    claims: u8,
    /// Logs and states of earlier segments, as the worker has read them. Only in ordered queues.
    seen: BTreeMap<Segment, (Log, State)>,
    head: Head,
    left: Vec<(Segment, Live)>,
    driver: Driver,
    has: Vec<Delivery>,
    /// Actions on received messages that are still to be done, in reverse order.
    acts: Vec<Act>,
    acting: Option<(Act, ClaimId)>,
}

impl Worker {
    pub(crate) fn new(config: &Config, name: u8, passes: u8) -> Self {
        Self {
            name,
            passes,
            claims: 0,
            seen: BTreeMap::new(),
            head: Head::absent(),
            left: Vec::new(),
            driver: Driver::new(),
            has: Vec::new(),
            acts: config.acts.iter().rev().copied().collect(),
            acting: None,
        }
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        match reply {
            Reply::Start if !self.has.is_empty() => self.acts(now, ghosts),
            Reply::Start => {
                self.passes -= 1;
                Some(Request::ReadHead(HERE))
            }
            Reply::Head(head) => {
                self.left = head
                    .live()
                    .iter()
                    .map(|(segment, live)| (*segment, *live))
                    .collect();
                self.left.reverse();
                if !self.seen.is_empty() {
                    // Read only the newest segment. The worker has already read the logs and states
                    // of the others.
                    self.left.truncate(1);
                }
                self.head = head;
                self.looks_at_next()
            }
            Reply::Log(log) if self.driver.log_of_claims.is_none() => self.claims(log, now, ghosts),
            reply => {
                let next = self.driver.hears(reply, now);
                self.goes_on(next, now, ghosts)
            }
        }
    }

    fn looks_at_next(&mut self) -> Option<Request> {
        let (_, live) = self.left.last()?;
        Some(Request::ReadLog(HERE, live.register))
    }

    fn claims(&mut self, log: Log, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let (segment, _) = *self.left.last()?;
        let seen = |segment| self.seen.get(&segment).map(|(log, state)| (log, state));
        let order = Order::of(&self.head, segment, seen, now.config.protocol());
        self.driver.order = now.config.is_ordered.then_some(order);
        self.driver.log_of_claims = Some(log);
        self.claims += 1;
        let command = StateCommand::Claim {
            claim: ClaimId(u128::from(self.name) << 8 | u128::from(self.claims)),
            most: 1,
            until: now.micros + 1,
            failed_surplus: 0,
        };
        self.asks(command, ResolvedBy::Nobody, now, ghosts)
    }

    fn acts(&mut self, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let Delivery { seq, claim, .. } = *self.has.last()?;
        let act = self.acts.pop().unwrap_or(Act::Ack);
        self.acting = Some((act, claim));
        let until = now.micros;
        let command = match act {
            Act::Ack => StateCommand::Ack { seq, claim },
            Act::Nack => StateCommand::Nack { seq, claim, until },
            Act::Extend => StateCommand::Extend {
                seq,
                claim,
                until: until + 1,
            },
            Act::GiveBack => StateCommand::GiveBack { seq, claim },
        };
        self.asks(command, ResolvedBy::Claim(claim), now, ghosts)
    }

    fn asks(
        &mut self,
        command: StateCommand,
        by: ResolvedBy,
        now: &Now<'_>,
        ghosts: &mut Vec<Ghost>,
    ) -> Option<Request> {
        let (segment, live) = *self.left.last()?;
        let spot = Spot {
            address: HERE,
            segment,
            register: live.register,
        };
        let next = self.driver.asks_state(spot, command, by, now);
        self.goes_on(next, now, ghosts)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let response = match next {
            Next::Asks(request) => return Some(request),
            Next::State(StateResponse::Claimed(deliveries)) if !deliveries.is_empty() => {
                // The worker processes the messages now, and acknowledges them later, so it sends
                // no request yet.
                self.has = deliveries;
                return None;
            }
            Next::State(response) => response,
            other => panic!("{other:?}"),
        };
        match (response, self.acting.take()) {
            // The worker continues to process the message, so it sends no request yet.
            (StateResponse::Done, Some((Act::Extend, _))) => return None,
            (StateResponse::Done, Some((Act::Ack, claim))) => ghosts.push(Ghost::Acked(claim)),
            _ => {}
        }
        self.has.clear();
        let (segment, _) = self.left.pop()?;
        let state = self.driver.forgets_state()?;
        let log = self.driver.log_of_claims.take()?;
        if now.config.is_ordered {
            self.seen.entry(segment).or_insert((log, state));
        }
        self.looks_at_next()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.passes == 0 && self.has.is_empty()
    }
}
