//! Tests of row counts by block: they are exact after any writes, damage and copies.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use recto_embedded::{EmbeddedOptions, EmbeddedStore, ScrubPosition};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Environment, Slice, Table};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, Store, StoreError, StoreErrorKind, WriteOptions,
    WriteOutcome,
};
use redb::{ReadableTable as _, TableDefinition, TableHandle as _};

use crate::support::{
    all, cells, done, fill, key, mutation, note, numbers, open, put, runtime, table, unbounded, write,
};

/// Definition of one of the engine's tables.
type EngineTable = TableDefinition<'static, &'static [u8], &'static [u8]>;

const BLOCKS: EngineTable = TableDefinition::new("blocks 1");
const SUMS: EngineTable = TableDefinition::new("sums 1");
/// Start of a day in 2026, in microseconds since 1970.
const START_MICROS: i64 = 1_767_225_600_000_000;

async fn count(store: &EmbeddedStore, slice: &Slice) -> Result<u64, StoreError> {
    let found = store.snapshot()?.estimate(slice, &unbounded()).await?;
    assert_eq!(found.variance, 0);
    Ok(found.rows)
}

/// Returns the number (the clustering key) of the row that has `rank` rows before it in the slice.
async fn row_at(store: &EmbeddedStore, slice: &Slice, rank: u64) -> Option<i64> {
    let snapshot = store.snapshot().unwrap();
    let found = snapshot.row_at(slice, rank, &unbounded()).await.unwrap()?;
    found
        .get(0)
        .map(|cell| i64::from_be_bytes(cell.try_into().unwrap()))
}

/// Returns the slice of the rows whose numbers are from `least` to `most`, both included. The table's order
/// is descending.
fn between(table: &Arc<Table>, carrier: &str, least: i64, most: i64) -> Slice {
    Slice {
        from: Bound::Before(key(most)),
        to: Bound::After(key(least)),
        ..all(table, carrier, ReadDirection::Forward)
    }
}

