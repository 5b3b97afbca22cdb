//! Store of the models: versioned cells, which conditional writes change, and message bodies. It
//! checks the invariants at each change.

use std::collections::{BTreeMap, BTreeSet};

use super::{HELD, HERE, Q2, Q3, Q4, Q6, Q7, QUEUE, SOURCE, TENURE};
use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::rules::{Rule, Rules};
use crate::queues::{
    Address, BodyTable, Chunk, ClaimId, Decision, Entry, Head, Life, Live, Log, LogRow, MessageId, Micros,
    Pending, Phase, Protocol, QueueName, QueueOptions, Reach, Register, RegisterNumber, Registry,
    RegistryCommand, RegistryContext, Ring, Segment, Seq, Shard, Standing, State, Target, Tenure, Version,
};

/// Request of a process to the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    ReadHead(Address),
    ReadLog(Address, RegisterNumber),
    ReadState(Address, RegisterNumber),
    CasHead(Address, Version, Head),
    /// Replaces a log. The last value says whether the write sets the cell up for another segment.
    CasLog(Address, RegisterNumber, Version, Log, SetsUp),
    CasState(Address, RegisterNumber, Version, State, ResolvedBy),
    Write(BodyTable, Address, Segment, Chunk),
    /// Gives the queue its slot (row of the registry). From then on, processes that maintain body
    /// tables find it.
    TakePlace,
    ReadPlaces,
    ReadRing,
    CasRing(Version, Ring),
    ReadRegistry,
    CasRegistry(Version, Registry),
    /// Copies the bodies of a segment (message batch) from the first table to the second.
    Copy(Address, Segment, BodyTable, BodyTable),
    Empty(BodyTable),
}

/// Cause for which a write resolves messages (so that they are never received again).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ResolvedBy {
    Claim(ClaimId),
    /// A purge by a process that knows this epoch of the slot. For messages of newer epochs, it
    /// does not count as an acknowledgment.
    Purge(Tenure),
    /// The messages are moved, or the write resolves none.
    Nobody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SetsUp(pub(crate) bool);

/// Reply of the store to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Start,
    Head(Head),
    Log(Log),
    State(State),
    Ring(Ring),
    Registry(Registry),
    /// Outcome of the conditional write of this version.
    Decided(Version, Decision),
    Written,
    TableGone,
    /// True if the queue has its slot.
    Places(bool),
}

/// Content of the store, and facts that the invariants need.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) is_placed: bool,
    pub(crate) ring: Ring,
    pub(crate) registry: Registry,
    pub(crate) shards: BTreeMap<Address, Registers>,
    pub(crate) bodies: BTreeSet<(BodyTable, Address, Segment, Chunk)>,
    /// Messages that are acknowledged or purged.
    pub(crate) acked: BTreeSet<MessageId>,
    /// Epoch (use of the slot by one queue) in which each live segment was opened, after the first
    /// queue.
    opened_by: BTreeMap<(Address, Segment), Tenure>,
    /// Messages of released segments (message batches).
    pub(crate) released: Vec<Copy>,
    /// For each claimed message, the claim, and its end. Until then, only the claim's holder may
    /// release the message, whatever the store contains.
    held: BTreeMap<(Address, Segment, Seq), (ClaimId, Micros)>,
    pub(crate) broken: Option<&'static str>,
}

/// Versioned cells of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Registers {
    pub(crate) head: Head,
    logs: BTreeMap<RegisterNumber, Log>,
    pub(crate) states: BTreeMap<RegisterNumber, State>,
}

impl Registers {
    fn of(head: Head) -> Self {
        Self {
            head,
            logs: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }

    fn log(&self, register: RegisterNumber) -> Log {
        self.logs.get(&register).cloned().unwrap_or_else(Log::absent)
    }

    fn state(&self, register: RegisterNumber) -> State {
        self.states.get(&register).cloned().unwrap_or_else(State::absent)
    }
}

impl Store {
    /// Creates a store with `tables` body tables, of which the first is open, and with `shards`
    /// shards.
    pub(crate) fn new(tables: u32, shards: u16) -> Self {
        let phase = |table| match table {
            1 => Phase::Open {
                since: 0,
                life: Life(1),
            },
            _ => Phase::Free,
        };
        let head = Head {
            version: 1,
            ring: 1,
            tenure: TENURE,
            ..Head::absent()
        };
        let address = |shard| Address {
            shard: Shard(shard),
            ..HERE
        };
        Self {
            is_placed: true,
            ring: Ring {
                version: 1,
                last: BodyTable(tables),
                tables: (1..=tables)
                    .map(|table| (BodyTable(table), phase(table)))
                    .collect(),
            },
            registry: registry(),
            shards: (0..shards)
                .map(|shard| (address(shard), Registers::of(head.clone())))
                .collect(),
            bodies: BTreeSet::new(),
            acked: BTreeSet::new(),
            opened_by: BTreeMap::new(),
            released: Vec::new(),
            held: BTreeMap::new(),
            broken: None,
        }
    }

