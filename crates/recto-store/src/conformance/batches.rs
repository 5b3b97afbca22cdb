//! Behaviors of writes of several rows and of several partitions.

use std::collections::BTreeMap;

use recto_model::{Bound, Cells};

use super::Bench;
use super::fixture::{Fixture, at, cells, concat, int, ints, put};
use crate::{Atomicity, Operation, PartitionWrite, WriteOptions, WriteOutcome};

const BOTH: [Atomicity; 2] = [Atomicity::Logged, Atomicity::Each];

async fn write_many(fixture: &Fixture, writes: Vec<PartitionWrite>, atomicity: Atomicity) {
    let outcome = fixture
        .store
        .write_many(writes, atomicity, WriteOptions::default())
        .await;
    assert!(
        matches!(outcome, Ok(WriteOutcome::Done)),
        "{atomicity:?} ended as {outcome:?}"
    );
}

/// Checks that a reader sees all rows of a write, or none of them.
pub async fn readers_see_whole_writes(bench: &dyn Bench) {
    /// Number of rows of the partition. Each write replaces all rows.
    const ROWS: i32 = 5;
    let fixture = Fixture::simple(bench, "whole").await;
    let p = ints([1]);
    let write = |round: i32| {
        let row = move |c| {
            at(
                i64::from(round),
                put(ints([c]), cells([Some(b"x"), Some(&int(round))])),
            )
        };
        fixture.write_of(&p, (0..ROWS).map(row).collect())
    };
    fixture.write(&p, write(1).mutations).await;
    let (store, writes): (_, Vec<PartitionWrite>) = (fixture.store.clone(), (2..60).map(write).collect());
    let writer = tokio::spawn(async move {
        for write in writes {
            let outcome = store.write(write, WriteOptions::default()).await;
            assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
        }
    });
    while !writer.is_finished() {
        let rows = fixture.rows(&p).await;
        assert_eq!(rows.len(), ROWS as usize);
        let rounds: Vec<Option<&[u8]>> = rows.iter().map(|row| row.get(3)).collect();
        assert!(
            rounds.iter().all(|round| *round == rounds[0]),
            "half a write is seen: {rounds:?}"
        );
        tokio::task::yield_now().await;
    }
    writer.await.expect("the writer succeeds");
    fixture.drop().await;
}

/// Checks one call that writes several partitions of several tables, and one partition twice.
pub async fn several_partitions_and_tables(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "many_a").await;
    let other = Fixture::with_statics(bench, "many_b").await;
    for (index, atomicity) in BOTH.into_iter().enumerate() {
        let first = index as i32 * 100;
        let mut writes: Vec<PartitionWrite> = (first..first + 10)
            .map(|p| fixture.write_of(&ints([p]), vec![at(5, put(ints([1]), cells([Some(b"x"), None])))]))
            .collect();
        writes.push(other.write_of(&ints([first]), vec![at(5, put(ints([1]), cells([Some(b"y")])))]));
        writes.push(fixture.write_of(&ints([first]), vec![at(5, put(ints([2]), cells([None, None])))]));
        write_many(&fixture, writes.clone(), atomicity).await;
        write_many(&fixture, writes, atomicity).await;
        let row = |p: i32| concat(&ints([p, 1]), &cells([Some(b"x"), None]));
        let second = concat(&ints([first, 2]), &cells([None, None]));
        fixture.expect(&ints([first]), &[row(first), second]).await;
        for p in first + 1..first + 10 {
            fixture.expect(&ints([p]), &[row(p)]).await;
        }
        let row = cells([Some(&int(first)), Some(&int(1)), None, None, Some(b"y")]);
        other.expect(&ints([first]), &[row]).await;
    }
    fixture.drop().await;
    other.drop().await;
}

