//! Tests of stores where transactions move rows.

use recto_store::{Cas, CasCondition, CasOutcome, RowAddress, StoreErrorKind, TransactionOutcome};

use super::*;

async fn on_disk(directory: &tempfile::TempDir, buckets: impl Into<Buckets>) -> Shown {
    let inner = embedded(directory, EmbeddedOptions::default());
    Shown::over(inner, Environment::system(), table_with(buckets)).await
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is room")
}

fn row(at: i64) -> Cells {
    cells(&[Some(&at.to_be_bytes())])
}

/// Returns a change of the note of a row on the condition that the note is `expected`.
fn note(shown: &Shown, stream: &str, at: i64, expected: Option<&[u8]>, note: &[u8]) -> Cas {
    Cas {
        table: Arc::clone(&shown.table),
        partition: cells(&[Some(stream.as_bytes())]),
        conditions: vec![CasCondition {
            row: RowAddress::Row(row(at)),
            column: 1,
            expected: expected.map(<[u8]>::to_vec),
        }],
        mutations: vec![patch(at, note)],
    }
}

fn patch(at: i64, note: &[u8]) -> Mutation {
    Mutation {
        operation: Operation::Patch {
            clustering: row(at),
            columns: vec![1],
            cells: cells(&[Some(note)]),
        },
        stamp: None,
        ttl_seconds: None,
    }
}

impl Shown {
    async fn transact(&self, conditional: Vec<Cas>, plain: Vec<PartitionWrite>) -> TransactionOutcome {
        let sent = self.store.transact(conditional, plain, WriteOptions::default());
        sent.await.expect("it is answered")
    }

