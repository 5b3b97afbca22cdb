//! Behaviors of scans of whole tables in token order.

use std::sync::Arc;

use recto_model::{Cells, Table, Type};

use super::Bench;
use super::fixture::{Fixture, at, cells, concat, int, ints, partition, patch_static, put, regular};
use super::model::Model;
use crate::{ReadOptions, Store, TokenRange};

/// Maximum number of calls to scan one range, so that a scan without an end fails the test.
pub(super) const SCANS: usize = 100_000;

pub(super) async fn ranges(store: &Arc<dyn Store>, table: &Arc<Table>, pieces: u32) -> Vec<TokenRange> {
    let snapshot = store.snapshot().expect("a store under test gives snapshots");
    let ranges = snapshot
        .token_ranges(table, pieces)
        .await
        .expect("a table has ranges");
    assert!(!ranges.is_empty(), "a table has at least one range");
    ranges
}

/// Returns all rows of a token range, by calls that return at most `limit` rows each.
async fn scan_range(
    store: &Arc<dyn Store>,
    table: &Arc<Table>,
    range: &TokenRange,
    limit: u32,
    options: &ReadOptions,
) -> Vec<Cells> {
    let rows = scan_stamped(store, table, range, limit, options).await;
    rows.into_iter().map(|(row, _)| row).collect()
}

/// Returns all rows of a range, with their stamps if requested. Each call of the scan uses its own snapshot.
async fn scan_stamped(
    store: &Arc<dyn Store>,
    table: &Arc<Table>,
    range: &TokenRange,
    limit: u32,
    options: &ReadOptions,
) -> Vec<(Cells, Option<i64>)> {
    let mut rows = Vec::new();
    let mut after = None;
    for _ in 0..SCANS {
        let snapshot = store.snapshot().expect("a store under test gives snapshots");
        let read = snapshot.scan(table, range, after.as_ref(), limit, options).await;
        let read = read.expect("a range can be scanned");
        assert!(
            read.rows.len() <= limit as usize,
            "a scan returns at most its limit"
        );
        assert_eq!(read.rows.width(), table.columns().len());
        let stamps = if options.stamps { read.rows.len() } else { 0 };
        assert_eq!(read.stamps.len(), stamps, "stamps come if asked for, one a row");
        for (index, row) in read.rows.iter().enumerate() {
            rows.push((row.to_cells(), read.stamps.get(index).copied()));
        }
        match read.next {
            None => return rows,
            next => after = next,
        }
    }
    panic!("a range did not end in {SCANS} scans");
}

/// Returns all rows of the table, by scans of `pieces` ranges with at most `limit` rows per call.
pub(super) async fn scan(fixture: &Fixture, pieces: u32, limit: u32) -> Vec<Cells> {
    let mut rows = Vec::new();
    for range in ranges(&fixture.store, &fixture.table, pieces).await {
        let options = ReadOptions::default();
        rows.extend(scan_range(&fixture.store, &fixture.table, &range, limit, &options).await);
    }
    rows
}

pub(super) fn sorted(mut rows: Vec<Cells>) -> Vec<Cells> {
    rows.sort_by_key(|row| {
        row.iter()
            .map(|cell| cell.map(<[u8]>::to_vec))
            .collect::<Vec<_>>()
    });
    rows
}

/// Checks that every row is returned exactly once, for any number of ranges and any limit, even below the
/// number of rows of a partition. The rows of one partition are returned in clustering order.
pub async fn every_row_once(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "scan").await;
    let mut model = Model::new(&fixture.table);
    let rows = (0..60).flat_map(|p| {
        let length = if p == 30 { 40 } else { p % 4 };
        (0..length).map(move |c| concat(&ints([p * 7919, c]), &cells([Some(b"x"), None])))
    });
    fixture.fill(&mut model, rows.collect()).await;
    let expected = sorted(model.rows().to_vec());
    for (pieces, limit) in [(1, 10_000), (1, 3), (4, 7), (16, 1), (64, 100)] {
        let found = scan(&fixture, pieces, limit).await;
        assert_eq!(sorted(found.clone()), expected, "{pieces} pieces, limit {limit}");
        let wide: Vec<Option<&[u8]>> = found
            .iter()
            .filter(|row| row.get(0) == Some(&int(30 * 7919)))
            .map(|row| row.get(1))
            .collect();
        assert!(
            wide.is_sorted(),
            "rows of a partition come in clustering order: {wide:?}"
        );
    }
    fixture.drop().await;
}

/// Checks that an empty table has ranges and no rows.
pub async fn empty_table(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "scan_empty").await;
    for pieces in [1, 8] {
        assert_eq!(scan(&fixture, pieces, 10).await, Vec::<Cells>::new());
    }
    fixture.drop().await;
}

/// Checks partition keys of several parts, in a table without clustering columns. Deleted partitions are not
/// returned.
pub async fn composite_partitions(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Text),
        partition("q", Type::Int),
        regular("v", Type::Int),
    ];
    let fixture = Fixture::new(bench, "scan_keys", columns).await;
    let mut expected = Vec::new();
    for text in ["", "a", "a\0", "\u{e9}"] {
        for q in [-1, 0, 1] {
            let key = cells([Some(text.as_bytes()), Some(&int(q))]);
            fixture.apply(&key, 1, put(Cells::new(), ints([q]))).await;
            if q == 0 {
                fixture.apply(&key, 2, crate::Operation::DeletePartition).await;
            } else {
                expected.push(concat(&key, &ints([q])));
            }
        }
    }
    let expected = sorted(expected);
    for (pieces, limit) in [(1, 100), (3, 2)] {
        assert_eq!(sorted(scan(&fixture, pieces, limit).await), expected);
    }
    fixture.drop().await;
}