    /// Removes the shard's manifest (list of live segments), as before the queue is created.
    pub(crate) fn without_a_head(mut self) -> Self {
        self.is_placed = false;
        self.at(HERE).head = Head::absent();
        self
    }

    /// Adds a message to the first segment (message batch), which is sealed.
    pub(crate) fn with_a_message(mut self, entry: Entry) -> Self {
        let live = Live {
            register: RegisterNumber(0),
            table: BodyTable(1),
            reach: Reach::Near,
            count: Some(1),
        };
        self.puts(SOURCE.segment, live, Chunk(1), entry);
        self
    }

    /// Adds a copy of the message to the second segment. A process that moved the message stopped
    /// before it resolved the original.
    pub(crate) fn with_it_half_moved(mut self, entry: Entry) -> Self {
        let (segment, chunk) = (Segment(2), Chunk(100));
        let live = Live {
            register: RegisterNumber(1),
            count: None,
            ..self.at(HERE).head.live[&SOURCE.segment]
        };
        let origin = Some(SOURCE);
        self.puts(segment, live, chunk, Entry { origin, ..entry });
        let target = Target {
            address: HERE,
            segment,
            chunk,
        };
        let pending = Pending {
            attempts: 0,
            first_received: 0,
            claim: ClaimId(0),
            until: 0,
            standing: Standing::Leaving(target),
        };
        let mut state = State::absent();
        state.version = 1;
        state.segment = SOURCE.segment;
        state.pending.insert(SOURCE.seq, pending);
        self.at(HERE).states.insert(RegisterNumber(0), state);
        self
    }

    /// Adds a live segment (message batch) with one message to the store.
    fn puts(&mut self, segment: Segment, live: Live, chunk: Chunk, entry: Entry) {
        let registers = self.at(HERE);
        registers.head.last = segment;
        registers.head.registers += 1;
        registers.head.live.insert(segment, live);
        let mut log = Log::absent();
        log.version = 1;
        log.segment = segment;
        log.is_sealed = live.count.is_some();
        let entries = [entry].into();
        log.rows.push(SOURCE.seq, LogRow { chunk, entries });
        registers.logs.insert(live.register, log);
        self.bodies.insert((live.table, HERE, segment, chunk));
    }

    fn at(&mut self, address: Address) -> &mut Registers {
        self.shards.get_mut(&address).expect("a shard")
    }

