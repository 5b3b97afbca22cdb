//! Counters of this process for the messages of a queue: how many it sent, received, acknowledged,
//! and so on.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Counters of this process for the messages of a queue, since the process opened the store. No
/// counter ever falls. The JSON form has fields with the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Number of messages that were sent, not counting duplicates.
    pub sent: u64,
    /// Number of deliveries. A message counts each time it is delivered.
    pub received: u64,
    /// Number of messages that were acknowledged.
    pub acked: u64,
    /// Number of messages that their receivers gave back, including those that therefore went to the dead-letter queue.
    pub given_back: u64,
    /// Number of messages that went to the dead-letter queue.
    pub dead_lettered: u64,
    /// Number of messages that were deleted because they exceeded the retention of the queue.
    pub expired: u64,
    /// Number of messages whose bodies were missing or damaged. The messages went to another queue
    /// without their bodies, or were deleted.
    pub bodies_lost: u64,
}

/// Counters of a queue that this process updates; [`Totals`] is a copy of their values.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: Counter,
    pub(crate) received: Counter,
    pub(crate) acked: Counter,
    pub(crate) given_back: Counter,
    pub(crate) dead_lettered: Counter,
    pub(crate) expired: Counter,
    pub(crate) bodies_lost: Counter,
    /// Number of receivers that wait for a message at the moment.
    receivers: AtomicU64,
}

/// Counter that never falls, and that several tasks may increase.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            sent: self.sent.get(),
            received: self.received.get(),
            acked: self.acked.get(),
            given_back: self.given_back.get(),
            dead_lettered: self.dead_lettered.get(),
            expired: self.expired.get(),
            bodies_lost: self.bodies_lost.get(),
        }
    }

    pub(crate) fn receivers(&self) -> u64 {
        self.receivers.load(Ordering::Relaxed)
    }

    /// Counts one more waiting receiver, until the returned guard is dropped.
    pub(crate) fn count_receiver(&self) -> WaitingReceiver<'_> {
        self.receivers.fetch_add(1, Ordering::Relaxed);
        WaitingReceiver(self)
    }
}

/// Guard of a waiting receiver. Dropping the guard ends the wait of the receiver in the count.
pub(crate) struct WaitingReceiver<'c>(&'c Counters);

impl Drop for WaitingReceiver<'_> {
    fn drop(&mut self) {
        self.0.receivers.fetch_sub(1, Ordering::Relaxed);
    }
}
