//! Deletion of the rows below the retention bound, in small steps, so that other writers do not wait.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use recto_model::{Bound, Slice};
use recto_store::{Operation, PartitionWrite, ReadOptions, Store, StoreError, WriteOptions, WriteOutcome};

use super::{REQUEST_TIME, RetainedStore, RetainedTable, Shared, Work};
use crate::keys;
use crate::limits::{MAX_LISTED_PARTITIONS, RETAIN_EVERY};
use crate::list::{PartitionsPosition, partition_keys};
use crate::tables::mutation;

/// Maximum number of rows that one transaction deletes.
const MAX_DELETED_ROWS: u32 = 5_000;

impl RetainedStore {
    /// Starts the background deletion, unless it runs or was stopped.
    pub(super) fn begin_deletion(&self) {
        let mut work = self.shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*work, Work::NotBegun) {
            let background = Background {
                inner: Arc::clone(&self.inner),
                shared: Arc::downgrade(&self.shared),
            };
            *work = Work::Running(tokio::spawn(background.retain_repeatedly()).abort_handle());
        }
    }

    /// Records the due retention bound of a table (the bound by the current time), and deletes the
    /// rows below it. Returns the number of deleted rows.
    ///
    /// # Errors
    /// The store cannot be read or written. Completed steps stay.
    pub(super) async fn retain(&self, retained: &Arc<RetainedTable>) -> Result<u64, StoreError> {
        let Some(mut deletion) = Deletion::begin(self, retained).await? else {
            return Ok(0);
        };
        while deletion.step(self).await? {}
        Ok(deletion.deleted)
    }

    /// Deletes the first rows of a slice in one transaction, except rows with a timestamp in the
    /// future. Returns the number of deleted rows, and the bound behind the last deleted row, or `None` if
    /// no rows follow.
    async fn delete(&self, slice: &Slice) -> Result<(u64, Option<Bound>), StoreError> {
        let options = ReadOptions {
            timeout: REQUEST_TIME,
            ..ReadOptions::default()
        };
        let read = self.inner.snapshot()?.slice(slice, &options).await?;
        let Some(last) = read.rows.iter().next_back() else {
            return Ok((0, None));
        };
        let clustering = slice.table.partition().len()..slice.table.key_len();
        let behind = Bound::After(clustering.map(|column| last.get(column)).collect());
        let range = Operation::DeleteRange {
            from: slice.from.clone(),
            to: behind.clone(),
        };
        let write = PartitionWrite {
            table: Arc::clone(&slice.table),
            partition: slice.partition.clone(),
            mutations: vec![mutation(range, (self.shared.stamps)(), None)],
        };
        match self.inner.write(write, WriteOptions::default()).await? {
            WriteOutcome::Unknown(error) | WriteOutcome::Refused(error) => return Err(error),
            _ => {}
        }
        let rows = read.rows.len() as u64;
        self.shared.deleted_rows.fetch_add(rows, Ordering::Relaxed);
        Ok((rows, (!read.exhausted).then_some(behind)))
    }

    fn known(&self) -> Vec<Arc<RetainedTable>> {
        let known = self.shared.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().cloned().collect()
    }
}

/// Deletion of the rows of one table below its retention bound, step by step.
struct Deletion {
    retained: Arc<RetainedTable>,
    from: Bound,
    to: Bound,
    /// Parts of the listed partitions that contain expired rows and are not deleted yet.
    slices: VecDeque<Slice>,
    /// Position behind the listed partitions. `None`: all partitions were listed.
    next: Option<PartitionsPosition>,
    /// Number of rows that were deleted so far.
    deleted: u64,
}

impl Deletion {
    /// Records the due retention bound of a table (the bound by the current time), and returns the
    /// deletion of the rows below it. Returns `None` if the table has no bound.
    async fn begin(store: &RetainedStore, retained: &Arc<RetainedTable>) -> Result<Option<Self>, StoreError> {
        store.raise(retained).await?;
        let Some(floor) = store.shared.bounds.floor(retained)? else {
            return Ok(None);
        };
        let (from, to) = keys::bounds_of(&retained.table, &floor.hidden_span())?;
        Ok(Some(Self {
            retained: Arc::clone(retained),
            from,
            to,
            slices: VecDeque::new(),
            next: Some(PartitionsPosition::default()),
            deleted: 0,
        }))
    }

