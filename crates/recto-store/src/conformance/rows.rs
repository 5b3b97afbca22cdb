//! Behaviors of rows: nulls, existence, static cells, deletions, sizes.

use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Direction, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, clustering, concat, fixed, insert, int, ints, partition, patch,
    patch_static, put, regular,
};
use super::model::Model;
use crate::{ColumnSet, Operation, PointRead, ReadOptions, RowsRead};

/// Checks that reads distinguish null from empty text and empty blobs.
pub async fn nulls_and_empty_values_differ(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Text),
        regular("a", Type::Text),
        regular("b", Type::Blob),
        regular("d", Type::Ascii),
    ];
    let fixture = Fixture::new(bench, "empty", columns).await;
    let rows = [
        (&b""[..], [Some(&b""[..]), None, Some(&b""[..])]),
        (b"\0", [None, Some(b""), None]),
        (b"x", [Some(b"\0"), Some(b"\xFF\0"), Some(b"")]),
    ];
    let mut expected = Vec::new();
    for (key, values) in rows {
        let key = cells([Some(key)]);
        fixture
            .apply(&ints([1]), 1, put(key.clone(), cells(values)))
            .await;
        expected.push(concat(&concat(&ints([1]), &key), &cells(values)));
    }
    fixture.expect(&ints([1]), &expected).await;
    fixture.drop().await;
}

/// Checks that rows of many columns can have null in each of them.
pub async fn wide_rows(bench: &dyn Bench) {
    /// Number of regular columns of the table.
    const WIDTH: usize = 60;
    let mut columns = vec![partition("p", Type::Int), ascending("c", Type::Int)];
    columns.extend((0..WIDTH).map(|index| regular(&format!("v{index}"), Type::Int)));
    let fixture = Fixture::new(bench, "wide", columns).await;
    let mut model = Model::new(&fixture.table);
    let rows = (0..10).map(|c: i32| {
        let values: Vec<Option<Vec<u8>>> = (0..WIDTH as i32)
            .map(|index| ((index * (c + 1)) % 7 < 3).then(|| int(index * 100 + c)))
            .collect();
        concat(&ints([1, c]), &values.iter().map(Option::as_deref).collect())
    });
    fixture.fill(&mut model, rows.collect()).await;
    fixture.check(&model, &fixture.whole(&ints([1]))).await;
    fixture.drop().await;
}

/// Checks that a row exists if a put or patch gives it only nulls, also in a table that has only key columns.
/// It still exists after its last value is removed.
pub async fn rows_of_nulls_exist(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "nulls").await;
    let operations = [
        put(ints([1]), cells([None, None])),
        insert(ints([2]), cells([None, None])),
        patch(ints([3]), [1], cells([None])),
        patch(ints([4]), [], Cells::new()),
        patch(ints([5]), [0], cells([Some(b"x")])),
    ];
    for operation in operations {
        fixture.apply(&ints([1]), 1, operation).await;
    }
    fixture
        .apply(&ints([1]), 2, patch(ints([5]), [0], cells([None])))
        .await;
    let expected: Vec<Cells> = (1..=5)
        .map(|c| concat(&ints([1, c]), &cells([None, None])))
        .collect();
    fixture.expect(&ints([1]), &expected).await;
    for row in &expected {
        let key = cells([row.get(1)]);
        assert_eq!(fixture.get(&ints([1]), &key).await.as_ref(), Some(row));
    }
    fixture.drop().await;

    let columns = vec![partition("p", Type::Int), ascending("c", Type::Int)];
    let fixture = Fixture::new(bench, "keys_only", columns).await;
    fixture.apply(&ints([1]), 1, put(ints([1]), Cells::new())).await;
    fixture
        .apply(&ints([1]), 1, patch(ints([2]), [], Cells::new()))
        .await;
    fixture.expect(&ints([1]), &[ints([1, 1]), ints([1, 2])]).await;
    fixture.drop().await;
}

/// Checks that a replacing put deletes the values of columns that are null in it.
pub async fn put_replaces(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "replace").await;
    let both = put(ints([1]), cells([Some(b"old"), Some(&int(1))]));
    fixture.apply(&ints([1]), 1, both).await;
    let one = put(ints([1]), cells([None, Some(&int(2))]));
    fixture.apply(&ints([1]), 2, one).await;
    let replaced = concat(&ints([1, 1]), &cells([None, Some(&int(2))]));
    fixture.expect(&ints([1]), &[replaced]).await;
    fixture.drop().await;
}

