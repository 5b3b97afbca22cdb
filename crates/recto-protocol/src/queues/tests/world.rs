//! State of the models of queues: the store, the processes that share it, and all possible events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::clearer::Clearer;
use super::keeper::Keeper;
use super::mover::Mover;
use super::ring_keeper::{RingKeeper, Task};
use super::sender::Sender;
use super::store::{Reply, Request, Store};
use super::unit::{UnitEnder, UnitSender};
use super::worker::{Act, Worker};
use super::{HELD, HERE, OTHERS, Q1, Q2, Q3, Q4, Q5, Q6, Q7, QUEUE, TWICE, entry_of};
use crate::queues::limits::{REST_MICROS, WINDOW_MICROS};
use crate::queues::rules::{Rule, Rules};
use crate::queues::{
    Address, BodyTable, ClaimId, Fingerprint, MessageId, Micros, Phase, Placed, Protocol, Segment, Seq,
    Version,
};

/// Model of a queue: its processes, and the number of faults of each kind.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
pub(crate) struct Config {
    pub(crate) without: Option<Rule>,
    /// True if a message was sent before the start, and its segment is sealed.
    pub(crate) is_sent: bool,
    /// Messages that each sender sends.
    pub(crate) senders: Vec<Vec<u8>>,
    /// For each worker, how many times it visits all segments (message batches).
    pub(crate) workers: Vec<u8>,
    /// First actions of each worker on received messages, in order. Afterwards, it acknowledges
    /// messages.
    pub(crate) acts: Vec<Act>,
    /// For each keeper, how many times it visits the segments of the shard `kept`, to release them.
    pub(crate) keepers: Vec<u8>,
    pub(crate) kept: Address,
    /// Number of processes that move the message (movers). If there are any, the message exists at
    /// first.
    pub(crate) movers: u8,
    /// True if each mover has its own target shard. The first one moves the message within its
    /// shard.
    pub(crate) moves_apart: bool,
    /// True if the movers move the message to a later segment (message batch) of its shard.
    pub(crate) goes_on: bool,
    /// True if an earlier process began the move, and stopped.
    pub(crate) is_half_moved: bool,
    /// True if a process begins a temporary queue and sends to it, and another process searches for
    /// ended ones.
    pub(crate) has_unit: bool,
    /// Number of processes that delete the queue, and create another queue in its slot.
    pub(crate) clearers: u8,
    /// For each keeper of the ring (list of body tables), its tasks.
    pub(crate) ring_keepers: Vec<Vec<Task>>,
    pub(crate) segment_messages: Seq,
    pub(crate) registers: usize,
    /// Maximum number of pending messages (claimed, given back, or being moved) of a segment.
    pub(crate) pending: usize,
    /// Number of tables for message bodies.
    pub(crate) tables: u32,
    /// Number of requests whose outcome can be unknown.
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    /// Number of time steps. In one step, all leases end, and all released versioned cells become
    /// reusable.
    pub(crate) ticks: u8,
    /// True if all messages belong to one group, and must be received in order.
    pub(crate) is_ordered: bool,
    /// True if all messages have the same deduplication id.
    pub(crate) deduplicates: bool,
    /// True if keepers seal open segments (message batches).
    pub(crate) seals: bool,
    /// True if keepers purge all segments (message batches), except that of the moved message.
    pub(crate) purges: bool,
    /// True if keepers also purge the segment (message batch) of the moved message.
    pub(crate) purges_source: bool,
    /// Number of processes whose replies can be lost.
    pub(crate) lossy: u8,
    /// True if only replies about the emptying of body tables can be lost.
    pub(crate) only_emptying_is_lost: bool,
    /// True if keepers of the ring (list of body tables) learn of each change at once.
    pub(crate) shares_ring: bool,
    /// True if the queue does not exist at first, and the first sender creates it.
    pub(crate) is_new: bool,
    /// Flag that is set when a broken invariant is found.
    pub(super) found: Option<Arc<AtomicBool>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            without: None,
            is_sent: false,
            senders: Vec::new(),
            workers: Vec::new(),
            acts: Vec::new(),
            keepers: Vec::new(),
            kept: HERE,
            movers: 0,
            moves_apart: false,
            goes_on: false,
            is_half_moved: false,
            has_unit: false,
            clearers: 0,
            ring_keepers: Vec::new(),
            segment_messages: 1,
            registers: 4,
            pending: 8,
            tables: 2,
            losses: 0,
            crashes: 0,
            ticks: 0,
            is_ordered: false,
            deduplicates: false,
            seals: false,
            purges: false,
            purges_source: false,
            lossy: u8::MAX,
            only_emptying_is_lost: false,
            shares_ring: false,
            is_new: false,
            found: None,
        }
    }
}

