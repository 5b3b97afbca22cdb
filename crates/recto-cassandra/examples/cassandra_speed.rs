//! Measures a node: `cargo run -p recto-cassandra --example cassandra_speed -- 127.0.0.1:9042`.
//!
//! Loads rows one per partition and many per partition, then reads pages forward and backward. The
//! program creates its own keyspace and drops it at the end.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Environment, Slice, Table, Type};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, WriteOptions, WriteOutcome,
};

const ROWS: i32 = 50_000;
const CHUNK: usize = 2_000;
const PAGES: i32 = 1_000;
const PAGE_ROWS: u32 = 21;

fn table() -> Arc<Table> {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("p", Type::Int, ColumnKind::Partition),
        column("c", Type::Int, ColumnKind::Clustering(Direction::Ascending)),
        column("v", Type::Text, ColumnKind::Regular(WriteKind::Plain)),
    ];
    Arc::new(Table::new("measured", columns, TableOptions::default()).unwrap())
}

fn ints<const N: usize>(values: [i32; N]) -> Cells {
    let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_be_bytes()).collect();
    bytes.iter().map(|cell| Some(&cell[..])).collect()
}

fn row(table: &Arc<Table>, partition: i32, clustering: i32) -> PartitionWrite {
    PartitionWrite {
        table: Arc::clone(table),
        partition: ints([partition]),
        mutations: vec![Mutation {
            operation: Operation::Put {
                clustering: ints([clustering]),
                cells: [Some(&[b'x'; 150][..])].into_iter().collect(),
                replace: true,
            },
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
        }],
    }
}

async fn load(store: &CassandraStore, what: &str, rows: Vec<PartitionWrite>) {
    let start = Instant::now();
    let count = rows.len();
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let chunk = rows.by_ref().take(CHUNK).collect();
        let outcome = store
            .write_many(chunk, Atomicity::Each, WriteOptions::default())
            .await
            .unwrap();
        assert!(matches!(outcome, WriteOutcome::Done), "{outcome:?}");
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("{what}: {rate:.0} rows/s");
}

async fn pages(store: &CassandraStore, table: &Arc<Table>, direction: ReadDirection) {
    let snapshot = store.snapshot().unwrap();
    let mut times: Vec<Duration> = Vec::new();
    for page in 0..PAGES {
        let at = ints([page * 40]);
        let (from, to) = match direction {
            ReadDirection::Forward => (Bound::After(at), Bound::end()),
            ReadDirection::Backward => (Bound::start(), Bound::Before(at)),
        };
        let slice = Slice {
            table: Arc::clone(table),
            partition: ints([-1]),
            from,
            to,
            direction,
            limit: PAGE_ROWS,
        };
        let start = Instant::now();
        snapshot.slice(&slice, &ReadOptions::default()).await.unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    println!("{direction:?} pages: p50 {:.2} ms, p99 {:.2} ms", at(50), at(99));
}

#[tokio::main]
async fn main() {
    let host = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1".to_owned());
    let config = CassandraConfig::new([host], format!("rc_measure_{}", std::process::id()));
    create_keyspace(config.clone(), Environment::system(), None)
        .await
        .unwrap();
    let store = CassandraStore::connect(config.clone(), Environment::system())
        .await
        .unwrap();
    let table = table();
    store.create_table(&table).await.unwrap();
    let scattered = (0..ROWS).map(|index| row(&table, index, 0)).collect();
    load(&store, "one row per partition", scattered).await;
    let together = (0..ROWS).map(|index| row(&table, -1, index)).collect();
    load(&store, "one partition", together).await;
    pages(&store, &table, ReadDirection::Forward).await;
    pages(&store, &table, ReadDirection::Backward).await;
    drop_keyspace(config, Environment::system()).await.unwrap();
}