async fn assert_sound(store: &EmbeddedStore) {
    let report = store.check(|_| ()).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// Random change of the rows of one carrier or, for `PutMany`, of many partitions.
#[derive(Debug, Clone)]
enum Step {
    Put {
        carrier: usize,
        start: i64,
        rows: i64,
        stamp: i64,
    },
    Delete {
        carrier: usize,
        start: i64,
        rows: i64,
        stamp: i64,
    },
    DeleteRange {
        carrier: usize,
        start: i64,
        rows: i64,
        stamp: i64,
    },
    DeletePartition {
        carrier: usize,
        stamp: i64,
    },
    /// Patches rows with the values that they already have, and creates missing rows.
    Patch {
        carrier: usize,
        start: i64,
        rows: i64,
        stamp: i64,
    },
    /// Puts one row into each of many partitions.
    PutMany {
        start: i64,
        partitions: i64,
    },
}

/// Number of carriers that have many rows.
const CARRIERS: usize = 3;

fn carrier(index: usize) -> String {
    format!("C{index}")
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = (0..CARRIERS, 0..6_000_i64, 1..3_000_i64, 1..9_i64);
    prop_oneof![
        4 => numbers.clone().prop_map(|(carrier, start, rows, stamp)| Step::Put { carrier, start, rows, stamp }),
        2 => numbers.clone().prop_map(|(carrier, start, rows, stamp)| Step::Delete { carrier, start, rows, stamp }),
        2 => numbers.prop_map(|(carrier, start, rows, stamp)| Step::DeleteRange { carrier, start, rows, stamp }),
        1 => (0..CARRIERS, 0..6_000_i64, 1..1_000_i64, 1..9_i64)
            .prop_map(|(carrier, start, rows, stamp)| Step::Patch { carrier, start, rows, stamp }),
        1 => (0..CARRIERS, 1..9_i64).prop_map(|(carrier, stamp)| Step::DeletePartition { carrier, stamp }),
        1 => (0..5_000_i64, 1..2_500_i64).prop_map(|(start, partitions)| Step::PutMany { start, partitions }),
    ]
}

fn writes_of(table: &Arc<Table>, step: &Step) -> Vec<PartitionWrite> {
    let of = |index: usize, mutations: Vec<Mutation>| vec![write(table, &carrier(index), mutations)];
    match *step {
        Step::Put {
            carrier,
            start,
            rows,
            stamp,
        } => of(
            carrier,
            (start..start + rows).map(|number| put(number, stamp)).collect(),
        ),
        Step::Delete {
            carrier,
            start,
            rows,
            stamp,
        } => {
            let delete = |number| {
                let clustering = key(number);
                mutation(Operation::DeleteRow { clustering }, stamp)
            };
            of(carrier, (start..start + rows).map(delete).collect())
        }
        Step::DeleteRange {
            carrier,
            start,
            rows,
            stamp,
        } => {
            let range = Operation::DeleteRange {
                from: Bound::Before(key(start + rows - 1)),
                to: Bound::After(key(start)),
            };
            of(carrier, vec![mutation(range, stamp)])
        }
        Step::Patch {
            carrier,
            start,
            rows,
            stamp,
        } => {
            let patch = |number: i64| {
                let operation = Operation::Patch {
                    clustering: key(number),
                    columns: vec![0, 1],
                    cells: cells([&number.to_be_bytes(), note(number).as_bytes()]),
                };
                mutation(operation, stamp)
            };
            of(carrier, (start..start + rows).map(patch).collect())
        }
        Step::DeletePartition { carrier, stamp } => {
            of(carrier, vec![mutation(Operation::DeletePartition, stamp)])
        }
        Step::PutMany { start, partitions } => {
            let one = |number: i64| write(table, &format!("M{number}"), vec![put(number, 1)]);
            (start..start + partitions).map(one).collect()
        }
    }
}

async fn assert_exact(store: &EmbeddedStore, table: &Arc<Table>, (least, most, rank): (i64, i64, u64)) {
    assert_sound(store).await;
    for index in 0..CARRIERS {
        let name = carrier(index);
        let rows = numbers(store, table, &name).await;
        let whole = all(table, &name, ReadDirection::Forward);
        assert_eq!(count(store, &whole).await.unwrap(), rows.len() as u64);
        let (least, most) = (least.min(most), least.max(most));
        let inside = rows
            .iter()
            .filter(|number| (least..=most).contains(number))
            .count();
        let part = between(table, &name, least, most);
        assert_eq!(
            count(store, &part).await.unwrap(),
            inside as u64,
            "{least} to {most}"
        );
        // The table's order is descending, so the first row of a forward slice has the largest
        // number.
        let at = usize::try_from(rank).unwrap();
        assert_eq!(
            row_at(store, &whole, rank).await,
            rows.iter().rev().nth(at).copied()
        );
        let backward = all(table, &name, ReadDirection::Backward);
        assert_eq!(row_at(store, &backward, rank).await, rows.get(at).copied());
    }
    let one = all(table, "M2000", ReadDirection::Forward);
    assert!(count(store, &one).await.unwrap() <= 1);
}

#[test]
fn count_exactly_after_any_writes() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(12));
    // Each request has some steps, which take effect in the order of their timestamps.
    let request = proptest::collection::vec(step(), 1..4);
    let asked = (0..9_000_i64, 0..9_000_i64, 0..4_000_u64);
    let steps = proptest::collection::vec((request, asked), 1..12);
    let outcome = runner.run(&steps, |steps| {
        let folder = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            let store = open(&folder.path().join("store")).unwrap();
            let table = table();
            store.create_table(&table).await.unwrap();
            for (request, asked) in &steps {
                let writes = request.iter().flat_map(|step| writes_of(&table, step));
                done(&store, writes.collect()).await;
                assert_exact(&store, &table, *asked).await;
            }
            store.close().await.unwrap();
        });
        Ok(())
    });
    outcome.unwrap();
}

