//! Store that injects the faults that a test requests, and counts requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use recto_model::{Slice, Table};
use recto_protocol::queues::Address;
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{
    Atomicity, Cas, CasOutcome, PartitionWrite, PointRead, ReadOptions, RowsRead, Snapshot, Store,
    StoreError, StoreErrorKind, TableOutcome, TransactionOutcome, WriteOptions, WriteOutcome,
};
use tokio::sync::oneshot;

pub(crate) const HEADS: &str = "recto_queue_shard";
const LOGS: &str = "recto_queue_log";
const STATES: &str = "recto_queue_state";
/// Start of the names of all body tables.
pub(crate) const BODIES: &str = "recto_queue_body_";

/// Faults to inject, and counters of requests.
#[derive(Default)]
pub(crate) struct Watch {
    /// True if the store rejects all changes of heads.
    pub(crate) holds_heads: AtomicBool,
    /// True if all reads of heads (shard manifests) fail.
    pub(crate) hides_heads: AtomicBool,
    /// Shard whose head cannot be read.
    pub(crate) hidden_head: Mutex<Option<Address>>,
    /// Number of changes of logs that the store will reject from now on.
    pub(crate) refused_appends: AtomicUsize,
    /// Outcome of requests to empty a table.
    pub(crate) emptying: Mutex<EmptyingEnds>,
    /// Number of conditional writes that were sent to the store.
    pub(crate) conditional_writes: AtomicUsize,
    /// Number of requests for bodies that will fail from now on, because the node does not know their table.
    pub(crate) unheard_of: AtomicUsize,
    /// Number of reads from the store.
    pub(crate) reads: AtomicUsize,
    /// Number of reads of segment states.
    pub(crate) state_reads: AtomicUsize,
    /// Reads to hold, in this order. Each has the start of the name of its table, and the signal that
    /// releases it.
    held_reads: Mutex<VecDeque<(&'static str, oneshot::Receiver<()>)>>,
}

/// Outcome of a request to empty a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum EmptyingEnds {
    /// The table is emptied.
    #[default]
    Done,
    /// The store rejects the request.
    Refused,
    /// The table is emptied, but the response is lost.
    Unknown,
}

impl Watch {
    /// Holds the next read of a table whose name starts with `tables`, after the reads that earlier calls
    /// hold. The read is executed when the test uses or drops the returned sender.
    pub(crate) fn hold_read(&self, tables: &'static str) -> oneshot::Sender<()> {
        let (release, released) = oneshot::channel();
        self.held_reads.lock().unwrap().push_back((tables, released));
        release
    }

    /// Waits until the test releases a read of this table. Returns at once if the test does not hold it.
    async fn wait_for_release(&self, table: &Table) {
        let held = {
            let mut held = self.held_reads.lock().unwrap();
            let is_next = held
                .front()
                .is_some_and(|(tables, _)| table.name().starts_with(tables));
            if is_next { held.pop_front() } else { None }
        };
        if let Some((_, released)) = held {
            let _ = released.await;
        }
    }

    /// Returns whether the store must reject this change, because it changes a log.
    fn refuses(&self, cas: &Cas) -> bool {
        cas.table.name() == LOGS && takes_one(&self.refused_appends)
    }

    /// Returns whether this read must fail, because it reads a hidden head (shard manifest).
    fn hides(&self, read: &PointRead) -> bool {
        let cells = |address: Address| [address.place.0, address.shard.0.into()].map(u32::to_be_bytes);
        let hidden = self.hidden_head.lock().unwrap().map(cells);
        let is_hidden =
            hidden.is_some_and(|cells| read.partition.iter().eq(cells.iter().map(|cell| Some(&cell[..]))));
        read.table.name() == HEADS && (is_hidden || self.hides_heads.load(Ordering::Relaxed))
    }

    /// Fails a request for a body table, as a node does that does not know the table, if the test requested
    /// that.
    fn hears_of(&self, table: &Table) -> Result<(), StoreError> {
        if table.name().starts_with(BODIES) && takes_one(&self.unheard_of) {
            return Err(StoreError::new(StoreErrorKind::Table, "unconfigured table"));
        }
        Ok(())
    }
}

/// Decrements the counter. Returns false if it is already 0.
fn takes_one(left: &AtomicUsize) -> bool {
    let one_less = |left: usize| left.checked_sub(1);
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    taken.is_ok()
}

/// Store that injects faults and counts reads.
pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) watch: Arc<Watch>,
}

struct WatchedSnapshot {
    inner: Arc<dyn Snapshot>,
    watch: Arc<Watch>,
}

fn refused() -> StoreError {
    StoreError::new(StoreErrorKind::Other, "it is refused")
}

#[async_trait::async_trait]
impl StoreWrapper for Watched {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(WatchedSnapshot {
            inner: snapshot,
            watch: Arc::clone(&self.watch),
        })
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        if self.watch.holds_heads.load(Ordering::Relaxed) && cas.table.name() == HEADS {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "it is held"));
        }
        if self.watch.refuses(&cas) {
            return Ok(CasOutcome::Refused(refused()));
        }
        self.watch.conditional_writes.fetch_add(1, Ordering::Relaxed);
        self.inner.cas(cas, options).await
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        for write in &writes {
            self.watch.hears_of(&write.table)?;
        }
        self.inner.write_many(writes, atomicity, options).await
    }

    async fn on_empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let ends = *self.watch.emptying.lock().unwrap();
        if ends == EmptyingEnds::Refused {
            return Err(refused());
        }
        let outcome = self.inner.empty_table(table).await?;
        Ok(match ends {
            EmptyingEnds::Unknown => TableOutcome::Unknown(refused()),
            _ => outcome,
        })
    }

    async fn on_transaction(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        if conditional.iter().any(|cas| self.watch.refuses(cas)) {
            return Ok(TransactionOutcome::Refused(refused()));
        }
        self.inner.transact(conditional, plain, options).await
    }
}

#[async_trait::async_trait]
impl SnapshotWrapper for WatchedSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    fn on_other_read(&self) {
        self.watch.reads.fetch_add(1, Ordering::Relaxed);
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.on_other_read();
        self.inner.slice(slice, options).await
    }

    async fn on_get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        if self.watch.hides(read) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "it is hidden"));
        }
        self.watch.hears_of(&read.table)?;
        self.watch.wait_for_release(&read.table).await;
        let is_state = read.table.name() == STATES;
        self.watch
            .state_reads
            .fetch_add(usize::from(is_state), Ordering::Relaxed);
        self.inner.get(read, options).await
    }
}
