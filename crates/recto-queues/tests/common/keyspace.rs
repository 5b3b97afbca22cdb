//! Keyspace of this test process in the Cassandra that all tests share.

use std::sync::Arc;

use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_model::Environment;
use recto_store::{Store, StoreError};
use recto_testkit::rig::{Cluster, Scratch};

fn config(keyspace: &str) -> CassandraConfig {
    let cassandra = Cluster::shared().unwrap_or_else(|error| panic!("tests need a Cassandra: {error}"));
    CassandraConfig::new([cassandra.address()], keyspace)
}

/// Creates a keyspace, and removes keyspaces of test processes that have ended. A test cannot remove its own
/// keyspace, because it does not know whether other tests of the process still use it.
pub(crate) async fn made() -> String {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.remove_left(drop_named).await.unwrap();
    let name = scratch
        .keyspace(&env!("CARGO_PKG_NAME").replace('-', "_"))
        .unwrap();
    create_keyspace(config(&name), Environment::system(), None)
        .await
        .unwrap();
    name
}

async fn drop_named(name: String) -> Result<(), StoreError> {
    drop_keyspace(config(&name), Environment::system()).await
}

/// Opens the store in an existing keyspace.
pub(crate) async fn store(keyspace: &str, environment: Environment) -> Arc<dyn Store> {
    Arc::new(
        CassandraStore::connect(config(keyspace), environment)
            .await
            .unwrap(),
    )
}
