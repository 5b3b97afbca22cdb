//! Tests of a user who may not empty a table, and of reads of several rows on a node that allows
//! one row per request. The tests start their own node.

use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore};
use recto_model::Environment;
use recto_store::{ReadOptions, Store, StoreError, StoreErrorKind};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::common;

const KEYSPACE: &str = "rights";
/// User that exists on a new node and to whom guardrails do not apply. The password of each user is
/// the user's name.
const SUPERUSER: &str = "cassandra";
const ORDINARY_USER: &str = "shop";
/// Maximum time until a new node has created its first user.
const MADE: Duration = Duration::from_secs(60);
/// Maximum time until granted rights take effect.
const GRANTED: Duration = Duration::from_secs(30);

fn config_of(user: &str, cluster: &Cluster) -> CassandraConfig {
    let mut config = CassandraConfig::new(cluster.addresses(), KEYSPACE);
    config.username = Some(user.to_owned());
    config.password = Some(user.to_owned());
    config
}

async fn superuser(cluster: &Cluster) -> Session {
    let builder = SessionBuilder::new().known_nodes(cluster.addresses());
    let builder = builder.user(SUPERUSER, SUPERUSER);
    let begun = Instant::now();
    loop {
        match builder.build().await {
            Ok(session) => return session,
            Err(error) => assert!(begun.elapsed() < MADE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Checks that emptying a table without the right, or against a guardrail of the cluster, changes
/// nothing, and that the error names the cause.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_may_not_be_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let options = ClusterOptions::new(Nodes::One)
        .setting("authenticator", "PasswordAuthenticator")
        .setting("authorizer", "CassandraAuthorizer")
        .setting("permissions_validity", "100ms")
        .setting("drop_truncate_table_enabled", "false")
        .setting("partition_keys_in_select_fail_threshold", "3");
    let cluster = Cluster::start_with(&options, dir.path()).unwrap();
    let session = superuser(&cluster).await;
    let (store, table) = common::with_table(config_of(SUPERUSER, &cluster), []).await;
    for statement in [
        format!("CREATE ROLE {ORDINARY_USER} WITH PASSWORD = '{ORDINARY_USER}' AND LOGIN = true"),
        format!("GRANT SELECT ON KEYSPACE {KEYSPACE} TO {ORDINARY_USER}"),
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let (_, reads) = common::rows_of_their_own(&store, "few_at_once", 0..10).await;
    let config = config_of(ORDINARY_USER, &cluster);
    let ordinary = CassandraStore::connect(config, Environment::system())
        .await
        .unwrap();
    let snapshot = ordinary.snapshot().unwrap();
    let found = snapshot.get_many(&reads, &ReadOptions::default()).await.unwrap();
    // The node rejected the request for several rows, and then answered one request per row.
    let rows: usize = found.iter().map(|read| read.rows.len()).sum();
    let sent: u32 = found.iter().map(|read| read.statements).sum();
    assert_eq!((rows, sent), (10, reads.len() as u32));
    let refused = async || -> StoreError { ordinary.empty_table(&table).await.unwrap_err() };
    let error = refused().await;
    assert_eq!(error.kind(), StoreErrorKind::Unauthorized, "{error}");
    assert_eq!(error.table(), Some("t"));
    assert!(error.hint().unwrap().contains("grant"), "{error:?}");

    let grant = format!("GRANT MODIFY ON KEYSPACE {KEYSPACE} TO {ORDINARY_USER}");
    session.query_unpaged(grant, ()).await.unwrap();
    let begun = Instant::now();
    loop {
        let error = refused().await;
        assert_eq!(error.kind(), StoreErrorKind::Unauthorized, "{error}");
        if error.hint().unwrap().contains("drop_truncate_table_enabled") {
            break;
        }
        assert!(begun.elapsed() < GRANTED, "{error:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    store.empty_table(&table).await.unwrap();
}
