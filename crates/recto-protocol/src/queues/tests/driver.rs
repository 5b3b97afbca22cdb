//! Common part of all processes of the models: their compare-and-set loops for versioned cells. A
//! process waits for only one loop at a time.

use std::collections::BTreeMap;

use super::store::{Reply, Request, ResolvedBy, SetsUp};
use super::world::Now;
use crate::queues::{
    Action, Address, BodyTable, Clock, Event, Head, HeadCommand, HeadContext, Leases, Live, Log, LogContext,
    Order, Recent, Register, RegisterNumber, Registry, RegistryCommand, RegistryContext, RegistryResponse,
    Ring, RingCommand, RingContext, RingResponse, Round, Segment, ShardAction, ShardEvent, State,
    StateCommand, StateContext, StateResponse, Ticket, Version,
};

/// Compare-and-set loops of a process, each for one versioned cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Driver {
    /// Ring (list of body tables) as the process knows it: its version, and its open table.
    pub(crate) known: (Version, BodyTable),
    /// Deduplication ids in segments (message batches) before the one to which the process appends.
    pub(crate) recent: Recent,
    /// Log of the segment from which the process claims messages. `order` has the groups that must
    /// wait there.
    pub(crate) log_of_claims: Option<Log>,
    pub(crate) order: Option<Order>,
    waits: Waits,
    heads: BTreeMap<Address, Round<Head>>,
    /// Loop of the log that received the last command.
    log: Option<(Address, Segment, Live, Round<Log>)>,
    /// Loop of the state that received the last command.
    state: Option<(Spot, Round<State>)>,
    ring: Option<Round<Ring>>,
    registry: Option<Round<Registry>>,
}

/// Location of the state of a segment (progress of its messages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    pub(crate) address: Address,
    pub(crate) segment: Segment,
    pub(crate) register: RegisterNumber,
}

/// Response for which a process waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Waits {
    Nothing,
    /// Responses of this shard's manifest (list of live segments) to this number of commands.
    Head(Address, usize),
    Log,
    State(ResolvedBy),
    Ring,
    Registry,
    /// Entry of this segment in a shard's manifest (list of live segments).
    Found(Segment),
    /// The ring (list of body tables).
    Reading,
}

/// Next step of a process: a request to the store, or a response to handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    Asks(Request),
    Shard(ShardEvent),
    State(StateResponse),
    Ring(RingResponse),
    Registry(RegistryResponse),
    /// Reply to a request that the driver did not send.
    Other(Reply),
}

impl Driver {
    pub(crate) fn new() -> Self {
        Self {
            known: (1, BodyTable(1)),
            recent: Recent::new(),
            log_of_claims: None,
            order: None,
            waits: Waits::Nothing,
            heads: BTreeMap::new(),
            log: None,
            state: None,
            ring: None,
            registry: None,
        }
    }

    /// Returns the last known manifest (list of live segments) of a shard.
    pub(crate) fn head(&self, address: Address) -> Option<&Head> {
        self.heads.get(&address)?.copy()
    }

    /// Returns the segment (message batch) whose log received the last command.
    pub(crate) fn segment(&self) -> Option<Segment> {
        self.log.as_ref().map(|(_, segment, ..)| *segment)
    }

    /// Removes the state that received the last command, and returns its last known value.
    pub(crate) fn forgets_state(&mut self) -> Option<State> {
        let (_, round) = self.state.take()?;
        round.copy().cloned()
    }

    pub(crate) fn asks(&mut self, address: Address, action: ShardAction, now: &Now<'_>) -> Next {
        match action {
            ShardAction::Head(commands) => self.asks_head(address, commands, now),
            ShardAction::ReadRing => {
                self.waits = Waits::Reading;
                Next::Asks(Request::ReadRing)
            }
            ShardAction::Find(segment) => {
                self.waits = Waits::Found(segment);
                Next::Asks(Request::ReadHead(address))
            }
            ShardAction::Write { live, segment, chunk } => {
                Next::Asks(Request::Write(live.table, address, segment, chunk))
            }
            ShardAction::Log {
                live,
                segment,
                command,
            } => {
                self.waits = Waits::Log;
                let is_known = self
                    .log
                    .as_ref()
                    .is_some_and(|(of, known, ..)| (*of, *known) == (address, segment));
                if !is_known {
                    self.log = Some((address, segment, live, Round::new(now.config.protocol())));
                }
                self.tells_log(asked([command]), now)
            }
        }
    }

