//! Counts of partitions. Backups and compaction keep them, and checks find wrong counts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    cells, counting_table, done, key, mutation, note, numbers, open, put, runtime, table, unbounded, write,
};
use recto_embedded::{CheckReport, EmbeddedStore, ScrubPosition};
use recto_model::table::{ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Bound, Column, Table, Type};
use recto_store::{
    Mutation, Operation, PartitionCount, Stamp, Store, StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};
use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition};

const COUNTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("counts 1");
const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows 1");

async fn counts(
    store: &EmbeddedStore,
    table: &Arc<Table>,
    carriers: &[&str],
) -> Result<Vec<PartitionCount>, StoreError> {
    let partitions: Vec<_> = carriers
        .iter()
        .map(|carrier| cells([carrier.as_bytes()]))
        .collect();
    let snapshot = store.snapshot()?;
    snapshot.count_partitions(table, &partitions, &unbounded()).await
}

/// Returns the expected count of flights. Each flight counts a key and a number of 8 bytes each, a note, and 64 bytes.
fn expected(flights: impl Iterator<Item = i64>) -> PartitionCount {
    flights.fold(PartitionCount::default(), |sum, flight| PartitionCount {
        rows: sum.rows + 1,
        bytes: sum.bytes + 8 + 8 + note(flight).len() as u64 + 64,
    })
}

/// Creates and closes a store of three carriers with 40, 30 and 20 flights.
fn make(path: &Path) {
    runtime().block_on(async {
        let store = open(path).unwrap();
        let table = counting_table();
        store.create_table(&table).await.unwrap();
        for (carrier, flights) in [("AA", 40), ("BB", 30), ("CC", 20)] {
            let rows = (0..flights).map(|flight| put(flight, 1)).collect();
            done(&store, vec![write(&table, carrier, rows)]).await;
        }
        store.close().await.unwrap();
    });
}

/// Changes the file of a closed store through the engine.
fn tamper(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = redb::Database::open(path.join("data.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

/// Returns the encoded key of a carrier's partition.
fn partition(carrier: &str) -> Vec<u8> {
    [carrier.as_bytes(), &[0, 0]].concat()
}

async fn checked(store: &EmbeddedStore) -> CheckReport {
    store.check(|_| ()).await.unwrap()
}

/// Returns the problems that a check reports, each with the carrier of its partition.
fn said(report: &CheckReport) -> Vec<String> {
    let carriers = ["AA", "BB", "CC", "DD"];
    let hex = |carrier: &str| -> String {
        partition(carrier)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    let name = |key: &str| {
        carriers
            .into_iter()
            .find(|carrier| key.starts_with(&hex(carrier)))
    };
    let problems = report.problems.iter();
    problems
        .map(|problem| format!("{}: {}", name(&problem.key).unwrap_or("?"), problem.what))
        .collect()
}

#[test]
fn backups_and_compaction_count_what_they_copy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    make(&path);
    let table = counting_table();
    let carriers = ["AA", "BB", "CC", "DD"];
    runtime().block_on(async {
        let store = open(&path).unwrap();
        let deletions = (0..30).map(|flight| {
            mutation(
                Operation::DeleteRow {
                    clustering: key(flight),
                },
                2,
            )
        });
        done(&store, vec![write(&table, "BB", deletions.collect())]).await;
        let there = [0..40, 0..0, 0..20, 0..0].map(expected);
        assert_eq!(counts(&store, &table, &carriers).await.unwrap(), there);
        let backup = directory.path().join("backup");
        store.backup(&backup, |_| ()).await.unwrap();
        store.compact(|_| ()).await.unwrap();
        for store in [store, open(&backup).unwrap()] {
            assert_eq!(counts(&store, &table, &carriers).await.unwrap(), there);
            let report = checked(&store).await;
            assert!(report.is_sound(), "{report:?}");
            done(&store, vec![write(&table, "CC", vec![put(20, 1)])]).await;
            assert_eq!(counts(&store, &table, &["CC"]).await.unwrap(), [expected(0..21)]);
        }
    });
}

/// Expired rows count until a compaction removes them.
#[test]
fn compaction_counts_what_has_ended_no_longer() {
    let directory = tempfile::tempdir().unwrap();
    let table = counting_table();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table).await.unwrap();
        let ends = Mutation {
            ttl_seconds: Some(1),
            ..put(1, 1)
        };
        done(&store, vec![write(&table, "AA", vec![ends, put(2, 1)])]).await;
        tokio::time::sleep(Duration::from_millis(2_200)).await;
        assert_eq!(numbers(&store, &table, "AA").await, [2]);
        assert_eq!(counts(&store, &table, &["AA"]).await.unwrap(), [expected(1..3)]);
        assert!(checked(&store).await.is_sound());
        store.compact(|_| ()).await.unwrap();
        assert_eq!(counts(&store, &table, &["AA"]).await.unwrap(), [expected(2..3)]);
        assert!(checked(&store).await.is_sound());
    });
}

