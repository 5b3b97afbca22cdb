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

/// Number of bytes of a row. Receivers of all queues that share a byte are woken together.
const SLOTS: usize = 64;
/// Distance between the bytes of a queue's successive shards. It is large, so that the queues in the next slots have
/// other bytes.
const SLOTS_APART: usize = 17;
/// Number of rows. Processes that draw the same row may miss each other's changes if their clocks differ.
const ROWS: u32 = 256;
/// Minimum time between two writes of a process to its row.
const RING_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which a process reads the rows while receivers wait.
const LISTEN_INTERVAL: Duration = Duration::from_millis(100);
/// Number of reads in a row without a waiting receiver after which a process stops reading. It reads on for a while
/// because most receivers come again.
const MAX_IDLE_READS: u32 = 50;

/// State of the notifier in this process.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    /// Notification that a write of the row succeeded or failed.
    written: Notify,
}

#[derive(Default)]
struct State {
    /// Row of this process; `None`: the process has changed nothing yet.
    own: Option<Own>,
    /// True if a task writes the row.
    is_ringing: bool,
    /// Number of changes.
    changes: u64,
    /// Number of changes whose write was started.
    sent: u64,
    /// Number of changes whose write has succeeded or failed.
    told: u64,
    /// Number of waiting receivers.
    listeners: usize,
    /// True if a task reads the rows.
    is_listening: bool,
    /// Number of the current period in which this process misses no change. `None`: the process may miss changes,
    /// because the last read failed or no task reads. Each period has another number.
    hearing: Option<u64>,
    last_hearing: u64,
}

impl State {
    /// Records that no task reads the rows anymore.
    fn ends_listening(&mut self) {
        (self.is_listening, self.hearing) = (false, None);
    }
}

struct Own {
    row: u8,
    slots: [u8; SLOTS],
    /// For each byte, true if it changes with the next write.
    is_changed: [bool; SLOTS],
}

/// Knowledge that a shard has no message to receive.
#[derive(Default)]
pub(crate) struct Quiet {
    /// Number that rises whenever a message may have become available.
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

/// Reference point for the statement that no message has become available since.
#[derive(Clone, Copy)]
pub(crate) struct NewsMark {
    news: u64,
    hearing: Option<u64>,
}

/// Registration of a waiting receiver, until it is dropped.
pub(crate) struct Listener(Arc<Bell>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.lock().listeners -= 1;
    }
}

impl Quiet {
    /// Records that a message may have become available.
    pub(crate) fn ends(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the reference point for a poll that begins now.
    pub(crate) fn since(&self, bell: &Bell) -> NewsMark {
        NewsMark {
            news: self.news.load(Ordering::Acquire),
            hearing: bell.lock().hearing,
        }
    }

    /// Records that a poll that began at `since` found nothing. The shard has nothing before `until`, unless a
    /// notification comes. `is_due` says whether a message is due at that time; otherwise receivers only poll again.
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

    /// Records that a receiver polls the shard now, so that other receivers need not poll before `until`. This applies
    /// only if the shard is known to have nothing, and no due time is known.
    pub(crate) fn lasts_until(&self, since: NewsMark, until: Micros) {
        if self.until(since).is_some_and(|(_, is_due)| !is_due) {
            self.learn(since, until, false);
        }
    }

    /// Returns the time until which the shard has nothing to receive, and whether a message is due then.
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

    /// Records that the write of the row has succeeded or failed.
    fn is_written(&self) {
        let mut state = self.lock();
        state.told = state.sent;
        drop(state);
        self.written.notify_waiters();
    }
}

/// Returns the byte of a shard. Shards of the same queue have different bytes.
fn slot(address: Address) -> usize {
    (address.place.0 as usize + usize::from(address.shard.0) * SLOTS_APART) % SLOTS
}

impl QueueStore {
    /// Notifies other processes that the shard may have messages for receivers. A background task does this, at most
    /// once in [`RING_INTERVAL`].
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
                // Ignore a failed write: waiting receivers then find the messages when they poll
                // again.
                let sent = queues
                    .store
                    .write_many(vec![write], Atomicity::Each, write_options());
                let _ = sent.await;
                queues.bell.is_written();
                tokio::time::sleep(RING_INTERVAL).await;
            }
        });
    }

    /// Waits until other processes were notified of all changes of this process, for use before the process ends.
    /// Without this, waiting receivers find the last messages only when they poll again.
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

    /// Draws a row and its first bytes. Most likely no other process has the same.
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
        // Raise a byte once in each write, and not once for each change: after 256 changes, it
        // would have its old value again.
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

    /// Registers a receiver that waits for messages of other processes.
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

    /// Wakes the receivers whose bytes changed. Returns the number of reads in a row without a waiting receiver;
    /// `None`: reading ends.
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

/// Bytes of the rows, by the number of the row.
type Rows = BTreeMap<i32, Vec<u8>>;

/// Guard of the task that reads the rows. When it is dropped, it records that no task reads them anymore.
struct Deaf(Option<Arc<Bell>>);

impl Drop for Deaf {
    fn drop(&mut self) {
        if let Some(bell) = &self.0 {
            bell.lock().ends_listening();
        }
    }
}
