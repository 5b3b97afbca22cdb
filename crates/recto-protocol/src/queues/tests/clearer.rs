//! Process of the models that deletes the queue, clears its slot (row of the registry), and creates
//! another queue there.

use super::driver::{Driver, Next, Spot};
use super::mover::spot_of;
use super::sender::Sender;
use super::store::{Reply, Request, ResolvedBy};
use super::world::{Ghost, Now};
use super::{HERE, QUEUE};
use crate::queues::{
    ClearAction, ClearEvent, Clearing, Live, Log, LogCommand, MessageId, QueueId, QueueName, QueueOptions,
    RegistryCommand, Released, Segment, ShardAction, ShardEvent, Tenure,
};

/// Process that deletes the queue, and then sends a message to the next queue in its slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Clearer {
    name: u8,
    is_begun: bool,
    clearing: Option<Clearing>,
    /// Epoch of the slot (row of the registry) that began when the queue was deleted.
    deletion: Tenure,
    /// Segment that is being removed, and its location.
    here: Option<(Segment, Live)>,
    log: Option<Log>,
    /// True if the last command went to the state of the segment that is being removed.
    purges: bool,
    driver: Driver,
    sender: Option<Sender>,
}

impl Clearer {
    /// Id of the message that the first of these processes sends to the next queue.
    pub(crate) const FIRST: MessageId = MessageId(9);

    pub(crate) fn new(name: u8) -> Self {
        Self {
            name,
            is_begun: false,
            clearing: None,
            deletion: Tenure::default(),
            here: None,
            log: None,
            purges: false,
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
            self.driver.asks_registry(RegistryCommand::Delete(QUEUE), now)
        } else {
            self.driver.hears(reply, now)
        };
        self.goes_on(next, now)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>) -> Option<Request> {
        let event = match next {
            Next::Asks(request) => return Some(request),
            Next::Registry(_) => return self.goes_by_the_registry(now),
            Next::Shard(ShardEvent::Head(response)) => {
                ClearEvent::Head(response, self.driver.head(HERE)?.clone())
            }
            Next::Shard(ShardEvent::Log(response)) => ClearEvent::Log(response),
            Next::Shard(ShardEvent::Found(live)) => ClearEvent::Found(live),
            Next::State(response) if self.purges => ClearEvent::State(response),
            Next::State(response) => ClearEvent::Source(response),
            Next::Other(Reply::Log(log)) => {
                let (_, live) = self.here?;
                self.log = Some(log);
                return Some(Request::ReadState(HERE, live.register));
            }
            Next::Other(Reply::State(state)) => ClearEvent::Read(self.log.take()?, state),
            other => panic!("{other:?}"),
        };
        self.clears(event, now)
    }

    fn goes_by_the_registry(&mut self, now: &Now<'_>) -> Option<Request> {
        let registry = self.driver.registry()?;
        let row = registry.place(HERE.place)?;
        if let Some((_, row, _)) = registry.queue(QueueId(2)) {
            let message = u8::try_from(Self::FIRST.0).expect("a small number");
            self.sender = Some(Sender::by(row.tenure, &[message + self.name]));
            return None;
        }
        if let Some(tenure) = row.deleting() {
            self.deletion = tenure;
            self.clearing = Some(Clearing::new(HERE, tenure, now.config.protocol()));
            return self.clears(ClearEvent::Begin, now);
        }
        let create = RegistryCommand::Create {
            id: QueueId(2),
            name: QueueName::new("name", "next").expect("a name"),
            options: QueueOptions {
                shards: 1,
                ..QueueOptions::default()
            },
        };
        let next = self.driver.asks_registry(create, now);
        self.goes_on(next, now)
    }

    fn clears(&mut self, event: ClearEvent, now: &Now<'_>) -> Option<Request> {
        let action = self.clearing.as_mut()?.step(event);
        self.purges = matches!(action, ClearAction::State(..));
        let next = match action {
            ClearAction::Head(command) => self.driver.asks(HERE, ShardAction::Head(vec![command]), now),
            ClearAction::Seal(segment, live) => {
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
            ClearAction::Read(segment, live) => {
                self.here = Some((segment, live));
                return Some(Request::ReadLog(HERE, live.register));
            }
            ClearAction::Source(origin, command) => {
                self.driver
                    .asks_state(spot_of(origin), command, ResolvedBy::Nobody, now)
            }
            ClearAction::State(segment, live, command) => {
                let own = Spot {
                    address: HERE,
                    segment,
                    register: live.register,
                };
                let by = ResolvedBy::Purge(self.deletion);
                self.driver.asks_state(own, command, by, now)
            }
            ClearAction::Find(segment) => self.driver.asks(HERE, ShardAction::Find(segment), now),
            ClearAction::Over(released) => {
                assert_eq!(released, Released::Done);
                let tenure = self.driver.registry()?.place(HERE.place)?.tenure;
                self.driver
                    .asks_registry(RegistryCommand::Cleared(HERE.place, tenure), now)
            }
        };
        self.goes_on(next, now)
    }
}
