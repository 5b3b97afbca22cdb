//! Behaviors of stamps (write timestamps), which decide between two writes, and of expiry.

use std::time::Duration;

use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Bound, Cells, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, column, concat, int, ints, partition, patch, patch_static, put,
};
use crate::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PointRead, ReadOptions, RowAddress, Stamp,
    WriteOptions,
};

fn delete_row(c: i32) -> Operation {
    Operation::DeleteRow {
        clustering: ints([c]),
    }
}

/// Checks that writes and deletions that are older than a replacing put do not change its values.
pub async fn older_writes_are_ignored(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "older").await;
    let p = ints([1]);
    fixture.apply(&p, 100, put(ints([1]), cells([Some(b"a")]))).await;
    fixture
        .apply(&p, 100, patch_static([0, 1], cells([Some(b"a"), Some(&int(1))])))
        .await;
    let older = [
        put(ints([1]), cells([Some(b"z")])),
        put(ints([1]), cells([None])),
        patch(ints([1]), [0], cells([Some(b"z")])),
        patch_static([0], cells([Some(b"z")])),
        patch_static([1], cells([None])),
        delete_row(1),
        Operation::DeleteRange {
            from: Bound::start(),
            to: Bound::end(),
        },
        Operation::DeletePartition,
    ];
    let row = cells([
        Some(&int(1)),
        Some(&int(1)),
        Some(b"a"),
        Some(&int(1)),
        Some(b"a"),
    ]);
    for operation in older {
        fixture.apply(&p, 99, operation).await;
        fixture.expect(&p, std::slice::from_ref(&row)).await;
    }
    fixture.drop().await;
}

/// Checks that a store that returns its newest stamp returns one that is not older than any acknowledged
/// write, also after reopening. A client that continues from this stamp therefore replaces the existing data.
pub async fn the_newest_is_kept(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "newest").await;
    let p = ints([1]);
    let far = 4_102_444_800_000_000; // the year 2100: the clock has since been set back
    let row = |value: &'static [u8]| put(ints([1]), cells([Some(value), None]));
    fixture.apply(&p, far, row(b"first")).await;
    fixture.apply(&p, 5, row(b"older")).await;
    let before = fixture.store.newest_stamp();
    if let Some(newest) = before {
        assert!(
            newest >= Stamp(far),
            "{newest:?} is older than what was acknowledged"
        );
    }
    let table = fixture.table.clone();
    drop(fixture);
    let store = bench.reopen().await;
    let fixture = Fixture { store, table };
    let after = fixture.store.newest_stamp();
    assert!(after >= before, "{before:?} became {after:?}");
    if let Some(Stamp(newest)) = after {
        fixture.apply(&p, newest + 1, row(b"second")).await;
        let expected = cells([Some(&int(1)), Some(&int(1)), Some(b"second"), None]);
        fixture.expect(&p, &[expected]).await;
    }
    fixture.drop().await;
}

/// Checks that at equal stamps, a deletion of existing data wins, then the larger value by bytes, cell by
/// cell. Repeating a write therefore changes nothing.
pub async fn equal_stamps(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "equal").await;
    let p = ints([1]);
    let values = [
        cells([Some(b"b"), Some(&int(1))]),
        cells([Some(b"a"), Some(&int(-1))]),
    ];
    for (c, order) in [(1, [0, 1, 0]), (2, [1, 0, 1])] {
        for index in order {
            fixture
                .apply(&p, 100, put(ints([c]), values[index].clone()))
                .await;
        }
    }
    // At equal timestamps the larger bytes win, and the bytes of -1 are larger than the bytes of 1.
    let larger = cells([Some(b"b"), Some(&int(-1))]);
    let expected = [1, 2].map(|c| concat(&ints([1, c]), &larger));
    fixture.expect(&p, &expected).await;
    fixture.apply(&p, 100, delete_row(2)).await;
    fixture.apply(&p, 100, patch(ints([1]), [1], cells([None]))).await;
    let row = concat(&ints([1, 1]), &cells([Some(b"b"), None]));
    fixture.expect(&p, &[row]).await;
    fixture.apply(&p, 100, Operation::DeletePartition).await;
    fixture.expect(&p, &[]).await;
    fixture.drop().await;
}

