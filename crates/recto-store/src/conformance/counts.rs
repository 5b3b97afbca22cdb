//! Exact counts of the rows of partitions and their bytes. Stores that do not count reject tables that should
//! count.

use std::time::Duration;

use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Table, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, column, concat, fixed, insert, int, ints, make, partition, patch,
    patch_static, put, regular,
};
use crate::random::Random;
use crate::read::{MAX_COUNTED_PARTITIONS, ROW_OVERHEAD_BYTES};
use crate::{
    Atomicity, Cas, CasCondition, Mutation, Operation, PartitionCount, PartitionWrite, ReadOptions,
    RowAddress, Stamp, StoreError, StoreErrorKind, TableState, TransactionOutcome, WriteOptions,
    WriteOutcome,
};

const COUNTS: TableOptions = TableOptions {
    counts_partitions: true,
    counts_rows: false,
    buckets: None,
    allows_empty_partition: false,
    automatic_snapshots: true,
    compaction: recto_model::table::Compaction::Default,
    gc_grace_seconds: 864_000,
};

/// Returns the columns: partition `p int`, clustering `c text`, static `s text`, regular `a text` and
/// `b int`, and if `conditional` is true, `n int` for conditional writes.
fn columns(conditional: bool) -> Vec<recto_model::Column> {
    let mut columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Text),
        fixed("s", Type::Text),
        regular("a", Type::Text),
        regular("b", Type::Int),
    ];
    if conditional {
        columns.push(column("n", Type::Int, ColumnKind::Regular(WriteKind::Cas)));
    }
    columns
}

/// Creates a table that counts. `None` if the store does not count.
async fn counting(bench: &dyn Bench, prefix: &str, columns: Vec<recto_model::Column>) -> Option<Fixture> {
    let store = bench.store();
    if !store.limits().counts_partitions {
        return None;
    }
    let name = bench.unique_name(prefix);
    let table = Table::new(name, columns, COUNTS).expect("the suite's tables are valid");
    make(&store, &table).await;
    let table = std::sync::Arc::new(table);
    Some(Fixture { store, table })
}

async fn try_counts(fixture: &Fixture, partitions: &[Cells]) -> Result<Vec<PartitionCount>, StoreError> {
    let snapshot = fixture.snapshot();
    snapshot
        .count_partitions(&fixture.table, partitions, &ReadOptions::default())
        .await
}

/// Asserts that the counts agree with the rows, and returns them.
async fn agree(fixture: &Fixture, partitions: &[Cells], what: &str) -> Vec<PartitionCount> {
    let counts = try_counts(fixture, partitions).await;
    let counts = counts.unwrap_or_else(|error| panic!("{error} ({what})"));
    assert_eq!(counts.len(), partitions.len());
    let table = &fixture.table;
    let key = table.partition().len();
    let statics = table.key_len()..table.key_len() + table.statics().len();
    for (partition, count) in partitions.iter().zip(&counts) {
        let mut expected = PartitionCount::default();
        for row in fixture.rows(partition).await {
            let own = (key..row.len()).filter(|column| !statics.contains(column));
            let cells: usize = own.filter_map(|column| row.get(column)).map(<[u8]>::len).sum();
            expected.rows += 1;
            expected.bytes += cells as u64 + ROW_OVERHEAD_BYTES;
        }
        assert_eq!(*count, expected, "partition {partition:?} after {what}");
    }
    counts
}

fn key(text: &str) -> Cells {
    cells([Some(text.as_bytes())])
}

fn row(a: &str, b: i32) -> Cells {
    cells([Some(a.as_bytes()), Some(&int(b))])
}

/// Checks that a store that does not count rejects a table that should count. Every store rejects reads of
/// counts of a table that does not count.
pub async fn offered_or_refused(bench: &dyn Bench) {
    let store = bench.store();
    let plain = Fixture::simple(bench, "counts_none").await;
    let error = try_counts(&plain, &[ints([1])])
        .await
        .expect_err("the table does not count");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    let expected = format!("table {} does not count its partitions", plain.table.name());
    assert_eq!(error.to_string(), expected);
    let name = bench.unique_name("counts");
    let table = Table::new(name, columns(false), COUNTS).expect("the suite's tables are valid");
    let made = store.create_table(&table).await;
    if store.limits().counts_partitions {
        made.expect("the store counts");
        let listed = store.list_tables().await.expect("tables can be listed");
        assert!(listed.contains(&table), "the table is listed as it was made");
        store.drop_table(table.name()).await.expect("it can be dropped");
    } else {
        let error = made.expect_err("the store does not count");
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        let error = store
            .create_tables_once(std::slice::from_ref(&table))
            .await
            .expect_err("the store does not count");
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
    }
    plain.drop().await;
}

