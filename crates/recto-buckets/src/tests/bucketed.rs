//! Tests of a store that keeps partitions in buckets and hides the buckets.

mod by_key;
mod by_rows;
mod checked_shards;
mod checked_times;
mod checks;
mod kept;
mod lists;
mod times;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use recto_model::table::{
    BucketBound, Buckets, ColumnKind, Direction, ReadDirection, TableOptions, WriteKind,
};
use recto_model::{Bound, Cells, Environment, Slice, Table, Type};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, PointRead, ReadOptions, Store, StoreErrorKind,
    TableOutcome, TableState, TokenRange, WriteOptions, WriteOutcome,
};

use self::checks::{
    a_directory_that_is_damaged_is_made_anew, a_partition_that_no_scan_meets_is_marked,
    ordinary_writes_leave_no_faults, repairs_nothing_beside_splits, rows_that_lie_astray_are_taken_home,
};
use self::lists::{manual_repair_leaves_no_oversized_bucket, partitions_and_their_buckets_are_listed};
use super::{cells, column, environment, memory, stamps};
use crate::BucketedStore;
use crate::Stamps;

const SHARDS: u8 = 4;
/// Number of rows of a stream. Its partition is split a few times.
const ROWS: i64 = 2_000;

#[derive(Clone)]
struct Shown {
    inner: Arc<dyn Store>,
    store: BucketedStore,
    stamps: Stamps,
    table: Arc<Table>,
    environment: Environment,
}

macro_rules! over_a_store {
    ($module:ident $runtime:tt $($name:ident)*) => {
        mod $module {
            $(#[tokio::test $runtime]
            async fn $name() {
                super::$name(super::Shown::$module().await).await;
            })*
        }
    };
}

/// Runs tests on each kind of store: with and without shards. The tests use a paused clock.
macro_rules! over_each_store {
    ($($name:ident)*) => {
        over_a_store! { sampled (start_paused = true) $($name)* }
        over_a_store! { sharded (start_paused = true) $($name)* }
    };
}

over_each_store! {
    a_table_in_buckets_is_as_any_other
    a_part_of_a_partition_is_read_between_its_bounds
    a_table_that_is_made_again_begins_without_directories
    rejects_operations_that_buckets_do_not_support
    partitions_and_their_buckets_are_listed
    manual_repair_leaves_no_oversized_bucket
    a_scan_lists_each_row_once_while_buckets_are_cut
    ordinary_writes_leave_no_faults
    repairs_nothing_beside_splits
    rows_that_lie_astray_are_taken_home
    a_directory_that_is_damaged_is_made_anew
    a_partition_that_no_scan_meets_is_marked
}

impl Shown {
    async fn sampled() -> Self {
        let environment = environment();
        Self::over(Arc::new(memory(&environment)), environment, table()).await
    }

    async fn sharded() -> Self {
        let environment = environment();
        let buckets = Buckets {
            shards: SHARDS,
            ..Buckets::from(BucketBound::Bytes(64 << 10))
        };
        Self::over(Arc::new(memory(&environment)), environment, table_with(buckets)).await
    }

    async fn over(inner: Arc<dyn Store>, environment: Environment, table: Table) -> Self {
        let stamps = stamps(&environment);
        let store = BucketedStore::over(Arc::clone(&inner), environment.clone(), Arc::clone(&stamps));
        let table = Arc::new(table);
        let made = store.create_table(&table).await.expect("it is made");
        assert!(matches!(made, TableOutcome::Done));
        Self {
            inner,
            store,
            stamps,
            table,
            environment,
        }
    }

    fn write(&self, stream: &str, operation: Operation) -> PartitionWrite {
        PartitionWrite {
            table: Arc::clone(&self.table),
            partition: cells(&[Some(stream.as_bytes())]),
            mutations: vec![Mutation {
                operation,
                stamp: Some((self.stamps)()),
                ttl_seconds: None,
            }],
        }
    }

    /// Sends writes. Repeats them with newer timestamps if rows moved to other buckets.
    async fn send(&self, make: impl Fn() -> Vec<PartitionWrite>) {
        for _ in 0..10 {
            let sent = self
                .store
                .write_many(make(), Atomicity::Logged, WriteOptions::default());
            match sent.await {
                Ok(WriteOutcome::Done) => return,
                Ok(WriteOutcome::Unknown(error)) | Err(error) if error.kind() == StoreErrorKind::Moved => {}
                other => panic!("{other:?}"),
            }
        }
        panic!("its stamps are never new enough");
    }

