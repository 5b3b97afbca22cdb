//! Support of the load tests: a store in memory that can fail, a folder for files, and functions
//! that load them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use recto::schema::Schema;
use recto::session::{LoadReport, LoadRequest, Pages, ScanRequest};
use recto::store::memory::MemoryStore;
use recto::store::wrapper::StoreWrapper;
use recto::store::{
    Atomicity, Cas, Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, StoreError,
    StoreErrorKind, TransactionOutcome, WriteOptions, WriteOutcome,
};
use recto::{Environment, LocalSession, OpenOptions, Recto, Result, Session};
use recto_model::Cells;
use recto_model::environment::Source;
use tokio::time::Instant;

/// Schema of two collections with the same fields and different sort orders.
pub(crate) const SCHEMA: &str = r#"
[collection.readings]
fields = { sensor = "text", at = "timestamp", value = "double", count = "int", tags = "list<text>", note = "text" }
key = ["sensor", "at"]
partition = ["sensor"]
order = ["-at"]
writes = "overwrite"

[collection.by_count]
fields = { sensor = "text", at = "timestamp", value = "double", count = "int", tags = "list<text>", note = "text" }
key = ["count", "sensor", "at"]
partition = ["count"]
writes = "append"
"#;

/// Fault of a write to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The write fails with the error that the disk is full.
    Fails,
    /// The store executes the write, but reports an unknown outcome.
    Unknown,
    /// The write takes a second.
    Slow,
}

/// Store wrapper that executes some writes normally, then lets some writes have a fault, and then
/// works normally again.
pub(crate) struct Unreliable {
    inner: Arc<dyn Store>,
    fault: Fault,
    /// Number of writes that still succeed before the first fault.
    good: AtomicI64,
    /// Number of writes with a fault, after the successful ones.
    bad: AtomicI64,
    pub(crate) calls: AtomicU64,
}

impl fmt::Debug for Unreliable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unreliable")
    }
}

impl Unreliable {
    pub(crate) fn new(inner: &MemoryStore, fault: Fault, good: i64, bad: i64) -> Arc<Self> {
        let (good, bad, calls) = (AtomicI64::new(good), AtomicI64::new(bad), AtomicU64::new(0));
        Arc::new(Self {
            inner: Arc::new(inner.clone()),
            fault,
            good,
            bad,
            calls,
        })
    }

    /// Sets the number of calls to 0, and makes the next `good` writes succeed. Call it after
    /// opening the store, so that its calls do not count.
    pub(crate) fn begin(&self, good: i64) {
        self.good.store(good, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
    }

    fn strikes(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.good.fetch_sub(1, Ordering::Relaxed) <= 0 && self.bad.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

#[async_trait]
impl StoreWrapper for Unreliable {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        if !self.strikes() {
            return self.inner.write_many(writes, atomicity, options).await;
        }
        match self.fault {
            Fault::Fails => Err(StoreError::new(StoreErrorKind::Storage, "the disk is full")),
            Fault::Unknown => {
                self.inner.write_many(writes, atomicity, options).await?;
                Ok(WriteOutcome::Unknown(StoreError::new(
                    StoreErrorKind::Timeout,
                    "no answer",
                )))
            }
            Fault::Slow => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.inner.write_many(writes, atomicity, options).await
            }
        }
    }

    async fn on_transaction(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        if !self.strikes() {
            return self.inner.transact(conditional, plain, options).await;
        }
        match self.fault {
            Fault::Fails => Err(StoreError::new(StoreErrorKind::Storage, "the disk is full")),
            Fault::Unknown => {
                self.inner.transact(conditional, plain, options).await?;
                Ok(TransactionOutcome::Unknown(StoreError::new(
                    StoreErrorKind::Timeout,
                    "no answer",
                )))
            }
            Fault::Slow => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.inner.transact(conditional, plain, options).await
            }
        }
    }
}

/// Store in memory with the schema, and a folder for the files to load.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    pub(crate) store: MemoryStore,
    session: LocalSession,
}

/// Source of time with the machine's wall clock, and the monotonic clock of the runtime, which a
/// test may pause.
struct Clocks {
    start: Instant,
}

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        Environment::system().now_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| Environment::system().random::<1>()[0]);
    }
}

async fn open(store: Arc<dyn Store>) -> LocalSession {
    LocalSession::new(open_with(store, SCHEMA).await)
}

