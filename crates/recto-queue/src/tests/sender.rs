//! Who sends, in the models: the product's machines, one request after the other.

use super::store::{Reply, Request, SetsUp};
use super::world::{Config, Ghost, Now};
use super::{HERE, TENURE, entry_of, event_of};
use crate::{
    Action, BodyTable, Event, Head, HeadAnswer, HeadContext, HeadWish, Live, Log, LogContext, LogWish,
    Recent, Round, Segment, SendAction, SendAnswer, SendEvent, Sending, ShardAction, ShardEvent, Ticket,
    Version, reach,
};

/// A sender of a few messages, each by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sender {
    /// Which messages it has still to send, the last one first.
    messages: Vec<u8>,
    message: u8,
    sending: Option<Sending>,
    head: Round<Head>,
    ring: (Version, BodyTable),
    wishes: usize,
    is_unplaced: bool,
    log: Option<(Segment, Live, Round<Log>)>,
    /// What is to be asked when the logs before were read.
    asks: Option<LogWish>,
    unread: Vec<(Segment, crate::RegisterNumber)>,
    recent: Recent,
}

impl Sender {
    pub(crate) fn new(config: &Config, messages: &[u8]) -> Self {
        let mut messages = messages.to_vec();
        messages.reverse();
        Self {
            messages,
            message: 0,
            sending: None,
            head: Round::new(config.protocol()),
            ring: (1, BodyTable(1)),
            wishes: 0,
            is_unplaced: true,
            log: None,
            asks: None,
            unread: Vec::new(),
            recent: Recent::new(),
        }
    }

