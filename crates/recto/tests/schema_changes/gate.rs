//! A store that makes no table before it is told to.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use recto_model::{Slice, Table};
use recto_store::{
    Atomicity, Cas, CasOutcome, Limits, PartitionWrite, Snapshot, Store, StoreError, StoreKind, TableOutcome,
    TransactionOutcome, WriteOptions, WriteOutcome,
};
use tokio::sync::Semaphore;

pub(crate) struct Gate {
    inner: Arc<dyn Store>,
    /// Whoever makes a table stands before it, and has said so.
    pub(crate) arrived: Semaphore,
    pub(crate) open: Semaphore,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    pub(crate) fn new(inner: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            arrived: Semaphore::new(0),
            open: Semaphore::new(0),
        })
    }
}

#[async_trait]
impl Store for Gate {
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
        self.inner.snapshot()
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
        if table.name() != "recto_catalog" {
            self.arrived.add_permits(1);
            self.open.acquire().await.unwrap().forget();
        }
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
