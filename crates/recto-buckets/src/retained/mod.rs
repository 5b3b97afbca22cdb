//! Wrapper of a store with transactions, which keeps each partition whole.
//!
//! The inner store needs no buckets: it counts rows by blocks of rows, and large partitions do it no harm.
//! The wrapper adds two properties of tables with buckets:
//!
//! - It rejects, hides and deletes rows that are older than the retention time (`keep`).
//! - It computes the buckets that a store without transactions would have, so that an operator sees them
//!   before a move to such a store.
//!
//! `docs/design/retention.md` gives the reasons.
//!
//! | module | content |
//! |---|---|
//! | `bounds` | the retention bound of each table |
//! | `writes` | writes without the rows below the bound |
//! | `reads` | reads that hide rows below the bound |
//! | `deletion` | deletion of rows below the bound |
//! | `drawn` | computation of the buckets that a store without transactions would have |

mod bounds;
mod deletion;
mod drawn;
mod reads;
mod writes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Cells, Environment, Slice, Table};
use recto_store::{
    Atomicity, Cas, CasOutcome, ClockGuard, ConsistencyLevel, Limits, PartitionWrite, ReadOptions, Snapshot,
    Stamp, Store, StoreError, StoreKind, StoreMetrics, TableOutcome, TableState, TransactionOutcome,
    WriteOptions, WriteOutcome,
};
use tokio::task::AbortHandle;

use crate::keys;
use crate::limits::MAX_KNOWN_TABLES;
use crate::place::Stamps;
use crate::times::Keep;
use bounds::Bounds;
use reads::RetainedSnapshot;
use writes::{Filtered, Numbers};

/// Store with transactions whose tables may have a retention time. Clones share one state and one
/// background task.
#[derive(Clone)]
pub struct RetainedStore {
    inner: Arc<dyn Store>,
    shared: Arc<Shared>,
}

struct Shared {
    environment: Environment,
    stamps: Stamps,
    bounds: Bounds,
    /// Tables with a retention time that this process has used.
    known: RwLock<HashMap<String, Arc<RetainedTable>>>,
    /// Background task that deletes expired rows.
    work: Mutex<Work>,
    /// Number of rows that this process deleted because of the retention time.
    deleted_rows: AtomicU64,
}

enum Work {
    NotBegun,
    Running(AbortHandle),
    Closed,
}

/// Table whose rows have a retention time.
struct RetainedTable {
    table: Arc<Table>,
    keep: Keep,
    /// True if a put skips rows below the retention bound. False if the store rejects such a put.
    leaves_out_late: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn stop(&self) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Work::Running(running) = std::mem::replace(&mut *work, Work::Closed) {
            running.abort();
        }
    }

    fn now_ms(&self) -> i64 {
        self.environment.now_micros().div_euclid(1_000)
    }
}

impl RetainedTable {
    fn new(table: &Arc<Table>) -> Result<Option<Self>, StoreError> {
        let Some(keep) = Keep::of_table(table)? else {
            return Ok(None);
        };
        let buckets = table.options().buckets;
        Ok(Some(Self {
            keep,
            table: Arc::clone(table),
            leaves_out_late: buckets.is_some_and(|buckets| buckets.leaves_out_late),
        }))
    }
}

impl RetainedStore {
    /// Returns a store over `inner`, with the retention bounds that it has recorded. `stamps` supplies the write
    /// timestamps of this process.
    ///
    /// # Errors
    /// - The store cannot be read.
    /// - Another program created a table with the name of the table of bounds.
    pub async fn open(
        inner: Arc<dyn Store>,
        environment: Environment,
        stamps: Stamps,
    ) -> Result<Self, StoreError> {
        let bounds = Bounds::read(&inner).await?;
        Ok(Self {
            inner,
            shared: Arc::new(Shared {
                environment,
                stamps,
                bounds,
                known: RwLock::default(),
                work: Mutex::new(Work::NotBegun),
                deleted_rows: AtomicU64::new(0),
            }),
        })
    }

    /// Stops the background work of this process: the process deletes no more expired rows by
    /// itself.
    pub fn stop_upkeep(&self) {
        self.shared.stop();
    }

    /// Returns the number of rows that this process deleted because of their retention time, since the store was
    /// opened.
    pub fn deleted_rows(&self) -> u64 {
        self.shared.deleted_rows.load(Ordering::Relaxed)
    }

