//! A store that keeps partitions in buckets, where tables ask for it, and does not show them: a table is asked for, written and
//! read as if each partition were one of the store's.
//!
//! So whatever stands above (plans, merges, cursors, views, loads, exports) knows nothing of buckets, and all ways of
//! writing and reading go through this one. Tables that are not kept in buckets are passed on.

mod scan;
mod snapshot;
mod tables;
mod writes;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use recto_model::{Cells, Environment, Slice, Table};
use recto_store::{
    Atomicity, Cas, CasOutcome, ConsistencyLevel, Limits, PartitionWrite, Snapshot, Stamp, Store, StoreError,
    StoreErrorKind, StoreKind, StoreMetrics, TableOutcome, TableState, TransactionOutcome, WriteOptions,
    WriteOutcome,
};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use crate::place::{PieceStore, Stamps};
use snapshot::BucketedSnapshot;
use tables::{Bucketed, Known, in_store, logical_of};

/// A store whose tables may be kept in buckets. Clones share it.
#[derive(Clone)]
pub struct BucketedStore {
    inner: Arc<dyn Store>,
    shared: Arc<Shared>,
}

struct Shared {
    environment: Environment,
    stamps: Stamps,
    known: Known,
    /// Opened by whoever comes to the first table that is kept in buckets.
    pieces: OnceCell<PieceStore>,
    /// What cuts, once it runs.
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
    fn stop(&self) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Work::Running(running) = std::mem::replace(&mut *work, Work::Closed) {
            running.abort();
        }
    }
}

impl BucketedStore {
    /// Over a store. `stamps` are those that its writes get, which are made in this process.
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

    /// What keeps partitions in pieces; from now on what has grown is cut.
    async fn pieces(&self) -> Result<&PieceStore, StoreError> {
        let shared = &self.shared;
        let open = || {
            PieceStore::open(
                Arc::clone(&self.inner),
                shared.environment.clone(),
                Arc::clone(&shared.stamps),
            )
        };
        let pieces = shared.pieces.get_or_try_init(open).await?;
        let mut work = shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*work, Work::NotBegun) {
            let pieces = pieces.clone();
            let running = tokio::spawn(async move { pieces.work().await });
            *work = Work::Running(running.abort_handle());
        }
        Ok(pieces)
    }

    fn bucketed(&self, table: &Arc<Table>) -> Result<Option<Arc<Bucketed>>, StoreError> {
        self.shared.known.bucketed(table, self.inner.limits())
    }

    fn in_store(&self, table: &Table) -> Result<Option<Table>, StoreError> {
        let is_bucketed = table.options().buckets.is_some();
        is_bucketed
            .then(|| in_store(table, self.inner.limits()))
            .transpose()
    }
}

/// That a table kept in buckets cannot be asked for that.
#[cold]
fn not_in_buckets(table: &Table, what: &str) -> StoreError {
    let message = format!("table {} is kept in buckets, and {what}", table.name());
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

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        let inner = self.inner.snapshot()?;
        Ok(Arc::new(BucketedSnapshot {
            inner,
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
        if cas.table.options().buckets.is_some() {
            let error = not_in_buckets(&cas.table, "is written plainly");
            return Ok(CasOutcome::Refused(error));
        }
        self.inner.cas(cas, options).await
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
        let Some(in_store) = self.in_store(table)? else {
            return self.inner.create_table(table).await;
        };
        let pieces = self.pieces().await?;
        let there = self.inner.compare_tables(std::slice::from_ref(&in_store)).await?;
        if there == [TableState::Missing] {
            // Of one of its name that was dropped by somebody who did not come so far.
            pieces.forget(in_store.name()).await?;
        }
        self.inner.create_table(&in_store).await
    }

    async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        self.inner.create_tables_once(tables).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        match (self.in_store(recorded)?, self.in_store(table)?) {
            (Some(recorded), Some(table)) => self.inner.add_columns(&recorded, &table).await,
            _ => self.inner.add_columns(recorded, table).await,
        }
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        let there = self.inner.list_tables().await?;
        let there = there.iter().find(|table| table.name() == name);
        let is_bucketed = there.is_some_and(|table| logical_of(table).is_some());
        let dropped = self.inner.drop_table(name).await?;
        if is_bucketed && matches!(dropped, TableOutcome::Done) {
            self.pieces().await?.forget(name).await?;
        }
        Ok(dropped)
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
            let bucketed = self.in_store(table)?;
            Ok(bucketed.unwrap_or_else(|| table.clone()))
        });
        let in_store: Result<Vec<Table>, StoreError> = in_store.collect();
        self.inner.compare_tables(&in_store?).await
    }

    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        self.inner.tables_version().await
    }

    fn describe_slice(&self, slice: &Slice) -> Vec<String> {
        match self.bucketed(&slice.table) {
            Ok(Some(bucketed)) => self.described(&bucketed, slice),
            _ => self.inner.describe_slice(slice),
        }
    }

    fn expected_round_trips(&self, slice: &Slice) -> u32 {
        match self.bucketed(&slice.table) {
            Ok(Some(bucketed)) => self.inner.expected_round_trips(&bucketed.first_slice(slice)),
            _ => self.inner.expected_round_trips(slice),
        }
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
