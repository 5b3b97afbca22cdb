//! Notifier: receivers that wait learn of messages that other processes sent.
//!
//! All rows of the notifier are in one partition, one row for each process. A process that has made messages available
//! changes its row. A process with waiting receivers reads the partition ten times a second, regardless of the number
//! of queues that the receivers wait for. A row has 64 bytes, one for each 64th of all shards, and each change sets the
//! byte to another value. Correctness does not depend on the notifier: a receiver that misses a change finds the
//! messages a little later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_model::Slice;
use recto_protocol::queues::Address;
use recto_store::{Atomicity, Operation, PartitionWrite, Stamp};
use tokio::sync::Notify;

use crate::context::{QueueContext, body_options, write_options};
use crate::error::Result;
use crate::tables::{mutation, notifier_clustering, notifier_partition};

/// Number of bytes of a row of the notifier. Queues that share a byte have their receivers woken together.
const SLOTS: usize = 64;
/// Distance between the bytes of successive shards of a queue in a row of the notifier. The
/// distance is large, so that queues with neighboring registry slots use different bytes.
const SLOTS_APART: usize = 17;
/// Number of rows of the notifier. Each process chooses a row at random. Processes with the same row may miss
/// each other's changes if their clocks differ.
const ROWS: u32 = 256;
/// Minimum time between two writes of a process to its row of the notifier.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which a process reads the rows of the notifier while receivers wait.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// Number of successive reads without a waiting receiver after which a process stops reading the
/// notifier. A process does not stop at once, because most receivers soon wait again.
const MAX_IDLE_READS: u32 = 50;

/// Notifier in this process: the writes of the process's own row, and its reads of the rows of all
/// processes.
pub(crate) struct Notifier {
    context: QueueContext,
    state: Mutex<NotifierState>,
    /// Wakes tasks that wait until a write of this process's row has succeeded or failed.
    written: Notify,
}

#[derive(Default)]
struct NotifierState {
    /// Row of this process; `None`: the process has sent no notification yet.
    own: Option<OwnRow>,
    /// True while a task writes the row of this process.
    is_writing: bool,
    /// Number of notifications that were requested since the start.
    changes: u64,
    /// Number of notifications whose write to the store was started.
    sent: u64,
    /// Number of notifications whose write to the store has succeeded or failed.
    ended: u64,
    /// Number of receivers of this process that wait.
    listeners: usize,
    /// True while a task reads the rows of all processes.
    is_reading: bool,
    /// Id of the current period in which every read of the rows succeeded, so that this process has
    /// missed no notification. `None`: the process may miss notifications, because the last read
    /// failed or no task reads the rows.
    period: Option<u64>,
    last_period: u64,
}

impl NotifierState {
    /// Records that no task reads the rows of the notifier anymore.
    fn stop_reading(&mut self) {
        (self.is_reading, self.period) = (false, None);
    }
}

struct OwnRow {
    row: u8,
    slots: [u8; SLOTS],
    /// For each byte of `slots`, true if the next write of the row must change it.
    is_changed: [bool; SLOTS],
}

/// Registration of a waiting receiver at the notifier. Dropping it ends the registration.
pub(crate) struct Listener(Arc<Notifier>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.lock().listeners -= 1;
    }
}

