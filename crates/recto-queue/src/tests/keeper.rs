//! Who seals and releases, in the models.

use super::event_of;
use super::store::{Reply, Request, SetsUp};
use super::world::{Config, Now};
use crate::{
    Action, Event, Head, HeadWish, Live, Log, LogAnswer, LogContext, LogWish, Recent, Round, Segment, Ticket,
};

/// Looks through all live segments so often: it seals those that are open, if it is to, and releases what it can.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Keeper {
    passes: u8,
    head: Round<Head>,
    left: Vec<(Segment, Live)>,
    sealing: Option<Round<Log>>,
}

impl Keeper {
    pub(crate) fn new(config: &Config, passes: u8) -> Self {
        Self {
            passes,
            head: Round::new(config.protocol()),
            left: Vec::new(),
            sealing: None,
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
            Reply::State(state) => {
                let (segment, _) = *self.left.last()?;
                let resolved = if state.segment == segment {
                    state.resolved.count()
                } else {
                    0
                };
                self.asks_head(HeadWish::Release { segment, resolved }, now)
            }
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
        Some(Request::ReadState(live.register))
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
                self.left.pop();
                self.looks_at_next(now)
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.passes == 0
    }
}
