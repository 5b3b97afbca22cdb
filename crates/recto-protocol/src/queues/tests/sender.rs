//! Process of the models that sends messages with the engine's state machine, one request after the
//! other.

use super::driver::{Driver, Next};
use super::store::{Reply, Request};
use super::world::{Ghost, Now};
use super::{HERE, TENURE, entry_of};
use crate::queues::{
    BodyTable, Chunk, HeadResponse, Log, MessageId, RegisterNumber, Segment, SendAction, SendEvent,
    SendResponse, Sending, ShardAction, ShardEvent, Tenure, reach,
};

/// Process that sends a few messages, each in its own request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sender {
    /// Messages that are not sent yet, in reverse order.
    messages: Vec<u8>,
    message: u8,
    sending: Option<Sending>,
    driver: Driver,
    is_unplaced: bool,
    /// Epoch of the queue's slot, as the sender knows it.
    tenure: Tenure,
    /// Body table of the temporary queue to which the process sends; `None`: it sends to the usual
    /// queue.
    table: Option<BodyTable>,
    /// Action to execute once the logs of earlier segments (message batches) are read.
    asks: Option<ShardAction>,
    unread: Vec<(Segment, RegisterNumber)>,
}

impl Sender {
    pub(crate) fn new(messages: &[u8]) -> Self {
        let mut messages = messages.to_vec();
        messages.reverse();
        Self {
            messages,
            message: 0,
            sending: None,
            driver: Driver::new(),
            is_unplaced: true,
            tenure: TENURE,
            table: None,
            asks: None,
            unread: Vec::new(),
        }
    }

    /// Creates a sender to a queue whose slot has this epoch.
    pub(crate) fn by(tenure: Tenure, messages: &[u8]) -> Self {
        Self {
            tenure,
            ..Self::new(messages)
        }
    }

    /// Makes the process send to a temporary queue with this table for message bodies.
    pub(crate) fn in_table(mut self, table: BodyTable) -> Self {
        self.table = Some(table);
        self
    }

    /// Handles a reply of the store, and returns the next request.
    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        match reply {
            Reply::Start if now.config.is_new && self.is_unplaced => {
                self.is_unplaced = false;
                Some(Request::TakePlace)
            }
            Reply::Start | Reply::Places(_) => self.begins(now, ghosts),
            Reply::Log(log) if self.asks.is_some() => self.reads_before(log, now, ghosts),
            reply => {
                let next = self.driver.hears(reply, now);
                self.goes_on(next, now, ghosts)
            }
        }
    }

    fn begins(&mut self, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        self.message = self.messages.pop()?;
        let entry = entry_of(self.message, now);
        let chunk = Chunk(u128::from(self.message));
        let mut sending = Sending::new(
            HERE,
            self.tenure,
            reach(&entry),
            chunk,
            [entry].into(),
            now.config.protocol(),
        );
        if let Some(table) = self.table {
            sending = sending.in_table(table);
        }
        let open = self
            .driver
            .head(HERE)
            .and_then(|head| head.open(reach(&entry), self.tenure));
        let action = sending.step(open.map_or(SendEvent::Begin, |(segment, live)| {
            SendEvent::Shard(ShardEvent::Head(HeadResponse::Open(segment, live)))
        }));
        self.sending = Some(sending);
        self.does(action, now, ghosts)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        match next {
            Next::Asks(request) => Some(request),
            Next::Shard(event) => {
                if event == ShardEvent::TableGone {
                    ghosts.push(Ghost::TableGone);
                }
                let action = self.sending.as_mut()?.step(SendEvent::Shard(event));
                self.does(action, now, ghosts)
            }
            other => panic!("{other:?}"),
        }
    }

    fn does(&mut self, action: SendAction, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let action = match action {
            SendAction::Shard(_, action) => action,
            SendAction::Response(response) => {
                self.ends(response, ghosts);
                return None;
            }
        };
        match &action {
            ShardAction::Log { segment, .. } if self.driver.segment() != Some(*segment) => {
                if now.config.deduplicates {
                    self.unread = self.driver.head(HERE)?.before(*segment, now.micros);
                }
                self.asks = Some(action);
                self.reads_next(now, ghosts)
            }
            _ => self.asks(action, now, ghosts),
        }
    }

    fn asks(&mut self, action: ShardAction, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let next = self.driver.asks(HERE, action, now);
        self.goes_on(next, now, ghosts)
    }

    fn reads_next(&mut self, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        if let Some((_, register)) = self.unread.first() {
            return Some(Request::ReadLog(HERE, *register));
        }
        let action = self.asks.take()?;
        self.asks(action, now, ghosts)
    }

    fn reads_before(&mut self, log: Log, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        let (segment, _) = self.unread.remove(0);
        if log.segment == segment {
            self.driver.recent.extend(log.fingerprints());
        }
        self.reads_next(now, ghosts)
    }

    fn ends(&mut self, response: SendResponse, ghosts: &mut Vec<Ghost>) {
        self.sending = None;
        let message = MessageId(u128::from(self.message));
        match response {
            SendResponse::Sent(_, placed) => {
                ghosts.extend(placed.into_iter().map(|placed| Ghost::Sent(placed, message)));
            }
            SendResponse::NoQueue => ghosts.push(Ghost::NoQueue),
            SendResponse::Full => ghosts.push(Ghost::Full),
            SendResponse::Unknown => ghosts.push(Ghost::Unknown),
            SendResponse::Damaged => ghosts.push(Ghost::Damaged),
            SendResponse::TooLarge => {}
        }
    }

    /// Returns whether the sender has sent all messages.
    pub(crate) fn is_over(&self) -> bool {
        self.messages.is_empty() && self.sending.is_none()
    }
}