/// Checks that an existing table does not start or stop to count. A table with the other option is a
/// different table, and the error names the difference.
pub async fn a_table_counts_from_the_first_or_never(bench: &dyn Bench) {
    let Some(counts) = counting(bench, "counts_from", columns(false)).await else {
        return;
    };
    let other = Table::new(counts.table.name(), columns(false), TableOptions::default());
    let other = other.expect("the suite's tables are valid");
    let error = counts
        .store
        .create_table(&other)
        .await
        .expect_err("it is another table");
    assert_eq!(error.kind(), StoreErrorKind::Table);
    let states = counts.store.compare_tables(&[other]).await;
    let states = states.expect("tables can be compared");
    let difference = "it counts its partitions, which cannot change for an existing table";
    assert_eq!(states, [TableState::Other(difference.to_owned())]);
    counts.drop().await;
}

/// Checks that after every kind of plain write, the counts agree with the rows. This includes writes that
/// change nothing.
pub async fn counts_follow_plain_writes(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_plain", columns(false)).await else {
        return;
    };
    let p = ints([1]);
    let delete = |c: &str| Operation::DeleteRow { clustering: key(c) };
    let range = |from: &str, to: &str| Operation::DeleteRange {
        from: Bound::Before(key(from)),
        to: Bound::After(key(to)),
    };
    let steps: Vec<(&str, i64, Operation, u64)> = vec![
        ("a row", 10, put(key("k"), row("x", 1)), 1),
        ("a longer one", 20, put(key("k"), row("xxxx", 1)), 1),
        ("an older one", 15, put(key("k"), row("xxxxxxxx", 1)), 1),
        ("the same again", 20, put(key("k"), row("xxxx", 1)), 1),
        ("one with nulls", 30, put(key("k"), cells([None, None])), 1),
        ("a patch", 40, patch(key("k"), [0], cells([Some(b"yy")])), 1),
        ("a patch to null", 50, patch(key("k"), [0], cells([None])), 1),
        ("a patch that makes a row", 10, patch(key("l"), [1], ints([7])), 2),
        ("static cells", 10, patch_static([0], cells([Some(b"sss")])), 2),
        ("an insert", 10, insert(key("m"), row("m", 1)), 3),
        ("the same insert", 10, insert(key("m"), row("m", 1)), 3),
        ("an empty key", 10, put(key(""), row("", 1)), 4),
        ("a zero in a key", 10, put(key("a\0b"), row("", 1)), 5),
        ("a deletion that is too old", 5, delete("m"), 5),
        ("a deletion", 60, delete("m"), 4),
        ("a deletion of nothing", 60, delete("m"), 4),
        (
            "a row newer than a deletion to come",
            90,
            put(key("q"), row("q", 1)),
            5,
        ),
        (
            "a patch newer than it",
            90,
            patch(key("l"), [0], cells([Some(b"n")])),
            5,
        ),
        ("a range", 80, range("a", "z"), 3),
        ("an empty range", 95, range("x", "z"), 3),
        ("the partition", 100, Operation::DeletePartition, 0),
        (
            "a row of one that was deleted",
            110,
            put(key("k"), row("x", 1)),
            1,
        ),
    ];
    for (what, stamp, operation, rows) in steps {
        fixture.apply(&p, stamp, operation).await;
        let counts = agree(&fixture, &[p.clone(), ints([2])], what).await;
        assert_eq!(counts[0].rows, rows, "after {what}");
        assert_eq!(counts[1], PartitionCount::default());
    }
    fixture.drop().await;
}

/// Checks that a conflicting insert, which is undone, does not count. An insert that a load leaves out does
/// not count either.
pub async fn inserts_that_conflict_count_for_nothing(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_conflict", columns(false)).await else {
        return;
    };
    let partitions = [ints([1]), ints([2])];
    fixture
        .apply(&partitions[0], 1, insert(key("k"), row("x", 1)))
        .await;
    let write = |row_by_row| {
        let many = (0..40).map(|c| at(2, insert(key(&format!("n{c:02}")), row("new", c))));
        let first = fixture.write_of(&partitions[1], many.collect());
        let conflict = vec![
            at(2, insert(key("a"), row("new", 1))),
            at(2, insert(key("k"), row("other", 2))),
        ];
        let second = fixture.write_of(&partitions[0], conflict);
        let options = WriteOptions {
            row_by_row,
            ..WriteOptions::default()
        };
        fixture
            .store
            .write_many(vec![first, second], Atomicity::Logged, options)
    };
    let outcome = write(false).await;
    assert!(matches!(outcome, Ok(WriteOutcome::Conflict(_))), "{outcome:?}");
    let counts = agree(&fixture, &partitions, "a conflict").await;
    assert_eq!((counts[0].rows, counts[1].rows), (1, 0));
    let outcome = write(true).await;
    assert!(matches!(outcome, Ok(WriteOutcome::Counted(_))), "{outcome:?}");
    let counts = agree(&fixture, &partitions, "a load").await;
    assert_eq!((counts[0].rows, counts[1].rows), (2, 40));
    fixture.drop().await;
}

