//! Process of the models that maintains the ring (list of body tables).

use super::HERE;
use super::driver::{Driver, Next};
use super::store::{Reply, Request};
use super::world::Now;
use crate::queues::{
    BodyTable, Decision, Emptied, Emptying, Fencing, KeepAction, KeepEvent, Life, LogCommand, LogResponse,
    Owner, Phase, Rehoming, Ring, RingCommand, ShardAction, ShardEvent,
};

/// Task of a keeper for the body table with this id. The keeper skips a task that is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Roll(u32),
    Fence(u32),
    Rehome(u32),
    Empty(u32),
    /// Retire the table, because the process that empties it is considered dead.
    Retire(u32),
    Drop(u32),
}

impl Task {
    fn table(self) -> BodyTable {
        match self {
            Self::Roll(table)
            | Self::Fence(table)
            | Self::Rehome(table)
            | Self::Empty(table)
            | Self::Retire(table)
            | Self::Drop(table) => BodyTable(table),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Doing {
    Fencing(Fencing),
    Rehoming(Rehoming),
    Emptying(Emptying),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RingKeeper {
    name: u8,
    /// Tasks that the keeper has not started, in reverse order.
    tasks: Vec<Task>,
    task: Option<Task>,
    doing: Option<Doing>,
    /// Lifetime of the table of which the keeper informs the shard manifests (lists of live
    /// segments).
    life: Option<Life>,
    /// True if the next step is to count the segments that a manifest has in the table.
    counts: bool,
    driver: Driver,
}

impl RingKeeper {
    pub(crate) fn new(name: u8, tasks: &[Task]) -> Self {
        let mut tasks = tasks.to_vec();
        tasks.reverse();
        Self {
            name,
            tasks,
            task: None,
            doing: None,
            life: None,
            counts: false,
            driver: Driver::new(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Option<Request> {
        if now.config.shares_ring {
            self.driver.known = now.ring;
        }
        if reply == Reply::Start {
            self.task = self.tasks.pop();
            return self.begins(now);
        }
        let next = self.driver.hears(reply, now);
        self.goes_on(next, now)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>) -> Option<Request> {
        let event = match next {
            Next::Asks(request) => return Some(request),
            Next::Ring(response) => KeepEvent::RingResponse(response),
            Next::Shard(ShardEvent::Head(response)) => {
                KeepEvent::Head(response, self.driver.head(HERE)?.clone())
            }
            Next::Shard(ShardEvent::Log(LogResponse::Sealed(count))) => KeepEvent::Sealed(Some(count)),
            Next::Shard(ShardEvent::Log(_)) => KeepEvent::Sealed(None),
            Next::Shard(ShardEvent::Written) => KeepEvent::Copied,
            Next::Shard(ShardEvent::Found(live)) => KeepEvent::Found(live),
            Next::Other(Reply::Ring(ring)) => {
                self.driver.learns(&ring);
                return self.sees_ring(ring, now);
            }
            Next::Other(Reply::Head(head)) => {
                let mut here = head.references(self.task?.table());
                if self.counts {
                    KeepEvent::References(here.count())
                } else {
                    let (segment, live) = here.next()?;
                    live.count?;
                    let rehoming = Rehoming::new(segment, live, now.config.protocol());
                    self.doing = Some(Doing::Rehoming(rehoming));
                    KeepEvent::Begin
                }
            }
            Next::Other(Reply::Places(is_placed)) => return self.fences(is_placed, now),
            Next::Other(Reply::Decided(_, Decision::Applied)) => KeepEvent::Emptied(Emptied::Done),
            Next::Other(Reply::Decided(..)) => KeepEvent::Emptied(Emptied::Unknown),
            other => panic!("{other:?}"),
        };
        self.tells(event, now)
    }

    fn begins(&mut self, now: &Now<'_>) -> Option<Request> {
        match self.task? {
            Task::Roll(_) | Task::Fence(_) | Task::Retire(_) => Some(Request::ReadRing),
            Task::Drop(table) => self.asks_ring(RingCommand::Dropped(BodyTable(table)), now),
            Task::Rehome(_) => Some(Request::ReadHead(HERE)),
            Task::Empty(table) => {
                let owner = Owner(u128::from(self.name));
                let emptying = Emptying::new(BodyTable(table), owner, now.config.protocol());
                self.doing = Some(Doing::Emptying(emptying));
                self.tells(KeepEvent::Begin, now)
            }
        }
    }

    fn sees_ring(&mut self, ring: Ring, now: &Now<'_>) -> Option<Request> {
        if self.doing.is_some() {
            return self.tells(KeepEvent::Ring(ring), now);
        }
        let table = self.task?.table();
        match (self.task?, ring.tables().get(&table)?) {
            (Task::Roll(_), Phase::Open { life, .. }) => self.asks_ring(RingCommand::Roll(table, *life), now),
            (Task::Fence(_), Phase::Closing { life, .. }) => {
                self.life = Some(*life);
                if now.config.is_new {
                    return Some(Request::ReadPlaces);
                }
                self.fences(true, now)
            }
            (Task::Retire(_), Phase::Emptying { owner, .. }) => {
                self.asks_ring(RingCommand::Retire(table, *owner), now)
            }
            _ => None,
        }
    }

    /// Informs all shard manifests of the closing table. There is one manifest, or none before the
    /// queue has its slot.
    fn fences(&mut self, is_placed: bool, now: &Now<'_>) -> Option<Request> {
        let table = self.task?.table();
        if !is_placed {
            let life = self.life.take()?;
            return self.asks_ring(RingCommand::Fenced(table, life), now);
        }
        let fencing = Fencing::new(table, self.driver.known.0, now.config.protocol());
        self.doing = Some(Doing::Fencing(fencing));
        self.tells(KeepEvent::Begin, now)
    }

    fn tells(&mut self, event: KeepEvent, now: &Now<'_>) -> Option<Request> {
        let action = match self.doing.as_mut()? {
            Doing::Fencing(fencing) => fencing.step(event),
            Doing::Rehoming(rehoming) => rehoming.step(event),
            Doing::Emptying(emptying) => emptying.step(event),
        };
        self.counts = matches!(action, KeepAction::CountReferences(_));
        let next = match action {
            KeepAction::ReadRing => return Some(Request::ReadRing),
            KeepAction::CountReferences(_) => return Some(Request::ReadHead(HERE)),
            KeepAction::Copy { segment, live, to } => {
                return Some(Request::Copy(HERE, segment, live.table, to));
            }
            KeepAction::Empty(table) => return Some(Request::Empty(table)),
            KeepAction::Ring(command) => return self.asks_ring(command, now),
            KeepAction::Head(command) => self.driver.asks(HERE, ShardAction::Head(vec![command]), now),
            KeepAction::Find(segment) => self.driver.asks(HERE, ShardAction::Find(segment), now),
            KeepAction::Seal(segment, live) => {
                let command = LogCommand::Seal;
                self.driver.asks(
                    HERE,
                    ShardAction::Log {
                        live,
                        segment,
                        command,
                    },
                    now,
                )
            }
            KeepAction::Damaged(segment) => panic!("{segment:?} is named, and gone"),
            KeepAction::Over => {
                let was = self.doing.take();
                let table = self.task?.table();
                let life = self.life.take();
                let life = life.filter(|_| matches!(was, Some(Doing::Fencing(_))))?;
                return self.asks_ring(RingCommand::Fenced(table, life), now);
            }
        };
        self.goes_on(next, now)
    }

    fn asks_ring(&mut self, command: RingCommand, now: &Now<'_>) -> Option<Request> {
        let next = self.driver.asks_ring(command, now);
        self.goes_on(next, now)
    }
}
