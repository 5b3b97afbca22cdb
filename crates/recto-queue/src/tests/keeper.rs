//! Who seals and releases, in the models.

use super::mover::{ask_source, step_source};
use super::store::{Reply, Request, SetsUp};
use super::world::{Config, Now};
use super::{HERE, event_of};
use crate::{
    Action, Event, Head, HeadWish, Live, Log, LogAnswer, LogContext, LogWish, Recent, RegisterNumber,
    ReleaseAction, Releasing, Round, Segment, State, Ticket,
};

/// Looks through all live segments so often: it seals those that are open, if it is to, and releases what it can.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Keeper {
    passes: u8,
    head: Round<Head>,
    left: Vec<(Segment, Live)>,
    sealing: Option<Round<Log>>,
    log: Option<Log>,
    releasing: Option<Releasing>,
    source: Round<State>,
    /// Whether it resolves where it was what was moved.
    settles: bool,
}

impl Keeper {
    pub(crate) fn new(config: &Config, passes: u8) -> Self {
        Self {
            passes,
            head: Round::new(config.protocol()),
            left: Vec::new(),
            sealing: None,
            log: None,
            releasing: None,
            source: Round::new(config.protocol()),
            settles: false,
        }
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Option<Request> {
        match reply {
            Reply::Start => {
                self.passes -= 1;
                Some(Request::ReadHead)
            }
            Reply::Head(head) if self.head.is_idle() => {
                self.left = head
                    .live()
                    .iter()
                    .map(|(segment, live)| (*segment, *live))
                    .collect();
                self.left.reverse();
                self.looks_at_next(now)
            }
            Reply::State(state) if self.log.is_some() => {
                let (segment, _) = *self.left.last()?;
                let resolved = if state.segment == segment {
                    state.resolved.count()
                } else {
                    0
                };
                let log = self.log.take()?;
                let protocol = now.config.protocol();
                self.releasing = Some(if now.config.purges {
                    Releasing::purging(HERE, &log, protocol)
                } else {
                    Releasing::new(HERE, &log, resolved, protocol)
                });
                self.releases(now)
            }
            Reply::Log(log) if self.sealing.is_none() => {
                let (_, live) = *self.left.last()?;
                self.log = Some(log);
                Some(Request::ReadState(live.register))
            }
            reply if self.settles => self.tells_source(event_of(reply), now),
            reply if self.sealing.is_some() => self.tells_log(event_of(reply), now),
            reply => self.tells_head(event_of(reply), now),
        }
    }

    fn looks_at_next(&mut self, now: &Now<'_>) -> Option<Request> {
        let (_, live) = self.left.last()?;
        if live.count.is_none() && now.config.seals {
            self.sealing = Some(Round::new(now.config.protocol()));
            return self.tells_log(Event::Asked(vec![(Ticket(0), LogWish::Seal)]), now);
        }
        Some(Request::ReadLog(live.register))
    }

    fn releases(&mut self, now: &Now<'_>) -> Option<Request> {
        match self.releasing.as_mut()?.step() {
            ReleaseAction::Source(_, wish) => {
                self.settles = true;
                self.tells_source(ask_source(wish), now)
            }
            ReleaseAction::Head(wish) => self.asks_head(wish, now),
        }
    }

    fn tells_source(&mut self, event: Event<State>, now: &Now<'_>) -> Option<Request> {
        match step_source(&mut self.source, event, now)? {
            Action::Read => Some(Request::ReadState(RegisterNumber(0))),
            Action::Cas { expected, put } => Some(Request::CasState(RegisterNumber(0), expected, put, None)),
            Action::Answer(..) => {
                self.settles = false;
                self.releases(now)
            }
        }
    }

    fn tells_log(&mut self, event: Event<Log>, now: &Now<'_>) -> Option<Request> {
        let (segment, live) = *self.left.last()?;
        let context = LogContext {
            segment,
            recent: &Recent::new(),
            protocol: now.config.protocol(),
        };
        let round = self.sealing.as_mut()?;
        match round.step(event, &context).into_iter().next()? {
            Action::Read => Some(Request::ReadLog(live.register)),
            Action::Cas { expected, put } => {
                let sets_up = round.copy().is_none_or(|copy| copy.segment != put.segment);
                Some(Request::CasLog(live.register, expected, put, SetsUp(sets_up)))
            }
            Action::Answer(_, LogAnswer::Sealed(count)) => {
                self.sealing = None;
                self.asks_head(HeadWish::Sealed { segment, count }, now)
            }
            Action::Answer(..) => {
                self.sealing = None;
                self.left.pop();
                self.looks_at_next(now)
            }
        }
    }

    fn asks_head(&mut self, wish: HeadWish, now: &Now<'_>) -> Option<Request> {
        self.tells_head(Event::Asked(vec![(Ticket(0), wish)]), now)
    }

    fn tells_head(&mut self, event: Event<Head>, now: &Now<'_>) -> Option<Request> {
        match self
            .head
            .step(event, &now.head_context((1, crate::BodyTable(1))))
            .into_iter()
            .next()?
        {
            Action::Read => Some(Request::ReadHead),
            Action::Cas { expected, put } => Some(Request::CasHead(expected, put)),
            Action::Answer(..) => {
                let (_, live) = self.left.last_mut()?;
                if live.count.is_none() && now.config.movers > 0 {
                    // What was sealed just now is released at once, if it can be.
                    live.count = Some(0);
                } else {
                    self.left.pop();
                }
                self.looks_at_next(now)
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.passes == 0
    }
}
