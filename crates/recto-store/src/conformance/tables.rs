//! Behaviors of creating, listing, comparing and dropping tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recto_model::table::{ColumnKind, ReadDirection};
use recto_model::table::{Compaction, TableOptions, WriteKind};
use recto_model::{Bound, Column, Direction, Table, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, clustering, column, concat, fixed, int, ints, make, partition,
    patch_static, put, regular,
};
use crate::{
    Operation, PartitionWrite, ReadOptions, StoreErrorKind, TableOutcome, TableState, WriteOptions,
    WriteOutcome,
};

/// Number of tables that are created and dropped concurrently with listings.
const OTHER_TABLES: usize = 8;

/// Checks that the description of a store begins with the name of its kind. If the store reports that
/// deletions leave no tombstones, reads cross no tombstones.
pub async fn describes_its_kind_and_tombstones(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "kind").await;
    let described = fixture.store.describe();
    let word = described.split(|c: char| !c.is_ascii_alphanumeric()).next();
    assert_eq!(word, Some(fixture.store.kind().name()), "{described}");
    for c in 1..=3 {
        let row = put(ints([c]), cells([Some(b"x"), None]));
        fixture.apply(&ints([1]), 1, row).await;
    }
    let clustering = ints([2]);
    fixture
        .apply(&ints([1]), 2, Operation::DeleteRow { clustering })
        .await;
    let read = fixture.read(&fixture.whole(&ints([1]))).await;
    assert_eq!(read.rows.len(), 2);
    let leaves_tombstones = fixture.store.limits().leaves_tombstones;
    assert!(leaves_tombstones || read.tombstones == 0, "{read:?}");
    fixture.drop().await;
}

/// Checks that creating an equal table again succeeds, and keeps its rows.
pub async fn make_is_idempotent(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "again").await;
    let row = cells([Some(b"x"), None]);
    fixture.apply(&ints([1]), 1, put(ints([1]), row.clone())).await;
    make(&fixture.store, &fixture.table).await;
    fixture.expect(&ints([1]), &[concat(&ints([1, 1]), &row)]).await;
    fixture.drop().await;
}

/// Checks that creating a table with other columns under an existing name is an error, and changes nothing.
pub async fn make_another_of_the_same_name_fails(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "taken").await;
    let others = [
        vec![partition("p", Type::Int), ascending("c", Type::Int)],
        vec![
            partition("p", Type::Int),
            clustering("c", Type::Int, Direction::Descending),
            regular("a", Type::Text),
            regular("b", Type::Int),
        ],
        vec![
            partition("p", Type::Int),
            ascending("c", Type::Int),
            regular("a", Type::Text),
            column("b", Type::Int, ColumnKind::Regular(WriteKind::Cas)),
        ],
    ];
    for columns in others {
        let other = Table::new(fixture.table.name(), columns, TableOptions::default())
            .expect("the suite's tables are valid");
        match fixture.store.create_table(&other).await {
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::Table, "{error}"),
            Ok(outcome) => panic!("making another table of a taken name ended as {outcome:?}"),
        }
    }
    let row = cells([Some(b"x"), None]);
    fixture.apply(&ints([1]), 1, put(ints([1]), row.clone())).await;
    fixture.expect(&ints([1]), &[concat(&ints([1, 1]), &row)]).await;
    fixture.drop().await;
}

/// Checks that listing returns tables that are equal to the created ones: columns, kinds, types, options.
pub async fn list_returns_equal_tables_sorted(bench: &dyn Bench) {
    let store = bench.store();
    let options = TableOptions {
        compaction: Compaction::Tombstones,
        gc_grace_seconds: 14_400,
        automatic_snapshots: false,
        counts_rows: store.limits().counts_rows,
        buckets: None,
        allows_empty_partition: false,
    };
    let columns = vec![
        partition("p", Type::Uuid),
        partition("q", Type::Text),
        clustering("c", Type::Timestamp, Direction::Descending),
        ascending("d", Type::Decimal),
        fixed("s", Type::Int),
        column("t", Type::BigInt, ColumnKind::Static(WriteKind::Cas)),
        regular(
            "z",
            Type::Map(Box::new(Type::Text), Box::new(Type::List(Box::new(Type::Int)))),
        ),
        regular("a", Type::Tuple(vec![Type::Int, Type::Text])),
        column(
            "m",
            Type::Vector(Box::new(Type::Float), 3),
            ColumnKind::Regular(WriteKind::Cas),
        ),
    ];
    let valid = "the suite's tables are valid";
    let first = Table::new(bench.unique_name("list_b"), columns, options).expect(valid);
    let columns = vec![partition("p", Type::Inet)];
    let second = Table::new(bench.unique_name("list_a"), columns, TableOptions::default()).expect(valid);
    make(&store, &first).await;
    make(&store, &second).await;
    let tables = store.list_tables().await.expect("tables can be listed");
    assert!(tables.is_sorted_by_key(Table::name), "tables are sorted by name");
    for made in [&first, &second] {
        let found = tables.iter().find(|table| table.name() == made.name());
        assert_eq!(found, Some(made));
        assert!(matches!(
            store.drop_table(made.name()).await,
            Ok(TableOutcome::Done)
        ));
    }
}

