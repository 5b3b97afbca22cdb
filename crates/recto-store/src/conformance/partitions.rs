//! Behaviors of scans that return each partition of a table once.

use std::sync::Arc;
use std::time::Duration;

use recto_model::table::TableOptions;
use recto_model::{Bound, Cells, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, concat, fixed, int, ints, partition, patch_static, put, regular,
};
use super::scans::{SCANS, ranges, sorted};
use crate::{Mutation, Operation, PointRead, ReadOptions, ScanRead, Stamp};

/// Returns the partitions of the table, by scans of `pieces` ranges. Each call of a scan uses its own
/// snapshot.
async fn scan(fixture: &Fixture, pieces: u32, limit: u32, options: &ReadOptions) -> Vec<Cells> {
    let table = &fixture.table;
    let mut found = Vec::new();
    for range in ranges(&fixture.store, table, pieces).await {
        let mut after = None;
        for step in 0.. {
            assert!(step < SCANS, "a range did not end in {SCANS} scans");
            let snapshot = fixture.snapshot();
            let read = snapshot
                .scan_partitions(table, &range, after.as_ref(), limit, options)
                .await;
            let read = read.expect("partitions can be scanned");
            take(fixture, &read, limit, &mut found);
            after = read.next;
            if after.is_none() {
                break;
            }
        }
    }
    found
}

fn take(fixture: &Fixture, read: &ScanRead, limit: u32, found: &mut Vec<Cells>) {
    assert!(
        read.rows.len() <= limit as usize,
        "a scan returns at most its limit"
    );
    let table = &fixture.table;
    let width = table.partition().len() + table.statics().len();
    assert_eq!(read.rows.width(), width, "a partition is its key and its statics");
    assert!(read.stamps.is_empty(), "partitions have no stamps");
    found.extend(read.rows.iter().map(|row| row.to_cells()));
}

/// Creates a table: partition `p int`, clustering `c int`, static `mark boolean`, `note text` and
/// `number int`, regular `a text`.
async fn marked(bench: &dyn Bench, prefix: &str) -> Fixture {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        fixed("mark", Type::Boolean),
        fixed("note", Type::Text),
        fixed("number", Type::Int),
        regular("a", Type::Text),
    ];
    Fixture::new(bench, prefix, columns).await
}

fn row(c: i32) -> Operation {
    put(ints([c]), cells([Some(b"x")]))
}

fn mark() -> Operation {
    patch_static([0], cells([Some(&[1])]))
}

/// Checks that a scan of partitions returns every partition once, with its static cells. The number of
/// ranges, the limit, and the number of rows do not matter. This includes a partition that has only static
/// cells.
pub async fn each_once_with_its_static_cells(bench: &dyn Bench) {
    let fixture = marked(bench, "parts").await;
    assert_eq!(
        scan(&fixture, 1, 10, &ReadOptions::default()).await,
        Vec::<Cells>::new()
    );
    let mut expected = Vec::new();
    for p in 0..40 {
        let rows = if p == 20 { 60 } else { p % 3 };
        let (is_marked, has_note) = (p % 4 == 0 || rows == 0, p % 4 == 1);
        let mut mutations: Vec<Mutation> = (0..rows).map(|c| at(1, row(c))).collect();
        if is_marked {
            mutations.push(at(1, mark()));
        }
        if has_note {
            mutations.push(at(1, patch_static([1], cells([Some(b"")]))));
        }
        fixture.write(&ints([p * 7919]), mutations).await;
        let statics = cells([is_marked.then_some(&[1]), has_note.then_some(b""), None]);
        expected.push(concat(&ints([p * 7919]), &statics));
    }
    let expected = sorted(expected);
    for (pieces, limit) in [(1, 100), (1, 1), (1, 40), (4, 7), (16, 1), (64, 100)] {
        let found = scan(&fixture, pieces, limit, &ReadOptions::default()).await;
        assert_eq!(sorted(found), expected, "{pieces} pieces, limit {limit}");
    }
    fixture.drop().await;
}

/// Checks partition keys of several parts, in a table without clustering columns.
pub async fn composite_keys(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Text),
        partition("q", Type::Int),
        regular("v", Type::Int),
    ];
    let fixture = Fixture::new(bench, "parts_keys", columns).await;
    let mut expected = Vec::new();
    for text in ["", "a", "a\0", "\u{e9}"] {
        for q in [-1, 0, 1] {
            let key = cells([Some(text.as_bytes()), Some(&int(q))]);
            fixture.apply(&key, 1, put(Cells::new(), ints([q]))).await;
            expected.push(key);
        }
    }
    let expected = sorted(expected);
    for (pieces, limit) in [(1, 1), (1, 3), (3, 8), (5, 100)] {
        let found = scan(&fixture, pieces, limit, &ReadOptions::default()).await;
        assert_eq!(sorted(found), expected, "{pieces} pieces, limit {limit}");
    }
    fixture.drop().await;
}