impl Notifier {
    pub(crate) fn new(context: &QueueContext) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            state: Mutex::default(),
            written: Notify::new(),
        })
    }

    /// Returns the id of the current period without missed notifications.
    pub(crate) fn period(&self) -> Option<u64> {
        self.lock().period
    }

    fn lock(&self) -> MutexGuard<'_, NotifierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the write of this process's row has succeeded or failed, and wakes tasks that
    /// wait for the write.
    fn end_write(&self) {
        let mut state = self.lock();
        state.ended = state.sent;
        drop(state);
        self.written.notify_waiters();
    }

    /// Notifies other processes that the shard may have messages for receivers. A background task
    /// writes the notification, at most once in [`WRITE_INTERVAL`].
    pub(crate) fn notify(self: &Arc<Self>, address: Address) {
        if !self.context.has_ring() {
            return;
        }
        {
            let mut state = self.lock();
            let own = state.own.get_or_insert_with(|| self.new_row());
            own.is_changed[slot(address)] = true;
            state.changes += 1;
            if std::mem::replace(&mut state.is_writing, true) {
                return;
            }
        }
        let notifier = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(write) = notifier.take_changed_row() {
                // Ignore a failed write: waiting receivers then find the messages when they poll again.
                let sent = notifier
                    .context
                    .store
                    .write_many(vec![write], Atomicity::Each, write_options());
                let _ = sent.await;
                notifier.end_write();
                tokio::time::sleep(WRITE_INTERVAL).await;
            }
        });
    }

    /// Waits until all notifications of this process are written, for use before the process ends. Otherwise,
    /// receivers of other processes find the last messages only when they poll again.
    pub(crate) async fn flush(&self) {
        let changes = self.lock().changes;
        loop {
            let mut written = std::pin::pin!(self.written.notified());
            written.as_mut().enable();
            if self.lock().ended >= changes {
                return;
            }
            written.await;
        }
    }

    /// Chooses a random row and random first bytes for this process. It is unlikely that another process has
    /// the same row.
    fn new_row(&self) -> OwnRow {
        let mut slots = [0; SLOTS];
        let drawn = self.context.random().to_be_bytes();
        slots
            .iter_mut()
            .zip(drawn.iter().cycle())
            .for_each(|(slot, drawn)| *slot = *drawn);
        OwnRow {
            row: drawn[0],
            slots,
            is_changed: [false; SLOTS],
        }
    }

    fn take_changed_row(&self) -> Option<PartitionWrite> {
        let mut state = self.lock();
        if state.sent == state.changes {
            state.is_writing = false;
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
            clustering: notifier_clustering(own.row),
            cells: std::iter::once(Some(&own.slots[..])).collect(),
            replace: true,
        };
        Some(PartitionWrite {
            table: Arc::clone(&self.context.tables.notifications),
            partition: notifier_partition(),
            mutations: vec![mutation(put, Some(Stamp(self.context.environment.now_micros())))],
        })
    }

    /// Registers a receiver that waits for messages of other processes. Starts the task that reads
    /// the rows of the notifier if no such task runs. `wake` gets a function that selects the shards
    /// whose receivers it wakes. `None`: the store needs no notifier.
    pub(crate) fn listen(self: &Arc<Self>, wake: Box<Wake>) -> Option<Listener> {
        if !self.context.has_ring() {
            return None;
        }
        let mut state = self.lock();
        state.listeners += 1;
        let is_reading = std::mem::replace(&mut state.is_reading, true);
        drop(state);
        if !is_reading {
            let ending = ReadGuard(Some(Arc::clone(self)));
            tokio::spawn(Arc::clone(self).watch_rows(wake, ending));
        }
        Some(Listener(Arc::clone(self)))
    }

    async fn watch_rows(self: Arc<Self>, wake: Box<Wake>, mut ending: ReadGuard) {
        let (mut last, mut idle_reads) = (None, 0);
        loop {
            let read = self.read_rows().await;
            let idle = self.wake_changed(&read, last.as_ref(), idle_reads, &wake);
            let Some(idle) = idle else {
                // `wake_changed` has already recorded that no task reads. Disarm the guard: it would
                // record this again, although another task may have begun to read.
                ending.0 = None;
                return;
            };
            idle_reads = idle;
            if let Ok(read) = read {
                last = Some(read);
            }
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }

    /// Wakes the receivers of shards whose bytes changed between two reads of the notifier. Returns the
    /// number of successive reads without a waiting receiver. `None`: stop reading.
    fn wake_changed(
        &self,
        read: &Result<Rows>,
        last: Option<&Rows>,
        idle_reads: u32,
        wake: &Wake,
    ) -> Option<u32> {
        let idle_reads = {
            let mut state = self.lock();
            match (read, state.period) {
                (Err(_), _) => state.period = None,
                (Ok(_), None) => {
                    state.last_period += 1;
                    state.period = Some(state.last_period);
                }
                (Ok(_), Some(_)) => {}
            }
            let idle_reads = if state.listeners == 0 { idle_reads + 1 } else { 0 };
            if idle_reads == MAX_IDLE_READS {
                state.stop_reading();
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
            wake(&|address| changed[slot(address)]);
        }
        Some(idle_reads)
    }

    async fn read_rows(&self) -> Result<Rows> {
        let table = &self.context.tables.notifications;
        let slice = Slice::from_start(table, notifier_partition(), ROWS);
        let read = self
            .context
            .store
            .snapshot()?
            .slice(&slice, &body_options())
            .await?;
        let row = |row: recto_model::RowRef<'_>| {
            let number = row.get(table.partition().len())?;
            let number = i32::from_be_bytes(number.try_into().ok()?);
            Some((number, row.get(table.columns().len() - 1)?.to_vec()))
        };
        Ok(read.rows.iter().filter_map(row).collect())
    }
}

/// Returns the index of a shard's byte in the rows of the notifier. Shards of the same queue have different
/// bytes.
fn slot(address: Address) -> usize {
    (address.place.0 as usize + usize::from(address.shard.0) * SLOTS_APART) % SLOTS
}

/// Function that wakes the receivers of the shards that a given function selects.
pub(crate) type Wake = dyn Fn(&dyn Fn(Address) -> bool) + Send + Sync;

/// Rows of the notifier: the bytes of each row, by the index (from 0) of the row.
type Rows = BTreeMap<i32, Vec<u8>>;

/// Guard of the task that reads the rows of the notifier. Dropping the guard records that no task
/// reads the rows.
struct ReadGuard(Option<Arc<Notifier>>);

impl Drop for ReadGuard {
    fn drop(&mut self) {
        if let Some(notifier) = &self.0 {
            notifier.lock().stop_reading();
        }
    }
}