    async fn put(&self, stream: &str, ats: impl Iterator<Item = i64> + Clone) {
        let put = |at: i64| {
            let text = format!("{at:0>200}");
            self.write(
                stream,
                Operation::Put {
                    clustering: cells(&[Some(&at.to_be_bytes())]),
                    cells: cells(&[Some(text.as_bytes()), None]),
                    replace: true,
                },
            )
        };
        self.send(|| ats.clone().map(put).collect()).await;
    }

    async fn delete(&self, stream: &str, at: i64) {
        let clustering = cells(&[Some(&at.to_be_bytes())]);
        self.send(|| {
            let clustering = clustering.clone();
            vec![self.write(stream, Operation::DeleteRow { clustering })]
        })
        .await;
    }

    async fn slice(&self, stream: &str, direction: ReadDirection) -> Vec<i64> {
        let slice = Slice {
            direction,
            ..Slice::from_start(&self.table, cells(&[Some(stream.as_bytes())]), 100_000)
        };
        let snapshot = self.store.snapshot().expect("it is open");
        let options = ReadOptions {
            max_bytes: u64::MAX,
            ..ReadOptions::default()
        };
        let read = snapshot.slice(&slice, &options).await.expect("it is read");
        assert!(read.exhausted && read.rows.width() == 4);
        read.rows.iter().map(at).collect()
    }

    /// Returns all rows, read by scans of at most `limit` rows each.
    async fn scan(&self, limit: u32) -> Vec<(String, i64)> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let snapshot = self.store.snapshot().expect("it is open");
            let (range, options) = (TokenRange::whole(), ReadOptions::default());
            let read = snapshot.scan(&self.table, &range, after.as_ref(), limit, &options);
            let read = read.await.expect("it is scanned");
            assert!(read.rows.len() <= limit as usize);
            rows.extend(read.rows.iter().map(|row| {
                let stream = String::from_utf8_lossy(row.get(0).expect("it is whole")).into_owned();
                (stream, at(row))
            }));
            match read.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        rows.sort();
        rows
    }

    /// Waits a moment, so that background tasks run.
    async fn pass(&self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    /// Waits so long that all due splits are complete.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }

    /// Returns the number of partitions of the underlying store: one for each shard of a bucket.
    async fn buckets(&self) -> usize {
        self.partitions().await.1.len()
    }

    async fn partitions(&self) -> (Arc<Table>, Vec<Cells>) {
        let tables = self.inner.list_tables().await.expect("they are listed");
        let table = tables.into_iter().find(|table| table.name() == "events");
        let table = Arc::new(table.expect("it is there"));
        let snapshot = self.inner.snapshot().expect("it is open");
        let (range, options) = (TokenRange::whole(), ReadOptions::default());
        let read = snapshot.scan_partitions(&table, &range, None, 10_000, &options);
        let rows = read.await.expect("it is scanned").rows;
        let key = 0..table.partition().len();
        let partitions = rows
            .iter()
            .map(|row| key.clone().map(|column| row.get(column)).collect());
        (table, partitions.collect())
    }
}

fn at(row: recto_model::RowRef<'_>) -> i64 {
    let at = row.get(1).and_then(|at| at.try_into().ok());
    at.map(i64::from_be_bytes).expect("it is whole")
}

fn table() -> Table {
    table_with(BucketBound::Bytes(64 << 10))
}

fn table_with(buckets: impl Into<Buckets>) -> Table {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("at", Type::BigInt, ColumnKind::Clustering(Direction::Ascending)),
        column("text", Type::Text, plain),
        column("note", Type::Text, plain),
    ];
    let options = TableOptions {
        buckets: Some(buckets.into()),
        ..TableOptions::default()
    };
    Table::new("events", columns, options).expect("these columns are a table")
}