/// Checks that the only partition column may be empty if the table allows it. Values with similar stored
/// forms are not confused.
pub async fn empty_keys(bench: &dyn Bench) {
    for ty in [Type::Text, Type::Ascii, Type::Blob] {
        for is_listed in [false, true] {
            let mut columns = vec![partition("p", ty.clone()), regular("v", Type::Int)];
            if is_listed {
                columns.insert(1, ascending("c", Type::Int));
            }
            let options = TableOptions {
                allows_empty_partition: true,
                ..TableOptions::default()
            };
            let fixture = Fixture::with_options(bench, "parts_empty", columns, options).await;
            check_empty_keys(&fixture, if is_listed { ints([1]) } else { Cells::new() }).await;
            fixture.drop().await;
        }
    }
}

async fn check_empty_keys(fixture: &Fixture, clustering: Cells) {
    let keys = ["", "\0", "\0\0", "\0a", "a", "a\0"];
    let key = |text: &str| cells([Some(text.as_bytes())]);
    for (text, value) in keys.iter().zip(0..) {
        fixture
            .apply(&key(text), 1, put(clustering.clone(), ints([value])))
            .await;
    }
    let point = |text: &str| PointRead {
        table: Arc::clone(&fixture.table),
        partition: key(text),
        clustering: clustering.clone(),
    };
    let expected = |text: &str, value| concat(&concat(&key(text), &clustering), &ints([value]));
    let (snapshot, options) = (fixture.snapshot(), ReadOptions::default());
    let points: Vec<_> = keys.map(point).into();
    let together = snapshot
        .get_many(&points, &options)
        .await
        .expect("points can be read");
    for ((text, value), together) in keys.iter().zip(0..).zip(&together) {
        let alone = snapshot
            .get(&point(text), &options)
            .await
            .expect("a point can be read");
        for read in [&alone, together] {
            assert_eq!(read.rows.len(), 1, "{text:?}");
            assert_eq!(read.rows.row(0).to_cells(), expected(text, value), "{text:?}");
        }
    }
    let all = sorted(keys.iter().map(|text| key(text)).collect());
    for (pieces, limit) in [(1, 1), (1, 4), (3, 100)] {
        let found = scan(fixture, pieces, limit, &ReadOptions::default()).await;
        assert_eq!(sorted(found), all, "{pieces} pieces, limit {limit}");
        let rows = super::scans::scan(fixture, pieces, limit).await;
        let rows = rows.iter().map(|row| row.iter().take(1).collect());
        assert_eq!(sorted(rows.collect()), all, "{pieces} pieces, limit {limit}");
    }
    fixture.apply(&key(""), 2, Operation::DeletePartition).await;
    assert_eq!(count(fixture, &point("")).await, 0);
    assert_eq!(count(fixture, &point("\0")).await, 1);
}

/// Returns the number of rows with the key `point`: 0 or 1.
async fn count(fixture: &Fixture, point: &PointRead) -> usize {
    let read = fixture.snapshot().get(point, &ReadOptions::default()).await;
    read.expect("a point can be read").rows.len()
}

