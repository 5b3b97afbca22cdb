//! Random operations on a queue and its dead-letter queue, and their comparison with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use recto_protocol::queues::{Micros, Receipt};
use recto_queues::{Message, NewMessage, Peeked, PeekedStanding, Sent, Settled, Shards};

use super::model::{Model, ReceiptResult};
use super::process::{Process, SEGMENT_MESSAGES, World};

const SECOND: Micros = 1_000_000;
/// Maximum number of messages in one request. No history has more messages.
const ALL: usize = 1_000;
/// Maximum number of checks whether background work, such as a move, is done.
const MAX_LOOKS: u32 = 1_000;
const NOW: Duration = Duration::ZERO;
/// Number of receives after which a message becomes a dead letter.
const MOST_ATTEMPTS: u16 = 2;

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Send(Vec<Sending>),
    Receive {
        most: usize,
        seconds: u16,
    },
    Ack(usize),
    Nack {
        receipt: usize,
        seconds: u16,
    },
    Extend {
        receipt: usize,
        seconds: u16,
    },
    Remove(usize),
    Purge,
    /// Receives and acknowledges at most the given number of dead letters.
    ReceiveDead(usize),
    Redrive(Option<usize>),
    Advance(u16),
    Crash,
}

#[derive(Debug, Clone)]
pub(crate) struct Sending {
    /// Delay of the message in seconds.
    delay: u16,
    group: u8,
    id: Option<u8>,
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let sending = (
        prop_oneof![Just(0), 0..90_u16],
        0..3_u8,
        proptest::option::weighted(0.3, 0..3_u8),
    );
    let sending = sending.prop_map(|(delay, group, id)| Sending { delay, group, id });
    let batch = proptest::collection::vec(sending, 1..usize::from(SEGMENT_MESSAGES));
    let (seconds, receipt) = (1..60_u16, 0..8_usize);
    let operation = prop_oneof![
        6 => batch.prop_map(Operation::Send),
        6 => (1..6_usize, seconds.clone()).prop_map(|(most, seconds)| Operation::Receive { most, seconds }),
        5 => receipt.clone().prop_map(Operation::Ack),
        3 => (receipt.clone(), 0..60_u16).prop_map(|(receipt, seconds)| Operation::Nack { receipt, seconds }),
        2 => (receipt.clone(), seconds).prop_map(|(receipt, seconds)| Operation::Extend { receipt, seconds }),
        1 => receipt.prop_map(Operation::Remove),
        1 => Just(Operation::Purge),
        1 => (1..4_usize).prop_map(Operation::ReceiveDead),
        1 => proptest::option::of(1..3_usize).prop_map(Operation::Redrive),
        4 => prop_oneof![1..60_u16, 1..60_u16, 1..600_u16].prop_map(Operation::Advance),
        1 => Just(Operation::Crash),
    ];
    proptest::collection::vec(operation, 1..60)
}

/// One random history, executed on the engine's queue and on the model.
pub(crate) struct Run {
    world: World,
    /// Process that has the queue open; `None` while the store is opened again.
    process: Option<Process>,
    model: Model,
    /// Receipts, by the index that the model uses for them.
    receipts: Vec<Receipt>,
    /// Indexes of receipts that earlier processes received.
    others: BTreeSet<usize>,
    ids: BTreeMap<u32, Sent>,
    count: u32,
}

impl Run {
    pub(crate) fn begin(world: World, is_ordered: bool) -> Self {
        // An ordered queue gets no dead-letter queue: when a message moves there, the next messages of its
        // group become available, at a time that the model cannot predict.
        let most_attempts = (!is_ordered).then_some(MOST_ATTEMPTS);
        let process = Some(world.open(is_ordered, most_attempts));
        Self {
            world,
            process,
            model: Model::new(is_ordered, most_attempts),
            receipts: Vec::new(),
            others: BTreeSet::new(),
            ids: BTreeMap::new(),
            count: 0,
        }
    }

    fn with<T>(&self, ask: impl AsyncFnOnce(&Shards, &Shards) -> T) -> T {
        let process = self.process.as_ref().unwrap();
        process.runtime.block_on(ask(&process.main, &process.dead))
    }

