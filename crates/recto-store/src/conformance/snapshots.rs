//! Behaviors of snapshots, byte limits, deadlines, and many concurrent callers.

use std::time::{Duration, Instant};

use recto_model::table::{ColumnKind, ReadDirection, WriteKind};
use recto_model::{Bound, Cells, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, column, concat, int, ints, partition, patch_static, put,
};
use super::model::Model;
use crate::{
    Atomicity, Cas, CasCondition, CasOutcome, Mutation, Operation, PointRead, ReadOptions, RowAddress,
    RowsRead, Snapshot, StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};

/// Returns the results of all kinds of reads of a partition, through one snapshot.
async fn everything(fixture: &Fixture, snapshot: &dyn Snapshot) -> Vec<Vec<Cells>> {
    let options = ReadOptions::default();
    let p = ints([1]);
    let slice = snapshot.slice(&fixture.whole(&p), &options).await;
    let point = PointRead {
        table: fixture.table.clone(),
        partition: p.clone(),
        clustering: ints([1]),
    };
    let get = snapshot.get(&point, &options).await;
    let statics = snapshot.get_statics(&fixture.table, &p, &options).await;
    let mut all: Vec<Vec<Cells>> = [slice, get, statics]
        .into_iter()
        .map(|read| {
            read.expect("a snapshot can be read")
                .rows
                .iter()
                .map(|row| row.to_cells())
                .collect()
        })
        .collect();
    let mut scanned = Vec::new();
    for range in snapshot
        .token_ranges(&fixture.table, 1)
        .await
        .expect("a table has ranges")
    {
        let mut after = None;
        loop {
            let read = snapshot
                .scan(&fixture.table, &range, after.as_ref(), 1000, &options)
                .await;
            let read = read.expect("a range can be scanned");
            scanned.extend(read.rows.iter().map(|row| row.to_cells()));
            match read.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    all.push(scanned);
    all
}

/// Checks that on a store that is not remote, a snapshot never sees a later write, and a later snapshot does.
/// On a remote store, each read of a snapshot sees the writes before the read.
pub async fn snapshots_stand_still_unless_remote(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "snapshot").await;
    let p = ints([1]);
    let x = || cells([Some(b"x")]);
    let begin = vec![
        at(1, put(ints([1]), x())),
        at(1, put(ints([2]), x())),
        at(1, patch_static([0], x())),
    ];
    fixture.write(&p, begin).await;
    let early = fixture.snapshot();
    let before = everything(&fixture, &*early).await;
    let change = vec![
        at(2, put(ints([1]), cells([Some(b"y")]))),
        at(
            2,
            Operation::DeleteRow {
                clustering: ints([2]),
            },
        ),
        at(2, put(ints([3]), x())),
        at(2, patch_static([0, 1], cells([None, Some(&int(1))]))),
    ];
    fixture.write(&p, change).await;
    let late = fixture.snapshot();
    let after = everything(&fixture, &*late).await;
    let row = |c: i32, a: &[u8]| cells([Some(&int(1)), Some(&int(c)), None, Some(&int(1)), Some(a)]);
    assert_eq!(after[0], [row(1, b"y"), row(3, b"x")]);
    let seen = everything(&fixture, &*early).await;
    if bench.is_remote() {
        assert_eq!(seen, after);
    } else {
        assert_eq!(seen, before);
    }
    fixture.drop().await;
}

/// Checks that a slice stops at its byte limit, after at least one row, and reports that it is not exhausted.
pub async fn byte_limit(bench: &dyn Bench) {
    let fixture = Fixture::simple(bench, "bytes").await;
    let mut model = Model::new(&fixture.table);
    let large = vec![b'x'; 10_000];
    let rows = (0..12).map(|c| concat(&ints([1, c]), &cells([Some(&large), None])));
    fixture.fill(&mut model, rows.collect()).await;
    let snapshot = fixture.snapshot();
    for (max_bytes, at_once) in [(1, 1), (25_000, 3)] {
        let options = ReadOptions {
            max_bytes,
            ..ReadOptions::default()
        };
        let mut found: Vec<Cells> = Vec::new();
        let mut from = Bound::start();
        loop {
            let slice = fixture.slice_of(&ints([1]), from, Bound::end(), ReadDirection::Forward, 100);
            let read = snapshot.slice(&slice, &options).await.expect("rows can be read");
            found.extend(read.rows.iter().map(|row| row.to_cells()));
            // Check the number of rows only for a local store, because a remote store may return the rows of
            // one more protocol page.
            if !bench.is_remote() {
                assert!(read.rows.len() <= at_once, "at most {max_bytes} bytes");
                assert_eq!(read.exhausted, read.rows.is_empty(), "12 rows, {at_once} at once");
            }
            if read.exhausted {
                break;
            }
            assert!(
                !read.rows.is_empty(),
                "a read that is not exhausted returns a row"
            );
            let last = found.last().expect("there is a row");
            from = Bound::After(cells([last.get(1)]));
        }
        assert!(found == model.rows(), "at most {max_bytes} bytes at once");
    }
    fixture.drop().await;
}

/// Maximum duration of a call with a short deadline. A longer call counts as hanging.
const PATIENCE: Duration = Duration::from_secs(5);

fn timed_out(read: Result<RowsRead, StoreError>, what: &str) {
    match read {
        Err(error) => assert_eq!(error.kind(), StoreErrorKind::Timeout, "{what}: {error}"),
        Ok(read) => panic!("{what} without time returned {read:?}"),
    }
}

/// Checks that reads with a zero deadline fail with a timeout. Reads with a very short deadline fail with a
/// timeout or succeed. No read hangs.
pub async fn read_deadlines(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "deadline").await;
    let p = ints([1]);
    let rows = (0..100).map(|c| at(1, put(ints([c]), cells([Some(b"x")]))));
    fixture.write(&p, rows.collect()).await;
    let snapshot = fixture.snapshot();
    let started = Instant::now();
    let options = ReadOptions {
        timeout: Duration::ZERO,
        ..ReadOptions::default()
    };
    let slice = fixture.whole(&p);
    timed_out(snapshot.slice(&slice, &options).await, "a slice");
    if let Some(read) = snapshot.slice_now(&slice, &options) {
        timed_out(read, "a slice at once");
    }
    let point = PointRead {
        table: fixture.table.clone(),
        partition: p.clone(),
        clustering: ints([1]),
    };
    timed_out(snapshot.get(&point, &options).await, "a point read");
    timed_out(
        snapshot.get_statics(&fixture.table, &p, &options).await,
        "a read of statics",
    );
    let ranges = snapshot
        .token_ranges(&fixture.table, 1)
        .await
        .expect("a table has ranges");
    let read = snapshot
        .scan(&fixture.table, &ranges[0], None, 10, &options)
        .await;
    let error = read.expect_err("a scan without time fails");
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    for micros in [1, 50, 500] {
        let options = ReadOptions {
            timeout: Duration::from_micros(micros),
            ..ReadOptions::default()
        };
        if let Err(error) = snapshot.slice(&slice, &options).await {
            assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
        }
    }
    assert!(
        started.elapsed() < PATIENCE,
        "reads without time took {:?}",
        started.elapsed()
    );
    fixture.drop().await;
}

