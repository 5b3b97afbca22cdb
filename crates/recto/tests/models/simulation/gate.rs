//! Simulated connection that delays the requests of a process by random times, and stops them while
//! the process is frozen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use recto::store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto::store::{ReadOptions, RowsRead, Snapshot, Store, StoreError, TableOutcome};
use recto_model::{Slice, Table};
use tokio::sync::Notify;

use super::clock::Random;

/// Maximum time in microseconds that a request or a response takes. One in [`LONG_ONE_IN`] of them
/// may take up to [`MAX_LONG_WAY_MICROS`].
const MAX_WAY_MICROS: u64 = 20_000;
const MAX_LONG_WAY_MICROS: u64 = 1_000_000;
const LONG_ONE_IN: u64 = 8;

/// Connection of a simulated process to the store. While it is closed, no request and no response
/// passes.
#[derive(Clone)]
pub(crate) struct Gate {
    store: Arc<dyn Store>,
    random: Arc<Random>,
    is_open: Arc<AtomicBool>,
    opens: Arc<Notify>,
    is_calm: Arc<AtomicBool>,
    /// Time that each request and each response takes. `None` for random times.
    way: Option<Duration>,
    passed: Arc<AtomicU64>,
}

impl Gate {
    pub(crate) fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        Self {
            store,
            random: Arc::new(Random::new(seed)),
            is_open: Arc::new(AtomicBool::new(true)),
            opens: Arc::default(),
            is_calm: Arc::default(),
            way: None,
            passed: Arc::default(),
        }
    }

    /// Returns a connection on which each request and each response takes the time `way`.
    pub(crate) fn steady(store: Arc<dyn Store>, way: Duration) -> Self {
        Self {
            way: Some(way),
            ..Self::new(store, 0)
        }
    }

    /// Returns the number of requests that got a response.
    pub(crate) fn requests(&self) -> u64 {
        self.passed.load(Ordering::Relaxed) / 2
    }

    /// Opens or closes the connection. A process whose connection stays closed behaves as if it had
    /// crashed.
    pub(crate) fn open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
        self.opens.notify_waiters();
    }

    /// Ends the long random delays. Short random delays continue.
    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    async fn go(&self) {
        let is_long = self.random.one_in(LONG_ONE_IN) && !self.is_calm.load(Ordering::Relaxed);
        let longest = if is_long {
            MAX_LONG_WAY_MICROS
        } else {
            MAX_WAY_MICROS
        };
        let drawn = Duration::from_micros(self.random.below(longest));
        tokio::time::sleep(self.way.unwrap_or(drawn)).await;
        self.passed.fetch_add(1, Ordering::Relaxed);
        while !self.is_open.load(Ordering::Relaxed) {
            self.opens.notified().await;
        }
    }
}

#[async_trait]
impl StoreWrapper for Gate {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn pass(&self) {
        self.go().await;
    }

    async fn on_create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.go().await;
        self.store.create_table(table).await
    }

    async fn on_drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.go().await;
        self.store.drop_table(name).await
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(Reads {
            gate: self.clone(),
            snapshot,
        })
    }
}

struct Reads {
    gate: Gate,
    snapshot: Arc<dyn Snapshot>,
}

#[async_trait]
impl SnapshotWrapper for Reads {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.snapshot.slice(slice, options).await
    }

    async fn pass(&self) {
        self.gate.go().await;
    }
}