    /// Returns whether a row is below the retention bound of its table (too old to be kept). The
    /// bound is the recorded one, or the bound by the current time if that is higher and the local
    /// clock is trusted. `clustering` has the cells of all clustering columns. The row may still be
    /// stored until it is deleted.
    ///
    /// # Errors
    /// The cells are not a clustering key of the table.
    pub fn is_late(&self, table: &Arc<Table>, clustering: &Cells) -> Result<bool, StoreError> {
        let Some(retained) = self.retained(table)? else {
            return Ok(false);
        };
        let Some(floor) = self.floor_of_writes(&retained)? else {
            return Ok(false);
        };
        Ok(floor.hides(&keys::key_of(table, clustering.as_row())?))
    }

    /// Returns a table with its retention time, or `None` if its rows are kept forever.
    fn retained(&self, table: &Arc<Table>) -> Result<Option<Arc<RetainedTable>>, StoreError> {
        if !is_retained(table) {
            return Ok(None);
        }
        let known = self.shared.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(table.name());
        if let Some(found) = found.filter(|one| Arc::ptr_eq(&one.table, table) || one.table == *table) {
            return Ok(Some(Arc::clone(found)));
        }
        drop(known);
        let Some(made) = RetainedTable::new(table)?.map(Arc::new) else {
            return Ok(None);
        };
        let mut known = self.shared.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN_TABLES {
            known.clear();
        }
        known.insert(table.name().to_owned(), Arc::clone(&made));
        Ok(Some(made))
    }

    /// Returns whether `retained` is still the definition of the table that this process has
    /// cached.
    fn is_current(&self, retained: &Arc<RetainedTable>) -> bool {
        let known = self.shared.known.read().unwrap_or_else(PoisonError::into_inner);
        let now = known.get(retained.table.name());
        now.is_some_and(|now| Arc::ptr_eq(now, retained))
    }

    /// Removes cached tables whose definition has changed, for example to another retention time.
    fn forget_others(&self, tables: &[Table]) {
        let mut known = self.shared.known.write().unwrap_or_else(PoisonError::into_inner);
        for table in tables {
            if known.get(table.name()).is_some_and(|one| *one.table != *table) {
                known.remove(table.name());
            }
        }
    }

    fn forget(&self, name: &str) {
        let mut known = self.shared.known.write().unwrap_or_else(PoisonError::into_inner);
        known.remove(name);
    }

    /// Prepares writes to `tables`: starts the background deletion, records the current time as
    /// evidence that the clock is right, and raises the retention bounds.
    async fn prepare(&self, tables: impl Iterator<Item = &Arc<Table>>) -> Result<(), StoreError> {
        for table in tables {
            if let Some(retained) = self.retained(table)? {
                self.begin_deletion();
                self.record_time(&retained).await;
                self.raise(&retained).await?;
            }
        }
        Ok(())
    }

    /// Records the current time, at most once an hour. The record lets the next process verify its own
    /// clock.
    async fn record_time(&self, retained: &RetainedTable) {
        if let Some(guard) = self.inner.clock_guard() {
            // If this fails, the next process has only older evidence for its clock.
            let _ = guard.record(retained.keep.length(), REQUEST_TIME).await;
        }
    }

    /// Prepares writes to the tables, and removes late rows (rows below the retention bound) from
    /// the writes of tables that skip such rows. Returns `Filtered::Late` if another table gets a
    /// late row.
    async fn filtered(&self, writes: &mut [PartitionWrite]) -> Result<Filtered, StoreError> {
        if !writes.iter().any(|write| is_retained(&write.table)) {
            return Ok(Filtered::Kept(Numbers::default()));
        }
        self.prepare(writes.iter().map(|write| &write.table)).await?;
        Filtered::new(
            self,
            writes
                .iter_mut()
                .map(|write| (&write.table, &mut write.mutations)),
        )
    }
}

/// Returns whether the rows of a table have a retention time.
fn is_retained(table: &Table) -> bool {
    table
        .options()
        .buckets
        .is_some_and(|buckets| buckets.keep.is_some())
}

#[async_trait]
impl Store for RetainedStore {
    fn kind(&self) -> StoreKind {
        self.inner.kind()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn keeps_buckets(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        Ok(Arc::new(RetainedSnapshot {
            inner: self.inner.snapshot()?,
            store: self.clone(),
        }))
    }

    fn check_decisions(&self) -> Result<(), StoreError> {
        self.inner.check_decisions()
    }

    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        self.inner.serial_consistency()
    }