    /// Does one step, which is one listing of partitions or one transaction. Returns false if the
    /// deletion is complete.
    async fn step(&mut self, store: &RetainedStore) -> Result<bool, StoreError> {
        let Some(mut slice) = self.slices.pop_front() else {
            return self.list(store).await;
        };
        let (deleted, behind) = store.delete(&slice).await?;
        self.deleted += deleted;
        if let Some(behind) = behind {
            // Continue after the last row: a read from the start would find rows with a timestamp in the future
            // again, which are not deleted.
            slice.from = behind;
            self.slices.push_front(slice);
        }
        Ok(true)
    }

    /// Lists the next partitions. Returns false if all partitions were listed before.
    async fn list(&mut self, store: &RetainedStore) -> Result<bool, StoreError> {
        let Some(position) = self.next.take() else {
            return Ok(false);
        };
        let (table, snapshot) = (&self.retained.table, store.inner.snapshot()?);
        let (keys, next) = partition_keys(&*snapshot, table, position, MAX_LISTED_PARTITIONS).await?;
        self.slices.extend(keys.into_iter().map(|partition| Slice {
            from: self.from.clone(),
            to: self.to.clone(),
            ..Slice::from_start(table, partition, MAX_DELETED_ROWS)
        }));
        self.next = next;
        Ok(true)
    }
}

/// Store as the background task holds it. Between two steps, the task does not keep `Shared` alive. When the last
/// [`RetainedStore`] is dropped, `Shared` aborts the task, which then releases `inner`.
struct Background {
    inner: Arc<dyn Store>,
    shared: Weak<Shared>,
}

impl Background {
    /// Returns the store, or `None` if nothing uses it any more.
    fn store(&self) -> Option<RetainedStore> {
        Some(RetainedStore {
            inner: Arc::clone(&self.inner),
            shared: self.shared.upgrade()?,
        })
    }

    /// Deletes the rows of a table below its retention bound. Returns whether all of these rows
    /// were deleted.
    async fn retain(&self, retained: &Arc<RetainedTable>) -> bool {
        let Some(store) = self.store() else { return false };
        let Ok(Some(mut deletion)) = Deletion::begin(&store, retained).await else {
            return false;
        };
        drop(store);
        while let Some(store) = self.store() {
            match deletion.step(&store).await {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Deletes the rows below the retention bounds of the tables that this process has used, at the interval
    /// of each table, as long as the store is used.
    async fn retain_repeatedly(self) {
        // Per table: start of the last deletion, and the bound below which all rows are deleted.
        let (mut begun_nanos, mut done): (HashMap<String, u64>, HashMap<String, i64>) = Default::default();
        loop {
            tokio::time::sleep(RETAIN_EVERY).await;
            let Some(known) = self.store().map(|store| store.known()) else {
                return;
            };
            for retained in known {
                let Some(store) = self.store() else { return };
                store.record_time(&retained).await;
                let (name, now) = (retained.table.name(), store.shared.environment.monotonic_nanos());
                let since = begun_nanos.get(name).map(|last| now.saturating_sub(*last));
                if since.is_some_and(|nanos| Duration::from_nanos(nanos) < retained.keep.retain_every()) {
                    continue;
                }
                begun_nanos.insert(name.to_owned(), now);
                let bound = store.shared.bounds.kept_from_ms(name);
                let is_done =
                    bound.is_some() && done.get(name) == bound.as_ref() && !store.is_to_be_raised(&retained);
                drop(store);
                // A failed deletion is repeated at the next interval.
                if !is_done && self.retain(&retained).await {
                    let bound = self
                        .store()
                        .and_then(|store| store.shared.bounds.kept_from_ms(name));
                    done.extend(bound.map(|bound| (name.to_owned(), bound)));
                }
            }
        }
    }
}
