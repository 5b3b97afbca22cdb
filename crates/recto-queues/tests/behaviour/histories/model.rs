//! Simple model of a queue: a list of messages, oldest first.

use std::collections::{BTreeMap, BTreeSet};

use recto_protocol::queues::Micros;
use recto_protocol::queues::limits::{LEASE_MARGIN_MICROS, WINDOW_MICROS};

/// Identifier of a message in one queue. A message that is moved to another queue gets a new identifier there.
pub(crate) type Serial = usize;

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) serial: Serial,
    /// Id of the message in the test. The body of the message contains this id.
    pub(crate) number: u32,
    pub(crate) group: Option<u8>,
    pub(crate) due: Micros,
    pub(crate) attempts: u16,
    pub(crate) held: Held,
}

/// State of a message after its last receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Nobody,
    /// The message was received with the receipt of the first index. Its visibility timeout ends at
    /// the time in microseconds.
    Receipt(usize, Micros),
    /// The message was given back with the receipt of the first index. It can be received again
    /// from the time in microseconds on.
    Waiting(usize, Micros),
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) is_ordered: bool,
    /// Maximum number of receives before a message becomes a dead letter.
    pub(crate) most_attempts: Option<u16>,
    pub(crate) now: Micros,
    pub(crate) messages: Vec<Message>,
    /// Ids of the messages that are in the dead-letter queue.
    pub(crate) dead: BTreeSet<u32>,
    /// Messages that were received too often. The next receive starts their move in the background, so it is
    /// unknown when they arrive.
    pub(crate) doomed: BTreeSet<u32>,
    /// Messages that were in `doomed` at a purge. Messages whose move had already begun become dead
    /// letters.
    pub(crate) purged: BTreeSet<u32>,
    /// Group of each message, by its number.
    pub(crate) groups: BTreeMap<u32, Option<u8>>,
    /// Message of each receipt, by the index of the receipt.
    pub(crate) receipts: Vec<Serial>,
    /// Messages whose receipts are no longer checked: they may be moving to another queue, so the result is
    /// unknown.
    untold: BTreeSet<Serial>,
    sent: BTreeMap<u8, (Micros, u32)>,
    serials: Serial,
}

/// Result of an operation with a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiptResult {
    Done,
    Stale,
}

impl Model {
    pub(crate) fn new(is_ordered: bool, most_attempts: Option<u16>) -> Self {
        Self {
            is_ordered,
            most_attempts,
            ..Self::default()
        }
    }

    /// Sends a message. Returns the id of the earlier message with the same deduplication id, if
    /// there is one.
    pub(crate) fn send(
        &mut self,
        number: u32,
        delay: Micros,
        group: Option<u8>,
        id: Option<u8>,
    ) -> Option<u32> {
        if let Some(id) = id {
            let before = self.sent.get(&id);
            if let Some((sent, other)) = before
                && self.now - sent < WINDOW_MICROS
            {
                return Some(*other);
            }
            self.sent.insert(id, (self.now, number));
        }
        self.groups.insert(number, group);
        self.add(number, self.now + delay);
        None
    }

    fn add(&mut self, number: u32, due: Micros) {
        self.serials += 1;
        self.messages.push(Message {
            serial: self.serials,
            number,
            group: self.groups[&number],
            due,
            attempts: 0,
            held: Held::Nobody,
        });
    }

    /// Returns whether neither a visibility timeout nor the delay of a nack keeps the message from being
    /// received.
    fn is_over(&self, message: &Message) -> bool {
        match message.held {
            Held::Nobody => true,
            Held::Receipt(_, until) | Held::Waiting(_, until) => until <= self.now,
        }
    }

    /// Returns the indexes of the messages that can be received.
    fn receivable(&self) -> Vec<usize> {
        let mut groups = BTreeSet::new();
        let receivable = self.messages.iter().enumerate().filter(|(_, message)| {
            let is_in_turn = !self.is_ordered || groups.insert(message.group);
            is_in_turn && message.due <= self.now && self.is_over(message)
        });
        receivable.map(|(index, _)| index).collect()
    }

