//! The store of the models: registers that conditional writes change, and bodies; and what must hold of what they do.

use std::collections::{BTreeMap, BTreeSet};

use super::{HERE, Q2, Q3, Q4, Q6, Q7, SOURCE, TENURE};
use crate::rules::{Rule, Rules};
use crate::{
    BodyTable, Chunk, ClaimId, Decision, Entry, Head, Life, Live, Log, LogRow, MessageId, Pending, Phase,
    Reach, Register, RegisterNumber, Ring, Segment, Seq, Standing, State, Target, Version,
};

/// What is asked of the store. Everything is of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    ReadHead,
    ReadLog(RegisterNumber),
    ReadState(RegisterNumber),
    CasHead(Version, Head),
    /// Whether it sets the register up for another segment than was there when it was read.
    CasLog(RegisterNumber, Version, Log, SetsUp),
    /// By this claim, if it acks.
    CasState(RegisterNumber, Version, State, Option<ClaimId>),
    Write(BodyTable, Segment, Chunk),
    /// The queue has its place from then on: keepers find it.
    TakePlace,
    ReadPlaces,
    ReadRing,
    CasRing(Version, Ring),
    /// A segment's bodies, from one table to another.
    Copy(Segment, BodyTable, BodyTable),
    Empty(BodyTable),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SetsUp(pub(crate) bool);

/// What the store answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Start,
    Head(Head),
    Log(Log),
    State(State),
    Ring(Ring),
    /// The conditional write that puts this version.
    Decided(Version, Decision),
    Written,
    /// Whether the queue has its place.
    Places(bool),
}

/// What is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// Whether segments leave the list that are sealed, and not resolved: then that is as an ack of all they have.
    pub(crate) purges: bool,
    pub(crate) is_placed: bool,
    pub(crate) head: Head,
    pub(crate) ring: Ring,
    pub(crate) logs: BTreeMap<RegisterNumber, Log>,
    pub(crate) states: BTreeMap<RegisterNumber, State>,
    pub(crate) bodies: BTreeSet<(BodyTable, Segment, Chunk)>,
    /// Messages that are durably done with.
    pub(crate) acked: BTreeSet<MessageId>,
    /// Messages of segments that were released.
    pub(crate) released: Vec<Copy>,
    pub(crate) broken: Option<&'static str>,
}

impl Store {
    /// With a ring of so many tables.
    pub(crate) fn new(tables: u32) -> Self {
        let phase = |table| match table {
            1 => Phase::Open {
                since: 0,
                life: Life(1),
            },
            _ => Phase::Free,
        };
        Self {
            purges: false,
            is_placed: true,
            head: Head {
                version: 1,
                ring: 1,
                tenure: TENURE,
                ..Head::absent()
            },
            ring: Ring {
                version: 1,
                last: BodyTable(tables),
                tables: (1..=tables)
                    .map(|table| (BodyTable(table), phase(table)))
                    .collect(),
            },
            logs: BTreeMap::new(),
            states: BTreeMap::new(),
            bodies: BTreeSet::new(),
            acked: BTreeSet::new(),
            released: Vec::new(),
            broken: None,
        }
    }

    /// Of a queue that is not made yet.
    pub(crate) fn without_a_head(self) -> Self {
        Self {
            is_placed: false,
            head: Head::absent(),
            ..self
        }
    }

    /// The first segment has a message, and is sealed.
    pub(crate) fn with_a_message(mut self, entry: Entry) -> Self {
        let (register, table, chunk) = (RegisterNumber(0), BodyTable(1), Chunk(1));
        let live = Live {
            register,
            table,
            reach: Reach::Near,
            count: Some(1),
        };
        self.head.version = 1;
        self.head.last = SOURCE.segment;
        self.head.registers = 1;
        self.head.live.insert(SOURCE.segment, live);
        let mut log = Log::absent();
        log.version = 1;
        log.segment = SOURCE.segment;
        log.is_sealed = true;
        let entries = [entry].into();
        log.rows.insert(SOURCE.seq, LogRow { chunk, entries });
        self.logs.insert(register, log);
        self.bodies.insert((table, SOURCE.segment, chunk));
        self
    }

    /// It was moved to the second one, and whoever did stopped before it was resolved in the first.
    pub(crate) fn with_it_half_moved(mut self, entry: Entry) -> Self {
        let (first, second) = (RegisterNumber(0), RegisterNumber(1));
        let (segment, chunk) = (Segment(2), Chunk(100));
        let live = Live {
            register: second,
            count: None,
            ..self.head.live[&SOURCE.segment]
        };
        self.head.last = segment;
        self.head.registers = 2;
        self.head.live.insert(segment, live);
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
        self.states.insert(first, state);
        let mut log = Log::absent();
        log.version = 1;
        log.segment = segment;
        let origin = Some(SOURCE);
        let entries = [Entry { origin, ..entry }].into();
        log.rows.insert(0, LogRow { chunk, entries });
        self.logs.insert(second, log);
        self.bodies.insert((live.table, segment, chunk));
        self
    }

    pub(crate) fn log(&self, register: RegisterNumber) -> Log {
        self.logs.get(&register).cloned().unwrap_or_else(Log::absent)
    }

    pub(crate) fn state(&self, register: RegisterNumber) -> State {
        self.states.get(&register).cloned().unwrap_or_else(State::absent)
    }

