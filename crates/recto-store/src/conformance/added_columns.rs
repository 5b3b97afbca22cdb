//! Behaviors of added columns: columns are added to tables with rows, while clients still use the earlier
//! definition.

use std::sync::Arc;

use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, RowSet, Table, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, clustering, column, fixed, int, ints, make, partition, patch,
    patch_static, put, regular,
};
use crate::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PointRead, ReadOptions, RowAddress, StoreErrorKind,
    TableOutcome, WriteOptions, WriteOutcome,
};

/// Maximum number of rows that one call of a scan returns.
const SCAN_ROWS: u32 = 3;

/// Returns `table` with additional columns.
fn extended(table: &Table, columns: impl IntoIterator<Item = Column>) -> Table {
    let columns = table.columns().iter().cloned().chain(columns).collect();
    Table::new(table.name(), columns, table.options()).expect("the suite's tables are valid")
}

async fn add(fixture: &Fixture, table: &Table) {
    match fixture.store.add_columns(&fixture.table, table).await {
        Ok(TableOutcome::Done) => {}
        other => panic!("adding columns to table {} ended as {other:?}", table.name()),
    }
}

/// Adds columns to the fixture's table. Returns a fixture whose table definition has these columns.
async fn extend(fixture: &Fixture, columns: impl IntoIterator<Item = Column>) -> Fixture {
    let table = extended(&fixture.table, columns);
    add(fixture, &table).await;
    Fixture {
        store: fixture.store.clone(),
        table: Arc::new(table),
    }
}

/// Creates a table: partition `p int`, clustering `c int` descending, static `s text`, regular `a text`.
async fn table(bench: &dyn Bench, prefix: &str) -> Fixture {
    let columns = vec![
        partition("p", Type::Int),
        clustering("c", Type::Int, Direction::Descending),
        fixed("s", Type::Text),
        regular("a", Type::Text),
    ];
    Fixture::new(bench, prefix, columns).await
}

/// Returns a row of partition `p = 1`, with the clustering cell `c` and the given static and regular cells.
fn row<const N: usize>(c: i32, rest: [Option<&[u8]>; N]) -> Cells {
    let head = ints([1, c]);
    head.iter().chain(rest).collect()
}

fn all(rows: &RowSet) -> Vec<Cells> {
    rows.iter().map(|row| row.to_cells()).collect()
}

async fn scan(fixture: &Fixture) -> Vec<Cells> {
    let snapshot = fixture.snapshot();
    let options = ReadOptions::default();
    let ranges = snapshot
        .token_ranges(&fixture.table, 2)
        .await
        .expect("there are ranges");
    let mut rows = Vec::new();
    for range in &ranges {
        let mut after = None;
        loop {
            let read = snapshot
                .scan(&fixture.table, range, after.as_ref(), SCAN_ROWS, &options)
                .await
                .expect("a table can be scanned");
            rows.extend(all(&read.rows));
            after = read.next;
            if after.is_none() {
                break;
            }
        }
    }
    rows
}

