//! Notifier: receivers that wait learn of messages that other processes sent.
//!
//! All rows of the notifier are in one partition, one row for each process. A process that has made messages available
//! changes its row. A process with waiting receivers reads the partition ten times a second, regardless of the number
//! of queues that the receivers wait for. A row has 64 bytes, one for each 64th of all shards, and each change sets the
//! byte to another value. Correctness does not depend on the notifier: a receiver that misses a change finds the
//! messages a little later.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_model::Slice;
use recto_protocol::queues::{Address, Micros};
use recto_store::{Atomicity, Operation, PartitionWrite, Stamp};
use tokio::sync::Notify;

use crate::error::Result;
use crate::place::{QueueStore, body_options, write_options};
use crate::tables::{bell_clustering, bell_partition, mutation};

/// Number of bytes of a row of the notifier. Queues that share a byte have their receivers woken together.
const SLOTS: usize = 64;
/// Distance between the bytes of successive shards of a queue in a row of the notifier. The
/// distance is large, so that queues with neighboring registry slots use different bytes.
const SLOTS_APART: usize = 17;
/// Number of rows of the notifier. Each process chooses a row at random. Processes with the same row may miss
/// each other's changes if their clocks differ.
const ROWS: u32 = 256;
/// Minimum time between two writes of a process to its row of the notifier.
const RING_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which a process reads the rows of the notifier while receivers wait.
const LISTEN_INTERVAL: Duration = Duration::from_millis(100);
/// Number of successive reads without a waiting receiver after which a process stops reading the
/// notifier. A process does not stop at once, because most receivers soon wait again.
const MAX_IDLE_READS: u32 = 50;

/// Notifier in this process: the writes of the process's own row, and its reads of the rows of all
/// processes.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    /// Wakes tasks that wait until a write of this process's row has succeeded or failed.
    written: Notify,
}

#[derive(Default)]
struct State {
    /// Row of this process; `None`: the process has sent no notification yet.
    own: Option<Own>,
    /// True while a task writes the row of this process.
    is_ringing: bool,
    /// Number of notifications that were requested since the start.
    changes: u64,
    /// Number of notifications whose write to the store was started.
    sent: u64,
    /// Number of notifications whose write to the store has succeeded or failed.
    told: u64,
    /// Number of receivers of this process that wait.
    listeners: usize,
    /// True while a task reads the rows of all processes.
    is_listening: bool,
    /// Id of the current period in which every read of the rows succeeded, so that this process has
    /// missed no notification. `None`: the process may miss notifications, because the last read
    /// failed or no task reads the rows.
    hearing: Option<u64>,
    last_hearing: u64,
}

impl State {
    /// Records that no task reads the rows of the notifier anymore.
    fn ends_listening(&mut self) {
        (self.is_listening, self.hearing) = (false, None);
    }
}

struct Own {
    row: u8,
    slots: [u8; SLOTS],
    /// For each byte of `slots`, true if the next write of the row must change it.
    is_changed: [bool; SLOTS],
}

/// Cached result of a poll that found no message in a shard: the time until which receivers need
/// not poll the shard. A notification of new messages makes the result invalid, and so does a
/// failed read of the notifications.
#[derive(Default)]
pub(crate) struct Quiet {
    /// Counter that rises whenever a message may have become available in the shard. A changed
    /// counter makes the cached result of a poll invalid.
    news: AtomicU64,
    known: Mutex<Option<Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    news: u64,
    hearing: u64,
    until: Micros,
    is_due: bool,
}

/// Mark of the time at which a poll began. It shows later whether a message may have become
/// available in the shard since then.
#[derive(Clone, Copy)]
pub(crate) struct NewsMark {
    news: u64,
    hearing: Option<u64>,
}

/// Registration of a waiting receiver at the notifier. Dropping it ends the registration.
pub(crate) struct Listener(Arc<Bell>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.lock().listeners -= 1;
    }
}

