//! Tests of calls while a node stalls, dies and restarts. The tests start their own node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore, plan_keyspace};
use recto_model::table::{ColumnKind, ReadDirection, WriteKind};
use recto_model::{Bound, Cells, Environment, Slice, Table};
use recto_store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PartitionWrite, ReadOptions, RowAddress, RowsRead,
    Stamp, Store, StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};
use recto_testkit::rig::{Cluster, ClusterOptions, Node, Nodes};
use scylla::client::session_builder::SessionBuilder;

use crate::common;

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(10);
/// Time that a call may take in these tests in addition to its timeout.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum time until the driver reaches a restarted node.
const COMES_BACK: Duration = Duration::from_secs(60);
/// Maximum time that freezing a node may take. The client closes a connection that is silent for
/// 2.5 s. If the freeze took longer, one of the following three short calls could fail with an
/// error other than a timeout.
const FREEZE: Duration = Duration::from_millis(500);
/// Maximum number of attempts to freeze a node quickly: a slow disk can delay the stop of its
/// threads.
const MAX_FREEZES: usize = 20;

fn ints<const N: usize>(values: [i32; N]) -> Cells {
    let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_be_bytes()).collect();
    bytes.iter().map(|cell| Some(&cell[..])).collect()
}

/// User that exists on a new node and to whom guardrails do not apply.
const SUPERUSER: &str = "cassandra";
const ORDINARY_USER: &str = "shop";

/// Returns the configuration of a user. The password of each user is the user's name.
fn config_of(user: &str, address: &str) -> CassandraConfig {
    let mut config = CassandraConfig::new([address], "faults");
    config.connect_timeout = COMES_BACK;
    config.username = Some(user.to_owned());
    config.password = Some(user.to_owned());
    config
}

