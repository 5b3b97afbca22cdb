//! Store wrapper that counts the calls that queues make to the store, and measures their duration.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use recto_model::{Cells, Slice, Table};
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{
    Atomicity, Cas, CasOutcome, PartitionWrite, PointRead, ReadOptions, RowsRead, Snapshot, Store,
    StoreError, TableOutcome, TransactionOutcome, WriteOptions, WriteOutcome,
};

/// Tables that only background work of queues reads, so that their calls are not measured. Waiting
/// receivers poll the first table (notifier). Maintenance reads the second table (registry of
/// queues and of rotating body tables).
const BESIDE: [&str; 2] = ["recto_queue_bell", "recto_queue"];

/// Kind of a call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Plain,
    /// Conditional write or transaction.
    Conditional,
}

/// Start and end of a call to the store, from the request to the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// Store wrapper that counts calls and forwards them to another store.
pub(crate) struct Calls {
    inner: Arc<dyn Store>,
    seen: Arc<Seen>,
}

/// Counts and durations of the calls that [`Calls`] has forwarded.
#[derive(Default)]
pub(crate) struct Seen {
    conditional: AtomicU64,
    emptied: AtomicU64,
    /// Recorded calls, except calls of background work. `None` until [`spans`](Self::spans) starts
    /// the recording.
    spans: Mutex<Option<Vec<Span>>>,
}

/// Snapshot wrapper that records reads and forwards them to another snapshot.
struct Reads {
    inner: Arc<dyn Snapshot>,
    seen: Arc<Seen>,
}

impl Calls {
    pub(crate) fn new(inner: &Arc<dyn Store>) -> (Arc<Self>, Arc<Seen>) {
        let seen = Arc::new(Seen::default());
        let calls = Self {
            inner: Arc::clone(inner),
            seen: Arc::clone(&seen),
        };
        (Arc::new(calls), seen)
    }
}

impl Seen {
    /// Returns the number of conditional writes sent to the store, including writes that the store
    /// did not apply.
    pub(crate) fn conditional(&self) -> u64 {
        self.conditional.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that emptied a table.
    pub(crate) fn emptied(&self) -> u64 {
        self.emptied.load(Ordering::Relaxed)
    }

    /// Starts a new recording of calls, except calls of background work. Returns the calls of the
    /// previous recording.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().replace(Vec::new()).unwrap_or_default()
    }

    async fn time<T>(&self, table: &str, kind: Kind, call: impl Future<Output = T>) -> T {
        let from = Instant::now();
        let answer = call.await;
        if let Some(spans) = self.spans.lock().unwrap().as_mut()
            && !BESIDE.contains(&table)
        {
            let until = Instant::now();
            spans.push(Span { kind, from, until });
        }
        answer
    }
}

/// Returns the total time between `from` and `until` during which at least one of the calls in
/// `spans` was in flight.
pub(crate) fn busy(spans: &[Span], from: Instant, until: Instant) -> Duration {
    let mut spans: Vec<_> = spans
        .iter()
        .map(|span| (span.from.max(from), span.until.min(until)))
        .collect();
    spans.sort_unstable();
    let (mut busy, mut end) = (Duration::ZERO, from);
    for (from, until) in spans {
        busy += until.saturating_duration_since(from.max(end));
        end = end.max(until);
    }
    busy
}

#[async_trait]
impl StoreWrapper for Calls {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(Reads {
            inner: snapshot,
            seen: Arc::clone(&self.seen),
        })
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let table = writes.first().map(|write| Arc::clone(&write.table));
        let table = table.as_ref().map_or("", |table| table.name());
        let call = self.inner.write_many(writes, atomicity, options);
        self.seen.time(table, Kind::Plain, call).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.seen.conditional.fetch_add(1, Ordering::Relaxed);
        let table = Arc::clone(&cas.table);
        let call = self.inner.cas(cas, options);
        self.seen.time(table.name(), Kind::Conditional, call).await
    }

    async fn on_transaction(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        self.seen.conditional.fetch_add(1, Ordering::Relaxed);
        let table = conditional.first().map(|cas| Arc::clone(&cas.table));
        let table = table.as_ref().map_or("", |table| table.name());
        let call = self.inner.transact(conditional, plain, options);
        self.seen.time(table, Kind::Conditional, call).await
    }

    async fn on_empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.seen.emptied.fetch_add(1, Ordering::Relaxed);
        self.inner.empty_table(table).await
    }
}

#[async_trait]
impl SnapshotWrapper for Reads {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let call = self.inner.slice(slice, options);
        self.seen.time(slice.table.name(), Kind::Read, call).await
    }

    async fn on_get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let call = self.inner.get(read, options);
        self.seen.time(read.table.name(), Kind::Read, call).await
    }

    async fn on_get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        let call = self.inner.get_statics(table, partition, options);
        self.seen.time(table.name(), Kind::Read, call).await
    }
}
