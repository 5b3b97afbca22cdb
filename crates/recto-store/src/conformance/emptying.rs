//! Behaviors of emptying tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Table, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, column, concat, int, ints, make, partition, patch_static, put, regular,
};
use super::scans::scan;
use crate::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, ReadOptions, RowAddress, StoreErrorKind,
    TableOutcome, WriteOptions, WriteOutcome,
};

/// Approximate number of rows that a writer writes before the emptying begins, and again after its end.
const ROWS_OF_WRITER: i32 = 10;

/// Checks that emptying removes rows and static cells. Data that is written afterwards stays, with any stamp.
pub async fn rows_and_statics_are_removed(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "emptied").await;
    for p in 0..5 {
        let mutations = vec![
            at(100, put(ints([1]), cells([Some(b"x")]))),
            at(100, patch_static([0], cells([Some(b"s")]))),
        ];
        fixture.write(&ints([p]), mutations).await;
    }
    let outcome = fixture.store.empty_table(&fixture.table).await;
    assert!(matches!(outcome, Ok(TableOutcome::Done)), "{outcome:?}");
    for p in 0..5 {
        fixture.expect(&ints([p]), &[]).await;
        assert_eq!(fixture.get_statics(&ints([p])).await, None);
    }
    fixture
        .apply(&ints([1]), 1, put(ints([2]), cells([Some(b"y")])))
        .await;
    let row = cells([Some(&int(1)), Some(&int(2)), None, None, Some(b"y")]);
    fixture.expect(&ints([1]), &[row]).await;
    fixture.drop().await;
}

/// Checks that emptying removes the content of one table and of no other. The content includes deleted and
/// expiring rows, columns that only other clients know, and, unless the store is remote, decided conditional
/// writes. The definition of the table stays, and emptying it again succeeds. A snapshot from before does not
/// change.
pub async fn one_table_is_emptied_whole(bench: &dyn Bench) {
    let options = TableOptions {
        automatic_snapshots: false,
        ..TableOptions::default()
    };
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        column("s", Type::Int, ColumnKind::Static(WriteKind::Cas)),
        regular("a", Type::Text),
    ];
    let valid = "the suite's tables are valid";
    let known = Table::new(bench.unique_name("whole"), columns, options).expect(valid);
    let mut columns = known.columns().to_vec();
    columns.push(regular("b", Type::Int));
    let table = Table::new(known.name(), columns, options).expect(valid);
    let fixture = Fixture {
        store: bench.store(),
        table: Arc::new(table),
    };
    make(&fixture.store, &fixture.table).await;
    let beside = Fixture::simple(bench, "whole_beside").await;
    fill_in_every_way(&fixture).await;
    let row = cells([Some(b"x"), Some(&int(1))]);
    beside.apply(&ints([1]), 1, put(ints([1]), row.clone())).await;
    let (before, whole) = (fixture.snapshot(), fixture.whole(&ints([1])));
    let rows_before = fixture.read(&whole).await.rows;

    for _ in 0..2 {
        if !bench.is_remote() {
            decide_static(&fixture, &ints([4])).await;
        }
        let outcome = fixture.store.empty_table(&known).await;
        assert!(matches!(outcome, Ok(TableOutcome::Done)), "{outcome:?}");
        assert_eq!(scan(&fixture, 1, 100).await, Vec::<Cells>::new());
    }
    let tables = fixture.store.list_tables().await.expect("tables can be listed");
    assert!(tables.contains(&fixture.table), "the table is as it was made");
    beside.expect(&ints([1]), &[concat(&ints([1, 1]), &row)]).await;
    if !bench.is_remote() {
        let read = before.slice(&whole, &ReadOptions::default()).await;
        let read = read.expect("a snapshot from before can be read");
        assert!(read.rows.iter().eq(rows_before.iter()), "a snapshot stands still");
    }
    drop(before);
    fixture
        .apply(&ints([2]), 1, put(ints([1]), cells([Some(b"y"), None])))
        .await;
    let row = cells([Some(&int(2)), Some(&int(1)), None, Some(b"y"), None]);
    assert_eq!(scan(&fixture, 1, 100).await, [row]);
    fixture.drop().await;
    beside.drop().await;
}

