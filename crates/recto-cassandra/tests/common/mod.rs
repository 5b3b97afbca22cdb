//! Test helpers: the real Cassandra that all tests share, and keyspaces in it.
#![allow(dead_code)] // each test program uses only some helpers

use std::sync::Arc;

use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Column, Direction, Environment, Table, Type};
use recto_store::{
    Mutation, Operation, PartitionWrite, PointRead, Stamp, Store, StoreError, TableOutcome, WriteOptions,
    WriteOutcome,
};
use recto_testkit::rig::{Cluster, Scratch};
use tokio::sync::OnceCell;

/// Returns the configuration of `keyspace` on the shared node.
pub(crate) fn config(keyspace: &str) -> CassandraConfig {
    let cassandra = Cluster::shared().unwrap_or_else(|error| panic!("tests need a Cassandra: {error}"));
    CassandraConfig::new([cassandra.address()], keyspace)
}

/// Keyspace that the tests of one program share. The first use creates it.
pub(crate) struct Keyspace(OnceCell<String>);

impl Keyspace {
    pub(crate) const fn new() -> Self {
        Self(OnceCell::const_new())
    }

    /// Returns the name of the keyspace. The first call creates the keyspace.
    pub(crate) async fn name(&self) -> &str {
        self.0
            .get_or_init(|| async {
                // No test knows whether it is the last user, so no test drops the keyspace.
                // Instead, each process drops the keyspaces of processes that have ended.
                scratch().remove_left(drop_named).await.unwrap();
                let name = new_keyspace();
                create_keyspace(config(&name), Environment::system(), None)
                    .await
                    .unwrap();
                name
            })
            .await
    }

    /// Returns a store with a new connection to the shared keyspace.
    pub(crate) async fn store(&self) -> Arc<CassandraStore> {
        let config = config(self.name().await);
        Arc::new(
            CassandraStore::connect(config, Environment::system())
                .await
                .unwrap(),
        )
    }

    /// Drops the keyspace, which must be used by a single test only.
    pub(crate) async fn drop(&self) {
        drop_named(self.name().await.to_owned()).await.unwrap();
    }
}

/// Returns an unused keyspace name. Does not create the keyspace.
pub(crate) fn new_keyspace() -> String {
    scratch().keyspace("recto_cassandra").unwrap()
}

/// Returns a column of type `int`.
pub(crate) fn int_column(name: &str, kind: ColumnKind) -> Column {
    Column {
        name: name.to_owned(),
        ty: Type::Int,
        kind,
    }
}

/// Creates the keyspace of `config`, and a table `t` whose columns are all `int`: partition `p`, clustering `c`, the
/// columns in `more`, regular `v`.
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

/// Creates a table of `int`s with one row per partition: partition column `p`, regular column `v`.
/// Writes a row for each key of `keys`. Returns reads of these rows and of rows that do not exist.
pub(crate) async fn rows_of_their_own(
    store: &CassandraStore,
    name: &str,
    keys: std::ops::Range<i32>,
) -> (Arc<Table>, Vec<PointRead>) {
    let columns = vec![
        int_column("p", ColumnKind::Partition),
        int_column("v", ColumnKind::Regular(WriteKind::Plain)),
    ];
    let table = Arc::new(Table::new(name, columns, TableOptions::default()).unwrap());
    assert!(matches!(
        store.create_table(&table).await.unwrap(),
        TableOutcome::Done
    ));
    let cell = |value: i32| -> Cells { std::iter::once(Some(&value.to_be_bytes()[..])).collect() };
    for key in keys.clone() {
        let put = Operation::Put {
            clustering: Cells::new(),
            cells: cell(key),
            replace: false,
        };
        let write = PartitionWrite {
            table: Arc::clone(&table),
            partition: cell(key),
            mutations: vec![Mutation {
                operation: put,
                stamp: Some(Stamp(1)),
                ttl_seconds: None,
            }],
        };
        let outcome = store.write(write, WriteOptions::default()).await.unwrap();
        assert!(matches!(outcome, WriteOutcome::Done), "{outcome:?}");
    }
    let read = |key| PointRead {
        table: Arc::clone(&table),
        partition: cell(key),
        clustering: Cells::new(),
    };
    let reads = (keys.start - 2..keys.end + 3).map(read).collect();
    (table, reads)
}

fn scratch() -> Scratch {
    Scratch::new(env!("CARGO_TARGET_TMPDIR"))
}

async fn drop_named(keyspace: String) -> Result<(), StoreError> {
    drop_keyspace(config(&keyspace), Environment::system()).await
}
