//! A keyspace of this process in the real Cassandra that tests share.

use std::sync::Arc;

use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_model::Environment;
use recto_store::{Store, StoreError};
use recto_testkit::rig::{Cluster, Scratch};

fn config(keyspace: &str) -> CassandraConfig {
    let cassandra = Cluster::shared().unwrap_or_else(|error| panic!("tests need a Cassandra: {error}"));
    CassandraConfig::new([cassandra.address()], keyspace)
}

/// Makes a keyspace, and removes what processes have left that are gone: one of several tests cannot know which is the last.
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

/// The store in a keyspace that was made.
pub(crate) async fn store(keyspace: &str, environment: Environment) -> Arc<dyn Store> {
    Arc::new(
        CassandraStore::connect(config(keyspace), environment)
            .await
            .unwrap(),
    )
}