/// Checks that static cells are returned with each row. A partition that has only static cells is one row of
/// nulls.
pub async fn statics(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "scan_statics").await;
    let mut expected = Vec::new();
    for p in 0..12 {
        let mut mutations = vec![];
        if p % 3 > 0 {
            mutations.push(at(1, patch_static([1], ints([p]))));
        }
        let t = (p % 3 > 0).then(|| int(p));
        if p % 3 == 1 {
            expected.push(cells([Some(&int(p)), None, None, t.as_deref(), None]));
        } else {
            for c in 0..3 {
                mutations.push(at(1, put(ints([c]), cells([Some(b"x")]))));
                expected.push(cells([
                    Some(&int(p)),
                    Some(&int(c)),
                    None,
                    t.as_deref(),
                    Some(b"x"),
                ]));
            }
        }
        fixture.write(&ints([p]), mutations).await;
    }
    let expected = sorted(expected);
    for (pieces, limit) in [(1, 100), (1, 1), (5, 2)] {
        assert_eq!(
            sorted(scan(&fixture, pieces, limit).await),
            expected,
            "{pieces} pieces, limit {limit}"
        );
    }
    fixture.drop().await;
}

/// Checks that a scan continues while rows are written and deleted. It returns each row that existed all the
/// time once.
pub async fn goes_on_beside_writes(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "scan_beside").await;
    let mut model = Model::new(&fixture.table);
    let row = |p: i32, c: i32| concat(&ints([p, c]), &cells([Some(b"x"), None]));
    let rows = (0..20).flat_map(|p| (0..5).map(move |c| row(p, c * 10)));
    fixture.fill(&mut model, rows.collect()).await;
    let mut found = Vec::new();
    for range in ranges(&fixture.store, &fixture.table, 1).await {
        let mut after = None;
        for round in 0..SCANS {
            let snapshot = fixture.snapshot();
            let options = ReadOptions::default();
            let read = snapshot
                .scan(&fixture.table, &range, after.as_ref(), 7, &options)
                .await;
            let read = read.expect("a range can be scanned");
            found.extend(read.rows.iter().map(|row| row.to_cells()));
            let Some(next) = read.next else { break };
            after = Some(next);
            // Delete the row at which the scan stopped, and write rows around it.
            if let Some(last) = found.last().filter(|_| round < 10) {
                let (p, c) = (cells([last.get(0)]), cells([last.get(1)]));
                fixture
                    .apply(&p, 5, crate::Operation::DeleteRow { clustering: c })
                    .await;
                fixture
                    .apply(&p, 6, put(ints([1]), cells([Some(b"new"), None])))
                    .await;
            }
        }
    }
    let old: Vec<Cells> = found.into_iter().filter(|row| row.get(2) == Some(b"x")).collect();
    assert_eq!(sorted(old), sorted(model.rows().to_vec()));
    fixture.drop().await;
}

/// Checks that scans stop at their byte limit, and can be continued.
pub async fn byte_limit(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "scan_bytes").await;
    let mut model = Model::new(&fixture.table);
    let large = vec![b'x'; 10_000];
    let rows = (0..12).map(|index| concat(&ints([index % 3, index]), &cells([Some(&large), None])));
    fixture.fill(&mut model, rows.collect()).await;
    for (max_bytes, at_once) in [(1, 1), (25_000, 3)] {
        let options = ReadOptions {
            max_bytes,
            ..ReadOptions::default()
        };
        let mut found = Vec::new();
        for range in ranges(&fixture.store, &fixture.table, 1).await {
            let snapshot = fixture.snapshot();
            let read = snapshot.scan(&fixture.table, &range, None, 1000, &options).await;
            let rows = read.expect("a range can be scanned").rows.len();
            // Check the number of rows only for a local store, because a remote store may return the rows of
            // one more protocol page.
            assert!(bench.is_remote() || rows <= at_once, "at most {max_bytes} bytes");
            found.extend(scan_range(&fixture.store, &fixture.table, &range, 1000, &options).await);
        }
        assert!(
            sorted(found) == sorted(model.rows().to_vec()),
            "at most {max_bytes} bytes at once"
        );
    }
    fixture.drop().await;
}

/// Checks that a scan returns the newest stamp of each row if requested, even if it stops and continues. Rows
/// of nulls and partitions of static cells only have no stamp.
pub async fn stamps_are_returned(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "scan_stamps").await;
    let mut expected = Vec::new();
    for p in 1..=4 {
        for c in 1..=3 {
            let stamp = i64::from(1_000 * p + c);
            let row = cells([Some(b"x")]);
            fixture
                .apply(&ints([p]), stamp, put(ints([c]), row.clone()))
                .await;
            expected.push((
                concat(&ints([p, c]), &concat(&cells([None, None]), &row)),
                Some(stamp),
            ));
        }
    }
    fixture
        .apply(&ints([5]), 5_000, put(ints([1]), cells([None])))
        .await;
    expected.push((concat(&ints([5, 1]), &cells([None, None, None])), Some(0)));
    let fixed = patch_static([1], ints([7]));
    fixture.apply(&ints([6]), 6_000, fixed).await;
    let only_static = cells([Some(&int(6)), None, None, Some(&int(7)), None]);
    expected.push((only_static, Some(0)));
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    for (pieces, limit) in [(1, 1), (2, 2), (3, 1000)] {
        let mut found = Vec::new();
        for range in ranges(&fixture.store, &fixture.table, pieces).await {
            found.extend(scan_stamped(&fixture.store, &fixture.table, &range, limit, &options).await);
        }
        for row in &expected {
            assert_eq!(
                found.iter().filter(|one| *one == row).count(),
                1,
                "{row:?} in {found:?}"
            );
        }
        assert_eq!(found.len(), expected.len());
    }
    fixture.drop().await;
}