/// Checks that earlier rows have null in the added columns, in every kind of read, and after reopening.
pub async fn old_rows_have_nulls(bench: &dyn Bench) {
    let before = table(bench, "added").await;
    before
        .apply(&ints([1]), 1, patch_static([0], cells([Some(b"s")])))
        .await;
    for c in [1, 2] {
        before
            .apply(&ints([1]), 1, put(ints([c]), cells([Some(b"x")])))
            .await;
    }
    let added = [
        regular("b", Type::Int),
        regular("a0", Type::List(Box::new(Type::Text))),
    ];
    let after = extend(&before, added).await;
    drop(before);
    let table = after.table.clone();
    drop(after);
    let store = bench.store();
    let fixture = Fixture { store, table };
    let one = row(1, [Some(b"s"), Some(b"x"), None, None]);
    let two = row(2, [Some(b"s"), Some(b"x"), None, None]);
    let check = async |fixture: &Fixture| {
        fixture.expect(&ints([1]), &[two.clone(), one.clone()]).await;
        let slice = fixture.slice_of(
            &ints([1]),
            Bound::Before(ints([2])),
            Bound::end(),
            ReadDirection::Backward,
            1,
        );
        assert_eq!(all(&fixture.read(&slice).await.rows), std::slice::from_ref(&one));
        assert_eq!(fixture.get(&ints([1]), &ints([2])).await, Some(two.clone()));
        assert_eq!(fixture.get_statics(&ints([1])).await, Some(cells([Some(b"s")])));
        assert_eq!(scan(fixture).await, [two.clone(), one.clone()]);
        let tables = fixture.store.list_tables().await.expect("tables can be listed");
        assert!(
            tables.contains(&fixture.table),
            "the extended table is listed as it is now"
        );
    };
    check(&fixture).await;
    let table = fixture.table.clone();
    drop(fixture);
    let fixture = Fixture {
        store: bench.reopen().await,
        table,
    };
    check(&fixture).await;
    fixture.drop().await;
}

/// Checks that added columns are put, patched and deleted like all other columns, in old rows and in new
/// rows.
pub async fn new_columns_are_written(bench: &dyn Bench) {
    let before = table(bench, "added_w").await;
    for c in [1, 2, 3, 4] {
        before
            .apply(&ints([1]), 10, put(ints([c]), cells([Some(b"x")])))
            .await;
    }
    let fixture = extend(&before, [regular("b", Type::Int)]).await;
    // Put an old row again, patch it, patch it with an older stamp, leave one row unchanged, and put a new
    // row.
    fixture
        .apply(&ints([1]), 20, put(ints([1]), cells([Some(b"y"), Some(&int(1))])))
        .await;
    fixture
        .apply(&ints([1]), 20, patch(ints([2]), [1], ints([2])))
        .await;
    fixture
        .apply(
            &ints([1]),
            5,
            patch(ints([3]), [0, 1], cells([Some(b"z"), Some(&int(3))])),
        )
        .await;
    fixture
        .apply(&ints([1]), 20, put(ints([5]), cells([None, Some(&int(5))])))
        .await;
    let expected = [
        row(5, [None, None, Some(&int(5))]),
        row(4, [None, Some(b"x"), None]),
        row(3, [None, Some(b"x"), Some(&int(3))]),
        row(2, [None, Some(b"x"), Some(&int(2))]),
        row(1, [None, Some(b"y"), Some(&int(1))]),
    ];
    fixture.expect(&ints([1]), &expected).await;
    // A null in the added column deletes its value. A deletion of the row also deletes that value.
    fixture
        .apply(&ints([1]), 30, put(ints([1]), cells([Some(b"y"), None])))
        .await;
    fixture
        .apply(&ints([1]), 30, patch(ints([2]), [1], cells([None])))
        .await;
    fixture
        .apply(
            &ints([1]),
            30,
            Operation::DeleteRow {
                clustering: ints([5]),
            },
        )
        .await;
    let expected = [
        row(4, [None, Some(b"x"), None]),
        row(3, [None, Some(b"x"), Some(&int(3))]),
        row(2, [None, Some(b"x"), None]),
        row(1, [None, Some(b"y"), None]),
    ];
    fixture.expect(&ints([1]), &expected).await;
    fixture.drop().await;
}

fn cas(fixture: &Fixture, condition: (u16, Option<i32>), operation: Operation) -> Cas {
    let (column, expected) = condition;
    Cas {
        table: fixture.table.clone(),
        partition: ints([1]),
        conditions: vec![CasCondition {
            row: RowAddress::Row(ints([1])),
            column,
            expected: expected.map(int),
        }],
        mutations: vec![Mutation {
            operation,
            stamp: None,
            ttl_seconds: None,
        }],
    }
}

async fn applies(fixture: &Fixture, cas: Cas) {
    let outcome = fixture.store.cas(cas, WriteOptions::default()).await;
    assert!(
        matches!(outcome, Ok(CasOutcome::Applied)),
        "it ended as {outcome:?}"
    );
}

