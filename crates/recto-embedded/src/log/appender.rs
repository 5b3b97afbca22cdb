//! The open log: the choice between a record and a durable commit, appends, and the state after checkpoints.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use recto_model::Environment;
use recto_store::{StoreError, StoreErrorKind};
use redb::Database;

use super::changes::Changes;
use super::checkpoint::SinceCheckpoint;
use super::file::{
    FILES, FIRST_LOG_BYTES, FIRST_RECORD, LogFolder, MAX_LOG_BYTES, MIN_LOG_BYTES, ReadyFile, prepare,
};
use super::position::{Id, Position};
use super::record::{encode, first_checksum, record_len};
use super::replay;
use super::status::Counters;
use super::transaction::Transaction;
use crate::error::{corrupt, engine, file};

/// Time after a failed preparation of a log file before the next attempt.
const PREPARATION_RETRY: Duration = Duration::from_secs(60);

/// Settings of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSettings {
    /// Maximum size of a log file in bytes; 0: the store writes no log.
    pub(crate) log_bytes: u64,
    /// Number of changed bytes of the data file after which a checkpoint follows.
    pub(crate) checkpoint_after: u64,
}

/// How the changes of a transaction become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// There are no changes.
    Nothing,
    /// By a record of the log. The engine then commits without durability.
    Record,
    /// By a durable commit of the engine, which is a checkpoint.
    Durable,
}

/// State of one of the log files.
enum Slot {
    /// The file does not exist, or must be prepared before it gets a record.
    Unprepared,
    /// A second thread prepares the file.
    Preparing,
    Ready(ReadyFile),
    /// A write or a sync of the file failed. It must be prepared again.
    Failed,
}

/// Generation that gets the next record.
struct Active {
    slot: usize,
    generation: Id,
    /// Offset of the next record.
    offset: u64,
    /// Checksum of the last record.
    checksum: u32,
}

/// Result of the preparation of a file, with its number.
type Prepared = (usize, Result<ReadyFile, StoreError>);

/// Commit log of an open store.
pub(crate) struct Log {
    folder: Option<Arc<dyn LogFolder>>,
    settings: LogSettings,
    environment: Environment,
    id: Id,
    slots: [Slot; FILES],
    /// Position that the engine contains after its last commit.
    position: Option<Position>,
    /// `None`: every commit is durable.
    active: Option<Active>,
    since: SinceCheckpoint,
    /// True if no checkpoint was made since the engine was opened after a crash or a failure.
    needs_checkpoint: bool,
    /// True if the engine made a durable commit since it was opened, or no failure came before.
    may_prepare: bool,
    /// Earliest time of the next preparation, in nanoseconds of the monotonic clock.
    next_preparation_nanos: u64,
    /// True if the file of the last generation was too small.
    wants_larger: bool,
    /// Description of the first record that could not be applied because a page is damaged.
    unapplied: Option<String>,
    prepared: Arc<Mutex<Option<Prepared>>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

impl Log {
    /// Creates the log of a store whose engine is not open yet. A store without a `folder` has no log.
    pub(crate) fn new(
        folder: Option<Arc<dyn LogFolder>>,
        settings: LogSettings,
        environment: Environment,
    ) -> Self {
        let id = environment.random();
        let log_bytes = match settings.log_bytes {
            0 => 0,
            bytes => bytes.clamp(MIN_LOG_BYTES, MAX_LOG_BYTES),
        };
        Self {
            folder,
            settings: LogSettings {
                log_bytes,
                ..settings
            },
            environment,
            id,
            slots: std::array::from_fn(|_| Slot::Unprepared),
            position: None,
            active: None,
            since: SinceCheckpoint::default(),
            needs_checkpoint: false,
            may_prepare: true,
            next_preparation_nanos: 0,
            wants_larger: false,
            unapplied: None,
            prepared: Arc::default(),
            thread: None,
            counters: Arc::default(),
        }
    }