    /// What it asks next, now that it heard this.
    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        match reply {
            Reply::Start if now.config.is_new && self.is_unplaced => {
                self.is_unplaced = false;
                Some(Request::TakePlace)
            }
            Reply::Start | Reply::Places(_) => {
                let message = self.messages.pop()?;
                self.message = message;
                let entry = entry_of(message, now);
                let chunk = crate::Chunk(u128::from(message));
                let entries = [entry].into();
                let mut send =
                    Sending::new(HERE, TENURE, reach(&entry), chunk, entries, now.config.protocol());
                let open = self.head.copy().and_then(|head| head.open(reach(&entry)));
                let event = open.map_or(SendEvent::Begin, |(segment, live)| {
                    SendEvent::Shard(ShardEvent::Head(HeadAnswer::Open(segment, live)))
                });
                let action = send.step(event);
                self.sending = Some(send);
                self.does(action, now, ghosts)
            }
            Reply::Log(log) if self.asks.is_some() => self.reads_before(log, now, ghosts),
            Reply::Ring(ring) => {
                self.ring = (ring.version, ring.open()?);
                self.tells(ShardEvent::Ring(ring.version), now, ghosts)
            }
            Reply::Written => self.tells(ShardEvent::Written, now, ghosts),
            reply if self.wishes > 0 => self.tells_head(event_of(reply), now, ghosts),
            reply => self.tells_log(event_of(reply), now, ghosts),
        }
    }

    fn tells(&mut self, event: ShardEvent, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let action = self.sending.as_mut()?.step(SendEvent::Shard(event));
        self.does(action, now, ghosts)
    }

    fn does(&mut self, action: SendAction, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        match action {
            SendAction::Shard(_, ShardAction::Head(wishes)) => self.asks_head(wishes, now, ghosts),
            SendAction::Shard(_, ShardAction::ReadRing) => Some(Request::ReadRing),
            SendAction::Shard(_, ShardAction::Find(_)) => None,
            SendAction::Shard(_, ShardAction::Write { live, segment, chunk }) => {
                Some(Request::Write(live.table, segment, chunk))
            }
            SendAction::Shard(_, ShardAction::Log { live, segment, wish }) => {
                self.asks_log(segment, live, wish, now, ghosts)
            }
            SendAction::Answer(answer) => {
                self.ends(answer, ghosts);
                None
            }
        }
    }

    fn ends(&mut self, answer: SendAnswer, ghosts: &mut Vec<Ghost>) {
        self.sending = None;
        let message = crate::MessageId(u128::from(self.message));
        match answer {
            SendAnswer::Sent(_, placed) => {
                ghosts.extend(placed.into_iter().map(|placed| Ghost::Sent(placed, message)));
            }
            SendAnswer::Full => ghosts.push(Ghost::Full),
            SendAnswer::NoQueue => ghosts.push(Ghost::NoQueue),
            SendAnswer::Unknown => ghosts.push(Ghost::Unknown),
            SendAnswer::Damaged => ghosts.push(Ghost::Damaged),
            SendAnswer::TooLarge => {}
        }
    }

    fn asks_head(
        &mut self,
        wishes: Vec<HeadWish>,
        now: &Now<'_>,
        ghosts: &mut Vec<Ghost>,
    ) -> Option<Request> {
        self.wishes = wishes.len();
        let wishes = (0..).map(Ticket).zip(wishes).collect();
        self.tells_head(Event::Asked(wishes), now, ghosts)
    }

    fn tells_head(&mut self, event: Event<Head>, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let context = now.head_context(self.ring);
        let mut last = None;
        for action in self.head.step(event, &context) {
            match action {
                Action::Read => return Some(Request::ReadHead),
                Action::Cas { expected, put } => return Some(Request::CasHead(expected, put)),
                Action::Answer(ticket, answer) if ticket.0 as usize + 1 == self.wishes => last = Some(answer),
                Action::Answer(..) => {}
            }
        }
        self.wishes = 0;
        self.tells(ShardEvent::Head(last?), now, ghosts)
    }

    fn asks_log(
        &mut self,
        segment: Segment,
        live: Live,
        wish: LogWish,
        now: &Now<'_>,
        ghosts: &mut Vec<Ghost>,
    ) -> Option<Request> {
        let is_known = self.log.as_ref().is_some_and(|(known, ..)| *known == segment);
        if !is_known {
            self.log = Some((segment, live, Round::new(now.config.protocol())));
            if now.config.deduplicates {
                self.unread = self.head.copy()?.before(segment, now.micros);
            }
        }
        if let Some((_, register)) = self.unread.first() {
            self.asks = Some(wish);
            return Some(Request::ReadLog(*register));
        }
        self.tells_log(Event::Asked(vec![(Ticket(0), wish)]), now, ghosts)
    }

    fn reads_before(&mut self, log: Log, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let (segment, _) = self.unread.remove(0);
        if log.segment == segment {
            self.recent.extend(log.fingerprints());
        }
        if let Some((_, register)) = self.unread.first() {
            return Some(Request::ReadLog(*register));
        }
        let wish = self.asks.take()?;
        self.tells_log(Event::Asked(vec![(Ticket(0), wish)]), now, ghosts)
    }

    fn tells_log(&mut self, event: Event<Log>, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let (segment, live, round) = self.log.as_mut()?;
        let context = LogContext {
            segment: *segment,
            recent: &self.recent,
            protocol: now.config.protocol(),
        };
        match round.step(event, &context).into_iter().next()? {
            Action::Read => Some(Request::ReadLog(live.register)),
            Action::Cas { expected, put } => {
                let sets_up = round.copy().is_none_or(|copy| copy.segment != put.segment);
                Some(Request::CasLog(live.register, expected, put, SetsUp(sets_up)))
            }
            Action::Answer(_, answer) => self.tells(ShardEvent::Log(answer), now, ghosts),
        }
    }

    /// Whether it has nothing more to do.
    pub(crate) fn is_over(&self) -> bool {
        self.messages.is_empty() && self.sending.is_none()
    }
}

impl Now<'_> {
    /// By a ring of this version, where this table is open.
    pub(crate) fn head_context(&self, known: (Version, BodyTable)) -> HeadContext {
        let (ring, table) = known;
        HeadContext {
            ring,
            table,
            now: self.micros,
            protocol: self.config.protocol(),
        }
    }
}