/// Checks that two writes of one partition in one call are applied in the order of their stamps, like the
/// mutations of one write.
pub async fn two_writes_of_one_partition(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "twice").await;
    for (index, atomicity) in BOTH.into_iter().enumerate() {
        let p = ints([index as i32]);
        fixture.apply(&p, 1, put(ints([9]), cells([None, None]))).await;
        let newer = fixture.write_of(&p, vec![at(11, put(ints([1]), cells([Some(b"x"), None])))]);
        let range = Operation::DeleteRange {
            from: Bound::start(),
            to: Bound::end(),
        };
        let older = fixture.write_of(&p, vec![at(10, range)]);
        write_many(&fixture, vec![newer, older], atomicity).await;
        fixture
            .expect(&p, &[concat(&concat(&p, &ints([1])), &cells([Some(b"x"), None]))])
            .await;
    }
    fixture.drop().await;
}

/// Checks that a write without mutations, and a write without partitions, succeeds and changes nothing.
pub async fn writes_of_nothing_are_done(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "nothing").await;
    fixture.write(&ints([1]), Vec::new()).await;
    for atomicity in BOTH {
        write_many(&fixture, Vec::new(), atomicity).await;
        write_many(
            &fixture,
            vec![fixture.write_of(&ints([1]), Vec::new())],
            atomicity,
        )
        .await;
    }
    let nothing: [Cells; 0] = [];
    fixture.expect(&ints([1]), &nothing).await;
    fixture.drop().await;
}

/// Checks that the next read sees a relaxed write. A durable write after it succeeds too.
pub async fn relaxed_writes(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "relaxed").await;
    for relaxed in [true, true, false] {
        let write = fixture.write_of(&ints([1]), vec![at(1, put(ints([1]), cells([Some(b"x"), None])))]);
        let options = WriteOptions {
            relaxed,
            ..WriteOptions::default()
        };
        let outcome = fixture.store.write(write, options).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
        fixture
            .expect(&ints([1]), &[concat(&ints([1, 1]), &cells([Some(b"x"), None]))])
            .await;
    }
    fixture.drop().await;
}

/// Checks one call that inserts many rows between, before, after, and in place of existing rows.
pub async fn many_rows_among_others(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "among").await;
    let value = |c: i32, stamp: i32| cells([None, Some(&int(1_000 * stamp + c))]);
    let rows = |p: i32, numbers: Vec<i32>, stamp: i32| {
        let row = |c: i32| at(i64::from(stamp), put(ints([c]), value(c, stamp)));
        fixture.write_of(&ints([p]), numbers.into_iter().map(row).collect())
    };
    let calls = [
        vec![rows(1, (0..5).map(|n| 50 * n).collect(), 1)],
        // Some rows exist with older stamps.
        vec![rows(2, (0..40).collect(), 2), rows(1, (0..=120).collect(), 2)],
        // Some rows exist with newer stamps.
        vec![
            rows(1, (90..=240).rev().collect(), 1),
            rows(3, (-40..0).collect(), 1),
        ],
        // Each row occurs twice in the call, with different stamps.
        vec![rows(1, (230..280).collect(), 4), rows(1, (230..280).collect(), 3)],
        vec![rows(1, (-60..0).collect(), 5)],
    ];
    let mut expected: BTreeMap<(i32, i32), i32> = BTreeMap::new();
    for (p, numbers, stamp) in [
        (1, 90..241, 1),
        (1, 0..121, 2),
        (1, 230..280, 4),
        (1, -60..0, 5),
        (2, 0..40, 2),
        (3, -40..0, 1),
    ] {
        expected.extend(numbers.map(|c| ((p, c), stamp)));
    }
    for call in calls {
        write_many(&fixture, call, Atomicity::Each).await;
    }
    for p in 1..=3 {
        let of_partition = expected.range((p, i32::MIN)..=(p, i32::MAX));
        let rows: Vec<Cells> = of_partition
            .map(|((p, c), stamp)| concat(&ints([*p, *c]), &value(*c, *stamp)))
            .collect();
        fixture.expect(&ints([p]), &rows).await;
    }
    fixture.drop().await;
}
