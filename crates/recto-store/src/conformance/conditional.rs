//! Behaviors of conditional writes.

use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Cells, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, cells, column, concat, int, ints, partition, patch, patch_static, put,
};
use crate::{
    Cas, CasCondition, CasOutcome, ConsistencyLevel, Mutation, Operation, ReadOptions, RowAddress, Store,
    WriteOptions,
};

/// Index of the column `n` among the regular columns.
const N: u16 = 0;
const A: u16 = 1;
/// Index of the column `s` among the static columns.
const S: u16 = 0;

/// Creates a table: partition `p int`, clustering `c int`, static `s int`, regular `n int` and `a text`, all
/// for conditional writes.
async fn table(bench: &dyn Bench, prefix: &str) -> Fixture {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        column("s", Type::Int, ColumnKind::Static(WriteKind::Cas)),
        column("n", Type::Int, ColumnKind::Regular(WriteKind::Cas)),
        column("a", Type::Text, ColumnKind::Regular(WriteKind::Cas)),
    ];
    Fixture::new(bench, prefix, columns).await
}

fn on_row(c: i32, column: u16, expected: Option<&[u8]>) -> CasCondition {
    CasCondition {
        row: RowAddress::Row(ints([c])),
        column,
        expected: expected.map(<[u8]>::to_vec),
    }
}

fn on_static(expected: Option<i32>) -> CasCondition {
    CasCondition {
        row: RowAddress::Static,
        column: S,
        expected: expected.map(int),
    }
}

fn cas_of(fixture: &Fixture, conditions: &[CasCondition], operations: &[Operation]) -> Cas {
    let mutation = |operation: &Operation| Mutation {
        operation: operation.clone(),
        stamp: None,
        ttl_seconds: None,
    };
    Cas {
        table: fixture.table.clone(),
        partition: ints([1]),
        conditions: conditions.to_vec(),
        mutations: operations.iter().map(mutation).collect(),
    }
}

async fn applies(fixture: &Fixture, conditions: &[CasCondition], operations: &[Operation]) {
    let cas = cas_of(fixture, conditions, operations);
    let outcome = fixture.store.cas(cas.clone(), WriteOptions::default()).await;
    assert!(
        matches!(outcome, Ok(CasOutcome::Applied)),
        "{cas:?} ended as {outcome:?}"
    );
}

async fn does_not_apply(
    fixture: &Fixture,
    conditions: &[CasCondition],
    operations: &[Operation],
    expected: &[Option<Vec<u8>>],
) {
    let before = (
        fixture.rows(&ints([1])).await,
        fixture.get_statics(&ints([1])).await,
    );
    let cas = cas_of(fixture, conditions, operations);
    match fixture.store.cas(cas.clone(), WriteOptions::default()).await {
        Ok(CasOutcome::NotApplied { current }) => assert_eq!(current, expected, "{cas:?}"),
        other => panic!("{cas:?} ended as {other:?}"),
    }
    let after = (
        fixture.rows(&ints([1])).await,
        fixture.get_statics(&ints([1])).await,
    );
    assert_eq!(
        after, before,
        "a conditional write that did not apply changed something"
    );
}

fn row(c: i32, s: Option<i32>, n: Option<i32>, a: Option<&[u8]>) -> Cells {
    cells([
        Some(&int(1)),
        Some(&int(c)),
        s.map(int).as_deref(),
        n.map(int).as_deref(),
        a,
    ])
}

/// Checks inserts of absent rows, changes of rows that are as expected, and the current values that calls
/// return for other rows.
pub async fn applied_and_not_applied(bench: &dyn Bench) {
    let fixture = table(bench, "cas").await;
    let insert = put(ints([1]), cells([Some(&int(1)), Some(b"x")]));
    applies(&fixture, &[on_row(1, N, None)], std::slice::from_ref(&insert)).await;
    fixture
        .expect(&ints([1]), &[row(1, None, Some(1), Some(b"x"))])
        .await;
    does_not_apply(&fixture, &[on_row(1, N, None)], &[insert], &[Some(int(1))]).await;
    let change = [patch(ints([1]), [N], ints([2]))];
    does_not_apply(&fixture, &[on_row(1, N, Some(&int(7)))], &change, &[Some(int(1))]).await;
    applies(&fixture, &[on_row(1, N, Some(&int(1)))], &change).await;
    fixture
        .expect(&ints([1]), &[row(1, None, Some(2), Some(b"x"))])
        .await;
    does_not_apply(&fixture, &[on_row(1, N, Some(&int(1)))], &change, &[Some(int(2))]).await;
    let replace = [put(ints([1]), cells([Some(&int(3)), None]))];
    applies(&fixture, &[on_row(1, N, Some(&int(2)))], &replace).await;
    fixture.expect(&ints([1]), &[row(1, None, Some(3), None)]).await;
    fixture.drop().await;
}