async fn a_table_in_buckets_is_as_any_other(shown: Shown) {
    for first in (0..ROWS).step_by(20) {
        shown.put("s", first..first + 20).await;
        shown.pass().await;
    }
    shown.put("other", 0..3).await;
    shown.settle().await;
    assert!(shown.buckets().await > 20, "the stream is cut");
    for at in [0, 7, 1_000, ROWS - 1] {
        shown.delete("s", at).await;
    }
    let left: Vec<i64> = (0..ROWS)
        .filter(|at| ![0, 7, 1_000, ROWS - 1].contains(at))
        .collect();
    assert_eq!(shown.slice("s", ReadDirection::Forward).await, left);
    let mut backward = shown.slice("s", ReadDirection::Backward).await;
    backward.reverse();
    assert_eq!(backward, left);
    let all: Vec<(String, i64)> = (0..3)
        .map(|at| ("other".to_owned(), at))
        .chain(left.iter().map(|at| ("s".to_owned(), *at)))
        .collect();
    for limit in [1_000_000, 97, 1] {
        assert_eq!(shown.scan(limit).await, all, "{limit} rows at a time");
    }
    let snapshot = shown.store.snapshot().expect("it is open");
    let (range, options) = (TokenRange::whole(), ReadOptions::default());
    let partitions = snapshot.scan_partitions(&shown.table, &range, None, 1_000, &options);
    assert_eq!(partitions.await.expect("they are listed").rows.len(), 2);
    for (at, is_there) in [(8_i64, true), (1_000, false), (ROWS, false)] {
        let read = PointRead {
            table: Arc::clone(&shown.table),
            partition: cells(&[Some(b"s")]),
            clustering: cells(&[Some(&at.to_be_bytes())]),
        };
        let one = snapshot.get(&read, &options).await.expect("it is read");
        let many = snapshot.get_many(&[read], &options).await.expect("it is read");
        assert_eq!(
            (one.rows.len(), many[0].rows.len()),
            (usize::from(is_there), usize::from(is_there))
        );
    }
}

async fn a_scan_lists_each_row_once_while_buckets_are_cut(shown: Shown) {
    let is_new = |at: i64| at % 4 != 0;
    for stream in ["s", "t"] {
        shown.put(stream, (0..ROWS).filter(|at| at % 4 == 0)).await;
    }
    let next = Arc::new(AtomicI64::new(0));
    let writer = tokio::spawn({
        let (shown, next) = (shown.clone(), Arc::clone(&next));
        async move {
            for first in (0..ROWS).step_by(20) {
                for stream in ["s", "t"] {
                    shown
                        .put(stream, (first..first + 20).filter(|at| at % 4 != 0))
                        .await;
                }
                next.store(first + 20, Ordering::SeqCst);
                shown.pass().await;
            }
        }
    });
    let (mut scans, mut is_written) = (0, false);
    // Splits continue for a long time after the last write, because the clock is paused.
    while !is_written || scans < 80 {
        is_written = writer.is_finished();
        let before = next.load(Ordering::SeqCst);
        let rows = shown.scan([97, 500, 1_000][scans % 3]).await;
        let mut once = rows.clone();
        once.dedup();
        assert_eq!(once.len(), rows.len(), "each row once");
        let old = rows.iter().filter(|(_, at)| !is_new(*at)).count();
        assert_eq!(
            i64::try_from(old).ok(),
            Some(ROWS / 2),
            "what was there before is there"
        );
        let new = rows.iter().filter(|(_, at)| is_new(*at) && *at < before).count();
        let least = (0..before).filter(|at| is_new(*at)).count() * 2;
        assert_eq!(new, least, "what was acknowledged before is there");
        scans += 1;
        for _ in 0..4 {
            shown.pass().await;
        }
    }
    writer.await.expect("it writes all");
    shown.settle().await;
    assert!(shown.buckets().await > 10);
    assert_eq!(i64::try_from(shown.scan(500).await.len()).ok(), Some(2 * ROWS));
}