/// Checks that opening a store fails if the user may not read the nodes and data centers. The store
/// must not act as if the cluster had no nodes.
async fn nodes_that_may_not_be_read_are_told(address: &str) {
    let builder = SessionBuilder::new().known_node(address);
    let builder = builder.user(SUPERUSER, SUPERUSER);
    let begun = Instant::now();
    let session = loop {
        match builder.build().await {
            Ok(session) => break session,
            // Try again, because a new node accepts connections before it has created its first
            // user.
            Err(error) => assert!(begun.elapsed() < COMES_BACK, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let role = format!("CREATE ROLE {ORDINARY_USER} WITH PASSWORD = '{ORDINARY_USER}' AND LOGIN = true");
    session.query_unpaged(role, ()).await.unwrap();
    let config = config_of(ORDINARY_USER, address);
    let connected = CassandraStore::connect(config.clone(), Environment::system()).await;
    let planned = plan_keyspace(config, Environment::system(), None, &[]).await;
    for error in [
        connected.expect_err("it is refused"),
        planned.expect_err("it is refused"),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Unauthorized, "{error:?}");
        assert!(
            error
                .to_string()
                .contains("the cluster's nodes and data centers cannot be read"),
            "{error:?}"
        );
        assert!(
            error.hint().unwrap().contains("page_size_fail_threshold"),
            "{error:?}"
        );
    }
}

struct Bench {
    store: CassandraStore,
    table: Arc<Table>,
}

impl Bench {
    async fn new(address: &str) -> Self {
        let config = config_of(SUPERUSER, address);
        let statics = common::int_column("s", ColumnKind::Static(WriteKind::Cas));
        let (store, table) = common::with_table(config, [statics]).await;
        Self { store, table }
    }

    async fn write(&self, timeout: Duration) -> Result<WriteOutcome, StoreError> {
        let mutation = Mutation {
            operation: Operation::Put {
                clustering: ints([1]),
                cells: ints([2]),
                replace: true,
            },
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
        };
        let write = PartitionWrite {
            table: Arc::clone(&self.table),
            partition: ints([1]),
            mutations: vec![mutation],
        };
        let options = WriteOptions {
            timeout,
            ..WriteOptions::default()
        };
        self.store.write(write, options).await
    }

    async fn cas(
        &self,
        expected: Option<i32>,
        new: i32,
        timeout: Duration,
    ) -> Result<CasOutcome, StoreError> {
        let cas = Cas {
            table: Arc::clone(&self.table),
            partition: ints([1]),
            conditions: vec![CasCondition {
                row: RowAddress::Static,
                column: 0,
                expected: expected.map(|value| value.to_be_bytes().to_vec()),
            }],
            mutations: vec![Mutation {
                operation: Operation::PatchStatic {
                    columns: vec![0],
                    cells: ints([new]),
                },
                stamp: None,
                ttl_seconds: None,
            }],
        };
        let options = WriteOptions {
            timeout,
            ..WriteOptions::default()
        };
        self.store.cas(cas, options).await
    }

    async fn read(&self, timeout: Duration) -> Result<RowsRead, StoreError> {
        let slice = Slice {
            table: Arc::clone(&self.table),
            partition: ints([1]),
            from: Bound::start(),
            to: Bound::end(),
            direction: ReadDirection::Forward,
            limit: 10,
        };
        let options = ReadOptions {
            timeout,
            ..ReadOptions::default()
        };
        self.store.snapshot()?.slice(&slice, &options).await
    }
}

impl Bench {
    async fn read_when_back(&self) -> RowsRead {
        let start = Instant::now();
        loop {
            match self.read(LONG).await {
                Ok(read) => return read,
                Err(error) => assert!(start.elapsed() < COMES_BACK, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Freezes the node in less than [`FREEZE`], while its connections work.
    async fn freeze(&self, node: &Node) {
        for _ in 0..MAX_FREEZES {
            self.read_when_back().await;
            let start = Instant::now();
            node.pause().unwrap();
            if start.elapsed() < FREEZE {
                return;
            }
            node.resume().unwrap();
        }
        panic!("the node is not frozen within {FREEZE:?}, however often it is tried");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stalls_and_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let options = ClusterOptions::new(Nodes::One)
        .setting("authenticator", "PasswordAuthenticator")
        .setting("authorizer", "CassandraAuthorizer")
        .setting("page_size_fail_threshold", "1000");
    let cluster = Cluster::start_with(&options, dir.path()).unwrap();
    nodes_that_may_not_be_read_are_told(&cluster.addresses()[0]).await;
    let bench = Bench::new(&cluster.addresses()[0]).await;
    // Prepare all statements, so that the next calls only execute them.
    assert!(matches!(bench.write(LONG).await, Ok(WriteOutcome::Done)));
    assert!(matches!(bench.cas(None, 1, LONG).await, Ok(CasOutcome::Applied)));
    assert_eq!(bench.read(LONG).await.unwrap().rows.len(), 1);

    // Freeze the node. The node may apply the next requests later, when it resumes.
    bench.freeze(cluster.node(1)).await;
    let start = Instant::now();
    let outcome = bench.write(SHORT).await.unwrap();
    assert!(
        matches!(&outcome, WriteOutcome::Unknown(error) if error.kind() == StoreErrorKind::Timeout),
        "{outcome:?}"
    );
    let outcome = bench.cas(Some(1), 2, SHORT).await.unwrap();
    assert!(
        matches!(&outcome, CasOutcome::Unknown(error) if error.kind() == StoreErrorKind::Timeout),
        "{outcome:?}"
    );
    let error = bench.read(SHORT).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    assert_eq!(error.node(), Some(cluster.addresses()[0].as_str()));
    assert_eq!(error.table(), Some("t"));
    assert!(start.elapsed() < 3 * SHORT + GRACE, "calls end with their time");
    let metrics = bench.store.metrics();
    assert_eq!(metrics.nodes.len(), 1, "{metrics:?}");
    assert_eq!(metrics.nodes[0].timeouts, 3, "{metrics:?}");
    assert!(
        metrics.nodes[0].requests > metrics.nodes[0].failures,
        "{metrics:?}"
    );
    cluster.node(1).resume().unwrap();

    // The outcome of the conditional write was unknown. The node has applied the write by
    // now, or never will.
    match bench.cas(Some(2), 3, LONG).await.unwrap() {
        CasOutcome::Applied => {}
        CasOutcome::NotApplied { current } => assert_eq!(current, [Some(1_i32.to_be_bytes().to_vec())]),
        other => panic!("{other:?}"),
    }

    // Kill the node. Reads report that it is dead. A plain write does nothing or has an unknown
    // outcome, but the store never reports it as done.
    cluster.node(1).kill().unwrap();
    let error = bench.read(LONG).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.hint().is_some());
    let metrics = bench.store.metrics();
    assert!(!metrics.nodes[0].up && metrics.retries > 0, "{metrics:?}");
    match bench.write(LONG).await {
        Err(error) | Ok(WriteOutcome::Unknown(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        }
        other => panic!("{other:?}"),
    }
    let outcome = bench.cas(Some(3), 4, LONG).await;
    assert!(!matches!(outcome, Ok(CasOutcome::Applied)), "{outcome:?}");

    // Start the node again: the same store works again. Writes that the node acknowledged in its
    // last seconds may be lost, because a single node keeps its commit log in memory for
    // `commitlog_sync_period`.
    cluster.node(1).start().unwrap();
    bench.read_when_back().await;
    assert!(matches!(bench.write(LONG).await, Ok(WriteOutcome::Done)));
    assert_eq!(bench.read(LONG).await.unwrap().rows.len(), 1);
    let CasOutcome::NotApplied { current } = bench.cas(Some(99), 4, LONG).await.unwrap() else {
        panic!("a condition that does not hold was taken for one that does");
    };
    let current = current[0]
        .as_deref()
        .map(|cell| i32::from_be_bytes(cell.try_into().unwrap()));
    let outcome = bench.cas(current, 5, LONG).await.unwrap();
    assert!(matches!(outcome, CasOutcome::Applied), "{outcome:?}");
}