/// Checks that the mutations of one write are applied in the order of their stamps, and not in
/// their order in the write. At equal stamps, deletions are applied last.
pub async fn mutations_of_one_write_act_by_stamp(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "ordered").await;
    let row = |a: &[u8], b: Option<i32>| cells([Some(a), b.map(int).as_deref()]);
    let range = |from, to| Operation::DeleteRange { from, to };
    let cases: Vec<(Vec<Mutation>, Option<Cells>)> = vec![
        (
            vec![
                at(100, put(ints([1]), row(b"x", Some(1)))),
                at(100, delete_row(1)),
            ],
            None,
        ),
        (
            vec![
                at(101, put(ints([1]), row(b"x", Some(1)))),
                at(100, delete_row(1)),
            ],
            Some(row(b"x", Some(1))),
        ),
        (
            vec![
                at(101, put(ints([1]), row(b"x", None))),
                at(100, Operation::DeletePartition),
            ],
            Some(row(b"x", None)),
        ),
        (
            vec![
                at(100, put(ints([1]), row(b"x", None))),
                at(100, Operation::DeletePartition),
            ],
            None,
        ),
        (
            vec![
                at(100, put(ints([1]), row(b"x", None))),
                at(100, range(Bound::start(), Bound::After(ints([1])))),
            ],
            None,
        ),
        (
            vec![
                at(101, put(ints([1]), row(b"x", None))),
                at(100, range(Bound::start(), Bound::end())),
            ],
            Some(row(b"x", None)),
        ),
        (
            vec![
                at(100, put(ints([1]), row(b"x", Some(1)))),
                at(101, patch(ints([1]), [1], ints([2]))),
            ],
            Some(row(b"x", Some(2))),
        ),
        (
            vec![
                at(101, put(ints([1]), row(b"x", None))),
                at(100, patch(ints([1]), [1], ints([2]))),
            ],
            Some(row(b"x", None)),
        ),
        (
            vec![
                at(100, put(ints([1]), row(b"z", Some(9)))),
                at(101, put(ints([1]), row(b"a", Some(1)))),
            ],
            Some(row(b"a", Some(1))),
        ),
    ];
    let mut p = 0;
    for (mutations, expected) in cases {
        for there in [false, true] {
            for reversed in [false, true] {
                p += 1;
                if there {
                    fixture
                        .apply(&ints([p]), 1, put(ints([1]), row(b"old", Some(0))))
                        .await;
                }
                let mut mutations = mutations.clone();
                if reversed {
                    mutations.reverse();
                }
                fixture.write(&ints([p]), mutations.clone()).await;
                let expected: Vec<Cells> = expected.iter().map(|row| concat(&ints([p, 1]), row)).collect();
                let found = fixture.rows(&ints([p])).await;
                assert_eq!(found, expected, "after {mutations:?}, row there before: {there}");
            }
        }
    }
    fixture.drop().await;
}

/// Checks that reads return the newest stamp of each row, if requested.
pub async fn stamps_are_returned(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "stamps").await;
    let p = ints([1]);
    for (c, stamp) in [(1, 1_000), (2, 2_000), (3, 1_700_000_000_000_000)] {
        fixture
            .apply(&p, stamp, put(ints([c]), cells([Some(b"x")])))
            .await;
    }
    fixture
        .apply(&p, 9_000, patch_static([0], cells([Some(b"s")])))
        .await;
    fixture
        .apply(&p, 3_000, patch(ints([1]), [0], cells([Some(b"y")])))
        .await;
    let snapshot = fixture.snapshot();
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let mut slice = fixture.whole(&p);
    let read = snapshot
        .slice(&slice, &options)
        .await
        .expect("rows can be read with stamps");
    assert_eq!(read.stamps, [3_000, 2_000, 1_700_000_000_000_000]);
    slice.direction = recto_model::table::ReadDirection::Backward;
    slice.limit = 2;
    let read = snapshot
        .slice(&slice, &options)
        .await
        .expect("rows can be read with stamps");
    assert_eq!(read.stamps, [1_700_000_000_000_000, 2_000]);
    let point = PointRead {
        table: fixture.table.clone(),
        partition: p.clone(),
        clustering: ints([2]),
    };
    let read = snapshot
        .get(&point, &options)
        .await
        .expect("a row can be read with its stamp");
    assert_eq!(read.stamps, [2_000]);
    let read = snapshot
        .slice(&slice, &ReadOptions::default())
        .await
        .expect("rows can be read");
    assert!(read.stamps.is_empty(), "stamps come only if asked for");
    fixture.drop().await;
}

fn expiring(stamp: i64, seconds: u32, operation: Operation) -> Mutation {
    Mutation {
        operation,
        stamp: Some(Stamp(stamp)),
        ttl_seconds: Some(seconds),
    }
}

/// Expiry in seconds that is long enough to read the data before its end, also on a busy machine.
const TTL_SECONDS: u32 = 10;

