//! Behaviors of inserts, which are for rows that never change.

use std::time::Duration;

use recto_model::{Bound, Cells, Table, Type};

use super::Bench;
use super::fixture::{Fixture, ascending, at, cells, concat, insert, int, ints, partition, put, regular};
use crate::{
    Atomicity, Mutation, Operation, PartitionWrite, RowsMet, StoreErrorKind, TableOutcome, WriteOptions,
    WriteOutcome,
};

fn row(c: i32, a: Option<&[u8]>, b: Option<i32>) -> (Cells, Cells) {
    (ints([c]), cells([a, b.map(int).as_deref()]))
}

/// Returns an insert of a row, given by its clustering and regular cells, with the write timestamp `stamp`.
fn inserting(stamp: i64, (clustering, cells): (Cells, Cells)) -> Mutation {
    at(stamp, insert(clustering, cells))
}

fn stored((clustering, cells): &(Cells, Cells)) -> Cells {
    concat(&concat(&ints([1]), clustering), cells)
}

fn sees_conflicts(bench: &dyn Bench) -> bool {
    bench.store().limits().sees_conflicts
}

async fn conflict(fixture: &Fixture, mutations: Vec<Mutation>, number: usize) {
    let write = fixture.write_of(&ints([1]), mutations);
    let outcome = fixture.try_write(write).await;
    assert!(
        matches!(outcome, Ok(WriteOutcome::Conflict(there)) if there == number),
        "{outcome:?}"
    );
}

/// Checks that an insert creates a row. A repetition of the insert, with the same or a later stamp, changes
/// nothing. A null cell equals an absent value.
pub async fn the_same_row_again_is_done(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "again").await;
    let rows = [
        row(1, Some(b"x"), Some(1)),
        row(2, Some(b""), None),
        row(3, None, None),
    ];
    for stamp in [1, 1, 2] {
        let mutations = rows.iter().map(|row| inserting(stamp, row.clone())).collect();
        fixture.write(&ints([1]), mutations).await;
        fixture.expect(&ints([1]), &rows.each_ref().map(stored)).await;
    }
    fixture.drop().await;
}

/// Checks that a different row with the same key is a conflict if the store detects conflicts. In this case
/// nothing of the call is written. Otherwise the two rows are merged.
pub async fn another_row_conflicts_and_nothing_is_written(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "another").await;
    let p = ints([1]);
    fixture
        .write(&p, vec![inserting(1, row(5, Some(b"x"), Some(1)))])
        .await;
    if !sees_conflicts(bench) {
        fixture.write(&p, vec![inserting(2, row(5, None, Some(2)))]).await;
        fixture.expect(&p, &[stored(&row(5, Some(b"x"), Some(2)))]).await;
        return fixture.drop().await;
    }
    let others = [
        row(5, Some(b"y"), Some(1)),
        row(5, Some(b"x"), None),
        row(5, None, None),
        row(5, Some(b"x"), Some(2)),
    ];
    for other in others {
        let around = |c| inserting(2, row(c, Some(b"new"), None));
        conflict(
            &fixture,
            vec![around(4), inserting(2, other.clone()), around(6)],
            1,
        )
        .await;
        // A different row with an older stamp conflicts too.
        conflict(&fixture, vec![inserting(0, other.clone())], 0).await;
        for atomicity in [Atomicity::Logged, Atomicity::Each] {
            let before = fixture.write_of(
                &ints([2]),
                vec![around(1), at(2, put(ints([2]), cells([None, None])))],
            );
            let write = fixture.write_of(&p, vec![inserting(2, other.clone())]);
            let outcome = fixture
                .store
                .write_many(vec![before, write], atomicity, WriteOptions::default())
                .await;
            assert!(matches!(outcome, Ok(WriteOutcome::Conflict(2))), "{outcome:?}");
            fixture.expect(&ints([2]), &[]).await;
        }
    }
    fixture.expect(&p, &[stored(&row(5, Some(b"x"), Some(1)))]).await;
    fixture.drop().await;
}

/// Checks that an insert succeeds if the row with its key was deleted or has expired.
pub async fn deleted_and_expired_rows_do_not_conflict(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "gone").await;
    let p = ints([1]);
    let rows = [1, 2].map(|c| row(c, Some(b"x"), Some(1)));
    let mut expiring = inserting(1, rows[1].clone());
    expiring.ttl_seconds = Some(1);
    fixture
        .write(&p, vec![inserting(1, rows[0].clone()), expiring])
        .await;
    let deletion = Operation::DeleteRow {
        clustering: ints([1]),
    };
    fixture.apply(&p, 2, deletion).await;
    bench.wait(Duration::from_millis(2200)).await;
    fixture.expect(&p, &[]).await;
    let others = [1, 2].map(|c| row(c, None, Some(2)));
    let mutations = others.iter().map(|row| inserting(3, row.clone())).collect();
    fixture.write(&p, mutations).await;
    fixture.expect(&p, &others.each_ref().map(stored)).await;
    fixture.drop().await;
}

