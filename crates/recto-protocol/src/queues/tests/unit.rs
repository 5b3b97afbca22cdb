//! Processes of the models that begin a temporary queue and send to it, and processes that close
//! the body tables of ended temporary queues.

use super::QUEUE;
use super::driver::{Driver, Next};
use super::sender::Sender;
use super::store::{Reply, Request};
use super::world::{Ghost, Now};
use crate::queues::{Ending, QueueId, QueueName, RegistryCommand, RingCommand, UnitAction, UnitEvent};

const UNIT: QueueId = QueueId(5);

/// Process that begins the temporary queue, and sends one message to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UnitSender {
    is_begun: bool,
    driver: Driver,
    sender: Option<Sender>,
}

impl UnitSender {
    pub(crate) fn new() -> Self {
        Self {
            is_begun: false,
            driver: Driver::new(),
            sender: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_begun && self.sender.as_ref().is_none_or(Sender::is_over)
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>, ghosts: &mut Vec<Ghost>) -> Option<Request> {
        if let Some(sender) = &mut self.sender {
            return sender.hears(reply, now, ghosts);
        }
        let next = if reply == Reply::Start {
            self.is_begun = true;
            let name = QueueName::new("unit", "unit").expect("a name");
            let (id, queue) = (UNIT, QUEUE);
            self.driver
                .asks_registry(RegistryCommand::Begin { id, queue, name }, now)
        } else {
            self.driver.hears(reply, now)
        };
        self.goes_on(next, now)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>) -> Option<Request> {
        match next {
            Next::Asks(request) => Some(request),
            Next::Registry(_) => {
                let next = self.driver.asks_ring(RingCommand::Begin(UNIT), now);
                self.goes_on(next, now)
            }
            Next::Ring(_) => {
                let table = self.driver.ring()?.unit(UNIT)?;
                let (_, row, _) = self.driver.registry()?.unit(QUEUE, "unit")?;
                self.sender = Some(Sender::by(row.tenure, &[1]).in_table(table));
                None
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Process that searches once for ended temporary queues, to close their tables for message bodies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UnitEnder {
    is_begun: bool,
    ending: Option<Ending>,
    driver: Driver,
}

impl UnitEnder {
    pub(crate) fn new() -> Self {
        Self {
            is_begun: false,
            ending: None,
            driver: Driver::new(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_begun
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Option<Request> {
        if reply == Reply::Start {
            self.is_begun = true;
            self.ending = Some(Ending::new(now.config.protocol()));
            return self.tells(UnitEvent::Begin, now);
        }
        let next = self.driver.hears(reply, now);
        self.goes_on(next, now)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>) -> Option<Request> {
        match next {
            Next::Asks(request) => Some(request),
            Next::Ring(response) => self.tells(UnitEvent::RingResponse(response), now),
            Next::Other(Reply::Ring(ring)) => self.tells(UnitEvent::Ring(ring), now),
            Next::Other(Reply::Registry(registry)) => self.tells(UnitEvent::Registry(registry), now),
            other => panic!("{other:?}"),
        }
    }

    fn tells(&mut self, event: UnitEvent, now: &Now<'_>) -> Option<Request> {
        match self.ending.as_mut()?.step(event) {
            UnitAction::ReadRing => Some(Request::ReadRing),
            UnitAction::ReadRegistry => Some(Request::ReadRegistry),
            UnitAction::Ring(command) => {
                let next = self.driver.asks_ring(command, now);
                self.goes_on(next, now)
            }
            UnitAction::Over => None,
        }
    }
}
