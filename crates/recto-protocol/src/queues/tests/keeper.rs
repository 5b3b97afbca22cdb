//! Process of the models that seals and releases segments.

use super::driver::{Driver, Next, Spot};
use super::mover::spot_of;
use super::store::{Reply, Request, ResolvedBy};
use super::world::Now;
use super::{SOURCE, TENURE};
use crate::queues::{
    Address, HeadCommand, Live, Log, LogCommand, LogResponse, ReleaseAction, ReleaseEvent, Released,
    Releasing, Segment, ShardAction, ShardEvent,
};

/// Process that visits all live segments `passes` times. It releases segments, and seals open ones
/// if the model says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Keeper {
    address: Address,
    passes: u8,
    left: Vec<(Segment, Live)>,
    log: Option<Log>,
    releasing: Option<Releasing>,
    /// True if the last command went to the state of the segment that is being purged.
    purges: bool,
    driver: Driver,
}

impl Keeper {
    pub(crate) fn new(address: Address, passes: u8) -> Self {
        Self {
            address,
            passes,
            left: Vec::new(),
            log: None,
            releasing: None,
            purges: false,
            driver: Driver::new(),
        }
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Option<Request> {
        if reply == Reply::Start {
            self.passes -= 1;
            return Some(Request::ReadHead(self.address));
        }
        let next = self.driver.hears(reply, now);
        self.goes_on(next, now)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>) -> Option<Request> {
        match next {
            Next::Asks(request) => Some(request),
            Next::State(response) if self.purges => self.releases(ReleaseEvent::State(response), now),
            Next::State(response) => self.releases(ReleaseEvent::Source(response), now),
            Next::Shard(ShardEvent::Found(live)) => self.releases(ReleaseEvent::Found(live), now),
            Next::Shard(ShardEvent::Head(response)) if self.releasing.is_some() => {
                self.releases(ReleaseEvent::Head(response), now)
            }
            Next::Shard(ShardEvent::Head(_)) => self.told_that_it_is_sealed(now),
            Next::Shard(ShardEvent::Log(LogResponse::Sealed(count))) => {
                let (segment, _) = *self.left.last()?;
                self.asks(
                    ShardAction::Head(vec![HeadCommand::Sealed { segment, count }]),
                    now,
                )
            }
            Next::Shard(ShardEvent::Log(_)) => self.looks_at_another(now),
            Next::Other(Reply::Head(head)) => {
                let live = head.live().iter().map(|(segment, live)| (*segment, *live));
                self.left = live.rev().collect();
                let source = (SOURCE.address, SOURCE.segment);
                let spares = now.config.purges && !now.config.purges_source;
                let may = |segment| !spares || (self.address, segment) != source;
                self.left.retain(|(segment, _)| may(*segment));
                self.looks_at_next(now)
            }
            Next::Other(Reply::Log(log)) => {
                let (_, live) = *self.left.last()?;
                self.log = Some(log);
                Some(Request::ReadState(self.address, live.register))
            }
            Next::Other(Reply::State(state)) => {
                let (segment, _) = *self.left.last()?;
                let log = self.log.take()?;
                let protocol = now.config.protocol();
                self.releasing = Some(if now.config.purges {
                    Releasing::purging(self.address, segment, &log, &state, protocol)
                } else {
                    Releasing::new(self.address, segment, &log, &state, protocol)
                });
                self.releases(ReleaseEvent::Begin, now)
            }
            other => panic!("{other:?}"),
        }
    }

    fn looks_at_next(&mut self, now: &Now<'_>) -> Option<Request> {
        let (segment, live) = *self.left.last()?;
        if live.count.is_none() && now.config.seals {
            let command = LogCommand::Seal;
            return self.asks(
                ShardAction::Log {
                    live,
                    segment,
                    command,
                },
                now,
            );
        }
        Some(Request::ReadLog(self.address, live.register))
    }

    fn looks_at_another(&mut self, now: &Now<'_>) -> Option<Request> {
        self.left.pop();
        self.looks_at_next(now)
    }

    fn told_that_it_is_sealed(&mut self, now: &Now<'_>) -> Option<Request> {
        if now.config.movers == 0 {
            return self.looks_at_another(now);
        }
        // The segment is sealed now. Visit it again, to release it if possible.
        let (_, live) = self.left.last_mut()?;
        live.count = Some(0);
        self.looks_at_next(now)
    }

    fn asks(&mut self, action: ShardAction, now: &Now<'_>) -> Option<Request> {
        let next = self.driver.asks(self.address, action, now);
        self.goes_on(next, now)
    }

    fn releases(&mut self, event: ReleaseEvent, now: &Now<'_>) -> Option<Request> {
        let (segment, live) = *self.left.last()?;
        let action = self.releasing.as_mut()?.step(event);
        self.purges = matches!(action, ReleaseAction::State(_));
        let own = Spot {
            address: self.address,
            segment,
            register: live.register,
        };
        let next = match action {
            ReleaseAction::Source(origin, command) => {
                self.driver
                    .asks_state(spot_of(origin), command, ResolvedBy::Nobody, now)
            }
            ReleaseAction::State(command) => {
                self.driver
                    .asks_state(own, command, ResolvedBy::Purge(TENURE), now)
            }
            ReleaseAction::Head(command) => {
                self.driver
                    .asks(self.address, ShardAction::Head(vec![command]), now)
            }
            ReleaseAction::Find(segment) => self.driver.asks(self.address, ShardAction::Find(segment), now),
            ReleaseAction::Over(released) => {
                assert!(released != Released::Damaged, "nothing is damaged");
                self.releasing = None;
                return self.looks_at_another(now);
            }
        };
        self.goes_on(next, now)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.passes == 0
    }
}