    /// Applies the records that the engine does not contain. Call this whenever the engine was opened, before
    /// anything is read from it.
    ///
    /// # Errors
    /// `Corrupt`: the log is damaged, or does not belong to the data file. `Storage`: the file system failed.
    pub(crate) fn recover(&mut self, database: &Database) -> Result<(), StoreError> {
        self.join();
        self.active = None;
        self.since = SinceCheckpoint::default();
        self.unapplied = None;
        let Some(folder) = &self.folder else { return Ok(()) };
        let found = replay::find(database, &**folder)?;
        let applied = replay::apply(database, &found)?;
        self.position = applied.position;
        self.needs_checkpoint = self
            .position
            .is_some_and(|position| position.generation.is_some());
        self.unapplied = applied.unapplied;
        if let Some(position) = self.position {
            self.id = position.log;
        }
        for (slot, ready) in self.slots.iter_mut().zip(found.ready) {
            match (slot, ready) {
                (Slot::Failed, _) => {}
                (slot, Some(ready)) => *slot = Slot::Ready(ready),
                (slot, None) => *slot = Slot::Unprepared,
            }
        }
        let counters = &self.counters;
        counters
            .replayed_records
            .fetch_add(applied.records, Ordering::Relaxed);
        counters
            .incomplete_records
            .fetch_add(u64::from(found.is_incomplete), Ordering::Relaxed);
        self.count();
        Ok(())
    }

    /// Returns whether the store has, had or can get a log, so that its durable commits are two-phase. The commits
    /// before the first generation are two-phase, too: a failed sync must never damage the only good root.
    pub(crate) fn wants_two_phase(&self) -> bool {
        self.position.is_some() || (self.folder.is_some() && self.settings.log_bytes > 0)
    }

    /// Returns whether a checkpoint must be made before the first write.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        self.needs_checkpoint && self.unapplied.is_none()
    }

    /// Returns whether records were written since the last checkpoint.
    pub(crate) fn has_records(&self) -> bool {
        self.since.records > 0
    }

    /// Returns whether a generation is in use, so that the store is not properly closed yet.
    pub(crate) fn is_in_use(&self) -> bool {
        self.position
            .is_some_and(|position| position.generation.is_some())
    }

    /// Returns an error if a record could not be applied, so that the store must not change.
    pub(crate) fn check_applied(&self) -> Result<(), StoreError> {
        match &self.unapplied {
            None => Ok(()),
            Some(what) => Err(corrupt(what.clone())
                .with_hint("read the store or make a copy of its collections, then restore the last backup")),
        }
    }

    /// Returns the counters, which can be read while the log is in use.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Decides how the changes of a transaction become durable.
    pub(crate) fn plan(&mut self, changes: &Changes) -> Plan {
        self.take_prepared();
        let Some(bytes) = changes.bytes() else {
            return Plan::Durable;
        };
        let Some(active) = &self.active else {
            self.begin_to_prepare();
            return Plan::Durable;
        };
        let now = self.environment.monotonic_nanos();
        if self.since.is_due(self.settings.checkpoint_after, now) {
            return Plan::Durable;
        }
        if bytes.is_empty() {
            return Plan::Nothing;
        }
        let Slot::Ready(ready) = &self.slots[active.slot] else {
            return Plan::Durable;
        };
        if active.offset + record_len(bytes.len()) as u64 > ready.bytes {
            self.wants_larger = true;
            self.begin_to_prepare();
            return Plan::Durable;
        }
        Plan::Record
    }

    /// Writes the position of the next record into the transaction, and then appends and syncs the record.
    /// Returns the position.
    ///
    /// # Errors
    /// `Storage`: the file system failed. The record may be on disk or not.
    pub(crate) fn append(&mut self, transaction: &Transaction) -> Result<Position, StoreError> {
        let none = || corrupt("the commit log has no generation for a record");
        let position = self.position.ok_or_else(none)?;
        let position = Position {
            number: position.number + 1,
            ..position
        };
        position.store(transaction)?;
        let changes = transaction.changes();
        let active = self.active.take().ok_or_else(none)?;
        // The slot counts as failed until the record is on disk, also if this panics.
        let slot = std::mem::replace(&mut self.slots[active.slot], Slot::Failed);
        let Slot::Ready(ready) = slot else {
            return Err(none());
        };
        let bytes = changes.bytes().ok_or_else(none)?;
        let ids = (position.log, active.generation);
        let (record, checksum) = encode(ids, position.number, active.checksum, bytes);
        let written = ready
            .file
            .write(active.offset, &record)
            .and_then(|()| ready.file.sync());
        written.map_err(|error| {
            let name = self.folder.as_ref().map(|folder| folder.name(active.slot));
            file(
                &format!("cannot write the commit log {}", name.unwrap_or_default()),
                error,
            )
        })?;
        let record_bytes = record.len() as u64;
        self.slots[active.slot] = Slot::Ready(ready);
        self.active = Some(Active {
            offset: active.offset + record_bytes,
            checksum,
            ..active
        });
        let now = self.environment.monotonic_nanos();
        self.since.add(&changes, record_bytes, now);
        self.counters.records.fetch_add(1, Ordering::Relaxed);
        self.count();
        Ok(position)
    }