/// Opens the store at `path`, `seconds` after the start of the test.
fn open_at(path: &Path, seconds: i64) -> Arc<EmbeddedStore> {
    let environment = Environment::seeded(1, START_MICROS + seconds * 1_000_000);
    EmbeddedStore::open(path, EmbeddedOptions::default(), environment).unwrap()
}

/// Row counts stay exact if a request is undone because of a conflict, and if an insert replaces an expired
/// row.
#[test]
fn count_exactly_after_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let table = table();
    let whole = all(&table, "AA", ReadDirection::Forward);
    let insert = |number: i64, stamp, ttl_seconds| Mutation {
        ttl_seconds,
        ..mutation(
            Operation::Put {
                clustering: key(number),
                cells: cells([&number.to_be_bytes(), note(number).as_bytes()]),
                replace: false,
            },
            stamp,
        )
    };
    let other = |number: i64| {
        let operation = Operation::Put {
            clustering: key(number),
            cells: cells([&number.to_be_bytes(), b"another note"]),
            replace: false,
        };
        mutation(operation, 6)
    };
    runtime().block_on(async {
        let store = open_at(&path, 0);
        store.create_table(&table).await.unwrap();
        let rows = (0..1_500).map(|number| insert(number, 5, (number >= 1_400).then_some(100)));
        done(&store, vec![write(&table, "AA", rows.collect())]).await;
        let mutations = (1_500..3_000)
            .map(|number| insert(number, 5, None))
            .chain([other(700)]);
        let writes = vec![write(&table, "AA", mutations.collect())];
        let outcome = store
            .write_many(writes, Atomicity::Logged, WriteOptions::default())
            .await;
        assert!(matches!(outcome, Ok(WriteOutcome::Conflict(_))), "{outcome:?}");
        assert_eq!(count(&store, &whole).await.unwrap(), 1_500);
        assert_sound(&store).await;
        store.close().await.unwrap();
        let store = open_at(&path, 1_000);
        assert_eq!(count(&store, &whole).await.unwrap(), 1_400);
        done(&store, vec![write(&table, "AA", vec![insert(1_450, 7, None)])]).await;
        assert_eq!(count(&store, &whole).await.unwrap(), 1_401);
        assert_sound(&store).await;
        store.close().await.unwrap();
    });
}

/// Row counts stay exact if the first of several waiting requests creates the sums.
#[test]
fn count_exactly_if_requests_wait_while_sums_are_created() {
    const REQUESTS: i64 = 40;
    const ROWS: i64 = 500;
    let folder = tempfile::tempdir().unwrap();
    let table = table();
    runtime().block_on(async {
        let store = open(&folder.path().join("store")).unwrap();
        store.create_table(&table).await.unwrap();
        let mut writes = tokio::task::JoinSet::new();
        for request in 0..REQUESTS {
            let (store, table) = (Arc::clone(&store), Arc::clone(&table));
            writes.spawn(async move {
                let rows = (request * ROWS..(request + 1) * ROWS).map(|number| put(number, 1));
                done(&store, vec![write(&table, "AA", rows.collect())]).await;
            });
        }
        writes.join_all().await;
        let whole = all(&table, "AA", ReadDirection::Forward);
        assert_eq!(count(&store, &whole).await.unwrap(), (REQUESTS * ROWS) as u64);
        assert_sound(&store).await;
        store.close().await.unwrap();
    });
}

#[test]
fn stay_small_and_few() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let table = table();
    runtime().block_on(async {
        let store = open(&path).unwrap();
        store.create_table(&table).await.unwrap();
        fill(&store, &table, 0..30_000).await;
        store.close().await.unwrap();
    });
    let rows: Vec<u64> = entries(&path);
    assert!((15..=60).contains(&rows.len()), "{rows:?}");
    assert_eq!(rows.iter().sum::<u64>(), 30_000);
    runtime().block_on(async {
        let store = open(&path).unwrap();
        let delete = |number| {
            mutation(
                Operation::DeleteRow {
                    clustering: key(number),
                },
                2,
            )
        };
        done(
            &store,
            vec![write(&table, "AA", (100..30_000).map(delete).collect())],
        )
        .await;
        assert_sound(&store).await;
        store.close().await.unwrap();
    });
    assert!(entries(&path).len() <= 2, "{:?}", entries(&path));
}