    async fn write(
        &self,
        mut write: PartitionWrite,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        match self.filtered(std::slice::from_mut(&mut write)).await? {
            Filtered::Late => Ok(WriteOutcome::Refused(writes::below_bound())),
            Filtered::Kept(_) if write.mutations.is_empty() => Ok(writes::nothing_written(&options)),
            Filtered::Kept(numbers) => Ok(numbers.outcome(self.inner.write(write, options).await?)),
        }
    }

    async fn write_many(
        &self,
        mut writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        match self.filtered(&mut writes).await? {
            Filtered::Late => Ok(WriteOutcome::Refused(writes::below_bound())),
            Filtered::Kept(numbers) => {
                if numbers.has_skipped() {
                    writes.retain(|write| !write.mutations.is_empty());
                }
                if writes.is_empty() {
                    return Ok(writes::nothing_written(&options));
                }
                Ok(numbers.outcome(self.inner.write_many(writes, atomicity, options).await?))
            }
        }
    }

    async fn cas(&self, mut cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.prepare(std::iter::once(&cas.table)).await?;
        let of_cas = std::iter::once((&cas.table, &mut cas.mutations));
        match Filtered::new(self, of_cas)? {
            Filtered::Late => Ok(CasOutcome::Refused(writes::below_bound())),
            // Reject the conditional write if all its mutations were skipped, because it needs at
            // least one.
            Filtered::Kept(_) if cas.mutations.is_empty() => Ok(CasOutcome::Refused(writes::below_bound())),
            Filtered::Kept(_) => self.inner.cas(cas, options).await,
        }
    }

    async fn transact(
        &self,
        mut conditional: Vec<Cas>,
        mut plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        self.prepare(conditional.iter().map(|cas| &cas.table)).await?;
        let of_cas = conditional.iter_mut().map(|cas| (&cas.table, &mut cas.mutations));
        if matches!(Filtered::new(self, of_cas)?, Filtered::Late) {
            return Ok(TransactionOutcome::Refused(writes::below_bound()));
        }
        match self.filtered(&mut plain).await? {
            Filtered::Late => Ok(TransactionOutcome::Refused(writes::below_bound())),
            Filtered::Kept(numbers) => {
                if numbers.has_skipped() {
                    plain.retain(|write| !write.mutations.is_empty());
                }
                let outcome = self.inner.transact(conditional, plain, options).await?;
                Ok(match outcome {
                    TransactionOutcome::Conflict(number) => {
                        TransactionOutcome::Conflict(numbers.before(number))
                    }
                    other => other,
                })
            }
        }
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        // If a table with the same name was dropped before, its retention bound may still be
        // recorded, so remove the bound.
        if self.inner.compare_tables(std::slice::from_ref(table)).await? == [TableState::Missing] {
            self.forget_bound(table.name()).await?;
        }
        self.inner.create_table(table).await
    }

    async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        self.inner.create_tables_once(tables).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        self.inner.add_columns(recorded, table).await
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        let dropped = self.inner.drop_table(name).await?;
        if matches!(dropped, TableOutcome::Done) {
            self.forget(name);
            self.forget_bound(name).await?;
        }
        Ok(dropped)
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.inner.empty_table(table).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        self.inner.list_tables().await
    }

    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        self.forget_others(tables);
        self.inner.compare_tables(tables).await
    }

    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        self.inner.tables_version().await
    }

    fn describe_slice(&self, slice: &Slice, options: &ReadOptions) -> Vec<String> {
        self.inner.describe_slice(slice, options)
    }

    fn expected_round_trips(&self, slice: &Slice, options: &ReadOptions) -> u32 {
        self.inner.expected_round_trips(slice, options)
    }

    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        self.inner.clock_guard()
    }

    fn newest_stamp(&self) -> Option<Stamp> {
        self.inner.newest_stamp()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.shared.stop();
        self.inner.close().await
    }

    fn metrics(&self) -> StoreMetrics {
        self.inner.metrics()
    }

    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.inner.check_partition(table, partition)
    }
}

/// Maximum duration of one request that the background work sends.
const REQUEST_TIME: Duration = crate::limits::MAX_REQUEST_TIME;