    /// Executes a request.
    pub(crate) fn executes(&mut self, request: &Request, rules: Rules) -> Reply {
        match request {
            Request::ReadHead => Reply::Head(self.head.clone()),
            Request::ReadLog(register) => Reply::Log(self.log(*register)),
            Request::ReadState(register) => Reply::State(self.state(*register)),
            Request::CasHead(expected, put) => {
                let before = self.head.clone();
                if before.version() != *expected {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                self.check_head(&before, put);
                self.head = put.clone();
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::CasLog(register, expected, put, sets_up) => {
                let before = self.log(*register);
                let sets_up = sets_up.0 && !rules.keeps(Rule::SetUpByVersion);
                if before.version() != *expected && !sets_up {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                if before.is_sealed && before.segment == put.segment && before.rows != put.rows {
                    self.broken = Some(Q3);
                }
                self.logs.insert(*register, put.clone());
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::CasState(register, expected, put, ack) => {
                let before = self.state(*register);
                if before.version() != *expected {
                    return Reply::Decided(put.version(), Decision::Refused);
                }
                self.check_state(*register, &before, put, *ack);
                self.states.insert(*register, put.clone());
                Reply::Decided(put.version(), Decision::Applied)
            }
            Request::Write(table, segment, chunk) => {
                self.bodies.insert((*table, *segment, *chunk));
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
            Request::Copy(segment, from, to) => {
                let there = self
                    .bodies
                    .iter()
                    .filter(|(table, of, _)| table == from && of == segment);
                let copies: Vec<_> = there.map(|(_, of, chunk)| (*to, *of, *chunk)).collect();
                self.bodies.extend(copies);
                Reply::Written
            }
            Request::Empty(emptied) => {
                self.bodies.retain(|(table, ..)| table != emptied);
                Reply::Decided(0, Decision::Applied)
            }
        }
    }

    /// Whether a request changes nothing any more, whenever it comes.
    pub(crate) fn is_spent(&self, request: &Request, rules: Rules) -> bool {
        match request {
            Request::ReadHead
            | Request::ReadLog(_)
            | Request::ReadState(_)
            | Request::ReadRing
            | Request::ReadPlaces => true,
            Request::TakePlace => self.is_placed,
            Request::CasRing(expected, _) => *expected != self.ring.version(),
            Request::Copy(..) => false,
            // What is retired is never written again.
            Request::Empty(table) => self.ring.tables().get(table) == Some(&Phase::Retired),
            Request::CasHead(expected, _) => *expected != self.head.version(),
            Request::CasLog(register, expected, _, sets_up) => {
                let is_other = *expected != self.log(*register).version();
                is_other && (!sets_up.0 || rules.keeps(Rule::SetUpByVersion))
            }
            Request::CasState(register, expected, ..) => *expected != self.state(*register).version(),
            Request::Write(table, segment, chunk) => self.bodies.contains(&(*table, *segment, *chunk)),
        }
    }

    /// What the sender of a request is told when nobody knows what became of it; nothing of one that decides nothing.
    pub(crate) fn unknown(request: &Request) -> Option<Reply> {
        let version = match request {
            Request::CasHead(_, put) => put.version(),
            Request::CasRing(_, put) => put.version(),
            Request::Empty(_) => 0,
            Request::CasLog(.., put, _) => put.version(),
            Request::CasState(.., put, _) => put.version(),
            _ => return None,
        };
        Some(Reply::Decided(version, Decision::Unknown))
    }

    /// Every message of a live segment, with its segment and place, and whether it is resolved.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        for (segment, live) in self.head.live() {
            let (log, state) = (self.log(live.register), self.state(live.register));
            if log.segment != *segment {
                continue;
            }
            messages.extend(log.messages().map(|(seq, chunk, entry)| Message {
                id: entry.id,
                is_moved: entry.origin.is_some(),
                segment: *segment,
                seq,
                group: entry.group,
                has_body: self.bodies.contains(&(live.table, *segment, chunk)),
                is_resolved: state.segment == *segment && state.resolved.has(seq),
            }));
        }
        messages
    }

    /// Q4: only what is sealed and resolved leaves the list, and what comes is new.
    fn check_head(&mut self, before: &Head, put: &Head) {
        for (segment, live) in &before.live {
            if put.live.contains_key(segment) {
                continue;
            }
            let (log, state) = (self.log(live.register), self.state(live.register));
            let is_resolved = log.next() == 0
                || state.segment == *segment && state.resolved.count() == u32::from(log.next());
            if log.segment != *segment || !log.is_sealed || !(is_resolved || self.purges) {
                self.broken = Some(Q4);
            }
            if self.purges {
                self.acked.extend(log.messages().map(|(.., entry)| entry.id));
            }
            let left = log.messages().map(|(.., entry)| copy_of(entry));
            self.released.extend(left);
            self.released.sort_unstable();
        }
        let mut new = put
            .live
            .keys()
            .filter(|segment| !before.live.contains_key(segment));
        if new.any(|segment| *segment <= before.last) {
            self.broken = Some(Q4);
        }
    }

    /// Q2, Q6 and Q7, of what a conditional write claims and resolves.
    fn check_state(&mut self, register: RegisterNumber, before: &State, put: &State, ack: Option<ClaimId>) {
        let messages = self.messages();
        let live = self
            .head
            .live()
            .iter()
            .find(|(_, live)| live.register == register);
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
            if ack.is_some() && newest != ack {
                self.broken = Some(Q6);
            }
            acked.extend(message(seq).map(|message| message.id));
        }
        if ack.is_some() {
            self.acked.extend(acked);
        }
    }
}

/// A message as it was sent, or as it was moved: there may be one of each.
pub(crate) type Copy = (MessageId, bool);

fn copy_of(entry: &Entry) -> Copy {
    (entry.id, entry.origin.is_some())
}

/// A message of a live segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: MessageId,
    pub(crate) is_moved: bool,
    pub(crate) segment: Segment,
    pub(crate) seq: Seq,
    pub(crate) group: Option<crate::Fingerprint>,
    pub(crate) has_body: bool,
    pub(crate) is_resolved: bool,
}