    pub(crate) fn does(&mut self, operation: &Operation) {
        match operation {
            Operation::Send(batch) => self.sends(batch),
            Operation::Receive { most, seconds } => {
                let visibility = Some(Duration::from_secs((*seconds).into()));
                let received = self.with(async |main, _| main.receive(*most, visibility, NOW).await);
                let received = received.unwrap();
                let visibility = Micros::from(*seconds) * SECOND;
                self.model.receive(&numbers(&received), *most, visibility);
                self.receipts.extend(received.iter().map(|one| one.receipt));
            }
            Operation::Ack(receipt) => {
                if let Some((receipt, shown)) = self.shown(*receipt) {
                    let settled = self.with(async |main, _| main.ack(&[shown]).await);
                    is_said(settled.unwrap()[0], self.model.ack(receipt));
                }
            }
            Operation::Nack { receipt, seconds } => {
                if let Some((receipt, shown)) = self.shown(*receipt) {
                    let delay = Duration::from_secs((*seconds).into());
                    let settled = self.with(async |main, _| main.nack(&[shown], delay, "").await);
                    let expected = self.model.nack(receipt, Micros::from(*seconds) * SECOND);
                    is_said(settled.unwrap()[0], expected);
                }
            }
            Operation::Extend { receipt, seconds } => {
                if let Some((receipt, shown)) = self.shown(*receipt) {
                    let visibility = Duration::from_secs((*seconds).into());
                    let settled = self.with(async |main, _| main.extend(&[shown], visibility).await);
                    let expected = self.model.extend(receipt, Micros::from(*seconds) * SECOND);
                    is_said(settled.unwrap()[0], expected);
                    // This process has extended the visibility timeout, so it knows the end without a margin.
                    self.others.remove(&receipt);
                }
            }
            Operation::Remove(index) => self.removes(*index),
            Operation::Purge => {
                self.with(async |main, _| main.purge().await).unwrap();
                self.model.purge();
            }
            Operation::ReceiveDead(most) => drop(self.receives_dead(*most)),
            Operation::Redrive(most) => self.redrives(*most),
            Operation::Advance(seconds) => self.advances(Micros::from(*seconds) * SECOND),
            Operation::Crash => self.crashes(),
        }
    }

    fn sends(&mut self, batch: &[Sending]) {
        let is_ordered = self.model.is_ordered;
        let (mut messages, mut expected) = (Vec::new(), Vec::new());
        for sending in batch {
            self.count += 1;
            let delay = if is_ordered { 0 } else { sending.delay };
            let group = is_ordered.then_some(sending.group);
            messages.push(NewMessage {
                delay: (delay > 0).then(|| Duration::from_secs(delay.into())),
                group: group.map(|group| group.to_string()),
                deduplication_id: sending.id.map(|id| id.to_string()),
                ..NewMessage::new(self.count.to_string())
            });
            let other = self
                .model
                .send(self.count, Micros::from(delay) * SECOND, group, sending.id);
            expected.push((self.count, other));
        }
        let sent = self.with(async |main, _| main.send(messages).await);
        // Messages with the same reach and shard are appended together. Duplicates among them are recognized,
        // too.
        for ((number, other), sent) in expected.into_iter().zip(sent) {
            let sent = sent.unwrap();
            match (other, sent) {
                (None, Sent::New(_)) => drop(self.ids.insert(number, sent)),
                (Some(other), Sent::Duplicate(id)) => assert_eq!(self.ids[&other], Sent::New(id)),
                (other, sent) => panic!("{number} is {sent:?}, beside {other:?}"),
            }
        }
    }

    /// Returns the receipt that was received `back` receipts before the newest one, and its index in
    /// `receipts`. `None` if there is no such receipt, or if the model cannot predict the result of a command
    /// with it.
    fn shown(&self, back: usize) -> Option<(usize, Receipt)> {
        let receipt = self.receipts.len().checked_sub(back + 1)?;
        self.model
            .is_told(receipt)
            .then(|| (receipt, self.receipts[receipt]))
    }

    fn removes(&mut self, index: usize) {
        let peeked = self.with(async |main, _| main.peek(ALL).await).unwrap();
        let known: BTreeMap<u32, _> = peeked.iter().map(|one| (number(one), one.position)).collect();
        if index >= self.model.messages.len() {
            return;
        }
        let message = self.model.messages.remove(index);
        let position = known[&message.number];
        for is_there in [true, false] {
            let removed = self.with(async |main, _| main.remove(position).await);
            assert_eq!(removed.unwrap(), is_there);
        }
    }

    fn receives_dead(&mut self, most: usize) -> usize {
        let received = self.with(async |_, dead| {
            let received = dead.receive(most, None, NOW).await.unwrap();
            let receipts: Vec<_> = received.iter().map(|one| one.receipt).collect();
            let settled = dead.ack(&receipts).await.unwrap();
            assert!(settled.iter().all(|settled| *settled == Settled::Done));
            received
        });
        assert!(received.len() >= most.min(self.model.dead.len()));
        for number in numbers(&received) {
            self.learns_dead(number);
            assert!(self.model.dead.remove(&number));
        }
        received.len()
    }