impl Quiet {
    /// Makes the cached result "no message until …" invalid, because a message may have become
    /// available in the shard.
    pub(crate) fn ends(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the mark for a poll of the shard that begins now.
    pub(crate) fn since(&self, bell: &Bell) -> NewsMark {
        NewsMark {
            news: self.news.load(Ordering::Acquire),
            hearing: bell.lock().hearing,
        }
    }

    /// Records that a poll that began at `since` found no message. Receivers then need not poll the shard
    /// before `until`, unless a notification arrives. `is_due` says whether a message is due at `until`.
    /// Returns false, and records nothing, if this process may miss notifications.
    pub(crate) fn learn(&self, since: NewsMark, until: Micros, is_due: bool) -> bool {
        let Some(hearing) = since.hearing else {
            return false;
        };
        let news = since.news;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Known {
            news,
            hearing,
            until,
            is_due,
        });
        true
    }

    /// Records that a receiver polls the shard now, so that other receivers need not poll before `until`.
    /// Does so only if the shard is known to have no message, and no time is known at which a message is due.
    pub(crate) fn lasts_until(&self, since: NewsMark, until: Micros) {
        if self.until(since).is_some_and(|(_, is_due)| !is_due) {
            self.learn(since, until, false);
        }
    }

    /// Returns the time until which the shard has nothing to receive, and whether a message is due then.
    /// `None`: not known, or no longer valid.
    pub(crate) fn until(&self, since: NewsMark) -> Option<(Micros, bool)> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |known: &Known| known.news == since.news && Some(known.hearing) == since.hearing;
        known.filter(holds).map(|known| (known.until, known.is_due))
    }
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the write of this process's row has succeeded or failed, and wakes tasks that
    /// wait for the write.
    fn is_written(&self) {
        let mut state = self.lock();
        state.told = state.sent;
        drop(state);
        self.written.notify_waiters();
    }
}

/// Returns the index of a shard's byte in the rows of the notifier. Shards of the same queue have different
/// bytes.
fn slot(address: Address) -> usize {
    (address.place.0 as usize + usize::from(address.shard.0) * SLOTS_APART) % SLOTS
}

impl QueueStore {
    /// Notifies other processes that the shard may have messages for receivers. A background task
    /// writes the notification, at most once in [`RING_INTERVAL`].
    pub(crate) fn rings(&self, address: Address) {
        if !self.has_ring() {
            return;
        }
        {
            let mut state = self.bell.lock();
            let own = state.own.get_or_insert_with(|| self.own_row());
            own.is_changed[slot(address)] = true;
            state.changes += 1;
            if std::mem::replace(&mut state.is_ringing, true) {
                return;
            }
        }
        let queues = self.clone();
        tokio::spawn(async move {
            while let Some(write) = queues.changed_row() {
                // Ignore a failed write: waiting receivers then find the messages when they poll again.
                let sent = queues
                    .store
                    .write_many(vec![write], Atomicity::Each, write_options());
                let _ = sent.await;
                queues.bell.is_written();
                tokio::time::sleep(RING_INTERVAL).await;
            }
        });
    }

    /// Waits until all notifications of this process are written, for use before the process ends. Otherwise,
    /// receivers of other processes find the last messages only when they poll again.
    pub(crate) async fn has_rung(&self) {
        let changes = self.bell.lock().changes;
        loop {
            let mut written = std::pin::pin!(self.bell.written.notified());
            written.as_mut().enable();
            if self.bell.lock().told >= changes {
                return;
            }
            written.await;
        }
    }

    /// Chooses a random row and random first bytes for this process. It is unlikely that another process has
    /// the same row.
    fn own_row(&self) -> Own {
        let mut slots = [0; SLOTS];
        let drawn = self.random().to_be_bytes();
        slots
            .iter_mut()
            .zip(drawn.iter().cycle())
            .for_each(|(slot, drawn)| *slot = *drawn);
        Own {
            row: drawn[0],
            slots,
            is_changed: [false; SLOTS],
        }
    }

