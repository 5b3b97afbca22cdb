//! Checks the statements that a change sends to Cassandra and their order. Also checks that nothing
//! of the change remains in the log of intents (changes in progress).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use recto::store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto::store::{
    Atomicity, Cas, CasOutcome, Mutation, Operation, PartitionWrite, ReadOptions, RowsRead, Snapshot, Store,
    StoreError, WriteOptions, WriteOutcome,
};
use recto::{Environment, OpenOptions, Recto, StoreAddress};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::{Met, PlainCql};
use recto_model::Slice;

use super::changes::{Suspension, suspension};
use super::{SCHEMA, TESTS};
use crate::common::{Fresh, Kind, Scope, run};

/// Pause after a process registers. It ends before the process renews its registration and starts a
/// recovery.
const QUIET: Duration = Duration::from_secs(1);
/// Time within which a process marks a change as complete. The change does not wait for the mark.
const MARKED: Duration = Duration::from_millis(300);
/// Maximum number of repetitions of a change. A repetition is necessary if the process sends other
/// statements at the same time.
const MAX_ATTEMPTS: usize = 5;
/// Number of changes of one record that do not change its position in views.
const CHANGES: i32 = 300;
/// Maximum time until the intents (log rows) of completed changes are removed: two renewals of the
/// process's registration.
const GONE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);

/// Statements that a process sent, each with its stage. Statements sent concurrently have the same
/// stage. Stage 2 begins after the first response of stage 1.
#[derive(Debug, Default)]
struct Sent {
    requests: Mutex<Vec<(usize, String)>>,
    answered: AtomicUsize,
}

impl Sent {
    async fn note<T>(&self, what: String, request: impl Future<Output = T>) -> T {
        let stage = self.begin(what);
        let outcome = request.await;
        self.answered.fetch_max(stage, Ordering::SeqCst);
        outcome
    }

    fn begin(&self, what: String) -> usize {
        let stage = self.answered.load(Ordering::SeqCst) + 1;
        self.requests.lock().unwrap().push((stage, what));
        stage
    }

    /// Returns the statements sent since the last call, sorted by stage.
    fn take(&self) -> Vec<(usize, String)> {
        self.answered.store(0, Ordering::SeqCst);
        let mut requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.sort();
        requests
    }
}

fn words(mutations: &[Mutation]) -> String {
    let word = |mutation: &Mutation| match mutation.operation {
        Operation::Put { .. } => "put",
        Operation::Patch { .. } => "patch",
        Operation::DeleteRow { .. } => "delete",
        _ => "other",
    };
    mutations.iter().map(word).collect::<Vec<_>>().join(" and ")
}

/// Store wrapper that records the statements sent through it.
#[derive(Clone)]
struct Noting {
    inner: Arc<dyn Store>,
    sent: Arc<Sent>,
}

#[async_trait]
impl StoreWrapper for Noting {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let what = writes
            .iter()
            .map(|write| format!("{}: {}", write.table.name(), words(&write.mutations)));
        let what = what.collect::<Vec<_>>().join("; ");
        self.sent
            .note(what, self.inner.write_many(writes, atomicity, options))
            .await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        let what = format!("{}: {} if", cas.table.name(), words(&cas.mutations));
        self.sent.note(what, self.inner.cas(cas, options)).await
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(NotingReads {
            inner: snapshot,
            sent: Arc::clone(&self.sent),
            passed: AtomicUsize::new(0),
        })
    }
}

/// Snapshot wrapper that records reads as statements. Each read is noticed twice, at its start and
/// its end.
struct NotingReads {
    inner: Arc<dyn Snapshot>,
    sent: Arc<Sent>,
    passed: AtomicUsize,
}

#[async_trait]
impl SnapshotWrapper for NotingReads {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.inner.slice(slice, options).await
    }

    async fn pass(&self) {
        if self.passed.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            self.sent.begin("read".to_owned());
        } else {
            // Assign the response to stage 1: the read began in the first stage, or at least before
            // any other response.
            self.sent.answered.fetch_max(1, Ordering::SeqCst);
        }
    }
}