    fn asks_head(&mut self, address: Address, commands: Vec<HeadCommand>, now: &Now<'_>) -> Next {
        self.waits = Waits::Head(address, commands.len());
        self.tells_head(asked(commands), now)
    }

    pub(crate) fn asks_state(
        &mut self,
        spot: Spot,
        command: StateCommand,
        by: ResolvedBy,
        now: &Now<'_>,
    ) -> Next {
        self.waits = Waits::State(by);
        if self.state.as_ref().is_none_or(|(known, _)| *known != spot) {
            self.state = Some((spot, Round::new(now.config.protocol())));
        }
        self.tells_state(asked([command]), now)
    }

    pub(crate) fn asks_ring(&mut self, command: RingCommand, now: &Now<'_>) -> Next {
        self.waits = Waits::Ring;
        self.tells_ring(asked([command]), now)
    }

    pub(crate) fn asks_registry(&mut self, command: RegistryCommand, now: &Now<'_>) -> Next {
        self.waits = Waits::Registry;
        self.tells_registry(asked([command]), now)
    }

    /// Returns the last known ring (list of body tables); `None` before the first command to it.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref()?.copy()
    }

    /// Returns the last known registry of queues; `None` before the first command to it.
    pub(crate) fn registry(&self) -> Option<&Registry> {
        self.registry.as_ref()?.copy()
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Next {
        match (reply, self.waits) {
            (Reply::Written, Waits::Nothing) => Next::Shard(ShardEvent::Written),
            (Reply::TableGone, Waits::Nothing) => Next::Shard(ShardEvent::TableGone),
            (Reply::Head(head), Waits::Found(segment)) => {
                self.waits = Waits::Nothing;
                Next::Shard(ShardEvent::Found(head.live().get(&segment).copied()))
            }
            (Reply::Ring(ring), Waits::Reading) => {
                self.waits = Waits::Nothing;
                self.learns(&ring);
                Next::Shard(ShardEvent::Ring(ring.version))
            }
            (reply, Waits::Nothing | Waits::Found(_) | Waits::Reading) => Next::Other(reply),
            (reply, Waits::Head(..)) => self.tells_head(event_of(reply), now),
            (reply, Waits::Log) => self.tells_log(event_of(reply), now),
            (reply, Waits::State(_)) => self.tells_state(event_of(reply), now),
            (reply, Waits::Ring) => self.tells_ring(event_of(reply), now),
            (reply, Waits::Registry) => self.tells_registry(event_of(reply), now),
        }
    }

    /// Makes the process use this ring (list of body tables) from now on.
    pub(crate) fn learns(&mut self, ring: &Ring) {
        self.known = (ring.version, ring.open().expect("a table is open"));
    }

    fn tells_head(&mut self, event: Event<Head>, now: &Now<'_>) -> Next {
        let Waits::Head(address, commands) = self.waits else {
            panic!("no head was asked");
        };
        let (ring, table) = self.known;
        let context = HeadContext {
            ring,
            table,
            now: now.micros,
            protocol: now.config.protocol(),
        };
        let new = || Round::new(now.config.protocol());
        let actions = self
            .heads
            .entry(address)
            .or_insert_with(new)
            .step(event, &context);
        match last(actions) {
            Action::Read => Next::Asks(Request::ReadHead(address)),
            Action::Cas { expected, put } => Next::Asks(Request::CasHead(address, expected, put)),
            Action::Response(ticket, response) => {
                assert_eq!(ticket.0 as usize + 1, commands, "all are answered");
                self.waits = Waits::Nothing;
                Next::Shard(ShardEvent::Head(response))
            }
        }
    }

    fn tells_log(&mut self, event: Event<Log>, now: &Now<'_>) -> Next {
        let (address, segment, live, round) = self.log.as_mut().expect("a log was asked");
        let context = LogContext {
            segment: *segment,
            recent: &self.recent,
            protocol: now.config.protocol(),
        };
        match last(round.step(event, &context)) {
            Action::Read => Next::Asks(Request::ReadLog(*address, live.register)),
            Action::Cas { expected, put } => {
                let sets_up = round.copy().is_none_or(|copy| copy.segment != put.segment);
                let (address, register) = (*address, live.register);
                Next::Asks(Request::CasLog(address, register, expected, put, SetsUp(sets_up)))
            }
            Action::Response(_, response) => {
                self.waits = Waits::Nothing;
                Next::Shard(ShardEvent::Log(response))
            }
        }
    }

    fn tells_state(&mut self, event: Event<State>, now: &Now<'_>) -> Next {
        let (Some((spot, round)), Waits::State(by)) = (&mut self.state, self.waits) else {
            panic!("no state was asked");
        };
        let unknown = Log::absent();
        let context = StateContext {
            segment: spot.segment,
            log: self.log_of_claims.as_ref().unwrap_or(&unknown),
            most_attempts: None,
            expired_by: None,
            order: self.order.as_ref(),
            leases: &Leases::default(),
            clock: Clock {
                wall: now.micros,
                monotonic: now.micros,
            },
            protocol: now.config.protocol(),
        };
        let (address, register) = (spot.address, spot.register);
        match last(round.step(event, &context)) {
            Action::Read => Next::Asks(Request::ReadState(address, register)),
            Action::Cas { expected, put } => {
                Next::Asks(Request::CasState(address, register, expected, put, by))
            }
            Action::Response(_, response) => {
                self.waits = Waits::Nothing;
                Next::State(response)
            }
        }
    }

    fn tells_ring(&mut self, event: Event<Ring>, now: &Now<'_>) -> Next {
        let context = RingContext {
            now: now.micros,
            protocol: now.config.protocol(),
        };
        let new = || Round::new(now.config.protocol());
        match last(self.ring.get_or_insert_with(new).step(event, &context)) {
            Action::Read => Next::Asks(Request::ReadRing),
            Action::Cas { expected, put } => Next::Asks(Request::CasRing(expected, put)),
            Action::Response(_, response) => {
                self.waits = Waits::Nothing;
                Next::Ring(response)
            }
        }
    }

    fn tells_registry(&mut self, event: Event<Registry>, now: &Now<'_>) -> Next {
        let context = RegistryContext {
            now: now.micros,
            protocol: now.config.protocol(),
        };
        let new = || Round::new(now.config.protocol());
        match last(self.registry.get_or_insert_with(new).step(event, &context)) {
            Action::Read => Next::Asks(Request::ReadRegistry),
            Action::Cas { expected, put } => Next::Asks(Request::CasRegistry(expected, put)),
            Action::Response(_, response) => {
                self.waits = Waits::Nothing;
                Next::Registry(response)
            }
        }
    }
}