/// Checks that inserts and deletions of one row in one call are applied in the order of their stamps.
pub async fn inserts_of_one_call_act_one_after_the_other(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "one_call").await;
    let p = ints([1]);
    let (one, other) = (row(1, Some(b"x"), None), row(1, None, Some(2)));
    let delete = |stamp| {
        at(
            stamp,
            Operation::DeleteRow {
                clustering: ints([1]),
            },
        )
    };
    let same = vec![inserting(1, one.clone()), inserting(2, one.clone())];
    fixture.write(&p, same).await;
    let replaced = vec![inserting(4, other.clone()), delete(3)];
    fixture.write(&p, replaced).await;
    fixture.expect(&p, &[stored(&other)]).await;
    if sees_conflicts(bench) {
        // The conflict of a later mutation also undoes the deletion of the same call.
        let mutations = vec![delete(5), inserting(6, one.clone()), inserting(7, other.clone())];
        conflict(&fixture, mutations, 2).await;
        fixture.expect(&p, &[stored(&other)]).await;
        let mutations = vec![inserting(5, one.clone()), delete(6)];
        conflict(&fixture, mutations, 0).await;
        fixture.expect(&p, &[stored(&other)]).await;
    }
    let mutations = vec![inserting(8, other.clone()), delete(9)];
    fixture.write(&p, mutations).await;
    fixture.expect(&p, &[]).await;
    fixture.drop().await;
}

/// Checks the lifetime of a row that is inserted again. It is the longer of the two lifetimes if the store
/// detects conflicts, and otherwise the lifetime of the newer insert.
pub async fn the_longer_life_holds(bench: &dyn Bench) {
    /// Lifetime in seconds that is long enough for a second write before its end.
    const SHORT_SECONDS: u32 = 3;
    let fixture = Fixture::simple(bench, "life").await;
    let p = ints([1]);
    let lives = [
        (Some(SHORT_SECONDS), Some(1000)),
        (Some(SHORT_SECONDS), None),
        (None, Some(SHORT_SECONDS)),
        (Some(1000), Some(SHORT_SECONDS)),
        (Some(SHORT_SECONDS), Some(SHORT_SECONDS)),
    ];
    for second in [false, true] {
        let mutations = (1..).zip(&lives).map(|(c, (before, after))| Mutation {
            ttl_seconds: if second { *after } else { *before },
            ..inserting(1 + i64::from(second), row(c, Some(b"x"), None))
        });
        fixture.write(&p, mutations.collect()).await;
    }
    bench
        .wait(Duration::from_millis(u64::from(SHORT_SECONDS) * 1000 + 1200))
        .await;
    let left: &[i32] = if sees_conflicts(bench) {
        &[1, 2, 3, 4]
    } else {
        &[1, 2]
    };
    let rows: Vec<Cells> = left.iter().map(|c| stored(&row(*c, Some(b"x"), None))).collect();
    fixture.expect(&p, &rows).await;
    fixture.drop().await;
}

/// Checks that a write row by row skips conflicting rows, and counts the existing rows that it found.
pub async fn row_by_row(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "each_row").await;
    let p = ints([1]);
    let x = |c| row(c, Some(b"x"), None);
    fixture
        .write(&p, (1..=4).map(|c| inserting(1, x(c))).collect())
        .await;
    let replacing = |stamp, (clustering, cells): (Cells, Cells)| at(stamp, put(clustering, cells));
    let writes: Vec<PartitionWrite> = vec![
        fixture.write_of(
            &p,
            vec![
                inserting(2, x(1)),
                inserting(2, row(2, Some(b"y"), None)),
                inserting(2, x(9)),
            ],
        ),
        fixture.write_of(
            &p,
            vec![
                replacing(2, row(3, None, Some(1))),
                replacing(2, x(4)),
                replacing(2, x(8)),
                inserting(3, row(9, None, None)),
            ],
        ),
    ];
    let options = WriteOptions {
        row_by_row: true,
        ..WriteOptions::default()
    };
    let write = || fixture.store.write_many(writes.clone(), Atomicity::Each, options);
    let outcome = write().await;
    if !sees_conflicts(bench) {
        assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
        return fixture.drop().await;
    }
    let Ok(WriteOutcome::Counted(mut met)) = outcome else {
        panic!("{outcome:?}")
    };
    met.conflicts.sort_unstable();
    let expected = RowsMet {
        conflicts: vec![1, 6],
        replaced: 1,
        repeated: 2,
    };
    assert_eq!(met, expected);
    let rows = [x(1), x(2), row(3, None, Some(1)), x(4), x(8), x(9)];
    fixture.expect(&p, &rows.each_ref().map(stored)).await;
    // In a second attempt, the rows that the first attempt wrote do not count as replaced.
    let outcome = write().await;
    let Ok(WriteOutcome::Counted(met)) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(met.replaced == 0 && met.conflicts.len() == 2, "{met:?}");
    fixture.expect(&p, &rows.each_ref().map(stored)).await;
    fixture.drop().await;
}