/// Returns the number of rows of each stored block. The store must be closed.
fn entries(path: &Path) -> Vec<u64> {
    let database = redb::Database::open(path.join("data.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let blocks = transaction.open_table(BLOCKS).unwrap();
    let rows = blocks.iter().unwrap().map(|entry| {
        let (_, value) = entry.unwrap();
        // Read the number of rows after a header of 12 bytes and 3 lengths.
        u64::from_be_bytes(value.value()[15..23].try_into().unwrap())
    });
    rows.collect()
}

#[test]
fn leave_out_expired_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let table = table();
    let whole = all(&table, "AA", ReadDirection::Forward);
    runtime().block_on(async {
        let store = open_at(&path, 0);
        store.create_table(&table).await.unwrap();
        let expiring = |number: i64| Mutation {
            ttl_seconds: (number % 2 == 0).then_some(100),
            ..put(number, 1)
        };
        done(
            &store,
            vec![write(&table, "AA", (0..5_000).map(expiring).collect())],
        )
        .await;
        assert_eq!(count(&store, &whole).await.unwrap(), 5_000);
        store.close().await.unwrap();
    });
    for seconds in [1_000, 2_000] {
        runtime().block_on(async {
            let store = open_at(&path, seconds);
            assert_eq!(count(&store, &whole).await.unwrap(), 2_500);
            assert_eq!(row_at(&store, &whole, 0).await, Some(4_999));
            assert_eq!(row_at(&store, &whole, 2_499).await, Some(1));
            assert_eq!(row_at(&store, &whole, 2_500).await, None);
            assert_sound(&store).await;
            store.compact(|_| ()).await.unwrap();
            assert_eq!(count(&store, &whole).await.unwrap(), 2_500);
            store.close().await.unwrap();
        });
    }
}

/// The deletion of expired rows frees their space, and leaves exact counts, blocks and sums.
#[test]
fn expired_rows_are_deleted_block_by_block() {
    const ROWS: i64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let table = table();
    let whole = all(&table, "AA", ReadDirection::Forward);
    runtime().block_on(async {
        let store = open_at(&path, 0);
        store.create_table(&table).await.unwrap();
        // The middle part has no row that expires, so its blocks are not visited.
        let expiring = |number: i64| Mutation {
            ttl_seconds: (!(8_000..12_000).contains(&number) && number % 4 != 0).then_some(100),
            ..put(number, 1)
        };
        for start in (0..ROWS).step_by(1_000) {
            let rows = (start..start + 1_000).map(expiring);
            done(&store, vec![write(&table, "AA", rows.collect())]).await;
        }
        store.delete_expired().await.unwrap();
        assert_eq!(count(&store, &whole).await.unwrap(), ROWS as u64);
        store.close().await.unwrap();
    });
    assert_eq!(entries(&path).iter().sum::<u64>(), ROWS as u64);
    let kept = 4_000 + 16_000 / 4;
    runtime().block_on(async {
        let store = open_at(&path, 1_000);
        assert_eq!(count(&store, &whole).await.unwrap(), kept);
        store.delete_expired().await.unwrap();
        assert_eq!(count(&store, &whole).await.unwrap(), kept);
        assert_eq!(row_at(&store, &whole, 0).await, Some(ROWS - 4));
        assert_eq!(numbers(&store, &table, "AA").await.len() as u64, kept);
        assert_sound(&store).await;
        let rows = store.statistics().unwrap().tables[0].rows;
        assert_eq!(rows, kept, "the rows are deleted, not hidden");
        store.close().await.unwrap();
    });
    assert_eq!(entries(&path).iter().sum::<u64>(), kept);
}

/// A clock that is far ahead of the recorded time hides rows, but deletes none.
#[test]
fn expired_rows_stay_while_the_clock_is_far_ahead() {
    const YEAR_SECONDS: i64 = 366 * 86_400;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let table = table();
    let whole = all(&table, "AA", ReadDirection::Forward);
    let expiring = |number: i64, ttl_seconds| Mutation {
        ttl_seconds: Some(ttl_seconds),
        ..put(number, 1)
    };
    runtime().block_on(async {
        let store = open_at(&path, 0);
        store.create_table(&table).await.unwrap();
        let rows = (0..100).map(|number| expiring(number, 100 + 100_000_000 * u32::from(number > 9)));
        done(&store, vec![write(&table, "AA", rows.collect())]).await;
        store.close().await.unwrap();
        // The first deletion records the time.
        let store = open_at(&path, 1_000);
        store.delete_expired().await.unwrap();
        assert_eq!(store.statistics().unwrap().tables[0].rows, 90);
        store.close().await.unwrap();
        let store = open_at(&path, 10 * YEAR_SECONDS);
        assert_eq!(count(&store, &whole).await.unwrap(), 0);
        store.delete_expired().await.unwrap();
        assert_eq!(store.statistics().unwrap().tables[0].rows, 90);
        store.close().await.unwrap();
        let store = open_at(&path, 2_000);
        assert_eq!(count(&store, &whole).await.unwrap(), 90);
        assert_sound(&store).await;
        store.close().await.unwrap();
    });
}

#[test]
fn are_built_by_backups_and_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let table = table();
    let whole = all(&table, "AA", ReadDirection::Forward);
    runtime().block_on(async {
        let store = open(&folder.path().join("store")).unwrap();
        store.create_table(&table).await.unwrap();
        fill(&store, &table, 0..7_000).await;
        let backup = folder.path().join("backup");
        store.backup(&backup, |_| ()).await.unwrap();
        store.compact(|_| ()).await.unwrap();
        for store in [store, open(&backup).unwrap()] {
            assert_sound(&store).await;
            assert_eq!(count(&store, &whole).await.unwrap(), 7_000);
            fill(&store, &table, 7_000..7_010).await;
            assert_eq!(count(&store, &whole).await.unwrap(), 7_010);
            assert_sound(&store).await;
            store.close().await.unwrap();
        }
    });
}

