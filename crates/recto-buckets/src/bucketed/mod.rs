//! Wrapper of a store that keeps the partitions of some tables in buckets and hides the buckets. Callers use each table
//! as if each partition were a partition of the store.
//!
//! The layers above (plans, merges, cursors, views, loads, exports) therefore know nothing of buckets. All
//! writes and reads pass through this store. It forwards requests to tables that are not kept in buckets.
//!
//! A store with transactions keeps each partition whole. A [`RetainedStore`](crate::RetainedStore) wraps
//! it instead.

mod check;
mod estimate;
mod late;
mod list;
mod room;
mod scan;
mod snapshot;
mod tables;
mod writes;

pub use tables::table_in_store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join;
use recto_model::{Cells, Environment, Slice, Table};
use recto_store::{
    Atomicity, Cas, CasOutcome, ClockGuard, ConsistencyLevel, Limits, PartitionWrite, ReadOptions, Snapshot,
    Stamp, Store, StoreError, StoreErrorKind, StoreKind, StoreMetrics, TableOutcome, TableState,
    TransactionOutcome, WriteOptions, WriteOutcome,
};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use crate::limits::RETAIN_EVERY;
use crate::place::{PieceStore, Stamps};
use snapshot::BucketedSnapshot;
pub(crate) use tables::Bucketed;
use tables::{Known, in_store, logical_of};

/// Store whose tables may be kept in buckets. Clones share one engine and one background task.
#[derive(Clone)]
pub struct BucketedStore {
    inner: Arc<dyn Store>,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    environment: Environment,
    stamps: Stamps,
    known: Known,
    /// Engine of the buckets, which is opened on the first access to a table that is kept in
    /// buckets.
    pieces: OnceCell<PieceStore>,
    /// Background task that splits buckets and removes expired rows.
    work: Mutex<Work>,
}

enum Work {
    NotBegun,
    Running(AbortHandle),
    Closed,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    pub(crate) fn stop(&self) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Work::Running(running) = std::mem::replace(&mut *work, Work::Closed) {
            running.abort();
        }
    }
}

impl BucketedStore {
    /// Returns a store over `inner`. `stamps` supplies the write timestamps of this process.
    pub fn over(inner: Arc<dyn Store>, environment: Environment, stamps: Stamps) -> Self {
        Self {
            inner,
            shared: Arc::new(Shared {
                environment,
                stamps,
                known: Known::default(),
                pieces: OnceCell::new(),
                work: Mutex::new(Work::NotBegun),
            }),
        }
    }

    /// Stops the background work of this process: it makes no more splits and removes no more expired rows by itself.
    pub fn stop_upkeep(&self) {
        self.shared.stop();
    }

    /// Returns the engine of the buckets. The first call starts the background work.
    pub(crate) async fn pieces(&self) -> Result<&PieceStore, StoreError> {
        let shared = &self.shared;
        // The call that opened the engine also started the background work.
        if let Some(open) = shared.pieces.get() {
            return Ok(open);
        }
        let open = || {
            PieceStore::open(
                Arc::clone(&self.inner),
                shared.environment.clone(),
                Arc::clone(&shared.stamps),
            )
        };
        let pieces = shared.pieces.get_or_try_init(open).await?;
        self.begin_work(|| {
            let (pieces, retained) = (pieces.clone(), self.retained());
            tokio::spawn(async move { join(pieces.work(), retained).await }).abort_handle()
        });
        Ok(pieces)
    }

    /// Returns the background task that removes expired data. The task runs as long as the store is
    /// used.
    fn retained(&self) -> impl Future<Output = ()> + Send + use<> {
        retain_from_time_to_time(Arc::clone(&self.inner), Arc::downgrade(&self.shared))
    }

    fn begin_work(&self, begin: impl FnOnce() -> AbortHandle) {
        let mut work = self.shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*work, Work::NotBegun) {
            *work = Work::Running(begin());
        }
    }

    /// Creates a table that is kept in buckets. First removes the bucket data (range maps, samples,
    /// sums) that a dropped table with the same name left.
    async fn create_in_store(&self, in_store: &Table) -> Result<TableOutcome, StoreError> {
        if !self.is_missing(in_store).await? {
            return self.inner.create_table(in_store).await;
        }
        // A dropped table with the same name may have left bucket data (range maps, samples, sums),
        // if its removal was interrupted.
        self.pieces().await?.forget(in_store.name()).await?;
        self.inner.create_table(in_store).await
    }

    async fn is_missing(&self, in_store: &Table) -> Result<bool, StoreError> {
        let there = self.inner.compare_tables(std::slice::from_ref(in_store)).await?;
        Ok(there == [TableState::Missing])
    }

    /// Drops a table that is kept in buckets, and removes its bucket data.
    async fn drop_in_store(&self, name: &str) -> Result<TableOutcome, StoreError> {
        let dropped = self.inner.drop_table(name).await?;
        if matches!(dropped, TableOutcome::Done) {
            self.pieces().await?.forget(name).await?;
        }
        Ok(dropped)
    }

    fn bucketed(&self, table: &Arc<Table>) -> Result<Option<Arc<Bucketed>>, StoreError> {
        self.shared.known.bucketed(table)
    }
}

