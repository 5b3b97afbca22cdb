//! What a process did with the messages of a shard, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// What a process did with the messages of a queue since it opened the store, as it is said in JSON, too. None of the numbers ever falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Messages that were sent. One that was there under its deduplication id is none.
    pub sent: u64,
    /// Messages that were handed out, one as often as it was.
    pub received: u64,
    /// Messages that were acknowledged.
    pub acked: u64,
    /// Messages that their receivers gave back, those among them that went to the dead letters by that.
    pub given_back: u64,
    /// Messages that went to the dead letters.
    pub dead_lettered: u64,
    /// Messages that were older than their queue keeps them, and are gone.
    pub expired: u64,
    /// Messages whose bodies were missing or damaged: they went to another queue without, or are gone.
    pub bodies_lost: u64,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: Counter,
    pub(crate) received: Counter,
    pub(crate) acked: Counter,
    pub(crate) given_back: Counter,
    pub(crate) dead_lettered: Counter,
    pub(crate) expired: Counter,
    pub(crate) bodies_lost: Counter,
    /// How many wait for a message now.
    receivers: AtomicU64,
}

/// A number that never falls.
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

    /// One more waits, until this is dropped.
    pub(crate) fn waits(&self) -> Waits<'_> {
        self.receivers.fetch_add(1, Ordering::Relaxed);
        Waits(self)
    }
}

/// Somebody waits for a message.
pub(crate) struct Waits<'c>(&'c Counters);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.receivers.fetch_sub(1, Ordering::Relaxed);
    }
}
