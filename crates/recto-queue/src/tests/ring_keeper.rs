//! Who keeps the ring, in the models.

use super::event_of;
use super::store::{Reply, Request, SetsUp};
use super::world::{Config, Now};
use crate::{
    Action, BodyTable, Decision, Emptied, Emptying, Event, Fencing, Head, HeadAnswer, HeadWish, KeepAction,
    KeepEvent, Life, Live, Log, LogAnswer, LogContext, LogWish, Owner, Phase, Recent, Rehoming, Ring,
    RingAnswer, RingContext, RingWish, Round, Segment, Ticket, Version,
};

/// What a keeper is to do with a table, if it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Roll(u32),
    Fence(u32),
    Rehome(u32),
    Empty(u32),
    /// Of an owner that is taken for gone.
    Retire(u32),
}

impl Task {
    fn table(self) -> BodyTable {
        match self {
            Self::Roll(table)
            | Self::Fence(table)
            | Self::Rehome(table)
            | Self::Empty(table)
            | Self::Retire(table) => BodyTable(table),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Doing {
    Fencing(Fencing),
    Rehoming(Rehoming),
    Emptying(Emptying),
}

/// For whose answer it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Waits {
    Reading,
    References,
    Ring,
    Head,
    Log,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RingKeeper {
    name: u8,
    /// The last one first.
    tasks: Vec<Task>,
    task: Option<Task>,
    doing: Option<Doing>,
    /// Of the table that it fences.
    life: Option<Life>,
    waits: Waits,
    known: (Version, BodyTable),
    ring: Round<Ring>,
    head: Round<Head>,
    log: Option<(Segment, Live, Round<Log>)>,
}

impl RingKeeper {
    pub(crate) fn new(config: &Config, name: u8, tasks: &[Task]) -> Self {
        let mut tasks = tasks.to_vec();
        tasks.reverse();
        Self {
            name,
            tasks,
            task: None,
            doing: None,
            life: None,
            waits: Waits::Reading,
            known: (1, BodyTable(1)),
            ring: Round::new(config.protocol()),
            head: Round::new(config.protocol()),
            log: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Option<Request> {
        match (reply, self.waits) {
            (Reply::Start, _) => {
                self.task = self.tasks.pop();
                self.begins(now)
            }
            (Reply::Ring(ring), Waits::Reading) => {
                self.known = (ring.version, ring.open()?);
                self.sees_ring(ring, now)
            }
            (Reply::Head(head), Waits::References) => {
                let count = head.references(self.task?.table()).count();
                self.tells(KeepEvent::References(count), now)
            }
            (Reply::Head(head), Waits::Reading) => {
                let (segment, live) = head.references(self.task?.table()).next()?;
                live.count?;
                let rehoming = Rehoming::new(segment, live, now.config.protocol());
                self.doing = Some(Doing::Rehoming(rehoming));
                self.tells(KeepEvent::Begin, now)
            }
            (Reply::Places(is_placed), _) => self.fences(is_placed, now),
            (Reply::Written, _) => self.tells(KeepEvent::Copied, now),
            (Reply::Decided(_, decision), Waits::Reading) => {
                let emptied = match decision {
                    Decision::Applied => Emptied::Done,
                    _ => Emptied::Unknown,
                };
                self.tells(KeepEvent::Emptied(emptied), now)
            }
            (reply, Waits::Ring) => self.tells_ring(event_of(reply), now),
            (reply, Waits::Head) => self.tells_head(event_of(reply), now),
            (reply, Waits::Log) => self.tells_log(event_of(reply), now),
            _ => None,
        }
    }

    fn begins(&mut self, now: &Now<'_>) -> Option<Request> {
        self.waits = Waits::Reading;
        match self.task? {
            Task::Roll(table) => self.asks_ring(RingWish::Roll(BodyTable(table)), now),
            Task::Fence(_) | Task::Retire(_) => Some(Request::ReadRing),
            Task::Rehome(_) => Some(Request::ReadHead),
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
            (Task::Fence(_), Phase::Closing { life, .. }) => {
                self.life = Some(*life);
                if now.config.is_new {
                    return Some(Request::ReadPlaces);
                }
                self.fences(true, now)
            }
            (Task::Retire(_), Phase::Emptying { owner, .. }) => {
                self.asks_ring(RingWish::Retire(table, *owner), now)
            }
            _ => None,
        }
    }

    /// Every head that there is: one, or none.
    fn fences(&mut self, is_placed: bool, now: &Now<'_>) -> Option<Request> {
        let table = self.task?.table();
        if !is_placed {
            let life = self.life.take()?;
            return self.asks_ring(RingWish::Fenced(table, life), now);
        }
        let fencing = Fencing::new(table, self.known.0, now.config.protocol());
        self.doing = Some(Doing::Fencing(fencing));
        self.tells(KeepEvent::Begin, now)
    }

    fn tells(&mut self, event: KeepEvent, now: &Now<'_>) -> Option<Request> {
        let action = match self.doing.as_mut()? {
            Doing::Fencing(fencing) => fencing.step(event),
            Doing::Rehoming(rehoming) => rehoming.step(event),
            Doing::Emptying(emptying) => emptying.step(event),
        };
        self.waits = Waits::Reading;
        match action {
            KeepAction::ReadRing => Some(Request::ReadRing),
            KeepAction::Ring(wish) => self.asks_ring(wish, now),
            KeepAction::Head(wish) => self.asks_head(wish, now),
            KeepAction::CountReferences(_) => {
                self.waits = Waits::References;
                Some(Request::ReadHead)
            }
            KeepAction::Seal(segment, live) => {
                self.waits = Waits::Log;
                self.log = Some((segment, live, Round::new(now.config.protocol())));
                self.tells_log(Event::Asked(vec![(Ticket(0), LogWish::Seal)]), now)
            }
            KeepAction::Copy { segment, live, to } => Some(Request::Copy(segment, live.table, to)),
            KeepAction::Empty(table) => Some(Request::Empty(table)),
            KeepAction::Damaged(segment) => panic!("{segment:?} is named, and gone"),
            KeepAction::Over => {
                let was = self.doing.take();
                let table = self.task?.table();
                let life = self
                    .life
                    .take()
                    .filter(|_| matches!(was, Some(Doing::Fencing(_))))?;
                self.asks_ring(RingWish::Fenced(table, life), now)
            }
        }
    }

    fn asks_ring(&mut self, wish: RingWish, now: &Now<'_>) -> Option<Request> {
        self.waits = Waits::Ring;
        self.tells_ring(Event::Asked(vec![(Ticket(0), wish)]), now)
    }

    fn tells_ring(&mut self, event: Event<Ring>, now: &Now<'_>) -> Option<Request> {
        let context = RingContext {
            now: now.micros,
            protocol: now.config.protocol(),
        };
        match self.ring.step(event, &context).into_iter().next()? {
            Action::Read => Some(Request::ReadRing),
            Action::Cas { expected, put } => Some(Request::CasRing(expected, put)),
            Action::Answer(_, answer) => self.hears_ring(answer, now),
        }
    }

    fn hears_ring(&mut self, answer: RingAnswer, now: &Now<'_>) -> Option<Request> {
        if self.doing.is_some() {
            return self.tells(KeepEvent::RingAnswer(answer), now);
        }
        None
    }

    fn asks_head(&mut self, wish: HeadWish, now: &Now<'_>) -> Option<Request> {
        self.waits = Waits::Head;
        self.tells_head(Event::Asked(vec![(Ticket(0), wish)]), now)
    }

    fn tells_head(&mut self, event: Event<Head>, now: &Now<'_>) -> Option<Request> {
        if now.config.shares_ring {
            self.known = now.ring;
        }
        match self
            .head
            .step(event, &now.head_context(self.known))
            .into_iter()
            .next()?
        {
            Action::Read => Some(Request::ReadHead),
            Action::Cas { expected, put } => Some(Request::CasHead(expected, put)),
            Action::Answer(_, answer) => self.hears_head(answer, now),
        }
    }

    fn hears_head(&mut self, answer: HeadAnswer, now: &Now<'_>) -> Option<Request> {
        let head = self.head.copy()?.clone();
        self.tells(KeepEvent::Head(answer, head), now)
    }

    fn tells_log(&mut self, event: Event<Log>, now: &Now<'_>) -> Option<Request> {
        let (segment, live, round) = self.log.as_mut()?;
        let context = LogContext {
            segment: *segment,
            recent: &Recent::new(),
            protocol: now.config.protocol(),
        };
        match round.step(event, &context).into_iter().next()? {
            Action::Read => Some(Request::ReadLog(live.register)),
            Action::Cas { expected, put } => {
                let sets_up = round.copy().is_none_or(|copy| copy.segment != put.segment);
                Some(Request::CasLog(live.register, expected, put, SetsUp(sets_up)))
            }
            Action::Answer(_, answer) => {
                let count = match answer {
                    LogAnswer::Sealed(count) => Some(count),
                    _ => None,
                };
                self.tells(KeepEvent::Sealed(count), now)
            }
        }
    }
}