async fn a_part_of_a_partition_is_read_between_its_bounds(shown: Shown) {
    shown.put("s", 0..300).await;
    let slice = |limit| Slice {
        from: Bound::After(cells(&[Some(&10_i64.to_be_bytes())])),
        to: Bound::Before(cells(&[Some(&20_i64.to_be_bytes())])),
        ..Slice::from_start(&shown.table, cells(&[Some(b"s")]), limit)
    };
    let snapshot = shown.store.snapshot().expect("it is open");
    for (limit, count, exhausted) in [(5, 5, false), (50, 9, true)] {
        let read = snapshot.slice(&slice(limit), &ReadOptions::default()).await;
        let read = read.expect("it is read");
        assert_eq!((read.rows.len(), read.exhausted), (count, exhausted));
    }
    assert!(
        !shown
            .store
            .describe_slice(&slice(5), &ReadOptions::default())
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_older_than_what_is_known_is_made_anew() {
    let shown = Shown::sampled().await;
    let old = shown.write(
        "s",
        Operation::DeleteRow {
            clustering: cells(&[Some(&1_i64.to_be_bytes())]),
        },
    );
    // Let another read cache the range map first. The write is then older than the range map, so
    // the store rejects it.
    assert_eq!(shown.slice("s", ReadDirection::Forward).await, [] as [i64; 0]);
    let refused = shown.store.write(old.clone(), WriteOptions::default()).await;
    assert_eq!(refused.expect_err("it is older").kind(), StoreErrorKind::Moved);
    let relaxed = WriteOptions {
        relaxed: true,
        ..WriteOptions::default()
    };
    let loaded = shown.store.write(old.clone(), relaxed).await;
    assert!(matches!(loaded, Ok(WriteOutcome::Done)), "{loaded:?}");
    let looked = WriteOptions {
        looked_nanos: Some(u64::MAX),
        ..WriteOptions::default()
    };
    let looked = shown.store.write(old, looked).await;
    assert!(matches!(looked, Ok(WriteOutcome::Done)), "{looked:?}");
}

async fn a_table_that_is_made_again_begins_without_directories(shown: Shown) {
    for first in (0..ROWS).step_by(20) {
        shown.put("s", first..first + 20).await;
        shown.pass().await;
    }
    shown.settle().await;
    assert!(shown.buckets().await > 4);
    let states = shown
        .store
        .compare_tables(&[Table::clone(&shown.table)])
        .await
        .expect("they are compared");
    assert_eq!(states, [TableState::AsAsked]);
    let listed = shown.store.list_tables().await.expect("they are listed");
    let events = listed.iter().find(|table| table.name() == "events");
    assert_eq!(events.map(Table::columns), Some(shown.table.columns()));
    shown.store.drop_table("events").await.expect("it is dropped");
    shown.store.create_table(&shown.table).await.expect("it is made");
    shown.put("s", 0..1).await;
    let buckets = shown.partitions().await.1;
    let is_first = |bucket: &Cells| bucket.get(1) == Some(&0_i64.to_be_bytes());
    assert!(
        buckets.iter().all(is_first),
        "in bucket 0, as if it were the first"
    );
    // With several shards, the partition has rows in the shard of its row and in the shard where
    // scans find it.
    assert!((1..=2).contains(&buckets.len()), "{buckets:?}");
    assert_eq!(shown.scan(10).await, [("s".to_owned(), 0)]);
    assert_eq!(shown.slice("s", ReadDirection::Forward).await, [0]);
}

async fn rejects_operations_that_buckets_do_not_support(shown: Shown) {
    let bound = || Bound::start();
    for operation in [
        Operation::DeletePartition,
        Operation::DeleteRange {
            from: bound(),
            to: bound(),
        },
    ] {
        let write = shown.write("s", operation);
        let refused = shown.store.write(write, WriteOptions::default()).await;
        assert!(matches!(refused, Ok(WriteOutcome::Refused(_))), "{refused:?}");
    }
    assert!(shown.store.empty_table(&shown.table).await.is_err());
    let key = Operation::Put {
        clustering: cells(&[None]),
        cells: cells(&[None, None]),
        replace: true,
    };
    let refused = shown
        .store
        .write(shown.write("s", key), WriteOptions::default())
        .await;
    assert!(matches!(refused, Ok(WriteOutcome::Refused(_))), "{refused:?}");
}

/// Checks that scans find each partition. The partitions have one row each, and most rows are not in the
/// shard in which scans look for a partition.
#[tokio::test(start_paused = true)]
async fn a_partition_is_scanned_whose_first_shard_is_empty() {
    let shown = Shown::sharded().await;
    let streams: Vec<String> = (0..40).map(|number| format!("s{number:02}")).collect();
    for (at, stream) in (0..).zip(&streams) {
        shown.put(stream, at..=at).await;
    }
    let expected: Vec<(String, i64)> = streams.iter().cloned().zip(0..).collect();
    for limit in [1_000, 7, 1] {
        assert_eq!(shown.scan(limit).await, expected);
    }
    // Let another process create the table again. The root marks that this process remembers expire
    // soon.
    let other = BucketedStore::over(Arc::clone(&shown.inner), environment(), Arc::clone(&shown.stamps));
    other.drop_table("events").await.expect("it is dropped");
    other.create_table(&shown.table).await.expect("it is made");
    tokio::time::sleep(Duration::from_secs(30)).await;
    for (at, stream) in (0..).zip(&streams) {
        shown.put(stream, at..=at).await;
    }
    assert_eq!(shown.scan(7).await, expected);
    // A table with another number of shards is a different table, so the comparison must report it.
    let alone = shown
        .store
        .compare_tables(&[table()])
        .await
        .expect("they are compared");
    assert!(matches!(alone[..], [TableState::Other(_)]), "{alone:?}");
}
