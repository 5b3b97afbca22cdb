//! Tests of two clients that add different columns to one table concurrently. Later additions
//! continue from the columns of the addition that was recorded last.

use std::sync::Arc;

use recto_cassandra::CassandraStore;
use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Slice, Table, Type};
use recto_store::{
    Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, StoreErrorKind, TableOutcome,
    WriteOptions, WriteOutcome,
};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::common::{self, Keyspace};

static KEYSPACE: Keyspace = Keyspace::new();

/// All orders of four statements, of which client `a` and client `b` send two each.
const ORDERS: [&str; 6] = ["aabb", "abab", "abba", "baab", "baba", "bbaa"];
/// Number of rounds in which two stores add columns concurrently.
const ROUNDS: usize = 4;

fn regular(name: &str) -> Column {
    common::int_column(name, ColumnKind::Regular(WriteKind::Plain))
}

fn with(table: &Table, columns: &[Column]) -> Table {
    let columns = table.columns().iter().chain(columns).cloned().collect();
    Table::new(table.name(), columns, table.options()).unwrap()
}

/// Creates a table with columns `p`, `c` and `v`, and puts a row.
async fn make(store: &CassandraStore, name: &str) -> Table {
    let columns = vec![
        common::int_column("p", ColumnKind::Partition),
        common::int_column("c", ColumnKind::Clustering(Direction::Ascending)),
        regular("v"),
    ];
    let table = Table::new(name, columns, TableOptions::default()).unwrap();
    done(store.create_table(&table).await);
    put(store, &table, 1).await;
    table
}

fn done(outcome: Result<TableOutcome, recto_store::StoreError>) {
    assert!(
        matches!(outcome, Ok(TableOutcome::Done)),
        "it ended as {outcome:?}"
    );
}

fn ints(values: impl IntoIterator<Item = Option<i32>>) -> Cells {
    let bytes: Vec<_> = values
        .into_iter()
        .map(|value| value.map(i32::to_be_bytes))
        .collect();
    bytes
        .iter()
        .map(|cell| cell.as_ref().map(|cell| &cell[..]))
        .collect()
}

/// Puts a row whose regular columns all have the value of its clustering column.
async fn put(store: &CassandraStore, table: &Table, c: i32) {
    let mutation = Mutation {
        operation: Operation::Put {
            clustering: ints([Some(c)]),
            cells: ints(table.regular().iter().map(|_| Some(c))),
            replace: true,
        },
        stamp: Some(Stamp(1)),
        ttl_seconds: None,
    };
    let write = PartitionWrite {
        table: Arc::new(table.clone()),
        partition: ints([Some(1)]),
        mutations: vec![mutation],
    };
    let outcome = store.write(write, WriteOptions::default()).await.unwrap();
    assert!(matches!(outcome, WriteOutcome::Done), "{outcome:?}");
}

/// Checks that a further column can be added to the table `recorded` and written, and that old rows
/// lack it.
async fn add_one_more(store: &CassandraStore, recorded: &Table) {
    let table = with(recorded, &[regular("more")]);
    done(store.add_columns(recorded, &table).await);
    let listed = store.list_tables().await.unwrap();
    assert!(listed.contains(&table), "{listed:?}");
    put(store, &table, 2).await;
    let slice = Slice {
        table: Arc::new(table.clone()),
        partition: ints([Some(1)]),
        from: Bound::start(),
        to: Bound::end(),
        direction: ReadDirection::Forward,
        limit: 10,
    };
    let read = store
        .snapshot()
        .unwrap()
        .slice(&slice, &ReadOptions::default())
        .await
        .unwrap();
    let rows: Vec<Cells> = read.rows.iter().map(|row| row.to_cells()).collect();
    let added = table.regular().len() - 1;
    let old = [1, 1, 1].map(Some).into_iter().chain((0..added).map(|_| None));
    let new = [1, 2]
        .into_iter()
        .chain(table.regular().iter().map(|_| 2))
        .map(Some);
    assert_eq!(rows, [ints(old), ints(new)]);
    // The table is complete again, so repeating the addition succeeds. An addition with fewer
    // columns only changes the comment, which then lists fewer columns.
    done(store.add_columns(recorded, &table).await);
}

async fn session() -> Session {
    let config = common::config(KEYSPACE.name().await);
    SessionBuilder::new()
        .known_nodes(&config.hosts)
        .build()
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_every_order_of_their_statements() {
    let (store, session) = (KEYSPACE.store().await, session().await);
    let keyspace = KEYSPACE.name().await;
    for order in ORDERS {
        let before = make(&store, &format!("order_{order}")).await;
        let [a, b] = ["a", "b"].map(|name| with(&before, &[regular(name)]));
        let statements = |table| {
            let dialect = store.dialect();
            dialect
                .add_columns_cql(keyspace, &before, table)
                .unwrap()
                .into_iter()
        };
        let (mut of_a, mut of_b) = (statements(&a), statements(&b));
        for who in order.chars() {
            let next = if who == 'a' { of_a.next() } else { of_b.next() };
            session.query_unpaged(next.unwrap(), ()).await.unwrap();
        }
        assert!(of_a.next().is_none() && of_b.next().is_none());
        add_one_more(&store, &a).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_two_stores_at_once() {
    let stores = (KEYSPACE.store().await, KEYSPACE.store().await);
    for round in 0..ROUNDS {
        let before = make(&stores.0, &format!("round_{round}")).await;
        let [a, b] = ["a", "b"].map(|name| with(&before, &[regular(name)]));
        let (one, two) = tokio::join!(
            stores.0.add_columns(&before, &a),
            stores.1.add_columns(&before, &b)
        );
        done(one);
        done(two);
        add_one_more(&stores.0, if round % 2 == 0 { &a } else { &b }).await;
    }
}

/// Checks that an addition accepts an existing column of the same name and type, and rejects a
/// column of another type. The error names the column.
#[tokio::test(flavor = "multi_thread")]
async fn of_the_same_name() {
    let store = KEYSPACE.store().await;
    let before = make(&store, "same_name").await;
    done(store.add_columns(&before, &with(&before, &[regular("b")])).await);
    let text = Column {
        ty: Type::Text,
        ..regular("b")
    };
    let error = store
        .add_columns(&before, &with(&before, &[regular("a"), text]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Table, "{error}");
    assert!(
        error.to_string().contains("another column b, of type int"),
        "{error}"
    );
    let both = with(&before, &[regular("a"), regular("b")]);
    done(store.add_columns(&before, &both).await);
    add_one_more(&store, &both).await;
}