/// A check finds counts that are too high, too low or missing. The store rejects a write that shows a wrong count.
/// Compaction computes the counts again.
#[test]
fn wrong_counts_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make(path);
    let table = counting_table();
    tamper(path, |transaction| {
        let mut counts = transaction.open_table(COUNTS).unwrap();
        counts.remove(partition("BB").as_slice()).unwrap();
        let mut rows = transaction.open_table(ROWS).unwrap();
        // Remove all rows of CC, and one row of AA, without changing the counts.
        rows.retain(|key, _| !key.starts_with(b"CC\0\0")).unwrap();
        let first = rows
            .first()
            .unwrap()
            .map(|(key, _)| key.value().to_vec())
            .unwrap();
        rows.remove(first.as_slice()).unwrap();
    });
    runtime().block_on(async {
        let store = open(path).unwrap();
        let report = checked(&store).await;
        assert!(!report.is_sound());
        let (counted, found) = (expected(0..40), expected(0..39));
        let expected_problems = [
            format!(
                "AA: the count of the partition is {} rows with {} bytes, but it has {} rows with {} bytes",
                counted.rows, counted.bytes, found.rows, found.bytes
            ),
            "BB: the partition has 30 rows, but no count".to_owned(),
            "CC: the count of the partition is 20 rows, but it has none".to_owned(),
        ];
        assert_eq!(said(&report), expected_problems);
        // The rows of BB have no count, so their deletion would make the count negative.
        let all = Operation::DeleteRange {
            from: Bound::start(),
            to: Bound::end(),
        };
        let outcome = store
            .write(
                write(&table, "BB", vec![mutation(all, 2)]),
                WriteOptions::default(),
            )
            .await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        assert!(
            error
                .to_string()
                .starts_with("the count of a partition of table flights is wrong")
        );
        assert!(error.hint().unwrap().contains("compact"));
        assert_eq!(
            numbers(&store, &table, "BB").await.len(),
            30,
            "nothing was deleted"
        );
        // Other writes succeed, although the deletion failed.
        done(&store, vec![write(&table, "DD", vec![put(1, 1)])]).await;
        store.compact(|_| ()).await.unwrap();
        assert!(checked(&store).await.is_sound());
        let there = [0..39, 0..30, 0..0, 1..2].map(expected);
        assert_eq!(
            counts(&store, &table, &["AA", "BB", "CC", "DD"]).await.unwrap(),
            there
        );
    });
}

/// A read of a damaged count is an error. The check and the scrub find the damage, and the next write computes the
/// count again.
#[test]
fn damaged_counts_are_told_and_counted_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make(path);
    let table = counting_table();
    tamper(path, |transaction| {
        let mut counts = transaction.open_table(COUNTS).unwrap();
        let stored = counts.get(partition("BB").as_slice()).unwrap().unwrap();
        let mut value = stored.value().to_vec();
        drop(stored);
        value[20] ^= 1;
        counts
            .insert(partition("BB").as_slice(), value.as_slice())
            .unwrap();
    });
    runtime().block_on(async {
        let store = open(path).unwrap();
        let error = counts(&store, &table, &["BB"]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        assert!(
            error
                .to_string()
                .starts_with("a count of table flights is damaged"),
            "{error}"
        );
        let report = checked(&store).await;
        assert_eq!(report.problem_count, 1, "{report:?}");
        assert!(said(&report)[0].starts_with("BB: a count of table flights is damaged"));
        let (_, step) = store
            .scrub_step(ScrubPosition::default(), u64::MAX)
            .await
            .unwrap();
        assert!(
            step.problems[0].starts_with("a count of table flights is damaged"),
            "{step:?}"
        );
        done(&store, vec![write(&table, "BB", vec![put(30, 1)])]).await;
        assert_eq!(counts(&store, &table, &["BB"]).await.unwrap(), [expected(0..31)]);
        assert!(checked(&store).await.is_sound());
    });
}