/// Checks that a patch sets the columns that it names, in any order, and does not change the others.
pub async fn patch_sets_some_columns(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "patch").await;
    fixture
        .apply(
            &ints([1]),
            1,
            put(ints([1]), cells([Some(b"old"), Some(&int(1))])),
        )
        .await;
    fixture
        .apply(&ints([1]), 2, patch(ints([1]), [1], ints([2])))
        .await;
    let row = concat(&ints([1, 1]), &cells([Some(b"old"), Some(&int(2))]));
    fixture.expect(&ints([1]), &[row]).await;
    let both = patch(ints([1]), [1, 0], cells([None, Some(b"new")]));
    fixture.apply(&ints([1]), 3, both).await;
    fixture
        .apply(&ints([1]), 3, patch(ints([2]), [0], cells([Some(b"made")])))
        .await;
    let first = concat(&ints([1, 1]), &cells([Some(b"new"), None]));
    let second = concat(&ints([1, 2]), &cells([Some(b"made"), None]));
    fixture.expect(&ints([1]), &[first, second]).await;
    fixture.drop().await;
}

/// Checks that deleting a row, a range and a partition removes exactly their rows. Deleting absent data
/// succeeds. A row that is put afterwards with a later stamp exists.
pub async fn delete_row_range_partition(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "deleted").await;
    let mut model = Model::new(&fixture.table);
    let rows = [1, 2]
        .into_iter()
        .flat_map(|p| (0..10).map(move |c| concat(&ints([p, c]), &cells([Some(b"x"), Some(&int(c))]))));
    fixture.fill(&mut model, rows.collect()).await;
    fixture
        .apply(
            &ints([1]),
            2,
            Operation::DeleteRow {
                clustering: ints([3]),
            },
        )
        .await;
    fixture
        .apply(
            &ints([1]),
            2,
            Operation::DeleteRow {
                clustering: ints([99]),
            },
        )
        .await;
    let (from, to) = (Bound::After(ints([5])), Bound::After(ints([7])));
    fixture
        .apply(&ints([1]), 2, Operation::DeleteRange { from, to })
        .await;
    model.retain(|row| {
        row.get(0) == Some(&int(2)) || ![3, 6, 7].map(int).iter().any(|c| row.get(1) == Some(c))
    });
    fixture.check(&model, &fixture.whole(&ints([1]))).await;
    fixture.check(&model, &fixture.whole(&ints([2]))).await;
    fixture.apply(&ints([1]), 3, Operation::DeletePartition).await;
    fixture.apply(&ints([77]), 3, Operation::DeletePartition).await;
    fixture.expect(&ints([1]), &[]).await;
    fixture.check(&model, &fixture.whole(&ints([2]))).await;
    fixture
        .apply(&ints([1]), 4, put(ints([3]), cells([None, None])))
        .await;
    fixture
        .expect(&ints([1]), &[concat(&ints([1, 3]), &cells([None, None]))])
        .await;
    fixture.drop().await;
}

/// Checks that deleting a range deletes the rows that a slice with the same bounds reads, and no
/// static cells. Uses every form of bound, over two clustering columns of mixed directions.
pub async fn delete_range_with_every_bound(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        clustering("d", Type::Int, Direction::Descending),
        fixed("s", Type::Int),
    ];
    let fixture = Fixture::new(bench, "ranges", columns).await;
    let bounds = [
        Bound::start(),
        Bound::Before(ints([1])),
        Bound::After(ints([1])),
        Bound::Before(ints([1, 2])),
        Bound::After(ints([2, 1])),
        Bound::After(ints([9, 9])),
        Bound::end(),
    ];
    let mut partitions = 0;
    for from in &bounds {
        for to in &bounds {
            partitions += 1;
            let mut model = Model::new(&fixture.table);
            let mut mutations = vec![at(1, patch_static([0], ints([5])))];
            for (c, d) in (0..3).flat_map(|c| (0..3).map(move |d| (c, d))) {
                model.put(ints([partitions, c, d, 5]));
                mutations.push(at(1, put(ints([c, d]), Cells::new())));
            }
            fixture.write(&ints([partitions]), mutations).await;
            let (from, to) = (from.clone(), to.clone());
            let range = Operation::DeleteRange {
                from: from.clone(),
                to: to.clone(),
            };
            fixture.apply(&ints([partitions]), 2, range).await;
            let kept: Vec<Cells> = model
                .rows()
                .iter()
                .filter(|row| model.lies_before(row, &from) || !model.lies_before(row, &to))
                .cloned()
                .collect();
            model.retain(|row| kept.contains(row));
            fixture.check(&model, &fixture.whole(&ints([partitions]))).await;
            let statics = fixture.get_statics(&ints([partitions])).await;
            assert_eq!(
                statics,
                Some(ints([5])),
                "a range from {from:?} to {to:?} leaves statics"
            );
        }
    }
    fixture.drop().await;
}