/// Checks that conditional writes and transactions change counts if they are applied.
pub async fn counts_follow_conditional_writes(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_cas", columns(true)).await else {
        return;
    };
    let p = ints([1]);
    let cas = |expected: Option<i32>, operation: Operation| Cas {
        table: fixture.table.clone(),
        partition: p.clone(),
        conditions: vec![CasCondition {
            row: RowAddress::Row(key("k")),
            column: 2,
            expected: expected.map(int),
        }],
        mutations: vec![Mutation {
            operation,
            stamp: None,
            ttl_seconds: None,
        }],
    };
    let set = |n: i32| patch(key("k"), [2], ints([n]));
    let store = &fixture.store;
    let decide = async |what: &str, cas: Cas, rows: u64| {
        store
            .cas(cas, WriteOptions::default())
            .await
            .expect("a conditional write can be made");
        let count = agree(&fixture, std::slice::from_ref(&p), what).await[0];
        assert_eq!(count.rows, rows, "after {what}");
    };
    decide("one that makes a row", cas(None, set(1)), 1).await;
    decide("one whose condition does not hold", cas(None, set(2)), 1).await;
    if store.limits().transactions {
        let other = ints([2]);
        let whole = |a: &str| concat(&row(a, 1), &cells([None]));
        let plain = |stamp| {
            let mutations = vec![at(stamp, put(key("z"), whole("zz")))];
            vec![fixture.write_of(&other, mutations)]
        };
        let gone = Operation::DeleteRow { clustering: key("k") };
        for (expected, applied, rows) in [(Some(9), false, (1, 0)), (Some(1), true, (0, 1))] {
            let conditional = vec![cas(expected, gone.clone())];
            let outcome = store
                .transact(conditional, plain(5), WriteOptions::default())
                .await
                .expect("a transaction can be made");
            assert_eq!(matches!(outcome, TransactionOutcome::Applied), applied);
            let counts = agree(&fixture, &[p.clone(), other.clone()], "a transaction").await;
            assert_eq!((counts[0].rows, counts[1].rows), rows);
        }
    }
    fixture.drop().await;
}

/// Number of random calls.
const CALLS: u64 = 120;

/// Checks that the counts agree with the rows after any writes, in any combination.
pub async fn counts_follow_any_writes(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_any", columns(false)).await else {
        return;
    };
    let partitions: Vec<Cells> = (0..4).map(|p| ints([p])).collect();
    let mut random = Random::new(7);
    for call in 1..=CALLS {
        let stamp = call as i64 * 10 - random.below(15) as i64;
        let writes: Vec<PartitionWrite> = (0..=random.below(3))
            .map(|_| {
                let partition = &partitions[random.below(partitions.len())];
                let mutations = (0..=random.below(24))
                    .map(|_| at(stamp + random.below(8) as i64, any_operation(&mut random)));
                fixture.write_of(partition, mutations.collect())
            })
            .collect();
        let outcome = fixture
            .store
            .write_many(writes, Atomicity::Logged, WriteOptions::default())
            .await;
        assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
        if call % 10 == 0 {
            agree(&fixture, &partitions, &format!("{call} calls")).await;
        }
    }
    fixture.drop().await;
}

fn any_operation(random: &mut Random) -> Operation {
    let of_length = |length: usize| key(&"k".repeat(length));
    let (first, second) = (random.below(40), random.below(40));
    let one = of_length(first);
    let text = "x".repeat(random.below(300));
    match random.below(20) {
        0 => Operation::DeletePartition,
        1 | 2 => Operation::DeleteRange {
            from: Bound::Before(of_length(first.min(second))),
            to: Bound::After(of_length(first.max(second))),
        },
        3..=5 => Operation::DeleteRow { clustering: one },
        6 | 7 => patch(one, [0], cells([Some(text.as_bytes())])),
        8 => patch(one, [1], cells([None])),
        9 => patch_static([0], cells([Some(text.as_bytes())])),
        _ => put(one, cells([Some(text.as_bytes()), Some(&int(1))])),
    }
}

