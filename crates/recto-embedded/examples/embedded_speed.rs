//! Measures the store: bulk loading, slices, commits, reopening after a crash.
//!
//! ```text
//! cargo run --release -p recto-embedded --example embedded_speed -- [rows] [directory] [counting]
//! ```
//!
//! The argument `counting` makes the table count the rows of its partitions.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_possible_wrap)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Environment, Slice, Table, Type};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, WriteOptions, WriteOutcome,
};

/// Argument that makes the table count the rows of its partitions.
const COUNTING: &str = "counting";
const PARTITIONS: u64 = 100;
const PAGE_ROWS: u32 = 21;
const CHUNK_ROWS: u64 = 50_000;
/// Number of slices of one measured round. Rounds are short, so that other processes do not disturb all of
/// them.
const SLICES_PER_ROUND: usize = 2_000;
const ROUNDS: usize = 101;

fn table(counts_rows: bool) -> Arc<Table> {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let regular = |name, ty| column(name, ty, ColumnKind::Regular(WriteKind::Plain));
    let columns = vec![
        column("carrier", Type::Text, ColumnKind::Partition),
        column(
            "departed",
            Type::Timestamp,
            ColumnKind::Clustering(Direction::Descending),
        ),
        column("id", Type::BigInt, ColumnKind::Clustering(Direction::Ascending)),
        regular("origin", Type::Text),
        regular("destination", Type::Text),
        regular("tail", Type::Text),
        regular("delay", Type::Int),
        regular("distance", Type::Int),
        regular("note", Type::Text),
        regular("cancelled", Type::Boolean),
    ];
    let options = TableOptions {
        counts_rows,
        ..TableOptions::default()
    };
    Arc::new(Table::new("flights", columns, options).unwrap())
}

fn cells<const N: usize>(cells: [&[u8]; N]) -> Cells {
    cells.into_iter().map(Some).collect()
}

fn carrier(number: u64) -> Cells {
    cells([format!("C{number:03}").as_bytes()])
}

fn put(departed: u64, id: u64, stamp: i64) -> Mutation {
    let note = format!("on time, gate {}", id % 97);
    let row = cells([
        b"JFK",
        b"LAX",
        b"N12345",
        &(id as i32).to_be_bytes(),
        &2475_i32.to_be_bytes(),
        note.as_bytes(),
        &[0],
    ]);
    Mutation {
        operation: Operation::Put {
            clustering: cells([&(departed as i64).to_be_bytes(), &(id as i64).to_be_bytes()]),
            cells: row,
            replace: true,
        },
        stamp: Some(Stamp(stamp)),
        ttl_seconds: None,
    }
}

async fn load(store: &EmbeddedStore, table: &Arc<Table>, rows: u64) {
    let per_partition = rows / PARTITIONS;
    let begin = Instant::now();
    let mut chunk = Vec::new();
    let mut pending = 0;
    let mut calling = std::time::Duration::ZERO;
    for partition in 0..PARTITIONS {
        let mut row = per_partition;
        while row > 0 {
            let take = row.min(CHUNK_ROWS - pending);
            let mutations = (row - take..row)
                .rev()
                .map(|row| put(row * 60_000, row, 1))
                .collect();
            chunk.push(PartitionWrite {
                table: Arc::clone(table),
                partition: carrier(partition),
                mutations,
            });
            row -= take;
            pending += take;
            let last = partition == PARTITIONS - 1 && row == 0;
            if pending == CHUNK_ROWS || last {
                let options = WriteOptions {
                    relaxed: !last,
                    ..WriteOptions::default()
                };
                let call = Instant::now();
                let outcome = store
                    .write_many(std::mem::take(&mut chunk), Atomicity::Each, options)
                    .await;
                assert!(matches!(outcome.unwrap(), WriteOutcome::Done));
                calling += call.elapsed();
                pending = 0;
            }
        }
    }
    println!(
        "load: {rows} rows in {:.2?} of {:.2?}, {:.0} rows/s",
        calling,
        begin.elapsed(),
        rows as f64 / calling.as_secs_f64()
    );
}

