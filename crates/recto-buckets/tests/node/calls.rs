//! Counters of the requests that a process sends to the store, by table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use recto_model::Slice;
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{
    Atomicity, Cas, CasOutcome, PartitionWrite, ReadOptions, RowsRead, Snapshot, Store, StoreError,
    WriteOptions, WriteOutcome,
};

/// Kind of a request to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Write,
    Cas,
    Read,
    SerialRead,
}

/// Number of requests by table and kind, and number of bytes written by table.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<BTreeMap<(String, Call), u64>>, Mutex<BTreeMap<String, u64>>);

impl Calls {
    fn count(&self, table: &str, call: Call) {
        *self
            .0
            .lock()
            .unwrap()
            .entry((table.to_owned(), call))
            .or_default() += 1;
    }

    /// Returns the number of bytes written to a table.
    pub(crate) fn bytes_of(&self, table: &str) -> u64 {
        self.1.lock().unwrap().get(table).copied().unwrap_or_default()
    }

    pub(crate) fn of(&self, table: &str, call: Call) -> u64 {
        let calls = self.0.lock().unwrap();
        calls.get(&(table.to_owned(), call)).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> BTreeMap<(String, Call), u64> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) struct Counted {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) calls: Arc<Calls>,
}

struct CountedSnapshot {
    inner: Arc<dyn Snapshot>,
    calls: Arc<Calls>,
}

#[async_trait::async_trait]
impl StoreWrapper for Counted {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(CountedSnapshot {
            inner: snapshot,
            calls: Arc::clone(&self.calls),
        })
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        for write in &writes {
            self.calls.count(write.table.name(), Call::Write);
            let mut bytes = self.calls.1.lock().unwrap();
            *bytes.entry(write.table.name().to_owned()).or_default() += write.byte_len() as u64;
        }
        self.inner.write_many(writes, atomicity, options).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.calls.count(cas.table.name(), Call::Cas);
        self.inner.cas(cas, options).await
    }
}

#[async_trait::async_trait]
impl SnapshotWrapper for CountedSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let is_serial = options
            .consistency
            .is_some_and(|level| format!("{level:?}").contains("Serial"));
        let call = if is_serial { Call::SerialRead } else { Call::Read };
        self.calls.count(slice.table.name(), call);
        self.inner.slice(slice, options).await
    }
}