/// Checks that data that is written with an expiry exists until then and is completely gone afterwards: new
/// rows, existing rows, static cells, and rows of conditional writes. Data that is replaced without an expiry
/// stays.
pub async fn expiry(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "expiry").await;
    let p = ints([1]);
    let x = || cells([Some(b"x")]);
    fixture.apply(&p, 1, put(ints([2]), x())).await;
    fixture.apply(&p, 1, put(ints([4]), x())).await;
    let mutations = vec![
        expiring(2, TTL_SECONDS, put(ints([1]), x())),
        expiring(2, TTL_SECONDS, put(ints([2]), x())),
        expiring(2, TTL_SECONDS, put(ints([3]), x())),
        expiring(2, TTL_SECONDS, put(ints([5]), cells([None]))),
        expiring(2, 1000, put(ints([6]), x())),
        expiring(2, TTL_SECONDS, patch_static([0], x())),
    ];
    fixture.write(&p, mutations).await;
    fixture.apply(&p, 3, put(ints([3]), x())).await;
    let conditional = Conditional::new(bench).await;
    conditional.put(TTL_SECONDS, None).await;
    assert_eq!(fixture.rows(&p).await.len(), 6);
    lives_are_returned(&fixture, &p).await;
    assert_eq!(fixture.get_statics(&p).await, Some(cells([Some(b"x"), None])));

    bench
        .wait(Duration::from_millis(u64::from(TTL_SECONDS) * 1000 + 1200))
        .await;
    let row = |c: i32| concat(&ints([1, c]), &cells([None, None, Some(b"x")]));
    fixture.expect(&p, &[3, 4, 6].map(row)).await;
    assert_eq!(fixture.get(&p, &ints([1])).await, None);
    assert_eq!(fixture.get_statics(&p).await, None);
    conditional.put(1000, None).await;
    conditional.put(1000, Some(1)).await;
    fixture.apply(&p, 4, patch(ints([1]), [], Cells::new())).await;
    let bare = concat(&ints([1, 1]), &cells([None, None, None]));
    assert_eq!(fixture.get(&p, &ints([1])).await, Some(bare));
    conditional.0.drop().await;
    fixture.drop().await;
}

/// Checks that reads return the remaining lifetime of each row, if stamps are requested.
async fn lives_are_returned(fixture: &Fixture, p: &Cells) {
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let (snapshot, table) = (fixture.snapshot(), &fixture.table);
    let slice = snapshot.slice(&fixture.whole(p), &options).await;
    let mut found = vec![slice.expect("rows can be read with their lives").ends_in_seconds];
    let ranges = snapshot.token_ranges(table, 1).await;
    for range in ranges.expect("a table can be split") {
        let scan = snapshot.scan(table, &range, None, 100, &options).await;
        found.push(
            scan.expect("rows can be scanned with their lives")
                .ends_in_seconds,
        );
    }
    for lives in found {
        let [ends, longer, none, other, null, long] = lives[..] else {
            panic!("{lives:?}: one a row")
        };
        for ends in [ends, longer] {
            assert!(ends.is_some_and(|seconds| seconds <= TTL_SECONDS), "{lives:?}");
        }
        assert_eq!((none, other, null), (None, None, None), "{lives:?}");
        assert!(
            long.is_some_and(|seconds| (990..=1_000).contains(&seconds)),
            "{lives:?}"
        );
    }
}

/// Fixture whose table has one regular column, `n`, which only conditional writes change.
struct Conditional(Fixture);

impl Conditional {
    async fn new(bench: &dyn Bench) -> Self {
        let columns = vec![
            partition("p", Type::Int),
            ascending("c", Type::Int),
            column("n", Type::Int, ColumnKind::Regular(WriteKind::Cas)),
        ];
        Self(Fixture::new(bench, "expiry_cas", columns).await)
    }

    /// Sets the column `n` of row 1 to 1, with an expiry after `seconds`, if its current value is `expected`.
    async fn put(&self, seconds: u32, expected: Option<i32>) {
        let cas = Cas {
            table: self.0.table.clone(),
            partition: ints([1]),
            conditions: vec![CasCondition {
                row: RowAddress::Row(ints([1])),
                column: 0,
                expected: expected.map(int),
            }],
            mutations: vec![Mutation {
                operation: put(ints([1]), ints([1])),
                stamp: None,
                ttl_seconds: Some(seconds),
            }],
        };
        let outcome = self.0.store.cas(cas, WriteOptions::default()).await;
        assert!(
            matches!(outcome, Ok(CasOutcome::Applied)),
            "{outcome:?}, {expected:?} expected"
        );
    }
}