/// Checks static cells that are absent, set, changed one by one, returned with every row, removed, and deleted
/// with the partition.
pub async fn statics(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "statics").await;
    let row =
        |c: i32, s: Option<&[u8]>, t: Option<&[u8]>| cells([Some(&int(1)), Some(&int(c)), s, t, Some(b"x")]);
    for c in 1..=3 {
        fixture
            .apply(&ints([1]), 1, put(ints([c]), cells([Some(b"x")])))
            .await;
    }
    assert_eq!(fixture.get_statics(&ints([1])).await, None);
    fixture
        .expect(&ints([1]), &[1, 2, 3].map(|c| row(c, None, None)))
        .await;
    let both = patch_static([1, 0], cells([Some(&int(7)), Some(b"s")]));
    fixture.apply(&ints([1]), 2, both).await;
    let seven = int(7);
    let expected = [1, 2, 3].map(|c| row(c, Some(b"s"), Some(&seven)));
    fixture.expect(&ints([1]), &expected).await;
    assert_eq!(
        fixture.get(&ints([1]), &ints([2])).await.as_ref(),
        Some(&expected[1])
    );
    fixture
        .apply(&ints([1]), 3, patch_static([0], cells([None])))
        .await;
    assert_eq!(
        fixture.get_statics(&ints([1])).await,
        Some(cells([None, Some(&seven)]))
    );
    fixture
        .apply(
            &ints([1]),
            4,
            Operation::DeleteRow {
                clustering: ints([1]),
            },
        )
        .await;
    let expected = [2, 3].map(|c| row(c, None, Some(&seven)));
    fixture.expect(&ints([1]), &expected).await;
    fixture.apply(&ints([1]), 5, Operation::DeletePartition).await;
    assert_eq!(fixture.get_statics(&ints([1])).await, None);
    fixture
        .apply(&ints([1]), 6, put(ints([1]), cells([Some(b"x")])))
        .await;
    fixture.expect(&ints([1]), &[row(1, None, None)]).await;
    fixture.drop().await;
}

/// Checks that a client that does not use some columns gets all other values, with stamps and without. For
/// the unused columns, it gets the value or null.
pub async fn columns_left_out(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "unseen_columns").await;
    for c in 1..=3 {
        let row = put(ints([c]), cells([Some(b"x")]));
        fixture.apply(&ints([1]), i64::from(c), row).await;
    }
    let both = patch_static([0, 1], cells([Some(b"s"), Some(&int(7))]));
    fixture.apply(&ints([1]), 9, both).await;
    let (snapshot, mut slice) = (fixture.snapshot(), fixture.whole(&ints([1])));
    let statics = ColumnSet::statics(&fixture.table);
    let regular = ColumnSet::new().with(fixture.table.statics().len());
    let all = statics.with(fixture.table.statics().len());
    let unseen = [statics, regular, all].into_iter();
    for (unseen, stamps) in unseen.flat_map(|unseen| [(unseen, false), (unseen, true)]) {
        let options = ReadOptions {
            stamps,
            unseen,
            ..ReadOptions::default()
        };
        let point = PointRead {
            table: fixture.table.clone(),
            partition: ints([1]),
            clustering: ints([2]),
        };
        slice.limit = 2;
        slice.direction = ReadDirection::Backward;
        let reads = [
            (snapshot.slice(&slice, &options).await, vec![3, 2]),
            (snapshot.get(&point, &options).await, vec![2]),
        ];
        for (read, expected) in reads {
            let read = read.expect("rows can be read without some of their cells");
            assert_eq!(read.rows.width(), fixture.table.columns().len());
            assert_eq!(read.stamps, if stamps { expected.clone() } else { Vec::new() });
            for (row, c) in read.rows.iter().zip(&expected) {
                let c = int(*c as i32);
                let whole: [Option<&[u8]>; 5] =
                    [Some(&int(1)), Some(&c), Some(b"s"), Some(&int(7)), Some(b"x")];
                for (column, cell) in whole.into_iter().enumerate() {
                    let found = row.get(column);
                    let behind_key = column.checked_sub(fixture.table.key_len());
                    let may_be_null = behind_key.is_some_and(|column| unseen.contains(column));
                    assert!(
                        found == cell || (may_be_null && found.is_none()),
                        "column {column}"
                    );
                }
            }
            assert_eq!(read.rows.len(), expected.len());
        }
    }
    fixture.drop().await;
}

/// Checks that a partition with static cells and no rows has no rows. Deleting the last row keeps the static
/// cells.
pub async fn statics_without_rows(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "static_only").await;
    fixture
        .apply(&ints([1]), 1, patch_static([0], cells([Some(b"")])))
        .await;
    fixture.expect(&ints([1]), &[]).await;
    assert_eq!(fixture.get(&ints([1]), &ints([1])).await, None);
    assert_eq!(
        fixture.get_statics(&ints([1])).await,
        Some(cells([Some(b""), None]))
    );
    fixture
        .apply(&ints([1]), 1, put(ints([1]), cells([Some(b"x")])))
        .await;
    fixture
        .apply(
            &ints([1]),
            2,
            Operation::DeleteRow {
                clustering: ints([1]),
            },
        )
        .await;
    fixture.expect(&ints([1]), &[]).await;
    assert_eq!(
        fixture.get_statics(&ints([1])).await,
        Some(cells([Some(b""), None]))
    );
    fixture
        .apply(&ints([1]), 3, patch_static([0], cells([None])))
        .await;
    assert_eq!(fixture.get_statics(&ints([1])).await, None);
    fixture.drop().await;
}