    /// Notes that the engine contains the record at `position`.
    pub(crate) fn recorded(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// Writes the position after a checkpoint into a transaction that is about to be committed durably.
    /// Returns the position. If `is_last` is true, the position names no generation, because the store is
    /// being closed.
    ///
    /// # Errors
    /// `Corrupt`: a record could not be applied, so the store must not change.
    pub(crate) fn begin_checkpoint(
        &mut self,
        transaction: &Transaction,
        is_last: bool,
    ) -> Result<Option<Position>, StoreError> {
        self.check_applied()?;
        self.take_prepared();
        let number = self.position.map_or(1, |position| position.number + 1);
        let largest = self.largest().filter(|_| !is_last);
        let file = largest.filter(|file| self.sync(*file));
        if file.is_none() && self.position.is_none() {
            return Ok(None);
        }
        let position = Position {
            log: self.id,
            generation: file.map(|_| self.environment.random()),
            file: file.unwrap_or_default() as u8,
            number,
        };
        position.store(transaction)?;
        Ok(Some(position))
    }

    /// Begins the generation of a position that the engine now contains durably.
    pub(crate) fn checkpointed(&mut self, position: Option<Position>) {
        self.needs_checkpoint = false;
        self.may_prepare = true;
        let Some(position) = position else { return };
        self.position = Some(position);
        self.since = SinceCheckpoint::default();
        self.active = position.generation.map(|generation| Active {
            slot: usize::from(position.file),
            generation,
            offset: FIRST_RECORD,
            checksum: first_checksum(generation),
        });
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.counters
            .last_checkpoint_micros
            .store(self.environment.now_micros().cast_unsigned(), Ordering::Relaxed);
        self.count();
    }

    /// Notes that a commit failed. Until the engine was opened again and made a checkpoint, there are no
    /// further records.
    pub(crate) fn fail(&mut self) {
        self.active = None;
        self.since = SinceCheckpoint::default();
        self.may_prepare = false;
        self.count();
    }

    /// Makes the last checkpoint of a database that is about to be closed, so that it can be opened
    /// read-only.
    ///
    /// # Errors
    /// `Corrupt`: a record could not be applied. `Storage`: the file system failed.
    pub(crate) fn finish(&mut self, database: &Database) -> Result<(), StoreError> {
        self.check_applied()?;
        if !self.is_in_use() {
            return Ok(());
        }
        let transaction = Transaction::begin_copy(database)?;
        let position = self.begin_checkpoint(&transaction, true)?;
        let (mut transaction, _) = transaction.into_parts();
        transaction.set_quick_repair(true);
        transaction.commit().map_err(engine)?;
        self.checkpointed(position);
        Ok(())
    }

    /// Applies the records up to the number `last`, and makes a durable commit after which no other record is
    /// applied. Returns the number of the last applied record.
    ///
    /// # Errors
    /// `Corrupt`: a record up to `last` cannot be applied. `Storage`: the file system failed.
    pub(crate) fn drop_after(&mut self, database: &Database, last: u64) -> Result<u64, StoreError> {
        let Some(folder) = &self.folder else { return Ok(0) };
        let (found, highest) = replay::find_until(database, &**folder, last)?;
        let applied = replay::apply(database, &found)?;
        self.unapplied = applied.unapplied;
        self.check_applied()?;
        let Some(position) = applied.position else {
            return Ok(0);
        };
        self.id = position.log;
        // Name a generation in any case, so that the last checkpoint is made.
        self.position = Some(Position {
            number: highest,
            generation: position.generation.or(Some(self.id)),
            ..position
        });
        self.finish(database)?;
        Ok(position.number)
    }

    /// Waits until no file is being prepared.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.take_prepared();
    }

    /// Checks the records since the last checkpoint. Returns a description of the damage, if there is any.
    pub(crate) fn check(&self) -> Result<Option<String>, StoreError> {
        let (Some(folder), Some(active)) = (&self.folder, &self.active) else {
            return Ok(None);
        };
        let last = self.position.map_or(0, |position| position.number);
        let first = last + 1 - self.since.records;
        replay::check(&**folder, (self.id, active.generation), active.slot, first..=last)
    }