/// Checks that tables can be listed while other tables are created and dropped. A table that is not dropped
/// is in each list.
pub async fn list_beside_others_being_made_and_dropped(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "list_s").await;
    let has_ended = AtomicBool::new(false);
    let others = async {
        for _ in 0..OTHER_TABLES {
            Fixture::simple(bench, "list_o").await.drop().await;
        }
        has_ended.store(true, Ordering::Relaxed);
    };
    let listings = async {
        while !has_ended.load(Ordering::Relaxed) {
            let tables = fixture.store.list_tables().await.expect("tables can be listed");
            assert!(tables.contains(&fixture.table), "a table that stays is listed");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(others, listings);
    fixture.drop().await;
}

/// Checks that a dropped table is gone with its rows. Dropping an absent table succeeds. The name can be used
/// again.
pub async fn drop_removes_rows_and_is_idempotent(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "dropped").await;
    let row = put(ints([1]), cells([Some(b"x"), None]));
    fixture.apply(&ints([1]), 1, row).await;
    for _ in 0..2 {
        let outcome = fixture.store.drop_table(fixture.table.name()).await;
        assert!(matches!(outcome, Ok(TableOutcome::Done)), "{outcome:?}");
    }
    let tables = fixture.store.list_tables().await.expect("tables can be listed");
    assert!(tables.iter().all(|table| table.name() != fixture.table.name()));
    make(&fixture.store, &fixture.table).await;
    fixture.expect(&ints([1]), &[]).await;
    fixture.drop().await;
}

/// Checks that a comparison reports for each table whether it is as requested, is absent, or differs, and how
/// it differs.
pub async fn compare_tells_what_is_there(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "compared").await;
    let of = |columns: Vec<Column>| {
        let table = Table::new(fixture.table.name(), columns, fixture.table.options());
        table.expect("the suite's tables are valid")
    };
    let columns = fixture.table.columns();
    let as_it_was = of(columns[..3].to_vec());
    let mut other = columns.to_vec();
    other[3].ty = Type::BigInt;
    let more = columns.iter().cloned().chain([regular("z", Type::Int)]).collect();
    let absent = bench.unique_name("compared_a");
    let absent = Table::new(absent, columns.to_vec(), fixture.table.options());
    let asked = [
        Table::clone(&fixture.table),
        as_it_was,
        of(other),
        of(more),
        absent.expect("the suite's tables are valid"),
    ];
    let states = fixture.store.compare_tables(&asked).await;
    let other = |text: &str| TableState::Other(text.to_owned());
    assert_eq!(
        states.expect("tables can be compared"),
        [
            TableState::AsAsked,
            TableState::AsAsked,
            other("column b has type int, not bigint"),
            other("column z is missing"),
            TableState::Missing,
        ]
    );
    fixture.drop().await;
}

/// Checks that reading or writing an absent table is an error of the kind `Table`.
pub async fn unknown_tables_are_errors(bench: &dyn Bench) {
    let store = bench.store();
    let columns = vec![partition("p", Type::Int), ascending("c", Type::Int)];
    let table = Table::new(bench.unique_name("absent"), columns, TableOptions::default());
    let fixture = Fixture {
        store,
        table: Arc::new(table.expect("the suite's tables are valid")),
    };
    let snapshot = fixture.snapshot();
    let read = snapshot
        .slice(&fixture.whole(&ints([1])), &ReadOptions::default())
        .await;
    assert_eq!(
        read.expect_err("there is no such table").kind(),
        StoreErrorKind::Table
    );
    let write: PartitionWrite = fixture.write_of(&ints([1]), vec![at(1, put(ints([1]), cells([])))]);
    match fixture.store.write(write, WriteOptions::default()).await {
        Err(error) | Ok(WriteOutcome::Refused(error)) => assert_eq!(error.kind(), StoreErrorKind::Table),
        other => panic!("a write to a table that is not there ended as {other:?}"),
    }
    let emptied = fixture.store.empty_table(&fixture.table).await;
    assert_eq!(
        emptied.expect_err("there is no such table").kind(),
        StoreErrorKind::Table
    );
}

/// Checks that tables, rows and static cells exist after the store was closed and opened again.
pub async fn reopening_keeps_everything(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "reopened").await;
    for c in 0..20 {
        let mutations = vec![
            at(1, put(ints([c]), cells([Some(b"x")]))),
            at(1, patch_static([1], ints([7]))),
        ];
        fixture.write(&ints([1]), mutations).await;
    }
    let table = fixture.table.clone();
    drop(fixture);
    let store = bench.reopen().await;
    let fixture = Fixture { store, table };
    let tables = fixture.store.list_tables().await.expect("tables can be listed");
    assert!(
        tables.contains(&fixture.table),
        "the table is there after reopening"
    );
    let slice = fixture.slice_of(
        &ints([1]),
        Bound::start(),
        Bound::end(),
        ReadDirection::Backward,
        100,
    );
    let read = fixture.read(&slice).await;
    assert_eq!(read.rows.len(), 20);
    let last = cells([Some(&int(1)), Some(&int(19)), None, Some(&int(7)), Some(b"x")]);
    assert_eq!(read.rows.row(0), last.as_row());
    fixture.drop().await;
}
