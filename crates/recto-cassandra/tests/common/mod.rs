//! The real Cassandra that tests share, and a keyspace in it for each test binary.
#![allow(dead_code)] // each test binary uses its part

use std::sync::Arc;

use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Column, Direction, Environment, Table, Type};
use recto_store::{Store, TableOutcome};
use recto_testkit::rig::{Cluster, unique_keyspace};
use scylla::client::session_builder::SessionBuilder;
use tokio::sync::OnceCell;

/// What the names of keyspaces of these tests begin with; the process that made one follows.
const PREFIX: &str = "rc_test_";

/// The configuration for `keyspace` on the shared node.
pub(crate) fn config(keyspace: &str) -> CassandraConfig {
    let cassandra = Cluster::shared().unwrap_or_else(|error| panic!("tests need a Cassandra: {error}"));
    CassandraConfig::new([cassandra.address()], keyspace)
}

/// The keyspace of this process, made once.
pub(crate) async fn keyspace() -> &'static str {
    static KEYSPACE: OnceCell<String> = OnceCell::const_new();
    KEYSPACE
        .get_or_init(|| async {
            let name = unique_keyspace(&format!("{PREFIX}{}_", std::process::id()));
            drop_left_behind().await;
            create_keyspace(config(&name), Environment::system(), None)
                .await
                .unwrap();
            name
        })
        .await
}

/// A store on the keyspace of this process.
pub(crate) async fn store() -> Arc<CassandraStore> {
    let config = config(keyspace().await);
    Arc::new(
        CassandraStore::connect(config, Environment::system())
            .await
            .unwrap(),
    )
}

/// A column of `int`s.
pub(crate) fn int_column(name: &str, kind: ColumnKind) -> Column {
    Column {
        name: name.to_owned(),
        ty: Type::Int,
        kind,
    }
}

/// A store at `config`, its keyspace made, with a table `t` of `int`s: partition `p`, clustering `c`,
/// those in `more`, regular `v`.
pub(crate) async fn with_table(
    config: CassandraConfig,
    more: impl IntoIterator<Item = Column>,
) -> (CassandraStore, Arc<Table>) {
    create_keyspace(config.clone(), Environment::system(), None)
        .await
        .unwrap();
    let store = CassandraStore::connect(config, Environment::system())
        .await
        .unwrap();
    let mut columns = vec![
        int_column("p", ColumnKind::Partition),
        int_column("c", ColumnKind::Clustering(Direction::Ascending)),
    ];
    columns.extend(more);
    columns.push(int_column("v", ColumnKind::Regular(WriteKind::Plain)));
    let table = Table::new("t", columns, TableOptions::default()).unwrap();
    assert!(matches!(
        store.create_table(&table).await.unwrap(),
        TableOutcome::Done
    ));
    (store, Arc::new(table))
}

/// Drops the keyspace of this process: for a process of one test, at its end.
pub(crate) async fn drop() {
    let config = config(keyspace().await);
    drop_keyspace(config, Environment::system()).await.unwrap();
}

/// A process of several tests cannot know which of them is the last, so each process drops the keyspaces of
/// processes that are gone.
async fn drop_left_behind() {
    let cassandra = Cluster::shared().unwrap();
    let session = SessionBuilder::new()
        .known_node(cassandra.address())
        .build()
        .await
        .unwrap();
    let rows = session
        .query_unpaged("SELECT keyspace_name FROM system_schema.keyspaces", ())
        .await
        .unwrap()
        .into_rows_result()
        .unwrap();
    for row in rows.rows::<(String,)>().unwrap() {
        let (name,) = row.unwrap();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let process = rest.split('_').next().unwrap_or_default();
        if !std::path::Path::new("/proc").join(process).exists() {
            drop_keyspace(config(&name), Environment::system()).await.unwrap();
        }
    }
}
