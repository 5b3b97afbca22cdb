//! Checks that a store opens after its process was killed during commits, and that all data that the process
//! acknowledged is present and complete.
//!
//! Each run kills the process at different moments. A failed run prints its seed, and `RECTO_TEST_SEED=…`
//! repeats it. `RECTO_TEST_SCALE=20` kills twenty times as often, for a long run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::support::disk::{Random, scale, seed};
use crate::support::{done, numbers, open, put, runtime, table, write};
use recto_embedded::EmbeddedStore;
use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Column, Table, Type};
use recto_store::{
    Atomicity, Cas, CasCondition, Mutation, Operation, PointRead, ReadOptions, RowAddress, Store,
    TransactionOutcome, WriteOptions,
};

/// Environment variable with the directory of the child's store.
const DIRECTORY: &str = "RECTO_TEST_CRASH_DIRECTORY";
const WRITERS: i64 = 8;
/// Number of times that a normal run kills the child process.
const KILLS: u64 = 12;

/// Returns the table `turns`. It has one row for each writer, with the number of the newest pair that the
/// writer wrote in a transaction.
fn turns() -> Table {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("writer", Type::BigInt, ColumnKind::Partition),
        column("number", Type::BigInt, ColumnKind::Regular(WriteKind::Cas)),
    ];
    Table::new("turns", columns, TableOptions::default()).unwrap()
}

fn cell(number: i64) -> Cells {
    std::iter::once(Some(&number.to_be_bytes()[..])).collect()
}

/// Returns a conditional write that changes the number in a writer's row of `turns` from `before` to
/// `number`.
fn turn(writer: i64, before: Option<i64>, number: i64) -> Cas {
    Cas {
        table: Arc::new(turns()),
        partition: cell(writer),
        conditions: vec![CasCondition {
            row: RowAddress::Row(Cells::new()),
            column: 0,
            expected: before.map(|number| number.to_be_bytes().to_vec()),
        }],
        mutations: vec![Mutation {
            operation: Operation::Patch {
                clustering: Cells::new(),
                columns: vec![0],
                cells: cell(number),
            },
            stamp: None,
            ttl_seconds: None,
        }],
    }
}

/// Returns the number in a writer's row of the table `turns`; `None` if there is no row.
async fn turn_of(store: &Arc<EmbeddedStore>, writer: i64) -> Option<i64> {
    let read = PointRead {
        table: Arc::new(turns()),
        partition: cell(writer),
        clustering: Cells::new(),
    };
    let read = store
        .snapshot()
        .unwrap()
        .get(&read, &ReadOptions::default())
        .await;
    let rows = read.unwrap().rows;
    let number = rows.iter().next()?.get(1).unwrap().try_into().unwrap();
    Some(i64::from_be_bytes(number))
}

/// Process that is killed: writes pairs of rows in two partitions, from several tasks, and prints the
/// acknowledged pairs. One of three writes is relaxed. It may be lost, so it is not printed. Another one is a
/// transaction, which also changes the writer's row of `turns`.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    runtime().block_on(async {
        let store = open(Path::new(&directory)).unwrap();
        store.create_table(&table()).await.unwrap();
        store.create_table(&turns()).await.unwrap();
        let first = numbers(&store, &table(), "AA")
            .await
            .last()
            .map_or(0, |last| last / WRITERS + 1);
        let tasks: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut before = turn_of(&store, writer).await;
                    for round in first.. {
                        let number = round * WRITERS + writer;
                        let writes =
                            ["AA", "BB"].map(|carrier| write(&table(), carrier, vec![put(number, 1)]));
                        if round % 3 == 0 {
                            let options = WriteOptions {
                                relaxed: true,
                                ..WriteOptions::default()
                            };
                            let _ = store
                                .write_many(writes.to_vec(), Atomicity::Logged, options)
                                .await;
                            continue;
                        }
                        if round % 3 == 1 {
                            let turn = vec![turn(writer, before, number)];
                            let options = WriteOptions::default();
                            let outcome = store.transact(turn, writes.to_vec(), options).await;
                            assert!(matches!(outcome, Ok(TransactionOutcome::Applied)), "{outcome:?}");
                            before = Some(number);
                        } else {
                            done(&store, writes.to_vec()).await;
                        }
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "acknowledged {number}").unwrap();
                        out.flush().unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Runs the child process for the duration `after`, and kills it. Returns the pairs that the child
/// acknowledged.
fn crash(directory: &Path, after: Duration) -> BTreeSet<i64> {
    // Remove the name of this program from the module path, because the test harness does not
    // expect it.
    let (_, child) = concat!(module_path!(), "::child").split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| Some(line.split_once("acknowledged ")?.1.parse().unwrap()))
            .collect()
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut acknowledged = BTreeSet::new();
    let mut random = Random::new(seed());
    for round in 0..KILLS * scale() {
        let more = crash(&path, Duration::from_millis(30 + random.below(370)));
        acknowledged.extend(more);
        runtime().block_on(async {
            let store = open(&path).unwrap();
            let tables = store.list_tables().await.unwrap();
            // The kill may have come before the child created the tables.
            if !tables.contains(&table()) {
                assert!(acknowledged.is_empty(), "round {round} lost a table");
                return;
            }
            let found: BTreeSet<i64> = numbers(&store, &table(), "AA").await.into_iter().collect();
            let lost: Vec<_> = acknowledged.difference(&found).collect();
            assert!(lost.is_empty(), "round {round} lost {lost:?}");
            let other: BTreeSet<i64> = numbers(&store, &table(), "BB").await.into_iter().collect();
            assert_eq!(found, other, "round {round} tore a write");
            for writer in 0..WRITERS {
                let of_writer = |number: &&i64| *number % WRITERS == writer && *number / WRITERS % 3 == 1;
                let newest = found.iter().rfind(of_writer).copied();
                let turn = if tables.contains(&turns()) {
                    turn_of(&store, writer).await
                } else {
                    None
                };
                assert_eq!(turn, newest, "round {round} tore a transaction");
            }
            let report = store.check(|_| ()).await.unwrap();
            assert!(report.is_sound(), "round {round}: {report:?}");
        });
    }
    assert!(acknowledged.len() > 50, "the child wrote {}", acknowledged.len());
}