/// The share of a damaged row in a count is unknown. Therefore a write that replaces or deletes the row makes the store
/// count the partition again.
#[test]
fn counts_hold_when_damaged_rows_are_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make(path);
    let table = counting_table();
    tamper(path, |transaction| {
        let mut rows = transaction.open_table(ROWS).unwrap();
        let keys: Vec<Vec<u8>> = rows
            .range::<&[u8]>(partition("BB").as_slice()..partition("CC").as_slice())
            .unwrap()
            .map(|entry| entry.unwrap().0.value().to_vec())
            .collect();
        // Damage flights 29 and 28, which come first because the order is descending.
        for key in &keys[..2] {
            let mut value = rows.get(key.as_slice()).unwrap().unwrap().value().to_vec();
            value[15] ^= 1;
            rows.insert(key.as_slice(), value.as_slice()).unwrap();
        }
    });
    runtime().block_on(async {
        let store = open(path).unwrap();
        let report = checked(&store).await;
        assert_eq!(
            report.problem_count, 2,
            "counts agree as far as can be known: {report:?}"
        );
        done(&store, vec![write(&table, "BB", vec![put(29, 2)])]).await;
        let all_but_28 = expected((0..30).filter(|flight| *flight != 28));
        assert_eq!(counts(&store, &table, &["BB"]).await.unwrap(), [all_but_28]);
        assert_eq!(checked(&store).await.problem_count, 1);
        let deletion = mutation(Operation::DeleteRow { clustering: key(28) }, 2);
        done(&store, vec![write(&table, "BB", vec![deletion])]).await;
        assert_eq!(counts(&store, &table, &["BB"]).await.unwrap(), [all_but_28]);
        let report = checked(&store).await;
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(numbers(&store, &table, "BB").await.len(), 29);
    });
}

/// A group of requests is one transaction. The store adds up the changes of all successful requests to the count of a
/// partition.
#[test]
fn counts_of_writers_side_by_side_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let table = counting_table();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table).await.unwrap();
        let mut writers = Vec::new();
        for writer in 0..16_i64 {
            let (store, table) = (Arc::clone(&store), Arc::clone(&table));
            writers.push(tokio::spawn(async move {
                for number in 0..40 {
                    let flight = writer * 40 + number;
                    let insert = |flight: i64| Mutation {
                        operation: Operation::Put {
                            clustering: key(flight),
                            cells: cells([&flight.to_be_bytes(), note(flight).as_bytes()]),
                            replace: false,
                        },
                        stamp: Some(Stamp(1)),
                        ttl_seconds: None,
                    };
                    // Every second request has a conflict after a valid insert, so the request must
                    // undo the insert.
                    let mut mutations = vec![insert(flight)];
                    if number % 2 == 1 {
                        let Operation::Put { cells: other, .. } = insert(flight + 1).operation else {
                            unreachable!()
                        };
                        mutations.push(Mutation {
                            operation: Operation::Put {
                                clustering: key(flight - 1),
                                cells: other,
                                replace: false,
                            },
                            ..insert(flight)
                        });
                    }
                    let outcome = store
                        .write(write(&table, "AA", mutations), WriteOptions::default())
                        .await
                        .unwrap();
                    assert_eq!(matches!(outcome, WriteOutcome::Conflict(_)), number % 2 == 1);
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let even = expected((0..640).filter(|flight| flight % 2 == 0));
        assert_eq!(counts(&store, &table, &["AA"]).await.unwrap(), [even]);
        assert!(checked(&store).await.is_sound());
    });
}

/// A table without counts has no counts in the file.
#[test]
fn other_tables_are_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table()).await.unwrap();
        done(&store, vec![write(&table(), "AA", vec![put(1, 1)])]).await;
        store.close().await.unwrap();
    });
    let database = redb::Database::open(directory.path().join("data.redb")).unwrap();
    let transaction = database.begin_read().unwrap();
    assert!(transaction.open_table(ROWS).is_ok());
    assert!(transaction.open_table(COUNTS).is_err());
}

/// Rows are counted by the cells that their keys encode, both when they are written and when they are removed. These
/// cells may be shorter than the given cells.
#[test]
fn counts_rows_by_their_encoded_keys() {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let ascending = ColumnKind::Clustering(Direction::Ascending);
    let columns = vec![
        column("carrier", Type::Text, ColumnKind::Partition),
        column("price", Type::Decimal, ascending),
        column("number", Type::Varint, ascending),
        column("note", Type::Text, ColumnKind::Regular(WriteKind::Plain)),
    ];
    let options = TableOptions {
        counts_partitions: true,
        ..TableOptions::default()
    };
    let table = Arc::new(Table::new("prices", columns, options).unwrap());
    // The key is 5.00 and 7, encoded with redundant digits.
    let row = || cells([&[0_u8, 0, 0, 2, 1, 0xF4][..], &[0, 0, 7][..]]);
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(&directory.path().join("store")).unwrap();
        store.create_table(&table).await.unwrap();
        let put = Operation::Put {
            clustering: row(),
            cells: cells(["note".as_bytes()]),
            replace: true,
        };
        done(&store, vec![write(&table, "AA", vec![mutation(put, 1)])]).await;
        let there = counts(&store, &table, &["AA"]).await.unwrap();
        assert_eq!(there[0].rows, 1);
        assert!(there[0].bytes < 64 + 9 + 4, "as the key says: {there:?}");
        let report = checked(&store).await;
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let delete = Operation::DeleteRow { clustering: row() };
        done(&store, vec![write(&table, "AA", vec![mutation(delete, 2)])]).await;
        assert_eq!(
            counts(&store, &table, &["AA"]).await.unwrap(),
            [PartitionCount::default()]
        );
        store.close().await.unwrap();
    });
}
