//! A store that counts the calls made to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use recto::store::{
    Atomicity, Cas, CasOutcome, Limits, PartitionWrite, PointRead, ReadOptions, RowsRead, ScanPosition,
    ScanRead, Snapshot, Store, StoreError, StoreKind, TableOutcome, TokenRange, TransactionOutcome,
    WriteOptions, WriteOutcome,
};
use recto_model::{Cells, Slice, Table};

/// Calls made to a store since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    snapshots: AtomicU32,
    slices: AtomicU32,
    others: AtomicU32,
}

impl Calls {
    /// Snapshots taken, slices read and other reads, from now on counted from zero.
    pub(crate) fn take(&self) -> (u32, u32, u32) {
        let take = |count: &AtomicU32| count.swap(0, Ordering::Relaxed);
        (take(&self.snapshots), take(&self.slices), take(&self.others))
    }
}

/// Passes calls on and counts them.
pub(crate) struct Counting {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) calls: Arc<Calls>,
}

struct CountingSnapshot {
    inner: Arc<dyn Snapshot>,
    calls: Arc<Calls>,
}

fn count(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[async_trait]
impl Store for Counting {
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
        count(&self.calls.snapshots);
        Ok(Arc::new(CountingSnapshot {
            inner: self.inner.snapshot()?,
            calls: Arc::clone(&self.calls),
        }))
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        self.inner.write(write, options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.inner.write_many(writes, atomicity, options).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
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
        self.inner.create_table(table).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        self.inner.add_columns(recorded, table).await
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.inner.drop_table(name).await
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.inner.empty_table(table).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        self.inner.list_tables().await
    }

    fn describe_slice(&self, slice: &Slice) -> Vec<String> {
        self.inner.describe_slice(slice)
    }
}

#[async_trait]
impl Snapshot for CountingSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        count(&self.calls.slices);
        self.inner.slice(slice, options).await
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        let read = self.inner.slice_now(slice, options);
        if read.is_some() {
            count(&self.calls.slices);
        }
        read
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        count(&self.calls.others);
        self.inner.get(read, options).await
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        count(&self.calls.others);
        self.inner.get_statics(table, partition, options).await
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        count(&self.calls.others);
        self.inner.token_ranges(table, pieces).await
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        count(&self.calls.others);
        self.inner.scan(table, range, after, limit, options).await
    }

    async fn partitions(
        &self,
        table: &Arc<Table>,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        count(&self.calls.others);
        self.inner.partitions(table, after, limit, options).await
    }
}