/// Returns the form in which the store has a table with buckets, or `None` if the table has no
/// buckets.
fn bucketed_form(table: &Table) -> Result<Option<Table>, StoreError> {
    let buckets = table.options().buckets;
    buckets.map(|buckets| in_store(table, buckets)).transpose()
}

/// Removes expired data in all partitions of the tables that this process has used, at the interval
/// of each table.
async fn retain_from_time_to_time(inner: Arc<dyn Store>, shared: Weak<Shared>) {
    let mut looked: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        tokio::time::sleep(RETAIN_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        let now = shared.environment.monotonic_nanos();
        let store = BucketedStore {
            inner: Arc::clone(&inner),
            shared,
        };
        for bucketed in store.shared.known.kept_for_a_time() {
            let name = bucketed.logical.name();
            let since = looked.get(name).map(|last| now.saturating_sub(*last));
            if since.is_none_or(|nanos| Duration::from_nanos(nanos) >= bucketed.pieced.retain_every()) {
                looked.insert(name.to_owned(), now);
                // Ignore an error, because the next removal visits all partitions again.
                let _ = store.retain_all(&bucketed).await;
            }
        }
    }
}

/// Returns the error of a request that tables with buckets do not support.
#[cold]
fn not_in_buckets(table: &Table, what: &str) -> StoreError {
    let message = format!("table {} has buckets and {what}", table.name());
    StoreError::new(StoreErrorKind::Invalid, message)
}

#[async_trait]
impl Store for BucketedStore {
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
        Ok(Arc::new(BucketedSnapshot {
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

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        if write.table.options().buckets.is_none() {
            return self.inner.write(write, options).await;
        }
        self.write_rows(vec![write], Atomicity::Each, options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        if writes.iter().all(|write| write.table.options().buckets.is_none()) {
            return self.inner.write_many(writes, atomicity, options).await;
        }
        self.write_rows(writes, atomicity, options).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        if cas.table.options().buckets.is_none() {
            return self.inner.cas(cas, options).await;
        }
        let error = not_in_buckets(&cas.table, "accepts only plain writes");
        Ok(CasOutcome::Refused(error))
    }

    async fn make_room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        self.room(sample, each, timeout).await
    }

    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        self.inner.transact(conditional, plain, options).await
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let Some(in_store) = bucketed_form(table)? else {
            return self.inner.create_table(table).await;
        };
        self.create_in_store(&in_store).await
    }

    async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        self.inner.create_tables_once(tables).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        match (bucketed_form(recorded)?, bucketed_form(table)?) {
            (Some(recorded), Some(table)) => self.inner.add_columns(&recorded, &table).await,
            _ => self.inner.add_columns(recorded, table).await,
        }
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        let there = self.inner.list_tables().await?;
        let there = there.iter().find(|table| table.name() == name);
        let is_bucketed = there.is_some_and(|table| logical_of(table).is_some());
        if is_bucketed {
            return self.drop_in_store(name).await;
        }
        self.inner.drop_table(name).await
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        if table.options().buckets.is_some() {
            return Err(not_in_buckets(table, "can be dropped, but not emptied"));
        }
        self.inner.empty_table(table).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        let tables = self.inner.list_tables().await?;
        let shown = tables
            .into_iter()
            .map(|table| logical_of(&table).unwrap_or(table));
        Ok(shown.collect())
    }

    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        let in_store = tables.iter().map(|table| {
            let bucketed = bucketed_form(table)?;
            Ok(bucketed.unwrap_or_else(|| table.clone()))
        });
        let in_store: Result<Vec<Table>, StoreError> = in_store.collect();
        self.inner.compare_tables(&in_store?).await
    }

    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        self.inner.tables_version().await
    }

    fn describe_slice(&self, slice: &Slice, options: &ReadOptions) -> Vec<String> {
        match self.bucketed(&slice.table) {
            Ok(Some(bucketed)) => self.described(&bucketed, slice, &bucketed.pieced.read_by(options)),
            _ => self.inner.describe_slice(slice, options),
        }
    }

    fn expected_round_trips(&self, slice: &Slice, options: &ReadOptions) -> u32 {
        match self.bucketed(&slice.table) {
            Ok(Some(bucketed)) => {
                let slice = bucketed.first_shard(&bucketed.first_slice(slice));
                self.inner
                    .expected_round_trips(&slice, &bucketed.pieced.read_by(options))
            }
            _ => self.inner.expected_round_trips(slice, options),
        }
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
