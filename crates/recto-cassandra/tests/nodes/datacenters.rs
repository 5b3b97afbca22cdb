//! Tests of two real data centers with one node each. The configuration must name the local data
//! center. The store sends requests only to the nodes of that data center.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Environment, Slice, Table};
use recto_store::{
    ConsistencyLevel, Mutation, Operation, PartitionWrite, ReadOptions, RowsRead, Stamp, Store, StoreError,
    StoreErrorKind, WriteOptions, WriteOutcome,
};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes};

use crate::common;

/// Maximum time of all requests to one data center while the other data center is frozen. If each
/// of the 54 requests waited for its timeout of 5 s, they would take longer.
const SOON: Duration = Duration::from_secs(60);
/// Maximum time until the driver reaches a restarted node.
const COMES_BACK: Duration = Duration::from_secs(60);

fn config(cluster: &Cluster, local: Option<&str>) -> CassandraConfig {
    let mut config = CassandraConfig::new(cluster.addresses(), "centres");
    config.local_datacenter = local.map(str::to_owned);
    config.connect_timeout = Duration::from_secs(20);
    config
}

async fn refused(cluster: &Cluster, local: Option<&str>) -> String {
    let connected = CassandraStore::connect(config(cluster, local), Environment::system()).await;
    let error = connected.expect_err("it must be refused");
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error:?}");
    let hint = error.hint().expect("it says which there are");
    assert!(hint.contains("east") && hint.contains("west"), "{hint}");
    error.to_string()
}

fn int(value: i32) -> Cells {
    [Some(&value.to_be_bytes()[..])].into_iter().collect()
}

struct Bench {
    store: CassandraStore,
    table: Arc<Table>,
}

impl Bench {
    async fn put(&self, number: i32) -> Result<WriteOutcome, StoreError> {
        let mutation = Mutation {
            operation: Operation::Put {
                clustering: int(number),
                cells: int(number),
                replace: true,
            },
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
        };
        let write = PartitionWrite {
            table: Arc::clone(&self.table),
            partition: int(1),
            mutations: vec![mutation],
        };
        self.store.write(write, WriteOptions::default()).await
    }

    async fn read(&self, consistency: Option<ConsistencyLevel>) -> Result<RowsRead, StoreError> {
        self.read_of(1, consistency).await
    }

    async fn read_of(
        &self,
        partition: i32,
        consistency: Option<ConsistencyLevel>,
    ) -> Result<RowsRead, StoreError> {
        let slice = Slice {
            table: Arc::clone(&self.table),
            partition: int(partition),
            from: Bound::start(),
            to: Bound::end(),
            direction: ReadDirection::Forward,
            limit: 100,
        };
        let options = ReadOptions {
            consistency,
            ..ReadOptions::default()
        };
        self.store.snapshot()?.slice(&slice, &options).await
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: starts two nodes, minutes in all"]
async fn the_local_data_centre_is_named_and_asked() {
    let dir = tempfile::tempdir().unwrap();
    let options = ClusterOptions::new(Nodes::Two)
        .heap("512M")
        .datacenters(["east", "west"]);
    let cluster = Cluster::start_with(&options, dir.path()).unwrap();
    let (east, west) = (cluster.node(1), cluster.node(2));

    assert!(refused(&cluster, None).await.contains("does not name"));
    assert!(refused(&cluster, Some("EAST")).await.contains("\"EAST\""));

    let config = config(&cluster, Some("east"));
    let (store, table) = common::with_table(config.clone(), []).await;
    // The store does not allow conditional writes at local serial consistency, because the other
    // data center would not see them.
    assert!(
        store
            .check_decisions()
            .unwrap_err()
            .hint()
            .unwrap()
            .contains("serial")
    );
    let mut both = config;
    both.consistency = ConsistencyLevel::Quorum;
    both.serial_consistency = ConsistencyLevel::Serial;
    let both = CassandraStore::connect(both, Environment::system())
        .await
        .unwrap();
    assert!(both.check_decisions().is_ok());
    let bench = Bench { store, table };
    assert!(matches!(bench.put(1).await, Ok(WriteOutcome::Done)));

    // Pause the other node. Local requests do not wait for it, and requests that need both nodes
    // fail with an error.
    west.pause().unwrap();
    let begun = Instant::now();
    for number in 2..20 {
        assert!(matches!(bench.put(number).await, Ok(WriteOutcome::Done)));
        assert_eq!(
            i32::try_from(bench.read(None).await.unwrap().rows.len()),
            Ok(number)
        );
        // A serial read succeeds, even if its first replica is the frozen node.
        let serial = Some(ConsistencyLevel::LocalSerial);
        assert!(bench.read_of(number, serial).await.is_ok());
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let error = bench.read(Some(ConsistencyLevel::All)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error:?}");
    assert!(error.hint().is_some());
    west.resume().unwrap();

    // Kill the local node. The other node runs and has every row, but the store does not use it.
    east.kill().unwrap();
    let error = bench.read(None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
    match bench.put(20).await {
        Err(error) | Ok(WriteOutcome::Unknown(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
        }
        other => panic!("{other:?}"),
    }

    east.start().unwrap();
    let begun = Instant::now();
    while let Err(error) = bench.read(None).await {
        assert!(begun.elapsed() < COMES_BACK, "{error:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