/// Returns the number of rows, and the number of tombstones (deletion markers), that a Cassandra
/// node finds in a full read of a table.
async fn rows_and_deletions(config: &CassandraConfig, table: &str) -> (usize, usize) {
    let cql = PlainCql::connect(config.clone(), Environment::system())
        .await
        .unwrap();
    let text = format!("SELECT * FROM {}.{table}", config.keyspace);
    let met = cql.met(&text).await.unwrap();
    let sum = |number: fn(&Met) -> usize| met.iter().map(number).sum();
    (sum(|met| met.rows), sum(|met| met.tombstones))
}

fn stages(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
    let lines = lines.iter().map(|(stage, line)| (*stage, (*line).to_owned()));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

/// Asserts that a change sends exactly the expected statements. If the process renews its
/// registration or recovers at the same time, the change is repeated.
async fn assert_sends(sent: &Sent, expected: &[(usize, &str)], change: impl AsyncFn(usize)) {
    let expected = stages(expected);
    let mut found = Vec::new();
    for attempt in 0..MAX_ATTEMPTS {
        sent.take();
        change(attempt).await;
        tokio::time::sleep(MARKED).await;
        found = sent.take();
        if found == expected {
            return;
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn changes_in_three_stages_with_no_deletion_in_the_log() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let fresh = Fresh::new(Kind::Cassandra);
        let StoreAddress::Cassandra(address) = &fresh.address else {
            panic!("a Cassandra")
        };
        let config = CassandraConfig::new(address.hosts.iter().map(String::as_str), &*address.keyspace);
        let recto = fresh.open().await;
        recto.apply(&super::parse(SCHEMA)).await.unwrap();
        let sent = Arc::new(Sent::default());
        let noting = Noting {
            inner: Arc::clone(recto.store()),
            sent: Arc::clone(&sent),
        };
        let recto = Recto::with_store(Arc::new(noting), OpenOptions::new())
            .await
            .unwrap();
        let all = recto.collection::<Suspension>().unwrap();
        all.delete("nobody").await.unwrap();
        tokio::time::sleep(QUIET).await;
        let look = [
            (1, "read"),
            (1, "recto_intents: put"),
            (2, "suspensions: patch if"),
            (4, "suspensions: patch"),
        ];

        let entries = [
            (3, "suspensions_by_reason_2: put"),
            (3, "suspensions_by_status_1: put"),
        ];
        let inserts = async |attempt: usize| {
            // Set `visits`: a null would make the change clear the position of the row in the view
            // first.
            let mut suspended = suspension(&format!("u{attempt}"), "open", 1);
            suspended.visits = Some(0);
            all.insert(&suspended).await.unwrap();
        };
        assert_sends(&sent, &[&look[..], &entries].concat(), inserts).await;

        let moved = [
            (3, "suspensions_by_reason_2: put"),
            (3, "suspensions_by_status_1: delete"),
            (3, "suspensions_by_status_1: put"),
        ];
        let moves = async |attempt: usize| {
            let status = ["closed", "open"][attempt % 2];
            all.update("u0").set("status", status).await.unwrap();
        };
        assert_sends(&sent, &[&look[..], &moved].concat(), moves).await;

        let before = [
            rows_and_deletions(&config, "suspensions_by_status_1").await,
            rows_and_deletions(&config, "suspensions_by_reason_2").await,
        ];
        assert!(before[0].1 > 0, "of what moved something is deleted: {before:?}");
        assert_eq!(before[1].1, 0, "{before:?}");
        for visits in 0..CHANGES {
            all.update("u0").set("visits", visits).await.unwrap();
        }
        let logged = rows_and_deletions(&config, "recto_intents").await;
        assert!(logged.0 > 0, "the log holds what is not settled for long");
        assert_eq!(logged.1, 0, "{logged:?}");
        let after = [
            rows_and_deletions(&config, "suspensions_by_status_1").await,
            rows_and_deletions(&config, "suspensions_by_reason_2").await,
        ];
        assert_eq!(after, before, "who stays where they are leaves nothing behind");
        // Recto removes whole segments of the log of intents, so reads must find no tombstones
        // (deletion markers).
        let begun = Instant::now();
        loop {
            let (rows, deletions) = rows_and_deletions(&config, "recto_intents").await;
            assert_eq!(deletions, 0);
            if rows == 0 {
                break;
            }
            assert!(begun.elapsed() < GONE, "{rows} intents are left");
            tokio::time::sleep(PAUSE).await;
        }
        println!("{} intents were gone after {:?}", logged.0, begun.elapsed());
    });
}
