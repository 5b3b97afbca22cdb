//! The real Cassandra that tests share, and keyspaces in it.
#![allow(dead_code)] // each test program uses its part

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

/// The configuration for `keyspace` on the shared node.
pub(crate) fn config(keyspace: &str) -> CassandraConfig {
    let cassandra = Cluster::shared().unwrap_or_else(|error| panic!("tests need a Cassandra: {error}"));
    CassandraConfig::new([cassandra.address()], keyspace)
}

/// A keyspace of some tests, made once.
pub(crate) struct Keyspace(OnceCell<String>);

impl Keyspace {
    pub(crate) const fn new() -> Self {
        Self(OnceCell::const_new())
    }

    /// Its name.
    pub(crate) async fn name(&self) -> &str {
        self.0
            .get_or_init(|| async {
                // Nobody knows which of the tests is the last, so each process removes what those have left that are gone.
                scratch().remove_left(drop_named).await.unwrap();
                let name = new_keyspace();
                create_keyspace(config(&name), Environment::system(), None)
                    .await
                    .unwrap();
                name
            })
            .await
    }

    /// A store on it.
    pub(crate) async fn store(&self) -> Arc<CassandraStore> {
        let config = config(self.name().await);
        Arc::new(
            CassandraStore::connect(config, Environment::system())
                .await
                .unwrap(),
        )
    }

    /// Drops it: where one test uses it, at its end.
    pub(crate) async fn drop(&self) {
        drop_named(self.name().await.to_owned()).await.unwrap();
    }
}

/// The name of a keyspace that is to be made.
pub(crate) fn new_keyspace() -> String {
    scratch().keyspace("recto_cassandra").unwrap()
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

/// A table of `int`s whose partitions are one row each, partition `p`, regular `v`, with rows of these keys; and reads of
/// the rows of other keys, too.
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