/// Checks that a full key reads exactly its row.
pub async fn point_reads(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "points").await;
    let mut model = Model::new(&fixture.table);
    let rows = (0..20).map(|c| concat(&ints([1, c * 2]), &cells([Some(b"x"), Some(&int(c))])));
    fixture.fill(&mut model, rows.collect()).await;
    for c in -1..41 {
        let expected = model.rows().iter().find(|row| row.get(1) == Some(&int(c)));
        assert_eq!(fixture.get(&ints([1]), &ints([c])).await.as_ref(), expected);
        assert_eq!(fixture.get(&ints([2]), &ints([c])).await, None);
    }
    fixture.drop().await;
}

/// Checks that a read of many keys, with duplicates and absent rows, returns the same results as separate
/// reads.
pub async fn many_point_reads(bench: &dyn Bench) {
    let shapes = [
        vec![partition("p", Type::Int)],
        vec![partition("p", Type::Int), partition("q", Type::Int)],
        vec![partition("p", Type::Int), ascending("c", Type::Int)],
    ];
    for mut columns in shapes {
        let key_len = columns.len();
        columns.extend([regular("a", Type::Text), regular("b", Type::Int)]);
        let fixture = Fixture::new(bench, "many", columns).await;
        let key = |number: i32| {
            let key: Cells = ints([number, number % 3]).iter().take(key_len).collect();
            let partition_len = fixture.table.partition().len();
            PointRead {
                table: Arc::clone(&fixture.table),
                partition: key.iter().take(partition_len).collect(),
                clustering: key.iter().skip(partition_len).collect(),
            }
        };
        for number in 0..60 {
            let PointRead {
                partition,
                clustering,
                ..
            } = key(number);
            let b = int(number);
            let row = cells([Some(b"x"), (number % 5 > 0).then_some(&b[..])]);
            fixture
                .apply(&partition, i64::from(number) + 1, put(clustering, row))
                .await;
        }
        let reads: Vec<PointRead> = (-5..65).chain([7, 7, 100]).map(key).collect();
        let snapshot = fixture.store.snapshot().expect("the store is open");
        for (stamps, count) in [(false, reads.len()), (true, reads.len()), (false, 1), (false, 0)] {
            let options = ReadOptions {
                stamps,
                ..ReadOptions::default()
            };
            let reads = &reads[..count];
            let found = snapshot.get_many(reads, &options).await;
            let found = found.expect("keys of the table");
            assert_eq!(found.len(), count);
            for (read, found) in reads.iter().zip(found) {
                let alone = snapshot.get(read, &options).await.expect("a key of the table");
                let row = |read: &RowsRead| read.rows.iter().next().map(|row| row.iter().collect::<Cells>());
                assert_eq!(row(&found), row(&alone), "{read:?}");
                assert_eq!(found.stamps, alone.stamps, "{read:?}");
                assert_eq!(found.ends_in_seconds, alone.ends_in_seconds, "{read:?}");
                assert!(found.exhausted);
            }
        }
        drop(snapshot);
        fixture.drop().await;
    }
}

/// Checks that a value of one mebibyte is written, read in a slice and by its key, and replaced.
pub async fn large_rows(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        regular("v", Type::Blob),
    ];
    let fixture = Fixture::new(bench, "large", columns).await;
    let large: Vec<u8> = (0..1_u32 << 20).map(|index| (index % 251) as u8).collect();
    let mut expected = Vec::new();
    for c in 0..3 {
        fixture
            .apply(&ints([1]), 1, put(ints([c]), cells([Some(&large[c as usize..])])))
            .await;
        expected.push(concat(&ints([1, c]), &cells([Some(&large[c as usize..])])));
    }
    assert!(
        fixture.rows(&ints([1])).await == expected,
        "large rows read in a slice"
    );
    assert!(
        fixture.get(&ints([1]), &ints([1])).await.as_ref() == Some(&expected[1]),
        "a large row by key"
    );
    fixture
        .apply(&ints([1]), 2, put(ints([1]), cells([Some(b"small")])))
        .await;
    let small = concat(&ints([1, 1]), &cells([Some(b"small")]));
    assert_eq!(fixture.get(&ints([1]), &ints([1])).await, Some(small));
    fixture.drop().await;
}