fn pages(store: &EmbeddedStore, table: &Arc<Table>, rows: u64, direction: ReadDirection) {
    let per_partition = rows / PARTITIONS;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut slices = Vec::new();
    for _ in 0..SLICES_PER_ROUND {
        let edge = cells([&((next() % per_partition * 60_000) as i64).to_be_bytes()]);
        let (from, to) = match direction {
            ReadDirection::Forward => (Bound::After(edge), Bound::end()),
            ReadDirection::Backward => (Bound::start(), Bound::Before(edge)),
        };
        slices.push(Slice {
            table: Arc::clone(table),
            partition: carrier(next() % PARTITIONS),
            from,
            to,
            direction,
            limit: PAGE_ROWS,
        });
    }
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            for slice in &slices {
                let snapshot = store.snapshot().unwrap();
                let rows = snapshot
                    .slice_now(slice, &ReadOptions::default())
                    .unwrap()
                    .unwrap();
                black_box(&rows);
            }
            begin.elapsed().as_secs_f64() * 1e6 / SLICES_PER_ROUND as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "slice {direction:?}: {:.2} µs at best, {:.2} µs in the median of {ROUNDS} rounds",
        times[0],
        times[ROUNDS / 2]
    );
}

async fn commits(store: &Arc<EmbeddedStore>, table: &Arc<Table>, writers: u64, each: u64) {
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let (store, table) = (Arc::clone(store), Arc::clone(table));
        tasks.push(tokio::spawn(async move {
            for number in 0..each {
                let write = PartitionWrite {
                    table: Arc::clone(&table),
                    partition: carrier(writer % PARTITIONS),
                    mutations: vec![put(
                        number * 60_000 + 1,
                        number * 1_000 + writer,
                        2 + number as i64,
                    )],
                };
                let outcome = store.write(write, WriteOptions::default()).await.unwrap();
                assert!(matches!(outcome, WriteOutcome::Done));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let took = begin.elapsed().as_secs_f64();
    println!(
        "commits: {writers} writers, {:.0} writes/s, {:.3} ms each",
        (writers * each) as f64 / took,
        took * 1e3 / each as f64
    );
}

/// Measures how long the store takes to open after a process that writes to it was killed.
fn crash(directory: &Path, is_counting: bool) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["0", directory.to_str().unwrap(), "write"])
        .args(is_counting.then_some(COUNTING))
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    child.kill().unwrap();
    child.wait().unwrap();
    let begin = Instant::now();
    drop(EmbeddedStore::open(directory, EmbeddedOptions::default(), Environment::system()).unwrap());
    println!("reopening after a crash (and closing): {:.2?}", begin.elapsed());
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rows: u64 = arguments.get(1).map_or(300_000, |rows| rows.parse().unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let directory = arguments
        .get(2)
        .map_or_else(|| temporary.path().join("store"), Into::into);
    let begin = Instant::now();
    let store = EmbeddedStore::open(&directory, EmbeddedOptions::default(), Environment::system()).unwrap();
    println!("open: {:.2?}", begin.elapsed());
    let is_counting = arguments.iter().any(|what| what == COUNTING);
    let table = table(is_counting);
    store.create_table(&table).await.unwrap();
    if arguments.get(3).is_some_and(|what| what == "write") {
        commits(&store, &table, 4, u64::MAX / 8).await;
        return;
    }
    load(&store, &table, rows).await;
    let bytes = std::fs::metadata(directory.join("data.redb")).unwrap().len();
    println!("file: {} MiB, {} bytes a row", bytes >> 20, bytes / rows);
    pages(&store, &table, rows, ReadDirection::Forward);
    pages(&store, &table, rows, ReadDirection::Backward);
    commits(&store, &table, 1, 500).await;
    commits(&store, &table, 64, 100).await;
    drop(store);
    crash(&directory, is_counting);
}