    fn changed_row(&self) -> Option<PartitionWrite> {
        let mut state = self.bell.lock();
        if state.sent == state.changes {
            state.is_ringing = false;
            return None;
        }
        state.sent = state.changes;
        let own = state.own.as_mut()?;
        // Raise a changed byte once in each write, and not once for each notification: after 256
        // notifications, the byte would have its old value again.
        for (slot, is_changed) in own.slots.iter_mut().zip(&mut own.is_changed) {
            *slot = slot.wrapping_add(u8::from(std::mem::take(is_changed)));
        }
        let put = Operation::Put {
            clustering: bell_clustering(own.row),
            cells: std::iter::once(Some(&own.slots[..])).collect(),
            replace: true,
        };
        Some(PartitionWrite {
            table: Arc::clone(&self.tables.bell),
            partition: bell_partition(),
            mutations: vec![mutation(put, Some(Stamp(self.environment.now_micros())))],
        })
    }

    /// Registers a receiver that waits for messages of other processes. Starts the task that reads
    /// the rows of the notifier if no such task runs. `None`: the store needs no notifier.
    pub(crate) fn listens(&self) -> Option<Listener> {
        if !self.has_ring() {
            return None;
        }
        let mut state = self.bell.lock();
        state.listeners += 1;
        let is_listening = std::mem::replace(&mut state.is_listening, true);
        drop(state);
        if !is_listening {
            let ending = Deaf(Some(Arc::clone(&self.bell)));
            tokio::spawn(self.clone().listen(ending));
        }
        Some(Listener(Arc::clone(&self.bell)))
    }

    async fn listen(self, mut ending: Deaf) {
        let (mut last, mut idle_reads) = (None, 0);
        loop {
            let read = self.read_bell().await;
            let heard = self.heard(&read, last.as_ref(), idle_reads);
            let Some(idle) = heard else {
                // `heard` has already recorded that no task reads. Disarm the guard: it would
                // record this again, although another task may have begun to read.
                ending.0 = None;
                return;
            };
            idle_reads = idle;
            if let Ok(read) = read {
                last = Some(read);
            }
            tokio::time::sleep(LISTEN_INTERVAL).await;
        }
    }

    /// Wakes the receivers of shards whose bytes changed between two reads of the notifier. Returns the
    /// number of successive reads without a waiting receiver. `None`: stop reading.
    fn heard(&self, read: &Result<Rows>, last: Option<&Rows>, idle_reads: u32) -> Option<u32> {
        let idle_reads = {
            let mut state = self.bell.lock();
            match (read, state.hearing) {
                (Err(_), _) => state.hearing = None,
                (Ok(_), None) => {
                    state.last_hearing += 1;
                    state.hearing = Some(state.last_hearing);
                }
                (Ok(_), Some(_)) => {}
            }
            let idle_reads = if state.listeners == 0 { idle_reads + 1 } else { 0 };
            if idle_reads == MAX_IDLE_READS {
                state.ends_listening();
                return None;
            }
            idle_reads
        };
        if let Ok(read) = read {
            let is_changed = |slot: usize| {
                last.is_none_or(|last| {
                    let byte = |rows: &Rows, row: &i32| rows.get(row).and_then(|row| row.get(slot).copied());
                    read.keys().any(|row| byte(read, row) != byte(last, row))
                })
            };
            let changed: Vec<_> = (0..SLOTS).map(is_changed).collect();
            self.wake(|address| changed[slot(address)]);
        }
        Some(idle_reads)
    }

    async fn read_bell(&self) -> Result<Rows> {
        let table = &self.tables.bell;
        let slice = Slice::from_start(table, bell_partition(), ROWS);
        let read = self.store.snapshot()?.slice(&slice, &body_options()).await?;
        let row = |row: recto_model::RowRef<'_>| {
            let number = row.get(table.partition().len())?;
            let number = i32::from_be_bytes(number.try_into().ok()?);
            Some((number, row.get(table.columns().len() - 1)?.to_vec()))
        };
        Ok(read.rows.iter().filter_map(row).collect())
    }
}

/// Rows of the notifier: the bytes of each row, by the index (from 0) of the row.
type Rows = BTreeMap<i32, Vec<u8>>;

/// Guard of the task that reads the rows of the notifier. Dropping the guard records that no task
/// reads the rows.
struct Deaf(Option<Arc<Bell>>);

impl Drop for Deaf {
    fn drop(&mut self) {
        if let Some(bell) = &self.0 {
            bell.lock().ends_listening();
        }
    }
}