/// Creates a table with one row: partition `p int`, clustering `c int`, regular `n int` for conditional
/// writes.
async fn conditional_table(bench: &dyn Bench, prefix: &str) -> Fixture {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        conditional("n"),
    ];
    let fixture = Fixture::new(bench, prefix, columns).await;
    applies(&fixture, cas(&fixture, (0, None), put(ints([1]), ints([7])))).await;
    fixture
}

fn conditional(name: &str) -> Column {
    column(name, Type::Int, ColumnKind::Regular(WriteKind::Cas))
}

/// Checks that an added column is null in the conditions of old rows, and conditional writes change it.
pub async fn conditional_writes(bench: &dyn Bench) {
    let before = conditional_table(bench, "added_c").await;
    let fixture = extend(&before, [conditional("m")]).await;
    applies(
        &fixture,
        cas(&fixture, (1, None), patch(ints([1]), [1], ints([8]))),
    )
    .await;
    fixture.expect(&ints([1]), &[ints([1, 1, 7, 8])]).await;
    let again = cas(&fixture, (1, None), patch(ints([1]), [1], ints([9])));
    match fixture.store.cas(again, WriteOptions::default()).await {
        Ok(CasOutcome::NotApplied { current }) => assert_eq!(current, [Some(int(8))]),
        other => panic!("a condition that does not hold ended as {other:?}"),
    }
    applies(
        &fixture,
        cas(
            &fixture,
            (1, Some(8)),
            put(ints([1]), cells([None, Some(&int(9))])),
        ),
    )
    .await;
    fixture
        .expect(
            &ints([1]),
            &[cells([Some(&int(1)), Some(&int(1)), None, Some(&int(9))])],
        )
        .await;
    fixture.drop().await;
}

/// Checks that adding existing columns succeeds. Adding existing and new columns together adds the new
/// columns. Creating the extended table again succeeds.
pub async fn adding_is_idempotent(bench: &dyn Bench) {
    let before = table(bench, "added_i").await;
    before
        .apply(&ints([1]), 1, put(ints([1]), cells([Some(b"x")])))
        .await;
    add(&before, &before.table).await;
    let first = extend(&before, [regular("b", Type::Int)]).await;
    first.apply(&ints([1]), 2, patch(ints([1]), [1], ints([2]))).await;
    add(&before, &first.table).await;
    make(&first.store, &first.table).await;
    let second = extend(&first, [regular("d", Type::Text), regular("e", Type::Boolean)]).await;
    add(&before, &second.table).await;
    second
        .expect(
            &ints([1]),
            &[row(1, [None, Some(b"x"), Some(&int(2)), None, None])],
        )
        .await;
    second.drop().await;
}