/// Facts that a process of the model needs in a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) config: &'a Config,
    pub(crate) micros: Micros,
    /// Version of the ring (list of body tables), and its open table.
    pub(crate) ring: (Version, BodyTable),
}

/// Result that a process received, which the invariants need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ghost {
    Sent(Placed, MessageId),
    Full,
    NoQueue,
    Unknown,
    TableGone,
    Acked(ClaimId),
    /// A shard's manifest is older than the versioned cells of a segment that it lists.
    Damaged,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Role {
    Sender(Sender),
    Worker(Worker),
    Keeper(Keeper),
    RingKeeper(RingKeeper),
    Mover(Box<Mover>),
    Clearer(Box<Clearer>),
    UnitSender(Box<UnitSender>),
    UnitEnder(Box<UnitEnder>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    role: Role,
    request: Option<Request>,
    is_crashed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
pub(crate) struct World {
    store: Store,
    processes: Vec<Process>,
    /// Requests that may still arrive, but for whose replies no process waits.
    late: Vec<Request>,
    now: Micros,
    losses: u8,
    crashes: u8,
    ticks: u8,
    sent: BTreeSet<MessageId>,
    duplicates: u8,
    is_full: bool,
    /// True if a process received the reply that the queue was deleted.
    has_no_queue: bool,
    is_unknown: bool,
    /// True if a sender received the reply that a table for message bodies was dropped.
    is_dropped: bool,
}

/// Event of the model, which changes its state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Happening {
    /// The process with this index starts its next step.
    Starts(u8),
    /// The store executes a request of this process, and the process receives the reply.
    Answered(u8, Request),
    /// The reply to a request of this process is lost. The request may still arrive.
    Lost(u8, Request),
    Late(Request),
    Crashes(u8),
    TimePasses,
}

impl Process {
    fn is_over(&self) -> bool {
        match &self.role {
            Role::Sender(sender) => sender.is_over(),
            Role::Worker(worker) => worker.is_over(),
            Role::Keeper(keeper) => keeper.is_over(),
            Role::RingKeeper(keeper) => keeper.is_over(),
            Role::Mover(mover) => mover.is_over(),
            Role::Clearer(clearer) => clearer.is_over(),
            Role::UnitSender(sender) => sender.is_over(),
            Role::UnitEnder(ender) => ender.is_over(),
        }
    }

    fn hears(&mut self, reply: Reply, now: &Now<'_>, ghosts: &mut Vec<Ghost>) {
        self.request = match &mut self.role {
            Role::Sender(sender) => sender.hears(reply, now, ghosts),
            Role::Worker(worker) => worker.hears(reply, now, ghosts),
            Role::Keeper(keeper) => keeper.hears(reply, now),
            Role::RingKeeper(keeper) => keeper.hears(reply, now),
            Role::Mover(mover) => mover.hears(reply, now),
            Role::Clearer(clearer) => clearer.hears(reply, now, ghosts),
            Role::UnitSender(sender) => sender.hears(reply, now, ghosts),
            Role::UnitEnder(ender) => ender.hears(reply, now),
        };
    }
}

impl World {
    fn new(config: &Config) -> Self {
        let senders = config
            .senders
            .iter()
            .map(|messages| Role::Sender(Sender::new(messages)));
        let workers = (0..).zip(&config.workers);
        let workers = workers.map(|(name, passes)| Role::Worker(Worker::new(config, name, *passes)));
        let keepers = config
            .keepers
            .iter()
            .map(|passes| Role::Keeper(Keeper::new(config.kept, *passes)));
        let ring_keepers = (0..).zip(&config.ring_keepers);
        let ring_keepers = ring_keepers.map(|(name, tasks)| Role::RingKeeper(RingKeeper::new(name, tasks)));
        let movers = (0..config.movers).map(|name| Role::Mover(Box::new(Mover::new(config, name))));
        let clearers = (0..config.clearers).map(|name| Role::Clearer(Box::new(Clearer::new(name))));
        let units = [
            Role::UnitSender(Box::new(UnitSender::new())),
            Role::UnitEnder(Box::new(UnitEnder::new())),
        ];
        let units = units.into_iter().filter(|_| config.has_unit);
        let process = |role| Process {
            role,
            request: None,
            is_crashed: false,
        };
        Self {
            store: config.store(),
            processes: senders
                .chain(workers)
                .chain(keepers)
                .chain(ring_keepers)
                .chain(movers)
                .chain(clearers)
                .chain(units)
                .map(process)
                .collect(),
            late: Vec::new(),
            now: WINDOW_MICROS,
            losses: config.losses,
            crashes: config.crashes,
            ticks: config.ticks,
            sent: (1..)
                .map(MessageId)
                .take(usize::from(config.has_message()))
                .collect(),
            duplicates: 0,
            is_full: false,
            has_no_queue: false,
            is_unknown: false,
            is_dropped: false,
        }
    }

    fn hears(&mut self, index: u8, reply: Reply, config: &Config) {
        let ring = &self.store.ring;
        let now = Now {
            config,
            micros: self.now,
            ring: (ring.version, ring.open().expect("a table is open")),
        };
        let mut ghosts = Vec::new();
        self.processes[usize::from(index)].hears(reply, &now, &mut ghosts);
        for ghost in ghosts {
            match ghost {
                Ghost::Sent(Placed::At(_), id) => {
                    self.sent.insert(id);
                }
                Ghost::Sent(Placed::Duplicate(_), _) => self.duplicates += 1,
                Ghost::Full => self.is_full = true,
                Ghost::NoQueue => self.has_no_queue = true,
                Ghost::Unknown => self.is_unknown = true,
                Ghost::TableGone => self.is_dropped = true,
                Ghost::Acked(_) => {}
                Ghost::Damaged => assert!(config.without.is_some(), "nothing is damaged"),
            }
        }
    }

    fn goes_late(&mut self, request: Request, rules: Rules) {
        let decides =
            Store::unknown(&request).is_some() || matches!(request, Request::Write(..) | Request::Copy(..));
        if decides && !self.store.is_spent(&request, rules) {
            self.late.push(request);
        }
    }

    /// Checks invariant Q1: each message of which the sender was informed is acknowledged, or is in
    /// a live segment with its body.
    fn keeps_what_was_sent(&self) -> bool {
        let messages = self.store.messages();
        self.sent.iter().all(|id| {
            let mut here = messages.iter().filter(|message| message.id == *id);
            self.store.acked.contains(id) || here.any(|message| message.has_body && !message.is_resolved)
        })
    }

    /// Checks invariant Q5: no request that may still arrive empties a body table that is in use.
    fn empties_nothing_in_use(&self) -> bool {
        let requests = self
            .processes
            .iter()
            .filter_map(|process| process.request.as_ref());
        let mut emptied = requests.chain(&self.late).filter_map(|request| match request {
            Request::Empty(table) => Some(table),
            _ => None,
        });
        let tables = self.store.ring.tables();
        emptied.all(|table| !matches!(tables.get(table), Some(Phase::Free | Phase::Open { .. })))
    }

    /// Checks that no message exists twice, and that no two messages have the same deduplication id
    /// in the deduplication window.
    fn has_each_once(&self, config: &Config) -> bool {
        let messages = self.store.messages();
        let copies = messages.iter().map(|message| (message.id, message.is_moved));
        let mut ids: Vec<_> = copies.collect();
        ids.extend(self.store.released.iter().copied());
        let count = ids.len();
        let first = ids.iter().filter(|(_, is_moved)| !is_moved).count();
        ids.sort_unstable();
        ids.dedup();
        ids.len() == count && (!config.deduplicates || config.ticks > 0 || first <= 1)
    }

    /// Checks that all messages in a slot (row of the registry) belong to the queue that has the
    /// slot.
    fn keeps_queues_apart(&self) -> bool {
        let is_others = self.store.registry.queue(QUEUE).is_none();
        let is_free = self
            .store
            .registry
            .place(HERE.place)
            .is_some_and(|row| row.deleting().is_none());
        let messages = self.store.messages();
        !(is_others && is_free) || messages.iter().all(|message| message.id >= Clearer::FIRST)
    }

    /// Returns whether time must pass, because a claim has not ended, or a versioned cell must not
    /// be reused yet.
    fn waits_for_time(&self) -> bool {
        let mut shards = self.store.shards.values();
        shards.any(|registers| {
            let mut states = registers.states.values();
            !registers.head.resting.is_empty() || states.any(|state| !state.pending.is_empty())
        })
    }

    fn is_at_end(&self) -> bool {
        let mut processes = self.processes.iter();
        processes.all(|process| process.is_over() && process.request.is_none())
    }
}

impl Config {
    /// Returns the store as it is at first.
    fn store(&self) -> Store {
        let shards = if self.moves_apart {
            u16::from(self.movers)
        } else {
            1
        };
        let store = Store::new(self.tables, shards);
        if self.is_new {
            return store.without_a_head();
        }
        if !self.has_message() {
            return store;
        }
        let now = Now {
            config: self,
            micros: WINDOW_MICROS,
            ring: (1, BodyTable(1)),
        };
        let entry = entry_of(1, &now);
        let store = store.with_a_message(entry);
        if self.is_half_moved {
            store.with_it_half_moved(entry)
        } else {
            store
        }
    }

    /// Returns whether a message exists at the start.
    fn has_message(&self) -> bool {
        self.is_sent || self.movers > 0
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules::without([self.without, None])
    }

    pub(crate) fn protocol(&self) -> Protocol {
        Protocol {
            segment_messages: self.segment_messages,
            registers: self.registers,
            pending: self.pending,
            unused: 0,
            rules: self.rules(),
            ..Protocol::default()
        }
    }

    pub(crate) fn group(&self) -> Option<Fingerprint> {
        self.is_ordered.then_some(Fingerprint(1))
    }

    /// Checks that no invariant breaks, and that each of the states `seen` can be reached.
    pub(crate) fn holds(self, name: &str, seen: &[&'static str]) {
        let started = Instant::now();
        let checker = self.checker().spawn_bfs().join();
        eprintln!(
            "{name}: {} states, {} deep, {:.1?}",
            checker.unique_state_count(),
            checker.max_depth(),
            started.elapsed()
        );
        for name in INVARIANTS {
            if let Some(path) = checker.discovery(name) {
                panic!("{name}\n{}", told(&path.into_actions()));
            }
        }
        for name in seen {
            assert!(checker.discovery(name).is_some(), "never seen: {name}");
        }
    }

    /// Checks that without `rule` this invariant breaks, and no other invariant earlier. Prints the
    /// shortest path to the broken state.
    pub(crate) fn breaks(mut self, rule: Rule, invariant: &'static str) {
        self.without = Some(rule);
        self.found = Some(Arc::new(AtomicBool::new(false)));
        let any = HasDiscoveries::AnyOf(INVARIANTS.into());
        let checker = self.checker().finish_when(any).spawn_bfs().join();
        let states = checker.unique_state_count();
        let mut found = INVARIANTS.iter();
        let found = found.find_map(|name| Some((*name, checker.discovery(name)?)));
        let Some((broken, path)) = found else {
            panic!("nothing breaks without {rule:?} in {states} states");
        };
        let text = told(&path.into_actions());
        assert_eq!(broken, invariant, "without {rule:?}:\n{text}");
        eprintln!("without {rule:?}, {invariant}, in {states} states:\n{text}");
    }

    fn may_be_lost(&self, request: &Request) -> bool {
        let is_emptying = matches!(request, Request::Empty(_));
        Store::unknown(request).is_some() && (is_emptying || !self.only_emptying_is_lost)
    }

    fn not_broken(&self, world: &World, invariant: &str) -> bool {
        world.store.broken != Some(invariant) || !self.is_first()
    }

    /// Returns whether a broken invariant is to be reported: always, or only the first one, whose
    /// path is the shortest.
    fn is_first(&self) -> bool {
        let found = self.found.as_ref();
        found.is_none_or(|found| !found.swap(true, Ordering::Relaxed))
    }
}

const INVARIANTS: [&str; 11] = [Q1, Q2, Q3, Q4, Q5, Q6, Q7, HELD, PENDING, TWICE, OTHERS];
const PENDING: &str = "no more is pending than may be";

/// Returns the events as text, one per line.
fn told(happenings: &[Happening]) -> String {
    let happenings = happenings.iter().enumerate();
    happenings
        .map(|(index, happening)| format!("{:>3}. {happening:?}\n", index + 1))
        .collect()
}

impl Model for Config {
    type State = World;
    type Action = Happening;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, happenings: &mut Vec<Happening>) {
        for (index, process) in (0..).zip(&world.processes) {
            if process.is_crashed {
                continue;
            }
            match &process.request {
                None if !process.is_over() => happenings.push(Happening::Starts(index)),
                None => {}
                Some(request) => {
                    happenings.push(Happening::Answered(index, request.clone()));
                    if world.losses > 0 && index < self.lossy && self.may_be_lost(request) {
                        happenings.push(Happening::Lost(index, request.clone()));
                    }
                    if world.crashes > 0 {
                        happenings.push(Happening::Crashes(index));
                    }
                }
            }
        }
        happenings.extend(world.late.iter().cloned().map(Happening::Late));
        if world.ticks > 0 && world.waits_for_time() {
            happenings.push(Happening::TimePasses);
        }
    }

    fn next_state(&self, world: &World, happening: Happening) -> Option<World> {
        let mut next = world.clone();
        match happening {
            Happening::Starts(index) => {
                next.hears(index, Reply::Start, self);
                // The first read of a process can be executed at once, because no other process
                // sees when the process starts.
                let first = next.processes[usize::from(index)].request.clone();
                if let Some(first) =
                    first.filter(|first| matches!(first, Request::ReadHead(_) | Request::ReadRing))
                {
                    let reply = next.store.executes(&first, self.rules(), next.now);
                    next.hears(index, reply, self);
                }
            }
            Happening::Answered(index, request) => {
                let reply = next.store.executes(&request, self.rules(), next.now);
                next.hears(index, reply, self);
            }
            Happening::Lost(index, request) => {
                next.losses -= 1;
                let reply = Store::unknown(&request)?;
                next.goes_late(request, self.rules());
                next.hears(index, reply, self);
            }
            Happening::Late(request) => {
                let index = next.late.iter().position(|late| *late == request)?;
                next.late.remove(index);
                next.store.executes(&request, self.rules(), next.now);
            }
            Happening::Crashes(index) => {
                next.crashes -= 1;
                let process = &mut next.processes[usize::from(index)];
                process.is_crashed = true;
                if let Some(request) = process.request.take() {
                    next.goes_late(request, self.rules());
                }
            }
            Happening::TimePasses => {
                next.ticks -= 1;
                next.now += REST_MICROS;
            }
        }
        let (store, rules) = (&next.store, self.rules());
        next.late.retain(|request| !store.is_spent(request, rules));
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(Q1, |config: &Self, world: &World| {
                world.keeps_what_was_sent() || !config.is_first()
            }),
            Property::always(TWICE, |config, world: &World| {
                world.has_each_once(config) || !config.is_first()
            }),
            Property::always(Q5, |config, world: &World| {
                world.empties_nothing_in_use() || !config.is_first()
            }),
            Property::always(OTHERS, |config, world: &World| {
                world.keeps_queues_apart() || !config.is_first()
            }),
            Property::always(Q2, |config, world: &World| config.not_broken(world, Q2)),
            Property::always(Q3, |config, world: &World| config.not_broken(world, Q3)),
            Property::always(Q4, |config, world: &World| config.not_broken(world, Q4)),
            Property::always(Q6, |config, world: &World| config.not_broken(world, Q6)),
            Property::always(Q7, |config, world: &World| config.not_broken(world, Q7)),
            Property::always(HELD, |config, world: &World| config.not_broken(world, HELD)),
            Property::always(PENDING, |config, world: &World| {
                let mut shards = world.store.shards.values();
                shards.all(|registers| {
                    let mut states = registers.states.values();
                    states.all(|state| state.pending.len() <= config.pending)
                })
            }),
            Property::sometimes("as much is pending as may be", |config, world: &World| {
                let mut shards = world.store.shards.values();
                shards.any(|registers| {
                    let mut states = registers.states.values();
                    states.any(|state| state.pending.len() == config.pending)
                })
            }),
            Property::sometimes("received again", |_, world: &World| {
                let mut shards = world.store.shards.values();
                shards.any(|registers| {
                    let pending = registers.states.values().flat_map(|state| state.pending.values());
                    pending
                        .max_by_key(|pending| pending.attempts)
                        .is_some_and(|pending| pending.attempts > 1)
                })
            }),
            Property::sometimes("all done", |config, world: &World| {
                world.is_at_end()
                    && world.sent == world.store.acked
                    && world.sent.len() == config.senders.iter().map(Vec::len).sum::<usize>()
            }),
            Property::sometimes("sent to the next queue", |_, world: &World| {
                world.sent.contains(&Clearer::FIRST)
            }),
            Property::sometimes("sent into a unit", |config, world: &World| {
                config.has_unit && world.sent.contains(&MessageId(1))
            }),
            Property::sometimes("told that there is no queue", |_, world: &World| {
                world.has_no_queue
            }),
            Property::sometimes("a register has its second segment", |_, world: &World| {
                let head = &world.store.shards[&HERE].head;
                head.last.0 > u64::from(head.registers)
            }),
            Property::sometimes("a table is free again", |_, world: &World| {
                world.store.ring.tables().get(&BodyTable(1)) == Some(&Phase::Free)
            }),
            Property::sometimes("all sent", |config, world: &World| {
                world.sent.len() == config.senders.iter().map(Vec::len).sum::<usize>()
            }),
            Property::sometimes("all sent though a table was dropped", |config, world: &World| {
                world.is_dropped && world.sent.len() == config.senders.iter().map(Vec::len).sum::<usize>()
            }),
            Property::sometimes("a table is open again", |_, world: &World| {
                let first = world.store.ring.tables().get(&BodyTable(1));
                matches!(first, Some(Phase::Open { life, .. }) if life.0 > 1)
            }),
            Property::sometimes("retired", |_, world: &World| {
                let mut phases = world.store.ring.tables().values();
                phases.any(|phase| *phase == Phase::Retired)
            }),
            Property::sometimes("rehomed", |_, world: &World| {
                let first = world.store.shards[&HERE].head.live().get(&Segment(1));
                first.is_some_and(|live| live.table != BodyTable(1))
            }),
            Property::sometimes("moved", |_, world: &World| {
                let messages = world.store.messages();
                let is_left = |message: &super::store::Message| message.is_resolved && !message.is_moved;
                messages.iter().any(is_left) && !world.store.acked.contains(&MessageId(1))
            }),
            Property::sometimes("moved to another shard", |_, world: &World| {
                let mut messages = world.store.messages().into_iter();
                messages.any(|message| message.is_moved && message.address != HERE)
            }),
            Property::sometimes("redirected", |_, world: &World| {
                let mut messages = world.store.messages().into_iter();
                messages.any(|message| message.is_moved && message.segment > Segment(2))
            }),
            Property::sometimes("all acked", |_, world: &World| world.sent == world.store.acked),
            Property::sometimes("released", |_, world: &World| !world.store.released.is_empty()),
            Property::sometimes("duplicate", |_, world: &World| world.duplicates > 0),
            Property::sometimes("unknown", |_, world: &World| world.is_unknown),
            Property::sometimes("full", |_, world: &World| world.is_full),
        ]
    }
}
