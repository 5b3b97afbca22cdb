//! Store wrappers that break one promise on which the protocol of views relies. For each broken
//! promise, the simulation must report an error. Otherwise the simulation would not test whether
//! the protocol needs the promise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use recto::store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto::store::{
    Atomicity, Cas, CasOutcome, ConsistencyLevel, Operation, PartitionWrite, PointRead, ReadOptions,
    RowsRead, Snapshot, Stamp, Store, StoreError, WriteOptions, WriteOutcome,
};
use recto_model::environment::Source;
use recto_model::{Cells, RowSet, Slice, Table};
use recto_protocol::views::{Intent, Writer};
use tokio::time::Instant;

use super::clock::{Clock, Clocks};
use super::records::{COLLECTION, Tables};

/// Time for which pages get a base row as the first read returned it, if the store breaks the
/// promise [`Broken::Records`].
const STALE: Duration = Duration::from_secs(60);
/// Time from the acknowledgment of a write to a view until its execution, if the store breaks the
/// promise [`Broken::Acknowledgements`].
const LATE: Duration = Duration::from_secs(2);

/// Promise of the store or the engine that a test breaks on purpose. The comment of each variant
/// states the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Promise: a row of a view is removed when it is deleted.
    Deletions,
    /// Promise: each row that a process writes to a view is stored.
    Entries,
    /// Promise: of several writes of a view row, the write with the greatest version wins.
    Stamps,
    /// Promise: a row of a view is stored when the store acknowledges its write.
    Acknowledgements,
    /// Promise: an intent (stored record of a change in progress) is kept after its process ended.
    Intents,
    /// Promise: a process that adds a view waits until no process writes with an older schema.
    Barrier,
    /// Promise: a page reads the base row of a view row later than the view row.
    Records,
    /// Promise: a conditional write that the store reports as applied is applied.
    Decisions,
    /// Promise: a conditional write that reserves a unique value (claim) is applied if the store
    /// reports it as applied.
    Claims,
}

impl Broken {
    /// Returns a text that the simulation's error must contain if this promise is broken.
    pub(crate) fn said(self) -> &'static str {
        match self {
            Self::Deletions | Self::Entries | Self::Stamps | Self::Intents | Self::Barrier => {
                "and should have"
            }
            Self::Acknowledgements | Self::Records => "is shown at",
            Self::Decisions => "is there 0 times",
            Self::Claims => "is claimed by",
        }
    }
}

/// Store wrapper that breaks one promise.
#[derive(Clone)]
pub(crate) struct BrokenStore {
    store: Arc<dyn Store>,
    broken: Broken,
    clock: Arc<Clock>,
    base: String,
    /// For each base row, the result of the first read by a page, and the time of that read.
    read: Arc<Mutex<HashMap<Cells, (Instant, RowSet)>>>,
}

impl BrokenStore {
    pub(crate) fn new(store: Arc<dyn Store>, broken: Broken, clock: &Arc<Clock>) -> Self {
        Self {
            store,
            broken,
            clock: Arc::clone(clock),
            base: Tables::new(false).base.table().name().to_owned(),
            read: Arc::default(),
        }
    }

    fn is_view(&self, table: &Table) -> bool {
        table.name().starts_with(COLLECTION) && table.name() != self.base
    }

    /// Removes the parts of a write to views that the store loses because it breaks its promise.
    fn entries(&self, write: &mut PartitionWrite) {
        let now = Clocks(Arc::clone(&self.clock)).now_micros();
        match self.broken {
            Broken::Deletions => write
                .mutations
                .retain(|mutation| !matches!(mutation.operation, Operation::DeleteRow { .. })),
            Broken::Entries => write
                .mutations
                .retain(|mutation| matches!(mutation.operation, Operation::DeleteRow { .. })),
            Broken::Stamps => {
                for mutation in &mut write.mutations {
                    mutation.stamp = Some(Stamp(now));
                }
            }
            _ => {}
        }
    }
}

#[async_trait]
impl StoreWrapper for BrokenStore {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(BrokenReads {
            store: self.clone(),
            snapshot,
            is_of_a_page: AtomicBool::new(false),
        })
    }

    async fn on_writes(
        &self,
        mut writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let intents = Intent::table();
        for write in &mut writes {
            if self.is_view(&write.table) {
                self.entries(write);
            }
            if self.broken == Broken::Intents && write.table.name() == intents.name() {
                write.mutations.clear();
            }
        }
        writes.retain(|write| !write.mutations.is_empty());
        let Some(first) = writes.first() else {
            return Ok(WriteOutcome::Done);
        };
        if self.broken == Broken::Acknowledgements && self.is_view(&first.table) {
            let store = Arc::clone(&self.store);
            tokio::spawn(async move {
                tokio::time::sleep(LATE).await;
                store.write_many(writes, atomicity, options).await
            });
            return Ok(WriteOutcome::Done);
        }
        self.store.write_many(writes, atomicity, options).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        let is_broken = match self.broken {
            Broken::Decisions => cas.table.name() == self.base,
            Broken::Claims => self.is_view(&cas.table),
            _ => false,
        };
        let outcome = self.store.cas(cas, options).await?;
        Ok(match outcome {
            CasOutcome::NotApplied { .. } if is_broken => CasOutcome::Applied,
            outcome => outcome,
        })
    }
}

struct BrokenReads {
    store: BrokenStore,
    snapshot: Arc<dyn Snapshot>,
    /// True if this snapshot read a view before any base row, as a page does.
    is_of_a_page: AtomicBool,
}

#[async_trait]
impl SnapshotWrapper for BrokenReads {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.is_of_a_page.store(true, Ordering::Relaxed);
        let is_serial = options.consistency == Some(ConsistencyLevel::Serial);
        let is_barrier = is_serial && slice.table.name() == Writer::table().name();
        if is_barrier && self.store.broken == Broken::Barrier {
            return Ok(RowsRead {
                exhausted: true,
                rows: RowSet::new(slice.table.columns().len()),
                ..RowsRead::default()
            });
        }
        self.snapshot.slice(slice, options).await
    }

    async fn on_get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let is_serial = options.consistency == Some(ConsistencyLevel::Serial);
        let is_of_a_page = self.is_of_a_page.load(Ordering::Relaxed);
        if self.store.broken != Broken::Records || is_serial || !is_of_a_page {
            return self.snapshot.get(read, options).await;
        }
        let known = self.store.read.lock().unwrap().get(&read.partition).cloned();
        if let Some((_, rows)) = known.filter(|(when, _)| when.elapsed() < STALE) {
            return Ok(RowsRead {
                exhausted: true,
                rows,
                ..RowsRead::default()
            });
        }
        let found = self.snapshot.get(read, options).await?;
        let kept = (Instant::now(), found.rows.clone());
        self.store
            .read
            .lock()
            .unwrap()
            .insert(read.partition.clone(), kept);
        Ok(found)
    }
}