/// Checks that counts belong to the moment of a snapshot, if snapshots are fixed. They become zero when a
/// table is emptied or dropped, and they are kept when a store is opened again.
pub async fn counts_are_of_the_moment(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_moment", columns(false)).await else {
        return;
    };
    let p = ints([1]);
    let one = std::slice::from_ref(&p);
    fixture.apply(&p, 1, put(key("k"), row("x", 1))).await;
    let before = fixture.snapshot();
    fixture.apply(&p, 1, put(key("l"), row("x", 1))).await;
    if !bench.is_remote() {
        let counts = before
            .count_partitions(&fixture.table, one, &ReadOptions::default())
            .await;
        assert_eq!(counts.expect("counts can be read")[0].rows, 1);
    }
    drop(before);
    let table = fixture.table.clone();
    drop(fixture);
    let store = bench.reopen().await;
    let fixture = Fixture { store, table };
    assert_eq!(agree(&fixture, one, "it was opened again").await[0].rows, 2);
    fixture
        .store
        .empty_table(&fixture.table)
        .await
        .expect("a table can be emptied");
    assert_eq!(agree(&fixture, one, "it was emptied").await[0].rows, 0);
    fixture.apply(&p, 1, put(key("k"), row("x", 1))).await;
    assert_eq!(agree(&fixture, one, "it was emptied").await[0].rows, 1);
    let (store, table) = (fixture.store.clone(), fixture.table.clone());
    fixture.drop().await;
    make(&store, &table).await;
    let fixture = Fixture { store, table };
    assert_eq!(agree(&fixture, one, "it was made again").await[0].rows, 0);
    fixture.drop().await;
}

/// Checks that added columns count in the rows that have them, also after a client that does not know the
/// columns replaces such a row.
pub async fn added_columns_count(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_added", columns(false)).await else {
        return;
    };
    let p = ints([1]);
    let one = std::slice::from_ref(&p);
    fixture.apply(&p, 1, put(key("k"), row("x", 1))).await;
    let mut wider = columns(false);
    wider.push(regular("z", Type::Text));
    let wider = Table::new(fixture.table.name(), wider, COUNTS).expect("the suite's tables are valid");
    fixture
        .store
        .add_columns(&fixture.table, &wider)
        .await
        .expect("a column can be added");
    let wide = Fixture {
        store: fixture.store.clone(),
        table: std::sync::Arc::new(wider),
    };
    agree(&wide, one, "a column was added").await;
    wide.apply(&p, 2, patch(key("k"), [2], cells([Some(b"zzzz")])))
        .await;
    let count = agree(&wide, one, "it was written").await[0];
    fixture.apply(&p, 3, put(key("k"), row("y", 1))).await;
    let after = agree(&wide, one, "the row was replaced without it").await[0];
    assert_eq!(count, after);
    wide.drop().await;
}

/// Checks that an expired row stops counting when it is overwritten, at the latest. A live row always counts.
pub async fn may_count_expired_rows_until_overwritten(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_expiry", columns(false)).await else {
        return;
    };
    let p = ints([1]);
    let one = std::slice::from_ref(&p);
    let ends = |c: &str, stamp| Mutation {
        operation: put(key(c), row("x", 1)),
        stamp: Some(Stamp(stamp)),
        ttl_seconds: Some(1),
    };
    let lives = at(1, put(key("l"), row("x", 1)));
    fixture.write(&p, vec![ends("k", 1), ends("m", 1), lives]).await;
    bench.wait(Duration::from_millis(2200)).await;
    let count = try_counts(&fixture, one).await.expect("counts can be read")[0];
    assert!((1..=3).contains(&count.rows), "{count:?}");
    fixture
        .write(
            &p,
            vec![
                at(2, put(key("k"), row("xx", 1))),
                at(2, Operation::DeleteRow { clustering: key("m") }),
            ],
        )
        .await;
    assert_eq!(
        agree(&fixture, one, "what ended was written over").await[0].rows,
        2
    );
    fixture.drop().await;
}

/// Checks that counts of several partitions are returned in the order of the partitions. A read of too many
/// counts is rejected.
pub async fn several_at_once(bench: &dyn Bench) {
    let Some(fixture) = counting(bench, "counts_many", columns(false)).await else {
        return;
    };
    for p in 0..10 {
        let rows = (0..p).map(|c| at(1, put(key(&format!("{c}")), row("x", c))));
        fixture.write(&ints([p]), rows.collect()).await;
    }
    let partitions: Vec<Cells> = [7, 3, 99, 3, 0, 9].map(|p| ints([p])).to_vec();
    let counts = agree(&fixture, &partitions, "rows").await;
    let rows: Vec<u64> = counts.iter().map(|count| count.rows).collect();
    assert_eq!(rows, [7, 3, 0, 3, 0, 9]);
    assert_eq!(agree(&fixture, &[], "rows").await, []);
    let most = vec![ints([7]); MAX_COUNTED_PARTITIONS];
    let found = try_counts(&fixture, &most).await.expect("so many can be read");
    assert!(found.iter().all(|count| count.rows == 7));
    let too_many = vec![ints([7]); MAX_COUNTED_PARTITIONS + 1];
    let error = try_counts(&fixture, &too_many).await.expect_err("too many");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    fixture.drop().await;
}