/// Checks that a partition exists while it has a row, or a static cell that is not null. A deletion of rows
/// keeps the static cells, and a deletion of static cells keeps the rows. Expired data does not count.
pub async fn lists_only_partitions_with_data(bench: &dyn Bench) {
    let fixture = marked(bench, "parts_gone").await;
    let unmark = || patch_static([0], cells([None]));
    let delete_row = |c| Operation::DeleteRow {
        clustering: ints([c]),
    };
    let delete_rows = || Operation::DeleteRange {
        from: Bound::start(),
        to: Bound::end(),
    };
    let life = |seconds| {
        move |operation| Mutation {
            operation,
            stamp: Some(Stamp(1)),
            ttl_seconds: Some(seconds),
        }
    };
    let (short, long) = (life(1), life(1_000));
    let cases: Vec<(Vec<Mutation>, Option<bool>)> = vec![
        (vec![at(1, row(1)), at(2, delete_row(1))], None),
        (
            vec![at(1, row(1)), at(1, row(2)), at(2, delete_row(1))],
            Some(false),
        ),
        (
            vec![at(1, row(1)), at(1, mark()), at(2, delete_rows())],
            Some(true),
        ),
        (vec![at(1, mark()), at(2, unmark())], None),
        (vec![at(1, mark()), at(2, unmark()), at(1, row(1))], Some(false)),
        (
            vec![at(1, mark()), at(1, row(1)), at(2, Operation::DeletePartition)],
            None,
        ),
        (vec![short(row(1))], None),
        (vec![short(mark())], None),
        (vec![short(mark()), at(1, row(1))], Some(false)),
        (vec![short(row(1)), at(1, mark())], Some(true)),
        (vec![long(row(1)), long(mark())], Some(true)),
    ];
    let mut expected = Vec::new();
    for (p, (mutations, listed)) in (0..).zip(cases) {
        fixture.write(&ints([p]), mutations).await;
        if let Some(is_marked) = listed {
            let statics = cells([is_marked.then_some(&[1]), None, None]);
            expected.push(concat(&ints([p]), &statics));
        }
    }
    bench.wait(Duration::from_millis(2200)).await;
    for (pieces, limit) in [(1, 100), (1, 1), (4, 2)] {
        let found = scan(&fixture, pieces, limit, &ReadOptions::default()).await;
        assert_eq!(
            sorted(found),
            sorted(expected.clone()),
            "{pieces} pieces, limit {limit}"
        );
    }
    fixture.drop().await;
}

/// Checks that scans of partitions stop at their byte limit, and can be continued.
pub async fn byte_limit(bench: &dyn Bench) {
    let fixture = marked(bench, "parts_bytes").await;
    let large = vec![b'x'; 10_000];
    let mut expected = Vec::new();
    for p in 0..12 {
        let note = cells([Some(&large)]);
        fixture.apply(&ints([p]), 1, patch_static([1], note)).await;
        expected.push(cells([Some(&int(p)), None, Some(&large), None]));
    }
    for (max_bytes, at_once) in [(1, 1), (25_000, 3)] {
        let options = ReadOptions {
            max_bytes,
            ..ReadOptions::default()
        };
        let range = &ranges(&fixture.store, &fixture.table, 1).await[0];
        let snapshot = fixture.snapshot();
        let read = snapshot
            .scan_partitions(&fixture.table, range, None, 1000, &options)
            .await;
        let count = read.expect("partitions can be scanned").rows.len();
        // Check the number of partitions only for a local store, because a remote store may read one more
        // protocol page.
        assert!(bench.is_remote() || count == at_once, "at most {max_bytes} bytes");
        let found = scan(&fixture, 1, 1000, &options).await;
        assert!(
            sorted(found) == sorted(expected.clone()),
            "at most {max_bytes} bytes at once"
        );
    }
    fixture.drop().await;
}

/// Checks that a scan continues while partitions are created and deleted. It returns each partition that
/// existed all the time once, even if the partition at which it stopped is deleted.
pub async fn goes_on_beside_writes(bench: &dyn Bench) {
    let fixture = marked(bench, "parts_beside").await;
    for p in 0..20 {
        fixture
            .write(&ints([p * 10]), vec![at(1, row(1)), at(1, mark())])
            .await;
    }
    let mut found = Vec::new();
    for range in ranges(&fixture.store, &fixture.table, 1).await {
        let mut after = None;
        for _ in 0..SCANS {
            let snapshot = fixture.snapshot();
            let read = snapshot
                .scan_partitions(&fixture.table, &range, after.as_ref(), 3, &ReadOptions::default())
                .await;
            let read = read.expect("partitions can be scanned");
            take(&fixture, &read, 3, &mut found);
            let Some(next) = read.next else { break };
            after = Some(next);
            let last = found.last().expect("a scan that goes on has returned some");
            let last = cells([last.get(0)]);
            fixture.apply(&last, 5, Operation::DeletePartition).await;
            let number = i32::try_from(found.len()).expect("there are few");
            fixture.apply(&ints([number * 10 + 1]), 5, row(1)).await;
        }
    }
    let marked = concat(&cells([Some(&[1])]), &cells([None, None]));
    let old: Vec<Cells> = found.into_iter().filter(|one| one.get(1).is_some()).collect();
    let expected = (0..20).map(|p| concat(&ints([p * 10]), &marked)).collect();
    assert_eq!(sorted(old), sorted(expected));
    fixture.drop().await;
}