/// Writes rows that stay, rows that are deleted, and rows that expire.
async fn fill_in_every_way(fixture: &Fixture) {
    for p in 1..=3 {
        let row = |c: i32| put(ints([c]), cells([Some(b"x"), Some(&int(c))]));
        let mut expires = at(100, row(3));
        expires.ttl_seconds = Some(1_000);
        let mutations = vec![at(100, row(1)), at(100, row(2)), expires];
        fixture.write(&ints([p]), mutations).await;
        let clustering = ints([2]);
        fixture
            .apply(&ints([p]), 200, Operation::DeleteRow { clustering })
            .await;
    }
}

/// Sets the static cell of a partition by a conditional write, if the cell is null.
async fn decide_static(fixture: &Fixture, partition: &Cells) {
    let cas = Cas {
        table: fixture.table.clone(),
        partition: partition.clone(),
        conditions: vec![CasCondition {
            row: RowAddress::Static,
            column: 0,
            expected: None,
        }],
        mutations: vec![Mutation {
            operation: patch_static([0], ints([7])),
            stamp: None,
            ttl_seconds: None,
        }],
    };
    let outcome = fixture.store.cas(cas, WriteOptions::default()).await;
    assert!(matches!(outcome, Ok(CasOutcome::Applied)), "{outcome:?}");
}

/// Checks that an emptying concurrent with writers removes the writes that were acknowledged before it began,
/// and keeps the writes that began after its end. Writes in between may fail.
pub async fn beside_writers(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "beside").await;
    let emptying = Emptying::default();
    let emptied = async {
        while emptying.written.load(Ordering::SeqCst) < 2 * ROWS_OF_WRITER {
            tokio::task::yield_now().await;
        }
        emptying.has_begun.store(true, Ordering::SeqCst);
        let outcome = fixture.store.empty_table(&fixture.table).await;
        emptying.is_done.store(true, Ordering::SeqCst);
        assert!(matches!(outcome, Ok(TableOutcome::Done)), "{outcome:?}");
    };
    let ((), first, second) = tokio::join!(
        emptied,
        write_beside(&fixture, 0, &emptying),
        write_beside(&fixture, 1, &emptying)
    );
    for (p, (before, after)) in [(0, first), (1, second)] {
        let rows = fixture.rows(&ints([p])).await;
        let is_there = |c: i32| rows.iter().any(|row| row.get(1) == Some(&int(c)));
        let stay = after..=after + ROWS_OF_WRITER;
        assert!(stay.clone().all(is_there), "rows {stay:?} stay: {rows:?}");
        assert!(
            !(1..=before).any(is_there),
            "rows up to {before} are gone: {rows:?}"
        );
    }
    fixture.drop().await;
}

/// State that the emptying of a table and the concurrent writers share.
#[derive(Default)]
struct Emptying {
    written: AtomicI32,
    has_begun: AtomicBool,
    is_done: AtomicBool,
}

/// Writes rows of a partition until some writes began after the end of the emptying. Returns the last write
/// that was acknowledged before the emptying began, and the first write that began after its end.
async fn write_beside(fixture: &Fixture, p: i32, emptying: &Emptying) -> (i32, i32) {
    let (mut before, mut after) = (0, i32::MAX);
    let mut c = 0;
    while c - ROWS_OF_WRITER < after {
        c += 1;
        let is_after = emptying.is_done.load(Ordering::SeqCst);
        if is_after {
            after = after.min(c);
        }
        let row = at(1, put(ints([c]), cells([Some(b"x"), None])));
        let outcome = fixture.try_write(fixture.write_of(&ints([p]), vec![row])).await;
        let has_begun = emptying.has_begun.load(Ordering::SeqCst);
        match outcome {
            Ok(WriteOutcome::Done) if !has_begun => before = c,
            Ok(WriteOutcome::Done) => {}
            Err(error) if has_begun && !is_after => assert_eq!(error.kind(), StoreErrorKind::Table),
            other => panic!("a write beside an emptying ended as {other:?}"),
        }
        emptying.written.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    (before, after)
}