/// Checks that a change that is not an addition of columns is rejected, and changes nothing. The error names
/// the difference.
pub async fn other_changes_are_refused(bench: &dyn Bench) {
    let fixture = table(bench, "added_r").await;
    let key = [
        partition("p", Type::Int),
        clustering("c", Type::Int, Direction::Descending),
        fixed("s", Type::Text),
    ];
    let with = |columns: Vec<Column>| key.iter().cloned().chain(columns).collect::<Vec<_>>();
    let a = || regular("a", Type::Text);
    let b = || regular("b", Type::Int);
    let cases: Vec<(Vec<Column>, &str)> = vec![
        (with(vec![]), "a"),
        (with(vec![b()]), "a"),
        (with(vec![regular("a", Type::Blob), b()]), "a"),
        (
            with(vec![
                column("a", Type::Text, ColumnKind::Regular(WriteKind::Cas)),
                b(),
            ]),
            "a",
        ),
        (with(vec![b(), a()]), "order"),
        (with(vec![a(), partition("q", Type::Int)]), "q"),
        (with(vec![a(), ascending("d", Type::Int)]), "d"),
        (with(vec![a(), fixed("t", Type::Int)]), "t"),
    ];
    let refused = async |recorded: &Table, wanted: &Table, named: &str| match fixture
        .store
        .add_columns(recorded, wanted)
        .await
    {
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Table, "{error}");
            let text = error.to_string();
            assert!(text.contains(named), "{text:?} names {named}");
        }
        Ok(outcome) => panic!("making {wanted:?} of another table ended as {outcome:?}"),
    };
    for (columns, named) in cases {
        let wanted = Table::new(fixture.table.name(), columns, fixture.table.options());
        let wanted = wanted.expect("the suite's tables are valid");
        refused(&fixture.table, &wanted, named).await;
        // The store also rejects a client that assumes that the table already has the other form.
        refused(&wanted, &wanted, named).await;
    }
    let options = TableOptions {
        gc_grace_seconds: 1_000,
        ..TableOptions::default()
    };
    let other_options = Table::new(fixture.table.name(), with(vec![a(), b()]), options);
    let other_options = other_options.expect("the suite's tables are valid");
    refused(&fixture.table, &other_options, "options").await;
    let absent = Table::new(
        bench.unique_name("added_n"),
        with(vec![a()]),
        TableOptions::default(),
    );
    let absent = absent.expect("the suite's tables are valid");
    refused(&absent, &absent, "added_n").await;
    let tables = fixture.store.list_tables().await.expect("tables can be listed");
    assert!(
        tables.contains(&fixture.table),
        "a refused change changes nothing"
    );
    fixture.drop().await;
}

/// Checks columns that an earlier, interrupted addition left, and that no client knows. If a later addition
/// contains such a column, it adopts the column. If it lacks the column, it is rejected with the name of the
/// column, or it removes the column from the table.
pub async fn adopts_or_rejects_columns_of_another_addition(bench: &dyn Bench) {
    let recorded = table(bench, "added_l").await;
    recorded
        .apply(&ints([1]), 1, put(ints([1]), cells([Some(b"x")])))
        .await;
    let left = extended(&recorded.table, [regular("b", Type::Int)]);
    add(&recorded, &left).await;
    let other = extended(&recorded.table, [regular("d", Type::Text)]);
    let fixture = match recorded.store.add_columns(&recorded.table, &other).await {
        Ok(TableOutcome::Done) => Fixture {
            store: recorded.store.clone(),
            table: Arc::new(other),
        },
        Ok(other) => panic!("it ended as {other:?}"),
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Table, "{error}");
            assert!(error.to_string().contains("column b"), "{error}");
            let both = extended(&left, [regular("d", Type::Text)]);
            extend(
                &recorded,
                both.columns()[recorded.table.columns().len()..].to_vec(),
            )
            .await
        }
    };
    let tables = fixture.store.list_tables().await.expect("tables can be listed");
    assert!(tables.contains(&fixture.table), "it is listed as it is now");
    let d = fixture.table.regular().len() as u16 - 1;
    fixture
        .apply(&ints([1]), 2, patch(ints([1]), [d], cells([Some(b"y")])))
        .await;
    let mut expected = vec![Some(int(1)), Some(int(1)), None, Some(b"x".to_vec())];
    expected.extend((1..d).map(|_| None));
    expected.push(Some(b"y".to_vec()));
    let expected: Cells = expected.iter().map(Option::as_deref).collect();
    fixture.expect(&ints([1]), &[expected]).await;
    fixture.drop().await;
}