    /// Records that a message was found in the dead-letter queue.
    fn learns_dead(&mut self, number: u32) {
        let was_doomed = self.model.doomed.remove(&number) || self.model.purged.remove(&number);
        if was_doomed {
            self.model.dead.insert(number);
        }
    }

    fn redrives(&mut self, most: Option<usize>) {
        let (moved, peeked) = self.with(async |main, dead| {
            let moved = dead.redrive(main, most).await.unwrap();
            (moved, main.peek(ALL).await.unwrap())
        });
        let own: BTreeSet<_> = self.model.messages.iter().map(|one| one.number).collect();
        // The list also contains messages that are still being moved to the dead-letter queue.
        // These messages have attempts, so they do not count as redriven.
        let is_back = |one: &&Peeked| one.attempts == 0 && !own.contains(&number(one));
        let back: Vec<_> = peeked.iter().filter(is_back).map(number).collect();
        assert_eq!(back.len(), moved);
        assert!(most.is_none_or(|most| moved <= most));
        assert!(most.is_some() || self.model.dead.iter().all(|letter| back.contains(letter)));
        self.model.come_back(&back);
    }

    fn advances(&mut self, micros: Micros) {
        self.world.advance(micros);
        self.model.advance(micros);
    }

    fn crashes(&mut self) {
        self.process = None;
        self.process = Some(self.world.open(self.model.is_ordered, self.model.most_attempts));
        self.model.restart(&mut self.others);
    }

    /// Checks that the queue and its dead-letter queue contain the messages that the model expects.
    pub(crate) fn is_as_expected(&mut self) {
        let (main, dead) =
            self.with(async |main, dead| (main.peek(ALL).await.unwrap(), dead.peek(ALL).await.unwrap()));
        let model = &self.model;
        let own: BTreeSet<_> = model.messages.iter().map(|one| one.number).collect();
        let is_leaving = |one: &&Peeked| {
            let number = number(one);
            let may_leave = model.doomed.contains(&number) || model.purged.contains(&number);
            one.standing == PeekedStanding::Leaving || may_leave && !own.contains(&number)
        };
        let stay = main.iter().filter(|one| !is_leaving(one));
        let stay: Vec<_> = stay.map(|one| (number(one), one.attempts)).collect();
        let expected = model.messages.iter().map(|one| (one.number, one.attempts));
        assert_eq!(stay, expected.collect::<Vec<_>>());
        let leaving: BTreeSet<_> = main.iter().filter(is_leaving).map(number).collect();
        let letters: BTreeSet<_> = dead.iter().map(number).collect();
        assert_eq!(letters.len(), dead.len(), "a dead letter stands twice");
        assert!(
            model.dead.is_subset(&letters),
            "{:?} are lost",
            model.dead.difference(&letters)
        );
        for doomed in &model.doomed {
            assert!(
                leaving.contains(doomed) || letters.contains(doomed),
                "{doomed} is lost"
            );
        }
        for letter in letters {
            if !self.model.dead.contains(&letter) {
                self.learns_dead(letter);
                assert!(
                    self.model.dead.contains(&letter),
                    "{letter} is a dead letter, and should not be"
                );
            }
        }
    }

    /// Checks that each remaining message is received once more after all visibility timeouts ended, from the
    /// queue or as a dead letter.
    pub(crate) fn ends(mut self) {
        self.advances(1_000 * SECOND);
        for _ in 0..MAX_LOOKS {
            let received = self.with(async |main, _| {
                let received = main.receive(ALL, None, NOW).await.unwrap();
                let receipts: Vec<_> = received.iter().map(|one| one.receipt).collect();
                main.ack(&receipts).await.unwrap();
                received
            });
            let received = numbers(&received);
            self.model.receive(&received, ALL, SECOND);
            self.model.messages.retain(|one| !received.contains(&one.number));
            self.is_as_expected();
            self.receives_dead(ALL);
            let is_empty = self.model.messages.is_empty() && self.model.doomed.is_empty();
            if is_empty && self.with(async |main, _| main.peek(1).await.unwrap().is_empty()) {
                return;
            }
        }
        panic!("it never ends: {:?}", self.model);
    }
}

fn is_said(settled: Settled, expected: ReceiptResult) {
    let settled = match settled {
        Settled::Done => ReceiptResult::Done,
        Settled::Stale => ReceiptResult::Stale,
    };
    assert_eq!(settled, expected);
}

fn numbers(messages: &[Message]) -> Vec<u32> {
    let numbers = messages.iter().map(|one| as_number(&one.body));
    numbers.collect()
}

fn number(peeked: &Peeked) -> u32 {
    as_number(&peeked.content.as_ref().unwrap().body)
}

fn as_number(body: &[u8]) -> u32 {
    std::str::from_utf8(body).unwrap().parse().unwrap()
}