    /// Receives the messages `numbers`. Checks that they are all messages that can be received, or
    /// `most` messages. Fewer messages are allowed if more than half of `most` failed before.
    pub(crate) fn receive(&mut self, numbers: &[u32], most: usize, visibility: Micros) {
        let receivable = self.receivable();
        let mut failed = 0;
        for number in numbers {
            let index = receivable
                .iter()
                .find(|index| self.messages[**index].number == *number);
            let index = *index.unwrap_or_else(|| panic!("{number} may not be received"));
            self.receipts.push(self.messages[index].serial);
            let (receipt, until) = (self.receipts.len() - 1, self.now + visibility);
            let message = &mut self.messages[index];
            failed += usize::from(message.attempts > 0);
            message.attempts += 1;
            message.held = Held::Receipt(receipt, until);
        }
        assert_eq!(
            numbers.iter().collect::<BTreeSet<_>>().len(),
            numbers.len(),
            "one came twice"
        );
        let is_enough = numbers.len() == receivable.len().min(most) || failed * 2 > most;
        assert!(is_enough, "{numbers:?} were received of {}", receivable.len());
    }

    /// Returns whether the model knows the result of an operation with a receipt.
    pub(crate) fn is_told(&self, receipt: usize) -> bool {
        !self.untold.contains(&self.receipts[receipt])
    }

    /// Returns the index of a receipt's message if the receipt is the newest one. Otherwise, returns the
    /// result of an ack with the receipt.
    fn shown(&self, receipt: usize) -> Result<usize, ReceiptResult> {
        let serial = self.receipts[receipt];
        let index = self.messages.iter().position(|one| one.serial == serial);
        let index = index.ok_or(ReceiptResult::Done)?;
        match self.messages[index].held {
            Held::Receipt(newest, _) | Held::Waiting(newest, _) if newest == receipt => Ok(index),
            _ => Err(ReceiptResult::Stale),
        }
    }

    pub(crate) fn ack(&mut self, receipt: usize) -> ReceiptResult {
        match self.shown(receipt) {
            Ok(index) => {
                self.messages.remove(index);
                ReceiptResult::Done
            }
            Err(said) => said,
        }
    }

    pub(crate) fn nack(&mut self, receipt: usize, delay: Micros) -> ReceiptResult {
        // A message that was settled or removed cannot be given back, so its receipt is stale.
        let Ok(index) = self.shown(receipt) else {
            return ReceiptResult::Stale;
        };
        let attempts = self.messages[index].attempts;
        if self.most_attempts.is_some_and(|most| attempts >= most) {
            let letter = self.messages.remove(index);
            self.dead.insert(letter.number);
        } else {
            self.messages[index].held = Held::Waiting(receipt, self.now + delay);
        }
        ReceiptResult::Done
    }

    pub(crate) fn extend(&mut self, receipt: usize, visibility: Micros) -> ReceiptResult {
        match self.shown(receipt) {
            Ok(index) if matches!(self.messages[index].held, Held::Receipt(..)) => {
                self.messages[index].held = Held::Receipt(receipt, self.now + visibility);
                ReceiptResult::Done
            }
            _ => ReceiptResult::Stale,
        }
    }

    pub(crate) fn purge(&mut self) {
        self.messages.clear();
        self.purged.append(&mut self.doomed);
    }

    /// Adds redriven dead letters to the queue, in the order of `numbers`.
    pub(crate) fn come_back(&mut self, numbers: &[u32]) {
        for number in numbers {
            let was = [&mut self.dead, &mut self.doomed, &mut self.purged];
            let was: Vec<_> = was.into_iter().map(|letters| letters.remove(number)).collect();
            assert!(was.contains(&true), "{number} was no dead letter");
            self.add(*number, self.now);
        }
    }

    /// Advances the time of the model.
    pub(crate) fn advance(&mut self, micros: Micros) {
        self.now += micros;
        let Some(most) = self.most_attempts else { return };
        let is_doomed = |message: &Message| message.attempts >= most && self.is_over(message);
        let doomed = self.messages.iter().filter(|one| is_doomed(one));
        let doomed: Vec<_> = doomed.map(|one| (one.serial, one.number)).collect();
        for (serial, number) in doomed {
            self.messages.retain(|one| one.serial != serial);
            self.untold.insert(serial);
            self.doomed.insert(number);
        }
    }

    /// Replaces the process. The new process adds a margin to the end of the visibility timeouts that earlier
    /// processes gave.
    pub(crate) fn restart(&mut self, others: &mut BTreeSet<usize>) {
        for message in &mut self.messages {
            if let Held::Receipt(receipt, until) = message.held
                && others.insert(receipt)
            {
                message.held = Held::Receipt(receipt, until + LEASE_MARGIN_MICROS);
            }
        }
    }
}
