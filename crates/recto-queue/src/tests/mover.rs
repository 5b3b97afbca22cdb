//! Who moves the message of the first segment, in the models.

use super::store::{Reply, Request, SetsUp};
use super::world::{Config, Now};
use super::{HERE, SOURCE, TENURE, entry_of, event_of};
use crate::{
    Action, BodyTable, Chunk, Clock, Event, Head, Leases, Live, Log, LogContext, LogWish, MoveAction,
    MoveEvent, Moved, Moving, Recent, RegisterNumber, Round, Segment, ShardAction, ShardEvent, State,
    StateContext, StateWish, Ticket,
};

/// For whose answer it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Waits {
    Found(Segment),
    Source,
    Head,
    Log,
}

/// Moves the message so often, or finds that it is moved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Mover {
    name: u8,
    tries: u8,
    moving: Option<Moving>,
    waits: Waits,
    head: Round<Head>,
    wishes: usize,
    source: Round<State>,
    log: Option<(Segment, Live, Round<Log>)>,
}

impl Mover {
    pub(crate) fn new(config: &Config, name: u8) -> Self {
        Self {
            name,
            tries: 1,
            moving: None,
            waits: Waits::Source,
            head: Round::new(config.protocol()),
            wishes: 0,
            source: Round::new(config.protocol()),
            log: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.tries == 0
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Option<Request> {
        match (reply, self.waits) {
            (Reply::Start, _) => {
                self.tries -= 1;
                let chunk = Chunk(100 + u128::from(self.name));
                let (entry, protocol) = (entry_of(1, now), now.config.protocol());
                self.moving = Some(Moving::new(SOURCE, None, (HERE, TENURE), chunk, entry, protocol));
                self.tells(MoveEvent::Begin, now)
            }
            (Reply::Written, _) => self.tells(MoveEvent::Shard(ShardEvent::Written), now),
            (Reply::Head(head), Waits::Found(segment)) => {
                let live = head.live().get(&segment).copied();
                self.tells(MoveEvent::Shard(ShardEvent::Found(live)), now)
            }
            (reply, Waits::Source) => self.tells_source(event_of(reply), now),
            (reply, Waits::Head) => self.tells_head(event_of(reply), now),
            (reply, Waits::Log) => self.tells_log(event_of(reply), now),
            _ => None,
        }
    }

    fn tells(&mut self, event: MoveEvent, now: &Now<'_>) -> Option<Request> {
        match self.moving.as_mut()?.step(event) {
            MoveAction::Shard(_, ShardAction::Head(wishes)) => {
                self.waits = Waits::Head;
                self.wishes = wishes.len();
                let wishes = (0..).map(Ticket).zip(wishes).collect();
                self.tells_head(Event::Asked(wishes), now)
            }
            MoveAction::Source(_, wish) => {
                self.waits = Waits::Source;
                self.tells_source(Event::Asked(vec![(Ticket(0), wish)]), now)
            }
            MoveAction::Shard(_, ShardAction::Find(segment)) => {
                self.waits = Waits::Found(segment);
                Some(Request::ReadHead)
            }
            MoveAction::Shard(_, ShardAction::ReadRing) => Some(Request::ReadRing),
            MoveAction::Shard(_, ShardAction::Write { live, segment, chunk }) => {
                Some(Request::Write(live.table, segment, chunk))
            }
            MoveAction::Shard(_, ShardAction::Log { live, segment, wish }) => {
                self.asks_log(segment, live, wish, now)
            }
            MoveAction::Over(moved) => {
                let is_damaged = moved == Moved::Damaged && now.config.without.is_none();
                assert!(!is_damaged, "nothing is damaged");
                None
            }
        }
    }

    fn tells_head(&mut self, event: Event<Head>, now: &Now<'_>) -> Option<Request> {
        let context = now.head_context((1, BodyTable(1)));
        let mut last = None;
        for action in self.head.step(event, &context) {
            match action {
                Action::Read => return Some(Request::ReadHead),
                Action::Cas { expected, put } => return Some(Request::CasHead(expected, put)),
                Action::Answer(ticket, answer) if ticket.0 as usize + 1 == self.wishes => last = Some(answer),
                Action::Answer(..) => {}
            }
        }
        self.tells(MoveEvent::Shard(ShardEvent::Head(last?)), now)
    }

    fn tells_source(&mut self, event: Event<State>, now: &Now<'_>) -> Option<Request> {
        match step_source(&mut self.source, event, now)? {
            Action::Read => Some(Request::ReadState(RegisterNumber(0))),
            Action::Cas { expected, put } => Some(Request::CasState(RegisterNumber(0), expected, put, None)),
            Action::Answer(_, answer) => self.tells(MoveEvent::Source(answer), now),
        }
    }

    fn asks_log(&mut self, segment: Segment, live: Live, wish: LogWish, now: &Now<'_>) -> Option<Request> {
        self.waits = Waits::Log;
        let is_known = self.log.as_ref().is_some_and(|(known, ..)| *known == segment);
        if !is_known {
            self.log = Some((segment, live, Round::new(now.config.protocol())));
        }
        self.tells_log(Event::Asked(vec![(Ticket(0), wish)]), now)
    }

    fn tells_log(&mut self, event: Event<Log>, now: &Now<'_>) -> Option<Request> {
        let (segment, live, round) = self.log.as_mut()?;
        // What the log of the first segment has.
        let before = entry_of(1, now);
        let before = before.deduplication.map(|id| (id, (before.id, before.sent)));
        let mut recent = Recent::new();
        recent.extend(before);
        let context = LogContext {
            segment: *segment,
            recent: &recent,
            protocol: now.config.protocol(),
        };
        match round.step(event, &context).into_iter().next()? {
            Action::Read => Some(Request::ReadLog(live.register)),
            Action::Cas { expected, put } => {
                let sets_up = round.copy().is_none_or(|copy| copy.segment != put.segment);
                Some(Request::CasLog(live.register, expected, put, SetsUp(sets_up)))
            }
            Action::Answer(_, answer) => self.tells(MoveEvent::Shard(ShardEvent::Log(answer)), now),
        }
    }
}

/// One step of the rounds of the first segment's state, of someone who claims nothing.
pub(crate) fn step_source(
    source: &mut Round<State>,
    event: Event<State>,
    now: &Now<'_>,
) -> Option<Action<State>> {
    let context = StateContext {
        segment: SOURCE.segment,
        log: &Log::absent(),
        most_attempts: None,
        order: None,
        leases: &Leases::default(),
        clock: Clock {
            wall: now.micros,
            monotonic: now.micros,
        },
        protocol: now.config.protocol(),
    };
    source.step(event, &context).into_iter().next()
}

/// Asks the first segment's state.
pub(crate) fn ask_source(wish: StateWish) -> Event<State> {
    Event::Asked(vec![(Ticket(0), wish)])
}