    async fn note_of(&self, at: i64) -> Option<Vec<u8>> {
        let read = PointRead {
            table: Arc::clone(&self.table),
            partition: cells(&[Some(b"s")]),
            clustering: row(at),
        };
        let snapshot = self.store.snapshot().expect("it is open");
        let found = snapshot.get(&read, &ReadOptions::default()).await;
        let rows = found.expect("it is read").rows;
        rows.iter().next().and_then(|row| row.get(3).map(<[u8]>::to_vec))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_have_as_many_rows_as_they_may() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(50)).await;
    for first in (0..1_000).step_by(5) {
        shown.put("s", first..first + 5).await;
    }
    shown.settle().await;
    let buckets = shown.buckets().await;
    assert!((20..=60).contains(&buckets), "{buckets} buckets");
    assert_eq!(shown.slice("s", ReadDirection::Forward).await.len(), 1_000);
    assert_eq!(shown.scan(37).await.len(), 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_hold_of_rows_in_whichever_bucket_they_lie() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(10)).await;
    shown.put("s", 0..100).await;
    shown.settle().await;
    assert!(shown.buckets().await >= 10);
    // Send one conditional write of one partition, with conditions on two buckets, and changes in
    // these and in a third bucket.
    let mut both = note(&shown, "s", 1, None, b"one");
    both.conditions
        .extend(note(&shown, "s", 95, None, b"").conditions);
    both.mutations.extend([patch(95, b"other"), patch(50, b"third")]);
    let plain = |at: i64| {
        let mut write = shown.write("s", patch(at, b"plain").operation);
        write.mutations[0].stamp = Some((shown.stamps)());
        write
    };
    let outcome = shown.transact(vec![both.clone()], vec![plain(30)]).await;
    assert!(matches!(outcome, TransactionOutcome::Applied), "{outcome:?}");
    for (at, expected) in [(1, "one"), (95, "other"), (50, "third"), (30, "plain")] {
        assert_eq!(
            shown.note_of(at).await.as_deref(),
            Some(expected.as_bytes()),
            "{at}"
        );
    }
    both.conditions.reverse();
    let unbucketed = note(&shown, "t", 1, Some(b"is not"), b"x");
    let outcome = shown.transact(vec![unbucketed, both], vec![plain(31)]).await;
    let TransactionOutcome::NotApplied { current } = outcome else {
        panic!("{outcome:?}");
    };
    let as_text = |cell: &str| Some(cell.as_bytes().to_vec());
    assert_eq!(current, [vec![None], vec![as_text("other"), as_text("one")]]);
    assert_eq!(shown.note_of(31).await, None, "nothing is applied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_conflicts_is_told_by_its_number_in_the_call() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(10)).await;
    shown.put("s", (0..100).filter(|at| at % 2 == 0)).await;
    shown.settle().await;
    let insert = |ats: &[i64], text: &str| {
        let mut write = shown.write("s", Operation::DeletePartition);
        let one = |at: &i64| Mutation {
            operation: Operation::Put {
                clustering: row(*at),
                cells: cells(&[Some(text.as_bytes()), None]),
                replace: false,
            },
            stamp: Some((shown.stamps)()),
            ttl_seconds: None,
        };
        write.mutations = ats.iter().map(one).collect();
        write
    };
    let ats = [91, 3, 95, 4, 51];
    let outcome = shown
        .store
        .write(insert(&ats, "x"), WriteOptions::default())
        .await;
    assert!(matches!(outcome, Ok(WriteOutcome::Conflict(3))), "{outcome:?}");
    let outcome = shown
        .transact(Vec::new(), vec![insert(&[91], "x"), insert(&ats[1..], "x")])
        .await;
    assert!(matches!(outcome, TransactionOutcome::Conflict(3)), "{outcome:?}");
    let options = WriteOptions {
        row_by_row: true,
        ..WriteOptions::default()
    };
    let writes = vec![insert(&ats, "x"), insert(&[90, 1, 2], "x")];
    let outcome = shown.store.write_many(writes, Atomicity::Each, options).await;
    let Ok(WriteOutcome::Counted(mut met)) = outcome else {
        panic!("{outcome:?}");
    };
    met.conflicts.sort_unstable();
    assert_eq!(met.conflicts, [3, 5, 7]);
    assert_eq!(shown.slice("s", ReadDirection::Forward).await.len(), 55);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_values_are_moved_too() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(10)).await;
    let put = |at: i64, text: Option<&[u8]>| {
        let clustering = row(at);
        let cells = cells(&[text, None]);
        let replace = true;
        shown.write(
            "s",
            Operation::Put {
                clustering,
                cells,
                replace,
            },
        )
    };
    // Some rows never have a value, and others lose it.
    shown.send(|| (0..50).map(|at| put(at, None)).collect()).await;
    shown
        .send(|| (50..100).map(|at| put(at, Some(b"x"))).collect())
        .await;
    let emptied = |at: i64| {
        let operation = Operation::Patch {
            clustering: row(at),
            columns: vec![0],
            cells: cells(&[None]),
        };
        shown.write("s", operation)
    };
    shown.send(|| (50..100).map(emptied).collect()).await;
    for at in 100..200 {
        shown.send(|| vec![put(at, None)]).await;
    }
    shown.settle().await;
    assert!(shown.buckets().await >= 20);
    assert_eq!(
        shown.slice("s", ReadDirection::Forward).await,
        (0..200).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_of_conditional_writes_is_changed_where_its_row_lies() {
    let directory = directory();
    let columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("at", Type::BigInt, ColumnKind::Clustering(Direction::Descending)),
        column("state", Type::Text, ColumnKind::Regular(WriteKind::Cas)),
    ];
    let options = TableOptions {
        buckets: Some(BucketBound::Rows(5).into()),
        ..TableOptions::default()
    };
    let table = Table::new("states", columns, options).expect("these columns are a table");
    let inner = embedded(&directory, EmbeddedOptions::default());
    let shown = Shown::over(inner, Environment::system(), table).await;
    let cas = |at: i64, expected: Option<&[u8]>, state: &[u8]| Cas {
        conditions: vec![CasCondition {
            row: RowAddress::Row(row(at)),
            column: 0,
            expected: expected.map(<[u8]>::to_vec),
        }],
        mutations: vec![Mutation {
            operation: Operation::Patch {
                clustering: row(at),
                columns: vec![0],
                cells: cells(&[Some(state)]),
            },
            stamp: None,
            ttl_seconds: None,
        }],
        ..note(&shown, "s", at, None, b"")
    };
    for at in 0..60 {
        let made = shown
            .store
            .cas(cas(at, None, b"new"), WriteOptions::default())
            .await;
        assert!(matches!(made, Ok(CasOutcome::Applied)), "{made:?}");
    }
    for at in 0..60 {
        let lost = shown
            .store
            .cas(cas(at, None, b"new"), WriteOptions::default())
            .await;
        let Ok(CasOutcome::NotApplied { current }) = lost else {
            panic!("{lost:?}");
        };
        assert_eq!(current, [Some(b"new".to_vec())]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_opened_again_knows_where_rows_lie() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(20)).await;
    for first in (0..500).step_by(10) {
        shown.put("s", first..first + 10).await;
    }
    shown.settle().await;
    shown.store.close().await.expect("it is closed");
    drop(shown);
    let shown = on_disk(&directory, BucketBound::Rows(20)).await;
    assert_eq!(shown.slice("s", ReadDirection::Backward).await.len(), 500);
    shown.put("s", 500..700).await;
    shown.settle().await;
    assert_eq!(
        shown.slice("s", ReadDirection::Forward).await,
        (0..700).collect::<Vec<_>>()
    );
    shown.store.close().await.expect("it is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_only_read_is_left_as_it_is() {
    for is_cut in [false, true] {
        let directory = directory();
        let shown = on_disk(&directory, BucketBound::Rows(20)).await;
        let rows = if is_cut { 200 } else { 10 };
        shown.put("s", 0..rows).await;
        shown.settle().await;
        let tables = shown.inner.list_tables().await.expect("they are listed").len();
        assert_eq!(
            tables,
            1 + usize::from(is_cut),
            "that of directories is made with the first cut"
        );
        shown.store.close().await.expect("it is closed");
        drop(shown);
        let mut options = EmbeddedOptions::default();
        options.read_only = true;
        let inner = embedded(&directory, options);
        let environment = Environment::system();
        let store = BucketedStore::over(Arc::clone(&inner), environment.clone(), stamps(&environment));
        let shown = Shown {
            environment: Environment::system(),
            store,
            stamps: stamps(&environment),
            table: Arc::new(table_with(BucketBound::Rows(20))),
            inner,
            _folder: None,
        };
        let all: Vec<i64> = (0..rows).collect();
        assert_eq!(shown.slice("s", ReadDirection::Forward).await, all);
        assert_eq!(shown.scan(7).await.len(), all.len());
        let refused = shown
            .store
            .write(
                shown.write("s", patch(1, b"x").operation),
                WriteOptions::default(),
            )
            .await;
        let error = refused.expect_err("it is only read");
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
        assert_eq!(
            shown.inner.list_tables().await.expect("they are listed").len(),
            tables
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_what_is_known_are_had_at_once() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(20)).await;
    shown.put("s", 0..200).await;
    shown.settle().await;
    assert_eq!(shown.slice("s", ReadDirection::Forward).await.len(), 200);
    let snapshot = shown.store.snapshot().expect("it is open");
    let mut at_once = 0;
    for first in 0..180_i64 {
        for direction in [ReadDirection::Forward, ReadDirection::Backward] {
            let (from, to) = match direction {
                ReadDirection::Forward => (Bound::After(row(first)), Bound::end()),
                ReadDirection::Backward => (Bound::start(), Bound::Before(row(first))),
            };
            let slice = Slice {
                from,
                to,
                direction,
                ..Slice::from_start(&shown.table, cells(&[Some(b"s")]), 19)
            };
            let Some(read) = snapshot.slice_now(&slice, &ReadOptions::default()) else {
                continue;
            };
            let read = read.expect("it is read");
            let ats: Vec<i64> = read.rows.iter().map(at).collect();
            let should: Vec<i64> = match direction {
                ReadDirection::Forward => (first + 1..200).take(19).collect(),
                ReadDirection::Backward => (0..first).rev().take(19).collect(),
            };
            assert_eq!(ats, should);
            assert_eq!(read.exhausted, should.len() < 19, "{first}, {direction:?}");
            at_once += 1;
        }
    }
    assert!(at_once > 300, "{at_once} of 360");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_come_and_go_while_others_are_written() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(10)).await;
    for round in 0..20 {
        let writer = tokio::spawn({
            let shown = shown.clone();
            async move {
                for at in 0..100 {
                    let operation = Operation::Put {
                        clustering: row(at),
                        cells: cells(&[Some(b"x"), None]),
                        replace: true,
                    };
                    // Ignore the outcome, because the store rejects writes while the table does not
                    // exist.
                    let write = shown.write("s", operation);
                    drop(shown.store.write(write, WriteOptions::default()).await);
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(round)).await;
        shown.store.drop_table("events").await.expect("it is dropped");
        shown.store.create_table(&shown.table).await.expect("it is made");
        writer.await.expect("it ends");
        shown.settle().await;
        let rows = shown.slice("s", ReadDirection::Forward).await;
        assert!(rows.is_sorted_by(|one, other| one < other));
        let (table, partitions) = shown.partitions().await;
        let snapshot = shown.inner.snapshot().expect("it is open");
        let options = ReadOptions::default();
        let counts = snapshot.count_partitions(&table, &partitions, &options);
        let there: u64 = counts
            .await
            .expect("they are counted")
            .iter()
            .map(|count| count.rows)
            .sum();
        assert_eq!(
            there,
            rows.len() as u64,
            "nothing lies where it is not looked for"
        );
    }
}

/// Returns the size of the largest bucket during the calls and after them, as multiples of the maximum size, and the
/// number of moved bytes.
async fn filled(buckets: impl Into<Buckets>, calls: Vec<Vec<i64>>) -> (f64, f64, u64) {
    let directory = directory();
    let shown = on_disk(&directory, buckets).await;
    let rows: usize = calls.iter().map(Vec::len).sum();
    let writer = tokio::spawn({
        let shown = shown.clone();
        async move {
            for call in calls {
                shown.put("s", call.into_iter()).await;
            }
        }
    });
    let mut most = 0;
    while !writer.is_finished() {
        most = most.max(shown.largest().await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    writer.await.expect("it writes all");
    shown.settle().await;
    assert_eq!(shown.slice("s", ReadDirection::Forward).await.len(), rows);
    let part = |size: u64| size as f64 / target(&shown.table) as f64;
    (part(most), part(shown.largest().await), shown.store.moved_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn makes_room_before_large_writes() {
    let rows = 6_000_i64;
    let orders: [Box<dyn Fn(i64) -> i64>; 3] = [
        Box::new(|at| at),
        Box::new(|at| rows - 1 - at),
        // This order visits each row once, because 6,000 and 1,999 have no common factor.
        Box::new(|at| at * 1_999 % rows),
    ];
    for (number, order) in orders.iter().enumerate() {
        for call in [1_000, 60, 7] {
            let ats: Vec<i64> = (0..rows).map(order).collect();
            let calls: Vec<Vec<i64>> = ats.chunks(call).map(<[i64]>::to_vec).collect();
            let (most, last, moved) = filled(BucketBound::Bytes(20_000), calls.clone()).await;
            let bytes = rows.cast_unsigned() * 280;
            assert!(
                most <= 1.6,
                "order {number}, {call} a call: {most} times its size"
            );
            assert!(last <= 1.0);
            assert!(
                moved <= bytes * 7 / 10,
                "order {number}, {call} a call: {moved} of {bytes} moved"
            );
            if number < 2 && call > 100 {
                assert!(
                    moved <= bytes / 50,
                    "what comes in order is cut ahead: {moved} of {bytes} moved"
                );
            }
            if call == 60 {
                let (most, last, _) = filled(BucketBound::Rows(50), calls).await;
                assert!(
                    most <= 1.6 && last <= 1.0,
                    "order {number}: {most} times its size"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_larger_than_a_bucket_is_written_all_the_same() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Bytes(10_000)).await;
    let large = vec![b'x'; 30_000];
    for at in 0..5 {
        let put = Operation::Put {
            clustering: row(at),
            cells: cells(&[Some(large.as_slice()), None]),
            replace: true,
        };
        shown.send(|| vec![shown.write("s", put.clone())]).await;
    }
    assert_eq!(shown.slice("s", ReadDirection::Forward).await.len(), 5);
    assert!(shown.buckets().await >= 4, "each has one of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_use_the_splits_of_a_load_once_on_disk() {
    let directory = directory();
    let shown = on_disk(&directory, BucketBound::Rows(10)).await;
    let put = |at: i64| Operation::Put {
        clustering: row(at),
        cells: cells(&[Some(b"x"), None]),
        replace: true,
    };
    let options = |relaxed| WriteOptions {
        relaxed,
        ..WriteOptions::default()
    };
    for first in [0, 100] {
        let all = (first..first + 100).map(|at| shown.write("s", put(at)));
        let loaded = shown
            .store
            .write_many(all.collect(), Atomicity::Each, options(true))
            .await;
        assert!(matches!(loaded, Ok(WriteOutcome::Done)), "{loaded:?}");
        let all: Vec<i64> = (0..first + 100).collect();
        assert_eq!(shown.slice("s", ReadDirection::Forward).await, all);
        assert_eq!(shown.scan(7).await.len(), all.len());
    }
    assert!(shown.buckets().await >= 20);
    assert_eq!(shown.store.moved_bytes(), 0, "it is cut ahead");
    let slice = Slice::from_start(&shown.table, cells(&[Some(b"s")]), 19);
    let at_once = || {
        let snapshot = shown.store.snapshot().expect("it is open");
        snapshot.slice_now(&slice, &ReadOptions::default())
    };
    assert!(at_once().is_none(), "the directory is read with the rows");
    let written = shown.store.write(shown.write("t", put(1)), options(false)).await;
    assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
    let read = at_once().expect("it is known").expect("it is read");
    assert_eq!(read.rows.len(), 19);
}
