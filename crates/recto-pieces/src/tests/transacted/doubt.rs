//! Tests of requests without an answer, which may be executed later or never.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use recto_store::wrapper::StoreWrapper;
use recto_store::{Atomicity, Cas, StoreError, StoreErrorKind, TransactionOutcome};

use super::*;

/// Fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The request is executed after all earlier requests, but not answered in time.
    Late,
    /// The request is never executed, and not answered in time.
    Lost,
    /// The request is executed as with `Late`, and is never answered.
    Unheard,
}

/// Store that executes requests one after the other, and does not answer all of them.
struct Slow {
    inner: Arc<dyn Store>,
    /// Fates of the next writes and of the next transactions.
    writes: Mutex<VecDeque<Fate>>,
    transactions: Mutex<VecDeque<Fate>>,
    waiting: Mutex<Vec<(Vec<Cas>, Vec<PartitionWrite>)>>,
}

impl Slow {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: in_memory(),
            writes: Mutex::default(),
            transactions: Mutex::default(),
            waiting: Mutex::default(),
        })
    }

    /// Executes all earlier requests.
    async fn go_on(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("nobody panics"));
        for (conditional, plain) in waiting {
            let outcome = self
                .inner
                .transact(conditional, plain, WriteOptions::default())
                .await;
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    }

    /// Returns an error if the request is not answered.
    async fn meet(
        &self,
        fates: &Mutex<VecDeque<Fate>>,
        request: (Vec<Cas>, Vec<PartitionWrite>),
    ) -> Result<(), StoreError> {
        let Some(fate) = fates.lock().expect("nobody panics").pop_front() else {
            return Ok(());
        };
        if fate != Fate::Lost {
            self.waiting.lock().expect("nobody panics").push(request);
        }
        if fate == Fate::Unheard {
            std::future::pending::<()>().await;
        }
        Err(StoreError::new(StoreErrorKind::Timeout, "it took too long"))
    }
}

#[async_trait]
impl StoreWrapper for Slow {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.go_on().await;
        match self.meet(&self.writes, (Vec::new(), writes.clone())).await {
            Ok(()) => self.inner.write_many(writes, atomicity, options).await,
            Err(error) => Ok(WriteOutcome::Unknown(error)),
        }
    }

    async fn on_transaction(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        self.go_on().await;
        let request = (conditional.clone(), plain.clone());
        match self.meet(&self.transactions, request).await {
            Ok(()) => self.inner.transact(conditional, plain, options).await,
            Err(error) => Ok(TransactionOutcome::Unknown(error)),
        }
    }
}

async fn with_rows(store: &Arc<Slow>, rows: i64) -> Stream {
    let order = Order::of_numbers(Direction::Ascending);
    let stream = Stream::new(Arc::clone(store) as Arc<dyn Store>, order, BucketSize::Rows(10)).await;
    for at in 0..rows {
        stream.put(at, b"x").await;
    }
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_comes_late_comes_before_the_next_cut() {
    let store = Slow::new();
    let stream = with_rows(&store, 40).await;
    let key = stream
        .place
        .key(&stream.clustering(35, "late"))
        .expect("it is a key");
    let places = std::slice::from_ref(&stream.place);
    let guard = stream.engine.route(places, TIME).await.expect("it is routed");
    let write = PartitionWrite {
        table: Arc::clone(&stream.place.pieced.table),
        partition: guard.partition_of(&stream.place, &key).expect("it has one"),
        mutations: vec![Mutation {
            operation: stream.put_of(35, "late", Some(b"late")),
            stamp: Some(Stamp(1_000_000)),
            ttl_seconds: None,
        }],
    };
    store.writes.lock().expect("nobody panics").push_back(Fate::Late);
    let outcome = stream.store.write(write, WriteOptions::default()).await;
    assert!(matches!(outcome, Ok(WriteOutcome::Unknown(_))), "{outcome:?}");
    // The guard does not learn that the write is decided.
    drop(guard);
    stream.engine.mend(&stream.place).await.expect("it is mended");
    assert!(stream.buckets().await.len() >= 4);
    assert_eq!(stream.all().await.len(), 41, "it lies where it is looked for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resolves_an_unanswered_split_before_other_writes() {
    for fate in [Fate::Late, Fate::Lost] {
        // The split, and the requests that determine its outcome.
        for times in 1..4 {
            let store = Slow::new();
            let stream = with_rows(&store, 40).await;
            let before = stream.engine.snapshot().expect("it is open");
            store
                .transactions
                .lock()
                .expect("nobody panics")
                .extend(std::iter::repeat_n(fate, times));
            let mut failed = 0;
            while !store.transactions.lock().expect("nobody panics").is_empty() {
                failed += usize::from(stream.engine.mend(&stream.place).await.is_err());
            }
            assert!(failed > 0);
            for at in 40..60 {
                stream.put(at, b"y").await;
            }
            assert_eq!(stream.all().await.len(), 60, "{fate:?}, {times} times");
            assert_eq!(stream.rows_at(&before, ReadDirection::Forward).await.len(), 40);
            stream.engine.mend(&stream.place).await.expect("it is mended");
            let buckets = stream.buckets().await;
            assert!(buckets.iter().all(|(_, count)| count.rows <= 10), "{buckets:?}");
            assert_eq!(stream.all().await.len(), 60, "{fate:?}, {times} times");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_split_leaves_all_rows_readable() {
    let store = Slow::new();
    let stream = with_rows(&store, 40).await;
    let before = stream.engine.snapshot().expect("it is open");
    store
        .transactions
        .lock()
        .expect("nobody panics")
        .push_back(Fate::Unheard);
    let mending = stream.engine.mend(&stream.place);
    let gone = tokio::time::timeout(Duration::from_millis(100), mending).await;
    assert!(gone.is_err(), "nobody heard of it");
    let moment = stream.engine.snapshot().expect("it is open");
    assert_eq!(stream.rows_at(&moment, ReadDirection::Forward).await.len(), 40);
    for at in 40..60 {
        stream.put(at, b"y").await;
    }
    for (moment, rows) in [(&before, 40), (&moment, 40)] {
        assert_eq!(stream.rows_at(moment, ReadDirection::Backward).await.len(), rows);
    }
    assert!(stream.buckets().await.len() > 1, "it was done");
    assert_eq!(stream.all().await.len(), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_for_a_split_no_longer_than_the_timeout() {
    let store = Slow::new();
    let stream = with_rows(&store, 40).await;
    store
        .transactions
        .lock()
        .expect("nobody panics")
        .push_back(Fate::Unheard);
    let mending = tokio::spawn({
        let stream = stream.clone();
        async move { stream.engine.mend(&stream.place).await.map(drop) }
    });
    while !store.transactions.lock().expect("nobody panics").is_empty() {
        tokio::task::yield_now().await;
    }
    let places = std::slice::from_ref(&stream.place);
    let routed = stream.engine.route(places, Duration::from_millis(50)).await;
    assert_eq!(
        routed.err().map(|error| error.kind()),
        Some(crate::PiecesErrorKind::Timeout)
    );
    // Reads do not wait.
    assert_eq!(stream.all().await.len(), 40);
    mending.abort();
    drop(mending.await);
    stream.put(40, b"y").await;
    assert_eq!(stream.all().await.len(), 41);
}