/// Returns these commands as one event of a compare-and-set loop.
fn asked<R: Register>(commands: impl IntoIterator<Item = R::Command>) -> Event<R> {
    Event::Asked((0..).map(Ticket).zip(commands).collect())
}

/// Returns the last of the actions: an action to execute, or the response to the last command.
fn last<R: Register>(actions: Vec<Action<R>>) -> Action<R> {
    actions.into_iter().last().expect("it goes on")
}

/// Converts a reply of the store to an event of a compare-and-set loop.
fn event_of<R: Replied>(reply: Reply) -> Event<R> {
    match reply {
        Reply::Decided(version, decision) => Event::Decided(version, decision),
        reply => Event::Read(R::of(reply).expect("a reply to what was asked")),
    }
}

/// Versioned cell whose value a reply of the store can contain.
trait Replied: Register {
    fn of(reply: Reply) -> Option<Self>;
}

impl Replied for Head {
    fn of(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Head(found) => Some(found),
            _ => None,
        }
    }
}

impl Replied for Ring {
    fn of(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Ring(found) => Some(found),
            _ => None,
        }
    }
}

impl Replied for Registry {
    fn of(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Registry(found) => Some(found),
            _ => None,
        }
    }
}

impl Replied for Log {
    fn of(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Log(found) => Some(found),
            _ => None,
        }
    }
}

impl Replied for State {
    fn of(reply: Reply) -> Option<Self> {
        match reply {
            Reply::State(found) => Some(found),
            _ => None,
        }
    }
}