    /// Syncs a file and its name, if an earlier process may not have done so. Returns whether the file can get
    /// records.
    fn sync(&mut self, number: usize) -> bool {
        let (Some(folder), Slot::Ready(ready)) = (&self.folder, &mut self.slots[number]) else {
            return false;
        };
        if !ready.is_synced {
            ready.is_synced = ready.file.sync().is_ok() && folder.sync().is_ok();
        }
        let is_synced = ready.is_synced;
        if !is_synced {
            self.slots[number] = Slot::Failed;
        }
        is_synced
    }

    /// Returns the number of the largest file that can get records.
    fn largest(&self) -> Option<usize> {
        if self.settings.log_bytes == 0 {
            return None;
        }
        let ready = self.slots.iter().enumerate();
        let ready = ready.filter_map(|(number, slot)| match slot {
            Slot::Ready(ready) => Some((ready.bytes, number)),
            _ => None,
        });
        // If both have the same size, keep the current one.
        let current = self.active.as_ref().map(|active| active.slot);
        ready
            .max_by_key(|(bytes, number)| (*bytes, Some(*number) == current))
            .map(|(_, number)| number)
    }

    /// Begins to prepare a file on a second thread, if one is necessary and possible.
    fn begin_to_prepare(&mut self) {
        let Some(folder) = &self.folder else { return };
        let is_preparing = self.slots.iter().any(|slot| matches!(slot, Slot::Preparing));
        let is_possible =
            self.settings.log_bytes > 0 && self.may_prepare && !self.needs_checkpoint && !is_preparing;
        let ready = self.largest();
        let is_necessary = ready.is_none() || self.wants_larger;
        let is_early = self.environment.monotonic_nanos() < self.next_preparation_nanos;
        if !is_possible || !is_necessary || is_early || self.unapplied.is_some() {
            return;
        }
        let size = |slot: &Slot| match slot {
            Slot::Ready(ready) => ready.bytes,
            _ => 0,
        };
        let largest = self.slots.iter().map(size).max().unwrap_or_default();
        let bytes = (2 * largest).max(FIRST_LOG_BYTES).min(self.settings.log_bytes);
        if largest > 0 && bytes <= largest {
            return;
        }
        // Never prepare the file of the generation that recovery would read, nor the largest one.
        let generation = self.position.filter(|position| position.generation.is_some());
        let in_use = generation.map(|position| usize::from(position.file));
        let free = (0..FILES).find(|number| Some(*number) != in_use && Some(*number) != ready);
        let Some(number) = free else { return };
        self.slots[number] = Slot::Preparing;
        self.wants_larger = false;
        let (folder, id, prepared) = (Arc::clone(folder), self.id, Arc::clone(&self.prepared));
        let beside = Arc::clone(&folder);
        let work = move || {
            let result = prepare(&*folder, id, number, bytes);
            *prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, result));
        };
        self.thread = beside.run_beside(Box::new(work));
    }

    fn take_prepared(&mut self) {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.thread = None;
        let prepared = self
            .prepared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match prepared {
            Some((number, Ok(ready))) => self.slots[number] = Slot::Ready(ready),
            // The disk is probably full.
            Some((number, Err(_))) => {
                self.slots[number] = Slot::Failed;
                let now = self.environment.monotonic_nanos();
                let wait = u64::try_from(PREPARATION_RETRY.as_nanos()).unwrap_or(u64::MAX);
                self.next_preparation_nanos = now.saturating_add(wait);
            }
            None => {
                for slot in &mut self.slots {
                    if matches!(slot, Slot::Preparing) {
                        *slot = Slot::Failed;
                    }
                }
            }
        }
        self.count();
    }

    fn count(&self) {
        let bytes = self.slots.iter().map(|slot| match slot {
            Slot::Ready(ready) => ready.bytes,
            _ => 0,
        });
        self.counters.file_bytes.store(bytes.sum(), Ordering::Relaxed);
        self.counters
            .record_bytes
            .store(self.since.record_bytes, Ordering::Relaxed);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A thread that prepares a file must not outlive the lock of the store.
        self.join();
    }
}

/// Returns the error of a store that cannot make the checkpoint after a recovery.
#[cold]
pub(crate) fn unrecovered(error: StoreError) -> StoreError {
    StoreError::new(
        StoreErrorKind::Storage,
        format!("the store was recovered, but cannot be written: {error}"),
    )
    .with_hint("free disk space or repair the disk, and try again")
    .with_source(error)
}