    /// Executes a request, and returns the reply.
    pub(crate) fn executes(&mut self, request: &Request, rules: Rules, now: Micros) -> Reply {
        match request {
            Request::ReadHead(address) => Reply::Head(self.shards[address].head.clone()),
            Request::ReadLog(address, register) => Reply::Log(self.shards[address].log(*register)),
            Request::ReadState(address, register) => Reply::State(self.shards[address].state(*register)),
            Request::CasHead(address, expected, put) => {
                let before = self.shards[address].head.clone();
                if before.version() != *expected {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                self.check_head(*address, &before, put);
                self.at(*address).head = put.clone();
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::CasLog(address, register, expected, put, sets_up) => {
                let before = self.shards[address].log(*register);
                let sets_up = sets_up.0 && !rules.keeps(Rule::SetUpByVersion);
                if before.version() != *expected && !sets_up {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                if before.is_sealed && before.segment == put.segment && before.rows != put.rows {
                    self.broken = Some(Q3);
                }
                self.at(*address).logs.insert(*register, put.clone());
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::CasState(address, register, expected, put, by) => {
                let before = self.shards[address].state(*register);
                if before.version() != *expected {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                self.check_state((*address, *register), &before, put, *by);
                self.check_claims(*address, &before, put, *by, now);
                self.at(*address).states.insert(*register, put.clone());
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::Write(table, ..) if !self.ring.tables().contains_key(table) => Reply::TableGone,
            Request::Write(table, address, segment, chunk) => {
                self.bodies.insert((*table, *address, *segment, *chunk));
                Reply::Written
            }
            Request::TakePlace => {
                self.is_placed = true;
                Reply::Places(true)
            }
            Request::ReadPlaces => Reply::Places(self.is_placed),
            Request::ReadRing => Reply::Ring(self.ring.clone()),
            Request::CasRing(expected, put) => {
                if self.ring.version() != *expected {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                self.ring = put.clone();
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::ReadRegistry => Reply::Registry(self.registry.clone()),
            Request::CasRegistry(expected, put) => {
                if self.registry.version() != *expected {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                self.registry = put.clone();
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::Copy(address, segment, from, to) => {
                let here = (*from, *address, *segment);
                let there = self
                    .bodies
                    .iter()
                    .filter(|(table, at, of, _)| (*table, *at, *of) == here);
                let copies: Vec<_> = there.map(|(_, at, of, chunk)| (*to, *at, *of, *chunk)).collect();
                self.bodies.extend(copies);
                Reply::Written
            }
            Request::Empty(emptied) => {
                self.bodies.retain(|(table, ..)| table != emptied);
                Reply::Decided(0, Decision::Applied)
            }
        }
    }

    /// Returns whether the request can never change the store any more.
    pub(crate) fn is_spent(&self, request: &Request, rules: Rules) -> bool {
        match request {
            Request::ReadHead(_)
            | Request::ReadLog(..)
            | Request::ReadState(..)
            | Request::ReadRing
            | Request::ReadRegistry
            | Request::ReadPlaces => true,
            Request::TakePlace => self.is_placed,
            Request::CasRing(expected, _) => *expected != self.ring.version(),
            Request::CasRegistry(expected, _) => *expected != self.registry.version(),
            Request::Copy(..) => false,
            // A retired table is never written again, so another request to empty it has no effect.
            Request::Empty(table) => self.ring.tables().get(table) == Some(&Phase::Retired),
            Request::CasHead(address, expected, _) => *expected != self.shards[address].head.version(),
            Request::CasLog(address, register, expected, _, sets_up) => {
                let is_other = *expected != self.shards[address].log(*register).version();
                is_other && (!sets_up.0 || rules.keeps(Rule::SetUpByVersion))
            }
            Request::CasState(address, register, expected, ..) => {
                *expected != self.shards[address].state(*register).version()
            }
            Request::Write(table, ..) if !self.ring.tables().contains_key(table) => true,
            Request::Write(table, address, segment, chunk) => {
                self.bodies.contains(&(*table, *address, *segment, *chunk))
            }
        }
    }

    /// Returns the reply when the outcome of a request is unknown; `None` if the request is simply
    /// repeated.
    pub(crate) fn unknown(request: &Request) -> Option<Reply> {
        let version = match request {
            Request::CasHead(.., put) => put.version(),
            Request::CasRing(_, put) => put.version(),
            Request::CasRegistry(_, put) => put.version(),
            Request::Empty(_) => 0,
            Request::CasLog(.., put, _) => put.version(),
            Request::CasState(.., put, _) => put.version(),
            _ => return None,
        };
        Some(Reply::Decided(version, Decision::Unknown))
    }

    /// Returns the messages of all live segments (message batches), with their positions, and
    /// whether they are resolved.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        let live = self.shards.iter().flat_map(|(address, registers)| {
            let live = registers.head.live().iter();
            live.map(move |(segment, live)| (*address, registers, segment, live))
        });
        for (address, registers, segment, live) in live {
            let (log, state) = (registers.log(live.register), registers.state(live.register));
            if log.segment != *segment {
                continue;
            }
            messages.extend(log.messages().map(|(seq, chunk, entry)| Message {
                id: entry.id,
                is_moved: entry.origin.is_some(),
                address,
                segment: *segment,
                seq,
                group: entry.group,
                has_body: self.bodies.contains(&(live.table, address, *segment, chunk)),
                is_resolved: state.segment == *segment && state.resolved.has(seq),
            }));
        }
        messages
    }

    /// Checks invariant Q4: only sealed segments whose messages are resolved leave the manifest,
    /// and segment ids are never reused.
    fn check_head(&mut self, address: Address, before: &Head, put: &Head) {
        for (segment, live) in &before.live {
            if put.live.contains_key(segment) {
                continue;
            }
            let registers = &self.shards[&address];
            let (log, state) = (registers.log(live.register), registers.state(live.register));
            let is_resolved = log.next() == 0
                || state.segment == *segment && state.resolved.count() == u32::from(log.next());
            if log.segment != *segment || !log.is_sealed || !is_resolved {
                self.broken = Some(Q4);
            }
            let left = log.messages().map(|(.., entry)| copy_of(entry));
            self.released.extend(left);
            self.released.sort_unstable();
        }
        let new = put
            .live
            .keys()
            .filter(|segment| !before.live.contains_key(segment));
        for segment in new {
            if *segment <= before.last {
                self.broken = Some(Q4);
            }
            if put.tenure > TENURE {
                self.opened_by.insert((address, *segment), put.tenure);
            }
        }
        self.opened_by
            .retain(|(at, segment), _| *at != address || put.live.contains_key(segment));
    }

    /// Checks the invariants Q2, Q6 and Q7 for the messages that a conditional write claims or
    /// resolves.
    fn check_state(&mut self, at: (Address, RegisterNumber), before: &State, put: &State, by: ResolvedBy) {
        let (address, register) = at;
        let mut messages = self.messages();
        messages.retain(|message| message.address == address);
        let mut live = self.shards[&address].head.live().iter();
        let live = live.find(|(_, live)| live.register == register);
        let is_live = live.is_some_and(|(segment, _)| *segment == put.segment);
        let message = |seq: Seq| {
            let mut here = messages.iter();
            here.find(|message| message.segment == put.segment && message.seq == seq)
        };
        for (seq, pending) in &put.pending {
            let was = before.pending.get(seq).filter(|_| before.segment == put.segment);
            if was.is_some_and(|was| was.claim == pending.claim) {
                continue;
            }
            let Some(message) = message(*seq).filter(|_| is_live) else {
                self.broken = Some(Q4);
                continue;
            };
            if message.is_resolved || self.acked.contains(&message.id) {
                self.broken = Some(Q2);
            }
            let is_before = |other: &&Message| (other.segment, other.seq) < (message.segment, message.seq);
            let mut before = messages.iter().filter(is_before);
            if message.group.is_some()
                && before.any(|other| other.group == message.group && !other.is_resolved)
            {
                self.broken = Some(Q7);
            }
        }
        let resolves = |seq: &Seq| put.resolved.has(*seq) && !before.resolved.has(*seq);
        let mut acked = Vec::new();
        for seq in (0..8).filter(resolves) {
            let newest = before.pending.get(&seq).map(|pending| pending.claim);
            if matches!(by, ResolvedBy::Claim(claim) if newest != Some(claim)) {
                self.broken = Some(Q6);
            }
            acked.extend(message(seq).map(|message| message.id));
        }
        let opened_by = self.opened_by.get(&(address, put.segment)).copied();
        let is_meant = match by {
            ResolvedBy::Claim(_) => true,
            ResolvedBy::Purge(tenure) => opened_by.unwrap_or(TENURE) <= tenure,
            ResolvedBy::Nobody => false,
        };
        if is_meant {
            self.acked.extend(acked);
        }
    }

    /// Checks that a message is claimed only when its earlier claim has ended, with the maximum
    /// clock difference.
    fn check_claims(&mut self, address: Address, before: &State, put: &State, by: ResolvedBy, now: Micros) {
        let at = |seq: &Seq| (address, put.segment, *seq);
        for (seq, pending) in &put.pending {
            let was = before.pending.get(seq).filter(|_| before.segment == put.segment);
            let is_new = was.is_none_or(|was| was.claim != pending.claim);
            let is_claimed = pending.standing == Standing::Claimed;
            let held = self.held.get(&at(seq));
            if is_new && is_claimed && held.is_some_and(|(_, until)| now < until + LEASE_MARGIN_MICROS) {
                self.broken = Some(HELD);
            }
            if is_claimed && (is_new || by == ResolvedBy::Claim(pending.claim)) {
                self.held.insert(at(seq), (pending.claim, pending.until));
            }
        }
        self.held.retain(|(_, segment, seq), (claim, _)| {
            let is_claimed = |pending: &Pending| pending.standing == Standing::Claimed;
            let has_it = put.pending.get(seq).is_some_and(is_claimed);
            *segment != put.segment || has_it || by != ResolvedBy::Claim(*claim)
        });
    }
}

/// Returns a registry that contains the queue of the models.
fn registry() -> Registry {
    let context = RegistryContext {
        now: 0,
        protocol: Protocol::default(),
    };
    let mut registry = Registry::absent();
    let options = QueueOptions {
        shards: 1,
        ..QueueOptions::default()
    };
    let create = RegistryCommand::Create {
        id: QUEUE,
        name: QueueName::new("name", "queue").expect("a name"),
        options,
    };
    registry.work_out(&create, false, &context);
    registry.raise();
    registry
}

/// Id of a message, and whether it is a moved copy of the message. Each of the two may exist once.
pub(crate) type Copy = (MessageId, bool);

fn copy_of(entry: &Entry) -> Copy {
    (entry.id, entry.origin.is_some())
}

/// Message of a live segment (message batch), as the invariants need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: MessageId,
    pub(crate) is_moved: bool,
    pub(crate) address: Address,
    pub(crate) segment: Segment,
    pub(crate) seq: Seq,
    pub(crate) group: Option<crate::queues::Fingerprint>,
    pub(crate) has_body: bool,
    pub(crate) is_resolved: bool,
}