/// Checks that conditions distinguish null, empty and absent. A condition for null holds for an absent row
/// and for a null cell, but not for an empty cell.
pub async fn null_and_empty_conditions(bench: &dyn Bench) {
    let fixture = table(bench, "cas_null").await;
    let touch = [patch(ints([1]), [N], ints([1]))];
    does_not_apply(&fixture, &[on_row(1, A, Some(b""))], &touch, &[None]).await;
    applies(&fixture, &[on_row(1, A, None)], &touch).await;
    applies(
        &fixture,
        &[on_row(1, A, None)],
        &[patch(ints([1]), [A], cells([Some(b"")]))],
    )
    .await;
    does_not_apply(&fixture, &[on_row(1, A, None)], &touch, &[Some(Vec::new())]).await;
    applies(
        &fixture,
        &[on_row(1, A, Some(b""))],
        &[patch(ints([1]), [A, N], cells([None, None]))],
    )
    .await;
    fixture.expect(&ints([1]), &[row(1, None, None, None)]).await;
    applies(
        &fixture,
        &[on_row(1, A, None)],
        &[Operation::DeleteRow {
            clustering: ints([1]),
        }],
    )
    .await;
    fixture.expect(&ints([1]), &[]).await;
    fixture.drop().await;
}

/// Checks that a condition on a static column protects rows of its partition.
pub async fn static_conditions(bench: &dyn Bench) {
    let fixture = table(bench, "cas_static").await;
    let add = |c: i32, s: i32| {
        [
            patch_static([S], ints([s])),
            put(ints([c]), cells([Some(&int(c)), None])),
        ]
    };
    applies(&fixture, &[on_static(None)], &add(1, 10)).await;
    does_not_apply(&fixture, &[on_static(None)], &add(2, 11), &[Some(int(10))]).await;
    does_not_apply(&fixture, &[on_static(Some(9))], &add(2, 11), &[Some(int(10))]).await;
    applies(&fixture, &[on_static(Some(10))], &add(2, 11)).await;
    applies(
        &fixture,
        &[on_static(Some(11))],
        &[put(ints([3]), cells([None, Some(b"only a row")]))],
    )
    .await;
    applies(&fixture, &[on_static(Some(11))], &[patch_static([S], ints([12]))]).await;
    let rows = [
        row(1, Some(12), Some(1), None),
        row(2, Some(12), Some(2), None),
        row(3, Some(12), None, Some(b"only a row")),
    ];
    fixture.expect(&ints([1]), &rows).await;
    let remove = [
        patch_static([S], cells([None])),
        Operation::DeleteRow {
            clustering: ints([2]),
        },
    ];
    applies(&fixture, &[on_static(Some(12))], &remove).await;
    fixture
        .expect(
            &ints([1]),
            &[
                row(1, None, Some(1), None),
                row(3, None, None, Some(b"only a row")),
            ],
        )
        .await;
    assert_eq!(fixture.get_statics(&ints([1])).await, None);
    fixture.drop().await;
}

/// Checks several conditions on several rows and the static cells. All conditions must hold, and the current
/// value of each is returned.
pub async fn several_conditions(bench: &dyn Bench) {
    let fixture = table(bench, "cas_several").await;
    let begin = [
        patch_static([S], ints([5])),
        put(ints([1]), cells([Some(&int(1)), Some(b"x")])),
        put(ints([2]), cells([Some(&int(2)), None])),
    ];
    applies(&fixture, &[on_static(None)], &begin).await;
    let change = [
        patch(ints([1]), [N], ints([7])),
        patch(ints([2]), [A], cells([Some(b"y")])),
        put(ints([3]), cells([None, None])),
    ];
    let conditions = |n: i32, c: Option<i32>| {
        [
            on_row(2, N, Some(&int(n))),
            on_row(1, A, Some(b"x")),
            on_row(3, N, c.map(int).as_deref()),
            on_static(Some(5)),
            on_row(1, N, Some(&int(1))),
        ]
    };
    let current = [
        Some(int(2)),
        Some(b"x".to_vec()),
        None,
        Some(int(5)),
        Some(int(1)),
    ];
    does_not_apply(&fixture, &conditions(3, None), &change, &current).await;
    does_not_apply(&fixture, &conditions(2, Some(1)), &change, &current).await;
    applies(&fixture, &conditions(2, None), &change).await;
    let rows = [
        row(1, Some(5), Some(7), Some(b"x")),
        row(2, Some(5), Some(2), Some(b"y")),
        row(3, Some(5), None, None),
    ];
    fixture.expect(&ints([1]), &rows).await;
    fixture.drop().await;
}

