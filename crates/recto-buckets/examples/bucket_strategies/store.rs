//! Store in memory with simulated latency, which counts requests; and clocks that follow the virtual time of the
//! runtime.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recto_buckets::Stamps;
use recto_model::environment::Source;
use recto_model::{Cells, Environment, Slice};
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{
    Atomicity, Cas, CasOutcome, Limits, PartitionWrite, ReadOptions, RowsRead, Snapshot, Stamp, Store,
    StoreError, WriteOptions, WriteOutcome,
};
use tokio::time::Instant;

/// Simulated latency of a request.
const REQUEST: Duration = Duration::from_millis(2);
const START_MICROS: i64 = 1_767_225_600_000_000;

/// Numbers of requests by kind.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    pub(crate) conditional: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) samples_written: AtomicU64,
    pub(crate) samples_read: AtomicU64,
    pub(crate) rows_written: AtomicU64,
}

impl RequestCounts {
    fn add(to: &AtomicU64, count: usize) {
        to.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Store that counts requests.
pub(crate) struct Counting {
    inner: Arc<dyn Store>,
    asked: Arc<RequestCounts>,
}

struct CountingSnapshot {
    inner: Arc<dyn Snapshot>,
    asked: Arc<RequestCounts>,
}

impl Counting {
    pub(crate) fn new(environment: &Environment, asked: &Arc<RequestCounts>) -> Self {
        let limits = Limits {
            remote: true,
            leaves_tombstones: true,
            sees_conflicts: false,
            transactions: false,
            ..DEFAULT_LIMITS
        };
        Self {
            inner: Arc::new(MemoryStore::with_limits(environment.clone(), limits)),
            asked: Arc::clone(asked),
        }
    }
}

#[async_trait::async_trait]
impl StoreWrapper for Counting {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, inner: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        let asked = Arc::clone(&self.asked);
        Arc::new(CountingSnapshot { inner, asked })
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        tokio::time::sleep(REQUEST).await;
        for write in &writes {
            let to = match write.table.name() {
                "recto_samples" => &self.asked.samples_written,
                _ => &self.asked.rows_written,
            };
            RequestCounts::add(to, write.mutations.len());
        }
        self.inner.write_many(writes, atomicity, options).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        tokio::time::sleep(REQUEST * 4).await;
        RequestCounts::add(&self.asked.conditional, 1);
        self.inner.cas(cas, options).await
    }
}

#[async_trait::async_trait]
impl SnapshotWrapper for CountingSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        tokio::time::sleep(REQUEST).await;
        match slice.table.name() {
            "recto_buckets" => RequestCounts::add(&self.asked.directories, 1),
            "recto_samples" => RequestCounts::add(&self.asked.samples_read, 1),
            _ => {}
        }
        self.inner.slice(slice, options).await
    }
}

/// Snapshot that records the buckets from which a page is read.
pub(crate) struct Noting {
    pub(crate) inner: Arc<dyn Snapshot>,
    pub(crate) buckets: Mutex<BTreeSet<Vec<u8>>>,
}

#[async_trait::async_trait]
impl SnapshotWrapper for Noting {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let bucket = slice.partition.get(1).map(<[u8]>::to_vec);
        self.buckets.lock().unwrap().extend(bucket);
        self.inner.slice(slice, options).await
    }
}

/// Clocks without errors, which follow the virtual time of the runtime.
struct Clocks {
    start: Instant,
    drawn: AtomicU64,
}

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        START_MICROS + self.start.elapsed().as_micros() as i64
    }

    fn monotonic_nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let drawn = self.drawn.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mut random = crate::flows::Random::new(drawn);
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random.bits().to_be_bytes()[..chunk.len()]);
        }
    }
}

pub(crate) fn environment(seed: u64) -> Environment {
    Environment::new(Clocks {
        start: Instant::now(),
        drawn: AtomicU64::new(seed),
    })
}

/// Returns a source of increasing timestamps that follow the clock.
pub(crate) fn stamps(environment: &Environment) -> Stamps {
    let (environment, last) = (environment.clone(), AtomicI64::new(0));
    Arc::new(move || {
        let now = environment.now_micros().max(last.load(Ordering::Relaxed) + 1);
        last.store(now, Ordering::Relaxed);
        Stamp(now)
    })
}

/// Returns the cells of a key.
pub(crate) fn key_cells(order: i64, id: u64) -> Cells {
    [&order.to_be_bytes()[..], &id.to_be_bytes()]
        .into_iter()
        .map(Some)
        .collect()
}
