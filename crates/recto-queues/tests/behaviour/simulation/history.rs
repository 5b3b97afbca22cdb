//! History of a simulation: the results that senders and receivers got, in order, and the checks of these
//! results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use recto_protocol::queues::{Place, Segment, Shard};
use recto_queues::{Message, Sent};

/// Index of an event in the history, counted from 1.
pub(crate) type Moment = u64;

pub(crate) struct History {
    said: Mutex<HistoryState>,
    /// True if segment merging moves messages within their queue.
    pub(crate) moves_on: bool,
}

/// Scope of a receipt: the queue, and also the shard and the segment if segment merging may move the message.
type ReceiptPlace = (Place, Option<(Shard, Segment)>);

#[derive(Default)]
struct HistoryState {
    moment: Moment,
    /// Bodies that a process tried to send, with or without a confirmation.
    tried: BTreeSet<String>,
    /// Bodies whose sending was confirmed, each with the identifier of its message.
    confirmed: BTreeMap<String, u128>,
    /// Messages whose acknowledgment was confirmed before their visibility timeout ended, each with the event
    /// of the confirmation.
    done: BTreeMap<u128, Moment>,
    /// Messages whose acknowledgment was confirmed after their visibility timeout ended, each with the event
    /// of the confirmation. Such a message is resolved only in this queue or segment, because it may have
    /// been moved.
    done_there: BTreeMap<(ReceiptPlace, u128), Moment>,
    /// Messages that a process tried to acknowledge. The messages may be resolved, even without a
    /// confirmation.
    acknowledged: BTreeSet<u128>,
    /// Received messages, with their bodies.
    received: BTreeMap<u128, String>,
    deliveries: u64,
    wrong: Option<String>,
}

impl History {
    pub(crate) fn new(moves_on: bool) -> Self {
        Self {
            said: Mutex::default(),
            moves_on,
        }
    }

    fn said(&self) -> std::sync::MutexGuard<'_, HistoryState> {
        self.said.lock().unwrap()
    }

    fn there(&self, message: &Message) -> ReceiptPlace {
        let receipt = message.receipt;
        let segment = self.moves_on.then_some((receipt.address.shard, receipt.segment));
        (receipt.address.place, segment)
    }

    pub(crate) fn now(&self) -> Moment {
        let mut said = self.said();
        said.moment += 1;
        said.moment
    }

    pub(crate) fn tries(&self, body: &str) {
        self.said().tried.insert(body.to_owned());
    }

    pub(crate) fn confirms(&self, body: &str, sent: Sent) {
        let (Sent::New(id) | Sent::Duplicate(id)) = sent;
        let mut said = self.said();
        let before = said.confirmed.insert(body.to_owned(), id.0);
        if before.is_some_and(|before| before != id.0) {
            said.wrong(format!("{body} was sent as two messages"));
        }
    }

    /// Checks a message received from an ordered queue. Some process must have tried to acknowledge each
    /// earlier confirmed message of its group.
    pub(crate) fn receives_in_order(&self, message: &Message) {
        let mut said = self.said();
        let body = String::from_utf8(message.body.clone()).unwrap();
        let (group, number) = body.split_once(" m").unwrap();
        let number: u64 = number.parse().unwrap();
        let before = (0..number).map(|number| format!("{group} m{number}"));
        let mut passed = before.filter(|before| {
            let id = said.confirmed.get(before);
            id.is_some_and(|id| !said.acknowledged.contains(id))
        });
        let passed = passed.next();
        if let Some(passed) = passed {
            said.wrong(format!("{body} was received before {passed}"));
        }
    }

    /// Checks a received message. `began` is the event at which the receive request began.
    pub(crate) fn receives(&self, message: &Message, began: Moment) {
        let mut said = self.said();
        let body = String::from_utf8(message.body.clone()).unwrap();
        said.deliveries += 1;
        if !said.tried.contains(&body) {
            said.wrong(format!("{body} was received, and nobody sent it"));
        }
        let done = said.done.get(&message.id.0);
        let there = said.done_there.get(&(self.there(message), message.id.0));
        if done.or(there).is_some_and(|done| *done < began) {
            said.wrong(format!("{body} was received after its acknowledgement"));
        }
        let other = said
            .received
            .iter()
            .find(|(id, other)| **id != message.id.0 && **other == body);
        if other.is_some() {
            said.wrong(format!("{body} was received as two messages"));
        }
        said.received.insert(message.id.0, body);
    }

    pub(crate) fn acknowledges(&self, message: &Message) {
        self.said().acknowledged.insert(message.id.0);
    }

    /// Records a confirmed acknowledgment. `in_time` says whether the visibility timeout had not ended.
    pub(crate) fn is_done(&self, message: &Message, in_time: bool) {
        let mut said = self.said();
        said.moment += 1;
        let moment = said.moment;
        if in_time {
            said.done.entry(message.id.0).or_insert(moment);
        }
        let there = (self.there(message), message.id.0);
        said.done_there.entry(there).or_insert(moment);
    }

    pub(crate) fn fails(&self, wrong: String) {
        self.said().wrong(wrong);
    }

    /// Returns a summary of the history, or the first inconsistency.
    pub(crate) fn end(&self) -> Result<String, String> {
        let said = self.said();
        if let Some(wrong) = &said.wrong {
            return Err(wrong.clone());
        }
        for (body, id) in &said.confirmed {
            if !said.acknowledged.contains(id) {
                return Err(format!("{body} was confirmed, and is lost"));
            }
        }
        Ok(format!(
            "{} confirmed, {} deliveries, {} done with, {} moments",
            said.confirmed.len(),
            said.deliveries,
            said.done.len(),
            said.moment
        ))
    }
}

impl HistoryState {
    /// Records an inconsistency. Only the first one is kept.
    fn wrong(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
    }
}
