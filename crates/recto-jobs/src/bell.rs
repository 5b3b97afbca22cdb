//! Who waits for a message hears of what another process sent.
//!
//! A process that has done something for receivers changes its row of the bell, which is one partition; a process where somebody
//! waits reads that partition ten times a second, however many queues it waits for. A row has a byte for each 64th of all
//! queues, which is another one after each change. Nothing rests on it: a change that is not heard is found a little later.

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

/// Queues that share a byte are woken together.
const SLOTS: usize = 64;
/// How far those of a queue's shards are apart: far, so that the next queues have others.
const SLOTS_APART: usize = 17;
/// Rows of the bell. Processes that draw the same one may miss each other, if their clocks are apart.
const ROWS: u32 = 256;
/// How long a process waits before it changes its row again.
const RING_INTERVAL: Duration = Duration::from_millis(50);
/// How often the bell is read while somebody waits.
const LISTEN_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is still read when nobody waits any more: most who wait come again.
const MAX_IDLE_READS: u32 = 50;

/// The bell, as a process knows it.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    /// The row was written, or that failed.
    written: Notify,
}

#[derive(Default)]
struct State {
    /// What its row says; none: it was not changed yet.
    own: Option<Own>,
    /// Whether somebody is writing the row.
    is_ringing: bool,
    /// How often it was changed.
    changes: u64,
    /// The changes that are on their way, or were written.
    sent: u64,
    /// Those that were written, or could not be.
    told: u64,
    /// Who waits.
    listeners: usize,
    /// Whether somebody reads the bell.
    is_listening: bool,
    /// Whether all that was rung since is known: another number whenever it is not.
    hearing: Option<u64>,
    last_hearing: u64,
}

impl State {
    /// Nobody reads the bell any more.
    fn ends_listening(&mut self) {
        (self.is_listening, self.hearing) = (false, None);
    }
}

struct Own {
    row: u8,
    slots: [u8; SLOTS],
    /// Since it was written last.
    is_changed: [bool; SLOTS],
}

/// What a process knows of a shard where there is nothing to receive.
#[derive(Default)]
pub(crate) struct Quiet {
    /// Another number whenever something may have come.
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

/// By what it is known that nothing came since.
#[derive(Clone, Copy)]
pub(crate) struct Since {
    news: u64,
    hearing: Option<u64>,
}

/// Somebody waits, until this is dropped.
pub(crate) struct Listener(Arc<Bell>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.lock().listeners -= 1;
    }
}

impl Quiet {
    /// Something may have come.
    pub(crate) fn ends(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
    }

    /// Before it is looked.
    pub(crate) fn since(&self, bell: &Bell) -> Since {
        Since {
            news: self.news.load(Ordering::Acquire),
            hearing: bell.lock().hearing,
        }
    }

    /// It was looked since then, and there is nothing before that time, when something is due or it is looked again, unless somebody
    /// says so. Whether somebody would.
    pub(crate) fn learn(&self, since: Since, until: Micros, is_due: bool) -> bool {
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

    /// Nothing came since it was looked last, and somebody looks again: others need not before that time.
    pub(crate) fn lasts_until(&self, since: Since, until: Micros) {
        if self.until(since).is_some_and(|(_, is_due)| !is_due) {
            self.learn(since, until, false);
        }
    }

    /// Until when there is nothing to receive, and whether there is something then.
    pub(crate) fn until(&self, since: Since) -> Option<(Micros, bool)> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |known: &Known| known.news == since.news && Some(known.hearing) == since.hearing;
        known.filter(holds).map(|known| (known.until, known.is_due))
    }
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the row says is written, or that failed.
    fn is_written(&self) {
        let mut state = self.lock();
        state.told = state.sent;
        drop(state);
        self.written.notify_waiters();
    }
}

/// Shards of a queue have different ones.
fn slot(address: Address) -> usize {
    (address.place.0 as usize + usize::from(address.shard.0) * SLOTS_APART) % SLOTS
}

impl QueueStore {
    /// Tells other processes that there may be something for receivers; by a task of its own, and not more often than is of use.
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
                // If it fails, who waits finds it a little later.
                let sent = queues
                    .store
                    .write_many(vec![write], Atomicity::Each, write_options());
                let _ = sent.await;
                queues.bell.is_written();
                tokio::time::sleep(RING_INTERVAL).await;
            }
        });
    }

    /// Waits until other processes were told of all that was done here, as before this one ends: what was not told by then is
    /// found only when who waits looks again.
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

    /// Which nothing else has, most likely.
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
        // Once a write, however often it changed: after 256 times a byte is as it was.
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

    /// Somebody waits for what others send.
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
                // By now another may have begun.
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

    /// Wakes who waits for what changed; how often the bell was read in a row when nobody waits; none: it is over.
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

/// What the rows of the bell say.
type Rows = BTreeMap<i32, Vec<u8>>;

/// Nobody reads the bell any more when this is dropped.
struct Deaf(Option<Arc<Bell>>);

impl Drop for Deaf {
    fn drop(&mut self) {
        if let Some(bell) = &self.0 {
            bell.lock().ends_listening();
        }
    }
}
