//! Tests of TLS on a real node: accepted and rejected certificates, and error messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore, TlsConfig, create_keyspace};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Environment, Slice};
use recto_store::{
    Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, StoreError, StoreErrorKind, WriteOptions,
    WriteOutcome,
};
use recto_testkit::rig::certificates::{Authority, client_encryption};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes};

use crate::common;

const ROWS: i32 = 2_000;
/// Number of rows of a read, which take several protocol pages.
const PAGE_ROWS: u32 = 700;

fn config(cluster: &Cluster, tls: Option<TlsConfig>) -> CassandraConfig {
    let mut config = CassandraConfig::new(cluster.addresses(), "secured");
    config.tls = tls;
    // Use a longer timeout than the default, because some machines are slow.
    config.connect_timeout = Duration::from_secs(20);
    config
}

fn unchecked(tls: &TlsConfig) -> TlsConfig {
    let mut tls = tls.clone();
    tls.check_server_name = false;
    tls
}

async fn refused(cluster: &Cluster, tls: Option<TlsConfig>) -> StoreError {
    let connected = CassandraStore::connect(config(cluster, tls), Environment::system()).await;
    let error = connected.expect_err("it must be refused");
    println!("{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
    error
}

/// Writes rows through the connection of `config`, and reads them in both directions.
async fn use_it(config: CassandraConfig) {
    let (store, table) = common::with_table(config, []).await;
    let int = |value: i32| -> Cells { [Some(&value.to_be_bytes()[..])].into_iter().collect() };
    let put = |number: i32| Mutation {
        operation: Operation::Put {
            clustering: int(number),
            cells: int(number),
            replace: true,
        },
        stamp: Some(Stamp(1)),
        ttl_seconds: None,
    };
    let write = PartitionWrite {
        table: Arc::clone(&table),
        partition: int(1),
        mutations: (0..ROWS).map(put).collect(),
    };
    let written = store.write(write, WriteOptions::default()).await.unwrap();
    assert!(matches!(written, WriteOutcome::Done), "{written:?}");
    for direction in [ReadDirection::Forward, ReadDirection::Backward] {
        let slice = Slice {
            table: Arc::clone(&table),
            partition: int(1),
            from: Bound::start(),
            to: Bound::end(),
            direction,
            limit: PAGE_ROWS,
        };
        let read = store
            .snapshot()
            .unwrap()
            .slice(&slice, &ReadOptions::default())
            .await;
        let rows = read.unwrap().rows;
        assert_eq!(rows.len(), PAGE_ROWS as usize);
        let first = if direction == ReadDirection::Forward {
            0
        } else {
            ROWS - 1
        };
        assert_eq!(rows.row(0).get(1), Some(&first.to_be_bytes()[..]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_and_names_decide() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("authority", dir.path()).unwrap();
    let other = Authority::new("other-authority", dir.path()).unwrap();
    // Issue a certificate for a name that is not the address of the node.
    let keystore = authority.issue("node", &["node.example"]).unwrap();
    let options = ClusterOptions::new(Nodes::One)
        .heap("512M")
        .setting("client_encryption_options", &client_encryption(&keystore, None))
        .encrypted();
    let cluster = Cluster::start_with(&options, dir.path().join("cluster")).unwrap();
    let tls = TlsConfig::new(authority.file());

    let error = refused(&cluster, Some(tls.clone())).await;
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(
        error.hint().unwrap().contains("tls_check_server_name"),
        "{error:?}"
    );

    for tls in [
        TlsConfig::new(other.file()),
        unchecked(&TlsConfig::new(other.file())),
    ] {
        let error = refused(&cluster, Some(tls)).await;
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(error.hint().unwrap().contains("tls_ca"), "{error:?}");
    }

    let error = refused(&cluster, None).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.hint().unwrap().contains("TLS"), "{error:?}");

    use_it(config(&cluster, Some(unchecked(&tls)))).await;

    // A host that accepts connections but never uses TLS does not prevent connections to other
    // hosts, in whichever order the driver tries them.
    let mute = Mute::new().await;
    for _ in 0..4 {
        let mut config = config(&cluster, Some(unchecked(&tls)));
        config.hosts.insert(0, mute.address.clone());
        CassandraStore::connect(config, Environment::system())
            .await
            .unwrap();
    }

    // Replace the certificate while the node runs, by a certificate that also names the node's
    // address.
    let address = cluster.node(1).address().ip().to_string();
    authority.issue("node", &["node.example", &address]).unwrap();
    cluster.node(1).nodetool(&["reloadssl"]).unwrap();
    use_it(config(&cluster, Some(tls))).await;
}

/// Host that accepts connections and sends nothing.
struct Mute {
    address: String,
    taking: tokio::task::JoinHandle<()>,
}

impl Mute {
    async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let taking = tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                taken.push(listener.accept().await.unwrap());
            }
        });
        Self { address, taking }
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        self.taking.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_never_speaks_tls_is_named_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("authority", dir.path()).unwrap();
    let mute = Mute::new().await;
    let mut config = CassandraConfig::new([mute.address.clone()], "absent");
    config.tls = Some(TlsConfig::new(authority.file()));
    config.connect_timeout = Duration::from_secs(8);
    let begun = Instant::now();
    let connected = CassandraStore::connect(config, Environment::system()).await;
    let error = connected.expect_err("nobody speaks there");
    println!("{error:?} after {:?}", begun.elapsed());
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains(&mute.address), "{error}");
    assert!(error.hint().is_some(), "{error:?}");
    // One attempt takes at most a quarter of the timeout, so that the driver can contact other
    // hosts.
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

/// Checks that a store opens although one node of its cluster hangs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: starts two nodes, of which one hangs, minutes in all"]
async fn a_node_that_hangs_does_not_keep_from_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("authority", dir.path()).unwrap();
    let keystore = authority.issue("node", &["node.example"]).unwrap();
    let options = ClusterOptions::new(Nodes::Two)
        .setting("client_encryption_options", &client_encryption(&keystore, None))
        .encrypted();
    let cluster = Cluster::start_with(&options, dir.path().join("cluster")).unwrap();
    let mut config = config(&cluster, Some(unchecked(&TlsConfig::new(authority.file()))));
    config.hosts.truncate(1);
    config.connect_timeout = Duration::from_secs(12);
    create_keyspace(config.clone(), Environment::system(), None)
        .await
        .unwrap();
    cluster.node(2).pause().unwrap();
    let begun = Instant::now();
    let store = CassandraStore::connect(config, Environment::system())
        .await
        .unwrap();
    println!("opened after {:?}", begun.elapsed());
    drop(store);
    cluster.node(2).resume().unwrap();
}

/// Checks the error if the client requires TLS and the node does not support it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_tls_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("authority", dir.path()).unwrap();
    let cassandra = Cluster::shared().unwrap_or_else(|error| panic!("tests need a Cassandra: {error}"));
    let mut config = CassandraConfig::new([cassandra.address()], "secured");
    config.tls = Some(TlsConfig::new(authority.file()));
    let connected = CassandraStore::connect(config, Environment::system()).await;
    let error = connected.expect_err("there is no TLS there");
    println!("{error:?}");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
    assert!(error.hint().unwrap().contains("TLS"), "{error:?}");
}
