//! Table of flights, and functions to write and read it.
#![allow(dead_code)] // each test module uses only some helpers

pub(crate) mod disk;

use std::path::Path;
use std::sync::Arc;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Environment, Slice, Table, Type};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, ReadOptions, RowsRead, ScanPosition, Stamp, Store,
    StoreError, WriteOptions, WriteOutcome,
};

pub(crate) fn open(path: &Path) -> Result<Arc<EmbeddedStore>, StoreError> {
    EmbeddedStore::open(path, EmbeddedOptions::default(), Environment::system())
}

pub(crate) fn read_only() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.read_only = true;
    options
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Returns the table of flights, whose rows are counted by block.
pub(crate) fn table() -> Arc<Table> {
    table_with(TableOptions {
        counts_rows: true,
        ..TableOptions::default()
    })
}

fn table_with(options: TableOptions) -> Arc<Table> {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("carrier", Type::Text, ColumnKind::Partition),
        column(
            "flight",
            Type::BigInt,
            ColumnKind::Clustering(Direction::Descending),
        ),
        column("name", Type::Text, ColumnKind::Static(WriteKind::Plain)),
        column("number", Type::BigInt, ColumnKind::Regular(WriteKind::Plain)),
        column("note", Type::Text, ColumnKind::Regular(WriteKind::Plain)),
    ];
    Arc::new(Table::new("flights", columns, options).unwrap())
}

pub(crate) fn cells<const N: usize>(cells: [&[u8]; N]) -> Cells {
    cells.into_iter().map(Some).collect()
}

pub(crate) fn key(number: i64) -> Cells {
    cells([&number.to_be_bytes()])
}

pub(crate) fn note(number: i64) -> String {
    format!(
        "flight {number} {}",
        "x".repeat((number.unsigned_abs() % 60) as usize)
    )
}

pub(crate) fn put(number: i64, stamp: i64) -> Mutation {
    mutation(
        Operation::Put {
            clustering: key(number),
            cells: cells([&number.to_be_bytes(), note(number).as_bytes()]),
            replace: true,
        },
        stamp,
    )
}

pub(crate) fn mutation(operation: Operation, stamp: i64) -> Mutation {
    Mutation {
        operation,
        stamp: Some(Stamp(stamp)),
        ttl_seconds: None,
    }
}

pub(crate) fn write(table: &Arc<Table>, carrier: &str, mutations: Vec<Mutation>) -> PartitionWrite {
    PartitionWrite {
        table: Arc::clone(table),
        partition: cells([carrier.as_bytes()]),
        mutations,
    }
}

pub(crate) async fn done(store: &EmbeddedStore, writes: Vec<PartitionWrite>) {
    let outcome = store
        .write_many(writes, Atomicity::Logged, WriteOptions::default())
        .await;
    assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
}

/// Writes rows with the given numbers for carrier AA.
pub(crate) async fn fill(store: &EmbeddedStore, table: &Arc<Table>, numbers: std::ops::Range<i64>) {
    for chunk in numbers.collect::<Vec<_>>().chunks(10_000) {
        let mutations = chunk.iter().map(|number| put(*number, 1)).collect();
        done(store, vec![write(table, "AA", mutations)]).await;
    }
}

pub(crate) fn all(table: &Arc<Table>, carrier: &str, direction: ReadDirection) -> Slice {
    Slice {
        table: Arc::clone(table),
        partition: cells([carrier.as_bytes()]),
        from: Bound::start(),
        to: Bound::end(),
        direction,
        limit: 10_000_000,
    }
}

pub(crate) fn unbounded() -> ReadOptions {
    ReadOptions {
        max_bytes: u64::MAX,
        timeout: std::time::Duration::from_secs(60),
        ..ReadOptions::default()
    }
}

pub(crate) async fn read(
    store: &EmbeddedStore,
    table: &Arc<Table>,
    carrier: &str,
) -> Result<RowsRead, StoreError> {
    let slice = all(table, carrier, ReadDirection::Backward);
    store.snapshot()?.slice(&slice, &unbounded()).await
}

/// Returns the numbers of a carrier's rows in ascending order. Checks all cells of each row.
pub(crate) async fn numbers(store: &EmbeddedStore, table: &Arc<Table>, carrier: &str) -> Vec<i64> {
    let read = read(store, table, carrier).await.unwrap();
    let number = |cell: &[u8]| i64::from_be_bytes(cell.try_into().unwrap());
    read.rows
        .iter()
        .map(|row| {
            assert_eq!(row.get(0), Some(carrier.as_bytes()));
            let found = number(row.get(1).unwrap());
            assert_eq!(number(row.get(3).unwrap()), found);
            assert_eq!(row.get(4), Some(note(found).as_bytes()));
            found
        })
        .collect()
}

/// Returns the number of rows that a scan of the whole table returns.
pub(crate) async fn scanned(store: &EmbeddedStore, table: &Arc<Table>) -> Result<usize, StoreError> {
    let snapshot = store.snapshot()?;
    let mut count = 0;
    for range in snapshot.token_ranges(table, 4).await? {
        let mut after: Option<ScanPosition> = None;
        loop {
            let read = snapshot
                .scan(table, &range, after.as_ref(), 5_000, &unbounded())
                .await?;
            count += read.rows.len();
            match read.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(count)
}