/// Checks that writes with a zero deadline do not succeed, and report the reason. No write hangs.
pub async fn write_deadlines(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        column("n", Type::Int, ColumnKind::Static(WriteKind::Cas)),
    ];
    let fixture = Fixture::new(bench, "late", columns).await;
    let started = Instant::now();
    let options = WriteOptions {
        timeout: Duration::ZERO,
        ..WriteOptions::default()
    };
    let write = fixture.write_of(&ints([1]), vec![at(1, put(ints([1]), Cells::new()))]);
    let many = vec![
        write.clone(),
        fixture.write_of(&ints([2]), write.mutations.clone()),
    ];
    let outcomes = [
        fixture.store.write(write, options).await,
        fixture
            .store
            .write_many(many.clone(), Atomicity::Each, options)
            .await,
        fixture.store.write_many(many, Atomicity::Logged, options).await,
    ];
    for outcome in outcomes {
        match outcome {
            Err(error) | Ok(WriteOutcome::Unknown(error)) => {
                assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
            }
            other => panic!("a write without time ended as {other:?}"),
        }
    }
    let cas = Cas {
        table: fixture.table.clone(),
        partition: ints([1]),
        conditions: vec![CasCondition {
            row: RowAddress::Static,
            column: 0,
            expected: None,
        }],
        mutations: vec![Mutation {
            operation: patch_static([0], ints([1])),
            stamp: None,
            ttl_seconds: None,
        }],
    };
    match fixture.store.cas(cas, options).await {
        Err(error) | Ok(CasOutcome::Unknown(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
        }
        other => panic!("a conditional write without time ended as {other:?}"),
    }
    assert!(
        started.elapsed() < PATIENCE,
        "writes without time took {:?}",
        started.elapsed()
    );
    fixture.drop().await;
}

/// Checks many concurrent writers and readers. Every read returns a state that existed, and at the end every
/// write is visible.
pub async fn concurrent_writers_and_readers(bench: &dyn Bench) {
    /// Number of writers. Each writes to its own partition and to a shared partition.
    const WRITERS: i32 = 8;
    /// Number of rows that each writer writes to both partitions.
    const ROWS: i32 = 25;
    let fixture = Fixture::simple(bench, "crowd").await;
    let value = || cells([Some(b"x"), None]);
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let (store, table) = (fixture.store.clone(), fixture.table.clone());
        tasks.push(tokio::spawn(async move {
            let fixture = Fixture { store, table };
            for row in 0..ROWS {
                fixture.apply(&ints([writer]), 1, put(ints([row]), value())).await;
                fixture
                    .apply(&ints([100]), 1, put(ints([row * WRITERS + writer]), value()))
                    .await;
                // A writer can read its own acknowledged writes.
                assert_eq!(fixture.rows(&ints([writer])).await.len() as i32, row + 1);
            }
        }));
    }
    let mut seen = 0;
    while tasks.iter().any(|task| !task.is_finished()) {
        let rows = fixture.rows(&ints([100])).await;
        let keys: Vec<Option<&[u8]>> = rows.iter().map(|row| row.get(1)).collect();
        assert!(
            keys.windows(2).all(|pair| pair[0] < pair[1]),
            "rows are in order, each once"
        );
        assert!(rows.len() >= seen, "rows do not vanish");
        seen = rows.len();
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.expect("each writer succeeds");
    }
    let expected: Vec<Cells> = (0..ROWS * WRITERS)
        .map(|c| concat(&ints([100, c]), &value()))
        .collect();
    fixture.expect(&ints([100]), &expected).await;
    fixture.drop().await;
}