/// Checks that a client with the earlier definition of the table reads, writes and deletes as before. Its
/// writes do not change the added columns, and a row exists if only these columns have values.
pub async fn the_table_as_it_was_still_works(bench: &dyn Bench) {
    let before = table(bench, "added_o").await;
    // If the store prepares statements, these statements are prepared before the table changes.
    before
        .apply(&ints([1]), 10, put(ints([1]), cells([Some(b"x")])))
        .await;
    before
        .apply(&ints([1]), 10, patch(ints([2]), [0], cells([Some(b"x")])))
        .await;
    before
        .expect(
            &ints([1]),
            &[row(2, [None, Some(b"x")]), row(1, [None, Some(b"x")])],
        )
        .await;
    let after = extend(&before, [regular("b", Type::Int)]).await;
    after
        .apply(&ints([1]), 20, put(ints([3]), cells([Some(b"y"), Some(&int(3))])))
        .await;
    after
        .apply(&ints([1]), 30, patch(ints([1]), [1], ints([1])))
        .await;
    after
        .apply(&ints([1]), 20, patch(ints([4]), [1], ints([4])))
        .await;
    before
        .apply(&ints([1]), 20, patch_static([0], cells([Some(b"s")])))
        .await;
    let seen = [
        row(4, [Some(b"s"), None]),
        row(3, [Some(b"s"), Some(b"y")]),
        row(2, [Some(b"s"), Some(b"x")]),
        row(1, [Some(b"s"), Some(b"x")]),
    ];
    before.expect(&ints([1]), &seen).await;
    assert_eq!(scan(&before).await, seen);
    assert_eq!(before.get(&ints([1]), &ints([4])).await, Some(seen[0].clone()));
    let stamped = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let snapshot = before.snapshot();
    let read = snapshot.slice(&before.whole(&ints([1])), &stamped).await;
    let stamps = read.expect("a partition can be read").stamps;
    assert_eq!(
        stamps,
        [0, 20, 10, 10],
        "stamps are of the columns that were asked for"
    );
    drop(snapshot);
    // Put whole rows, patch, delete, and delete with an older stamp.
    before.apply(&ints([1]), 40, put(ints([1]), cells([None]))).await;
    before
        .apply(&ints([1]), 40, patch(ints([3]), [0], cells([Some(b"z")])))
        .await;
    let delete = |c| Operation::DeleteRow {
        clustering: ints([c]),
    };
    before.apply(&ints([1]), 40, delete(4)).await;
    before.apply(&ints([1]), 5, delete(2)).await;
    let expected = [
        row(3, [Some(b"s"), Some(b"z"), Some(&int(3))]),
        row(2, [Some(b"s"), Some(b"x"), None]),
        row(1, [Some(b"s"), None, Some(&int(1))]),
    ];
    after.expect(&ints([1]), &expected).await;
    before
        .apply(
            &ints([1]),
            50,
            Operation::DeleteRange {
                from: Bound::start(),
                to: Bound::Before(ints([2])),
            },
        )
        .await;
    after.expect(&ints([1]), &expected[1..]).await;
    // The extended table cannot become the earlier one, and the earlier one cannot be created again.
    let shrunk = before.store.add_columns(&before.table, &before.table).await;
    assert_eq!(
        shrunk.expect_err("columns are not removed").kind(),
        StoreErrorKind::Table
    );
    let made = before.store.create_table(&before.table).await;
    assert_eq!(
        made.expect_err("another table is there").kind(),
        StoreErrorKind::Table
    );
    after.drop().await;
}

/// Checks that conditional writes of a client with the earlier definition of the table do not change the
/// added columns.
pub async fn conditional_writes_to_the_table_as_it_was(bench: &dyn Bench) {
    let before = conditional_table(bench, "added_d").await;
    let after = extend(&before, [conditional("m")]).await;
    applies(
        &after,
        cas(&after, (0, Some(7)), patch(ints([1]), [1], ints([8]))),
    )
    .await;
    applies(&before, cas(&before, (0, Some(7)), put(ints([1]), ints([9])))).await;
    after.expect(&ints([1]), &[ints([1, 1, 9, 8])]).await;
    before.expect(&ints([1]), &[ints([1, 1, 9])]).await;
    after.drop().await;
}