/// Checks that a conflict after many new rows undoes all of them. In a write row by row, the new rows stay.
pub async fn a_conflict_behind_many_new_rows(bench: &dyn Bench) {
    if !sees_conflicts(bench) {
        return;
    }
    let fixture = Fixture::simple(bench, "behind").await;
    let p = ints([1]);
    let new = |c| row(c, Some(b"x"), None);
    let there = row(60, Some(b"y"), None);
    fixture.write(&p, vec![inserting(1, there.clone())]).await;
    let inserts: Vec<Mutation> = (0..100).map(|c| inserting(2, new(c))).collect();
    conflict(&fixture, inserts.clone(), 60).await;
    fixture.expect(&p, &[stored(&there)]).await;

    let options = WriteOptions {
        row_by_row: true,
        ..WriteOptions::default()
    };
    let writes = vec![fixture.write_of(&p, inserts)];
    let outcome = fixture.store.write_many(writes, Atomicity::Each, options).await;
    let Ok(WriteOutcome::Counted(met)) = outcome else {
        panic!("{outcome:?}")
    };
    let expected = RowsMet {
        conflicts: vec![60],
        ..RowsMet::default()
    };
    assert_eq!(met, expected);
    let rows: Vec<Cells> = (0..100)
        .map(|c| stored(&if c == 60 { there.clone() } else { new(c) }))
        .collect();
    fixture.expect(&p, &rows).await;
    fixture.drop().await;
}

/// Checks that a client that does not know an added column inserts the same row again. The value of the added
/// column stays.
pub async fn added_columns_are_left_alone(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        regular("a", Type::Text),
    ];
    let before = Fixture::new(bench, "older", columns).await;
    let mut columns = before.table.columns().to_vec();
    columns.push(regular("b", Type::Int));
    let table = Table::new(before.table.name(), columns, before.table.options()).expect("a column was added");
    let added = before.store.add_columns(&before.table, &table).await;
    assert!(matches!(added, Ok(TableOutcome::Done)), "{added:?}");
    let after = Fixture {
        store: before.store.clone(),
        table: table.into(),
    };
    let p = ints([1]);
    after
        .write(&p, vec![inserting(1, row(1, Some(b"x"), Some(7)))])
        .await;
    let known = |a: &[u8]| (ints([1]), cells([Some(a)]));
    before.write(&p, vec![inserting(2, known(b"x"))]).await;
    if sees_conflicts(bench) {
        conflict(&before, vec![inserting(2, known(b"y"))], 0).await;
        conflict(&after, vec![inserting(2, row(1, Some(b"x"), None))], 0).await;
    }
    after.expect(&p, &[stored(&row(1, Some(b"x"), Some(7)))]).await;
    after.drop().await;
}

/// Checks that a call must not contain inserts together with deletions of ranges or partitions.
pub async fn not_beside_deletions_of_ranges(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "beside").await;
    let range = Operation::DeleteRange {
        from: Bound::start(),
        to: Bound::end(),
    };
    for deletion in [range, Operation::DeletePartition] {
        let (one, other) = (inserting(2, row(1, None, None)), at(1, deletion));
        let together = fixture.write_of(&ints([1]), vec![one.clone(), other.clone()]);
        let apart = [one, other].map(|mutation| fixture.write_of(&ints([1]), vec![mutation]));
        for writes in [vec![together], apart.to_vec()] {
            let outcome = fixture
                .store
                .write_many(writes, Atomicity::Each, WriteOptions::default())
                .await;
            let Ok(WriteOutcome::Refused(error)) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(error.kind(), StoreErrorKind::Invalid);
        }
    }
    fixture.expect(&ints([1]), &[]).await;
    fixture.drop().await;
}
