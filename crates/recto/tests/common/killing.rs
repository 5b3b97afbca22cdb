//! Store wrapper that simulates a process that is killed at a chosen store call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use async_trait::async_trait;
use recto::store::wrapper::StoreWrapper;
use recto::store::{
    Atomicity, Cas, CasOutcome, PartitionWrite, Store, StoreError, TableOutcome, TransactionOutcome,
    WriteOptions, WriteOutcome,
};
use recto_model::Table;
use tokio::sync::Notify;

/// Moment at which the process is killed, relative to a store call that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the store executes the call.
    Before,
    /// After the store executed the call, and before it answers.
    After,
    /// Instead of executing the call. The store still executes concurrent and later calls, until
    /// the test calls [`kill`](Killing::kill).
    Beside,
}

/// Store wrapper that executes a limited number of changes, and then answers no call that changes
/// something. Reads succeed.
pub(crate) struct Killing {
    inner: Arc<dyn Store>,
    left: AtomicI64,
    cut: Cut,
    /// Returns whether calls to the table with the given name are counted.
    counts: fn(&str) -> bool,
    is_dead: AtomicBool,
    killed: Notify,
}

impl Killing {
    /// Returns a store wrapper that simulates a kill at a call to a table that `counts` selects,
    /// after [`arm`](Self::arm) is called.
    pub(crate) fn new(inner: &Arc<dyn Store>, cut: Cut, counts: fn(&str) -> bool) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            left: AtomicI64::new(i64::MAX),
            cut,
            counts,
            is_dead: AtomicBool::new(false),
            killed: Notify::new(),
        })
    }

    /// Sets the number of changes that the store still executes before the call at which the
    /// process is killed.
    pub(crate) fn arm(&self, calls: i64) {
        self.left.store(calls + 1, Ordering::SeqCst);
    }

    /// Waits until the call at which the process is killed.
    pub(crate) async fn killed(&self) {
        self.killed.notified().await;
    }

    /// Stops the store: it executes and answers no further calls that change something.
    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    async fn call<T>(&self, tables: impl IntoIterator<Item = &str>, call: impl Future<Output = T>) -> T {
        let left = if tables.into_iter().any(self.counts) {
            self.left.fetch_sub(1, Ordering::SeqCst)
        } else {
            i64::MAX
        };
        if self.is_dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let is_beside = left < 1 && self.cut == Cut::Beside;
        if left > 1 || is_beside {
            return call.await;
        }
        if self.cut != Cut::Beside {
            self.kill();
        }
        if left == 1 {
            if self.cut == Cut::After {
                call.await;
            }
            self.killed.notify_one();
        }
        std::future::pending().await
    }
}

#[async_trait]
impl StoreWrapper for Killing {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let tables: Vec<_> = writes.iter().map(|write| Arc::clone(&write.table)).collect();
        let call = self.inner.write_many(writes, atomicity, options);
        self.call(tables.iter().map(|table| table.name()), call).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        let table = Arc::clone(&cas.table);
        self.call([table.name()], self.inner.cas(cas, options)).await
    }

    async fn on_transaction(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        let tables = conditional.iter().map(|cas| Arc::clone(&cas.table));
        let tables: Vec<_> = tables
            .chain(plain.iter().map(|write| Arc::clone(&write.table)))
            .collect();
        let call = self.inner.transact(conditional, plain, options);
        self.call(tables.iter().map(|table| table.name()), call).await
    }

    async fn on_create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.call([table.name()], self.inner.create_table(table)).await
    }

    async fn on_drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.call([name], self.inner.drop_table(name)).await
    }
}