pub(crate) async fn open_with(store: Arc<dyn Store>, schema: &str) -> Recto {
    let start = Instant::now();
    let options = OpenOptions::new().environment(Environment::new(Clocks { start }));
    let recto = Recto::with_store(store, options).await.unwrap();
    recto.apply(&Schema::parse(schema).unwrap()).await.unwrap();
    recto
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with_store(MemoryStore::new(Environment::system())).await
    }

    pub(crate) async fn with_store(store: MemoryStore) -> Self {
        let session = open(Arc::new(store.clone())).await;
        Self {
            folder: tempfile::tempdir().unwrap(),
            store,
            session,
        }
    }

    /// Returns a session on the same data, whose store executes `good` writes normally, and then
    /// `bad` writes with a fault.
    pub(crate) async fn unreliable(
        &self,
        fault: Fault,
        good: i64,
        bad: i64,
    ) -> (LocalSession, Arc<Unreliable>) {
        let store = Unreliable::new(&self.store, fault, i64::MAX, bad);
        let session = open(Arc::clone(&store) as Arc<dyn Store>).await;
        store.begin(good);
        (session, store)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap()).into_owned()
    }

    /// Loads a file into the collection `readings`.
    pub(crate) async fn load(&self, file: &Path) -> Result<LoadReport> {
        self.load_with(file, |_| {}).await
    }

    pub(crate) async fn load_with(
        &self,
        file: &Path,
        change: impl FnOnce(&mut LoadRequest),
    ) -> Result<LoadReport> {
        load_into(&self.session, file, change).await
    }

    /// Removes all rows of a collection.
    pub(crate) async fn store_delete_all(&self, collection: &str) {
        let tables = self.store.list_tables().await.unwrap();
        let table = tables.iter().find(|table| table.name() == collection).unwrap();
        self.store.empty_table(table).await.unwrap();
    }

    /// Changes the checkpoint of the only load: replaces it by the result of `change`.
    pub(crate) async fn change_state(&self, change: impl FnOnce(&str) -> String) {
        let tables = self.store.list_tables().await.unwrap();
        let table = tables.into_iter().find(|table| table.name() == "recto_loads");
        let table = Arc::new(table.unwrap());
        let snapshot = self.store.snapshot().unwrap();
        let range = snapshot.token_ranges(&table, 1).await.unwrap().remove(0);
        let options = ReadOptions::default();
        let read = snapshot.scan(&table, &range, None, 2, &options).await.unwrap();
        assert_eq!(read.rows.len(), 1);
        let column = table.column_index("state").unwrap();
        let row = read.rows.row(0);
        let state = change(std::str::from_utf8(row.get(column).unwrap()).unwrap());
        let patch = Operation::Patch {
            clustering: Cells::new(),
            columns: vec![u16::try_from(column - table.key_len()).unwrap()],
            cells: std::iter::once(Some(state.as_bytes())).collect(),
        };
        let write = PartitionWrite {
            table: Arc::clone(&table),
            partition: std::iter::once(row.get(0)).collect(),
            mutations: vec![Mutation {
                operation: patch,
                stamp: Some(Stamp(Environment::system().now_micros())),
                ttl_seconds: None,
            }],
        };
        let written = self.store.write(write, WriteOptions::default()).await.unwrap();
        assert!(matches!(written, WriteOutcome::Done), "{written:?}");
    }

    pub(crate) async fn records(&self, collection: &str) -> Vec<String> {
        records_of(&self.session, collection).await
    }
}

/// Returns the records of a collection as JSON, sorted by their text.
pub(crate) async fn records_of(session: &LocalSession, collection: &str) -> Vec<String> {
    let steps: Vec<_> = session
        .scan(collection, &ScanRequest::default())
        .try_collect()
        .await
        .unwrap();
    let mut records: Vec<String> = steps
        .into_iter()
        .flat_map(|step| step.records)
        .map(|record| serde_json::Value::Object(record).to_string())
        .collect();
    records.sort();
    records
}

pub(crate) async fn load_into(
    session: &LocalSession,
    file: &Path,
    change: impl FnOnce(&mut LoadRequest),
) -> Result<LoadReport> {
    let mut request = LoadRequest {
        file: file.to_owned(),
        collections: vec!["readings".into()],
        ..LoadRequest::default()
    };
    change(&mut request);
    session.tools().unwrap().load(&request, &|_| {}).await
}