/// Checks that concurrent writers, which each append their number to a text by conditional writes, append
/// each number exactly once. This holds even if outcomes are unknown.
pub async fn race_applies_each_once(bench: &dyn Bench) {
    /// Number of concurrent writers.
    const WRITERS: usize = 16;
    let fixture = table(bench, "cas_race").await;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(append(fixture.store.clone(), fixture.table.clone(), writer)))
        .collect();
    for task in tasks {
        task.await.expect("each writer succeeds");
    }
    let rows = fixture.rows(&ints([1])).await;
    let text = rows[0]
        .get(4)
        .map(|text| String::from_utf8_lossy(text).into_owned());
    let mut writers: Vec<usize> = text
        .iter()
        .flat_map(|text| text.split_whitespace())
        .map(|number| number.parse().expect("writers append numbers"))
        .collect();
    writers.sort_unstable();
    assert_eq!(writers, (0..WRITERS).collect::<Vec<_>>());
    fixture.drop().await;
}

/// Appends the number `writer` to the text of row 1 by a conditional write, and repeats the write until it is
/// applied. The text never becomes shorter. If a conditional write of unknown outcome is applied late, it
/// finds another text and changes nothing.
async fn append(store: std::sync::Arc<dyn Store>, table: std::sync::Arc<recto_model::Table>, writer: usize) {
    /// Maximum number of attempts that fail because another writer was faster or the outcome is unknown.
    const ATTEMPTS: usize = 500;
    let fixture = Fixture { store, table };
    let options = ReadOptions {
        consistency: Some(ConsistencyLevel::Serial),
        ..ReadOptions::default()
    };
    for _ in 0..ATTEMPTS {
        let snapshot = fixture.snapshot();
        let Ok(read) = snapshot.slice(&fixture.whole(&ints([1])), &options).await else {
            continue;
        };
        let current = read
            .rows
            .iter()
            .next()
            .and_then(|row| row.get(4).map(<[u8]>::to_vec));
        let text = String::from_utf8_lossy(current.as_deref().unwrap_or_default()).into_owned();
        if text.split_whitespace().any(|number| number == writer.to_string()) {
            return;
        }
        let text = format!("{text}{writer} ");
        let write = patch(ints([1]), [A], cells([Some(text.as_bytes())]));
        let cas = cas_of(&fixture, &[on_row(1, A, current.as_deref())], &[write]);
        match fixture.store.cas(cas, WriteOptions::default()).await {
            Ok(CasOutcome::Applied) => return,
            Ok(CasOutcome::Refused(error)) => panic!("{error}"),
            Ok(CasOutcome::NotApplied { .. } | CasOutcome::Unknown(_)) | Err(_) => {
                tokio::time::sleep(std::time::Duration::from_millis(writer as u64 % 7)).await;
            }
        }
    }
    panic!("writer {writer} did not succeed in {ATTEMPTS} attempts");
}

/// Checks that on a store with one copy, reads of every consistency see an applied conditional write.
pub async fn applied_is_seen_at_every_consistency(bench: &dyn Bench) {
    let fixture = table(bench, "cas_read").await;
    applies(
        &fixture,
        &[on_static(None)],
        &[patch_static([S], ints([1])), put(ints([1]), cells([None, None]))],
    )
    .await;
    let expected = concat(&ints([1, 1]), &cells([Some(&int(1)), None, None]));
    for consistency in [
        ConsistencyLevel::Quorum,
        ConsistencyLevel::LocalQuorum,
        ConsistencyLevel::Serial,
        ConsistencyLevel::LocalSerial,
    ] {
        let options = ReadOptions {
            consistency: Some(consistency),
            ..ReadOptions::default()
        };
        let snapshot = fixture.snapshot();
        let read = snapshot.slice(&fixture.whole(&ints([1])), &options).await;
        let read = read.unwrap_or_else(|error| panic!("{consistency:?}: {error}"));
        assert_eq!(
            read.rows.iter().map(|row| row.to_cells()).collect::<Vec<_>>(),
            std::slice::from_ref(&expected)
        );
    }
    fixture.drop().await;
}