/// Function that returns the changed key and value of an entry, or `None` to remove the entry.
type Change = Box<dyn Fn(Vec<u8>, Vec<u8>) -> Option<(Vec<u8>, Vec<u8>)>>;

/// Returns a function that flips one bit in the row count of a stored block or sum.
fn change_number() -> Change {
    Box::new(|key, mut value| {
        value[20] ^= 0x20;
        Some((key, value))
    })
}

/// Returns a function that removes the first entry, which has the empty key, and keeps the others.
fn remove_first() -> Change {
    Box::new(|key, value| (!key.is_empty()).then_some((key, value)))
}

/// Applies `change` to each entry of one of the engine's tables. The store must be closed.
fn tamper(path: &Path, table: EngineTable, change: impl Fn(Vec<u8>, Vec<u8>) -> Option<(Vec<u8>, Vec<u8>)>) {
    let database = redb::Database::open(path.join("data.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut blocks = transaction.open_table(table).unwrap();
        let old: Vec<(Vec<u8>, Vec<u8>)> = blocks
            .iter()
            .unwrap()
            .map(|entry| {
                entry
                    .map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
                    .unwrap()
            })
            .collect();
        blocks.retain(|_, _| false).unwrap();
        for (key, value) in old {
            if let Some((key, value)) = change(key, value) {
                blocks.insert(key.as_slice(), value.as_slice()).unwrap();
            }
        }
    }
    transaction.commit().unwrap();
}

#[test]
fn that_are_damaged_are_found_and_built_again() {
    let changes: [(&str, Change); 4] = [
        ("a number", change_number()),
        (
            "a bound",
            Box::new(|mut key, value| {
                if key.len() > 4 {
                    key[4] ^= 0x20;
                }
                Some((key, value))
            }),
        ),
        ("no first block", remove_first()),
        ("no blocks", Box::new(|_, _| None)),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let table = table();
        let whole = all(&table, "AA", ReadDirection::Forward);
        runtime().block_on(async {
            let store = open(&path).unwrap();
            store.create_table(&table).await.unwrap();
            fill(&store, &table, 0..9_000).await;
            store.close().await.unwrap();
        });
        tamper(&path, BLOCKS, change);
        runtime().block_on(async {
            let store = open(&path).unwrap();
            let report = store.check(|_| ()).await.unwrap();
            assert!(!report.is_sound(), "{what}");
            match count(&store, &whole).await {
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{what}"),
                Ok(rows) => assert!(what == "no blocks" && rows == 9_000, "{what}: {rows}"),
            }
            if what != "no blocks" && what != "no first block" {
                let (_, step) = store
                    .scrub_step(ScrubPosition::default(), u64::MAX)
                    .await
                    .unwrap();
                assert!(!step.problems.is_empty(), "{what}");
            }
            // A write succeeds although blocks are damaged. If it meets damage, it builds all
            // blocks again.
            for number in [9_500, 4_500, 0] {
                done(&store, vec![write(&table, "AA", vec![put(number, 2)])]).await;
            }
            let report = store.check(|_| ()).await.unwrap();
            assert!(report.is_sound(), "{what}: {report:?}");
            assert_eq!(count(&store, &whole).await.unwrap(), 9_001, "{what}");
            store.close().await.unwrap();
        });
    }
}

/// Creates a store with 9,000 rows in one partition, which have enough blocks for sums. Closes the store.
fn with_sums(path: &Path) -> Arc<Table> {
    let table = table();
    runtime().block_on(async {
        let store = open(path).unwrap();
        store.create_table(&table).await.unwrap();
        fill(&store, &table, 0..9_000).await;
        for number in 0..9 {
            let rows = (0..3_000).map(|number| put(number, 1)).collect();
            done(&store, vec![write(&table, &format!("C{number}"), rows)]).await;
        }
        assert_sound(&store).await;
        store.close().await.unwrap();
    });
    table
}

#[test]
fn sums_that_are_damaged_are_found_and_built_again() {
    let changes: [(&str, Change); 3] = [
        ("a number", change_number()),
        ("no first sum", remove_first()),
        ("no sums", Box::new(|_, _| None)),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let table = with_sums(&path);
        tamper(&path, SUMS, change);
        let whole = all(&table, "AA", ReadDirection::Forward);
        runtime().block_on(async {
            let store = open(&path).unwrap();
            let report = store.check(|_| ()).await.unwrap();
            assert!(!report.is_sound(), "{what}");
            match count(&store, &whole).await {
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{what}"),
                Ok(rows) => assert!(what == "no sums" && rows == 9_000, "{what}: {rows}"),
            }
            for number in [9_500, 4_500, 0] {
                done(&store, vec![write(&table, "AA", vec![put(number, 2)])]).await;
            }
            for number in 0..9 {
                let name = format!("C{number}");
                done(&store, vec![write(&table, &name, vec![put(4_000, 2)])]).await;
            }
            assert_eq!(count(&store, &whole).await.unwrap(), 9_001, "{what}");
            store.compact(|_| ()).await.unwrap();
            assert_sound(&store).await;
            store.close().await.unwrap();
        });
    }
}

/// A table gets sums when it has enough blocks (nine in tests). The sums are dropped with the table.
#[test]
fn sums_follow_their_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let table = with_sums(&path);
    let sums = |path: &Path| {
        let database = redb::Database::open(path.join("data.redb")).unwrap();
        let transaction = database.begin_write().unwrap();
        let names = transaction.list_tables().unwrap();
        names.filter(|table| table.name().starts_with("sums")).count()
    };
    assert_eq!(sums(&path), 1);
    runtime().block_on(async {
        let store = open(&path).unwrap();
        store.drop_table(table.name()).await.unwrap();
        store.close().await.unwrap();
    });
    assert_eq!(sums(&path), 0);
}