/// Checks that a client that uses columns which are not added yet gets an error, and nothing is written.
pub async fn a_table_not_extended_yet_is_an_error(bench: &dyn Bench) {
    let before = table(bench, "added_e").await;
    let early = Fixture {
        store: before.store.clone(),
        table: Arc::new(extended(&before.table, [regular("b", Type::Int)])),
    };
    let snapshot = early.snapshot();
    let read = snapshot
        .slice(&early.whole(&ints([1])), &ReadOptions::default())
        .await;
    let error = read.expect_err("there is no such column");
    assert_eq!(error.kind(), StoreErrorKind::Table, "{error}");
    let write = early.write_of(
        &ints([1]),
        vec![at(1, put(ints([1]), cells([Some(b"x"), Some(&int(1))])))],
    );
    match early.try_write(write).await {
        Err(error) | Ok(WriteOutcome::Refused(error)) => assert_eq!(error.kind(), StoreErrorKind::Table),
        other => panic!("a write to a column that is not there ended as {other:?}"),
    }
    before.expect(&ints([1]), &[]).await;
    // After its failed write, the client succeeds as soon as the columns are added.
    add(&before, &early.table).await;
    early
        .apply(&ints([1]), 1, put(ints([1]), cells([Some(b"x"), Some(&int(1))])))
        .await;
    early
        .expect(&ints([1]), &[row(1, [None, Some(b"x"), Some(&int(1))])])
        .await;
    early.drop().await;
}

/// Checks that a snapshot from before the addition continues to serve reads with the earlier definition of
/// the table.
pub async fn views_from_before(bench: &dyn Bench) {
    let before = table(bench, "added_v").await;
    before
        .apply(&ints([1]), 1, put(ints([1]), cells([Some(b"x")])))
        .await;
    let snapshot = before.snapshot();
    let after = extend(&before, [regular("b", Type::Int)]).await;
    let options = ReadOptions::default();
    let read = snapshot.slice(&before.whole(&ints([1])), &options).await;
    let rows = read.expect("a snapshot outlives a change of tables").rows;
    assert_eq!(all(&rows), [row(1, [None, Some(b"x")])]);
    let point = PointRead {
        table: after.table.clone(),
        partition: ints([1]),
        clustering: ints([1]),
    };
    match snapshot.get(&point, &options).await {
        Ok(read) => {
            assert!(
                bench.is_remote(),
                "a snapshot does not know what was added after it"
            );
            assert_eq!(all(&read.rows), [row(1, [None, Some(b"x"), None])]);
        }
        Err(error) => {
            assert!(!bench.is_remote(), "{error}");
            assert_eq!(error.kind(), StoreErrorKind::Table);
        }
    }
    drop(snapshot);
    after.drop().await;
}

/// Checks that several concurrent additions of the same columns all succeed. Concurrent writes to the earlier
/// form of the table lose nothing.
pub async fn concurrent_additions_beside_writes(bench: &dyn Bench) {
    /// Number of concurrent additions.
    const ADDERS: usize = 3;
    /// Number of rows that are written during the additions.
    const ROWS: i32 = 40;
    let before = table(bench, "added_p").await;
    let wanted = extended(&before.table, [regular("b", Type::Int), regular("d", Type::Text)]);
    let adders = (0..ADDERS).map(|_| {
        let (store, recorded, wanted) = (before.store.clone(), before.table.clone(), wanted.clone());
        tokio::spawn(async move { store.add_columns(&recorded, &wanted).await })
    });
    let adders: Vec<_> = adders.collect();
    for c in 0..ROWS {
        before
            .apply(&ints([1]), 1, put(ints([c]), cells([Some(b"x")])))
            .await;
    }
    for adder in adders {
        let outcome = adder.await.expect("adding does not panic");
        assert!(
            matches!(outcome, Ok(TableOutcome::Done)),
            "it ended as {outcome:?}"
        );
    }
    let after = Fixture {
        store: before.store.clone(),
        table: Arc::new(wanted),
    };
    let expected: Vec<Cells> = (0..ROWS)
        .rev()
        .map(|c| row(c, [None, Some(b"x"), None, None]))
        .collect();
    after.expect(&ints([1]), &expected).await;
    let tables = after.store.list_tables().await.expect("tables can be listed");
    assert!(tables.contains(&after.table), "both columns are there");
    after.drop().await;
}
