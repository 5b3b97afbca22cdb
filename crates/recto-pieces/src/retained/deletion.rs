//! Deletion of the rows below the retention bound, in small steps, so that other writers do not wait.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use recto_model::{Bound, Cells, Slice};
use recto_store::{
    Operation, PartitionWrite, ReadOptions, ScanPosition, Store, StoreError, TokenRange, WriteOptions,
    WriteOutcome,
};

use super::{REQUEST_TIME, RetainedStore, RetainedTable, Shared, Work};
use crate::keys;
use crate::limits::{MAX_LISTED_PARTITIONS, RETAIN_EVERY};
use crate::tables::{RETAINS_IN_A_STEP, mutation};

/// Maximum number of rows that one transaction deletes.
const MAX_DELETED_ROWS: u32 = 5_000;

impl RetainedStore {
    /// Starts the background deletion, unless it runs or was stopped.
    pub(super) fn begin_deletion(&self) {
        let mut work = self.shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*work, Work::NotBegun) {
            let deletion = delete_repeatedly(Arc::clone(&self.inner), Arc::downgrade(&self.shared));
            *work = Work::Running(tokio::spawn(deletion).abort_handle());
        }
    }

    /// Raises the retention bound of a table to its current value, and deletes the rows below it. Returns
    /// the number of deleted rows.
    ///
    /// # Errors
    /// The store cannot be read or written. Completed steps stay.
    pub(super) async fn retain(&self, retained: &Arc<RetainedTable>) -> Result<u64, StoreError> {
        self.raise(retained).await?;
        let Some(floor) = self.shared.bounds.floor(retained)? else {
            return Ok(0);
        };
        let (from, to) = keys::bounds_of(&retained.table, &floor.hidden_span())?;
        let (mut after, mut deleted) = (None, 0);
        loop {
            let (partitions, next) = self.partitions_of(retained, after.as_ref()).await?;
            for partition in partitions {
                let hidden = Slice {
                    from: from.clone(),
                    to: to.clone(),
                    ..Slice::from_start(&retained.table, partition, MAX_DELETED_ROWS)
                };
                deleted += self.delete(hidden).await?;
            }
            after = match next {
                Some(next) => Some(next),
                None => return Ok(deleted),
            };
        }
    }

    async fn partitions_of(
        &self,
        retained: &RetainedTable,
        after: Option<&ScanPosition>,
    ) -> Result<(Vec<Cells>, Option<ScanPosition>), StoreError> {
        let (range, limit) = (TokenRange::whole(), MAX_LISTED_PARTITIONS as u32);
        let snapshot = self.inner.snapshot()?;
        let read = snapshot
            .scan_partitions(&retained.table, &range, after, limit, &ReadOptions::default())
            .await?;
        let keys = retained.table.partition().len();
        let partitions = read
            .rows
            .iter()
            .map(|row| (0..keys).map(|column| row.get(column)).collect());
        Ok((partitions.collect(), read.next))
    }

    /// Deletes the rows of a slice in steps, and returns their number.
    async fn delete(&self, mut slice: Slice) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let options = ReadOptions {
                timeout: REQUEST_TIME,
                ..ReadOptions::default()
            };
            let read = self.inner.snapshot()?.slice(&slice, &options).await?;
            let Some(last) = read.rows.iter().next_back() else {
                return Ok(deleted);
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
            deleted += rows;
            if read.exhausted {
                return Ok(deleted);
            }
            // Rows with a timestamp in the future are not deleted, and stay hidden.
            slice.from = behind;
        }
    }

    fn known(&self) -> Vec<Arc<RetainedTable>> {
        let known = self.shared.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().cloned().collect()
    }
}

/// Deletes the rows below the retention bounds of the tables that this process has used, at the interval of each table,
/// as long as the store is used.
async fn delete_repeatedly(inner: Arc<dyn Store>, shared: Weak<Shared>) {
    // Per table: start of the last deletion, and the bound below which all rows are deleted.
    let (mut begun_nanos, mut done): (HashMap<String, u64>, HashMap<String, i64>) = Default::default();
    loop {
        tokio::time::sleep(RETAIN_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        let now = shared.environment.monotonic_nanos();
        let store = RetainedStore {
            inner: Arc::clone(&inner),
            shared,
        };
        for retained in store.known() {
            store.record_time(&retained).await;
            let name = retained.table.name();
            let since = begun_nanos.get(name).map(|last| now.saturating_sub(*last));
            if since.is_some_and(|nanos| Duration::from_nanos(nanos) < interval(&retained)) {
                continue;
            }
            begun_nanos.insert(name.to_owned(), now);
            // A failed deletion is repeated at the next interval.
            let bound = store.shared.bounds.kept_from_ms(name);
            let is_done =
                bound.is_some() && done.get(name) == bound.as_ref() && !store.is_to_be_raised(&retained);
            if !is_done && store.retain(&retained).await.is_ok() {
                done.extend(
                    store
                        .shared
                        .bounds
                        .kept_from_ms(name)
                        .map(|bound| (name.to_owned(), bound)),
                );
            }
        }
    }
}

/// Returns the interval between two deletions.
fn interval(retained: &RetainedTable) -> Duration {
    let step_ms = retained.keep.step_ms().unsigned_abs();
    Duration::from_millis(step_ms / RETAINS_IN_A_STEP)
}
