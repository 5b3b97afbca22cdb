//! Tests of the cost of writes and reads without a valid cached range map: the number of sequential
//! requests, and the number of all requests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::future::join;
use recto_model::table::Direction;
use recto_protocol::buckets::Roles;
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{Atomicity, PartitionWrite, Snapshot, StoreError, WriteOptions, WriteOutcome};

use super::*;
use crate::limits::MAX_DIRECTORIES_AT_ONCE;
use crate::samples;
use crate::writer::{Ended, Group, MapFreshness, RowWrite};

/// Simulated duration of each request.
const STAGE: Duration = Duration::from_millis(10);

/// Numbers of requests and of written partitions, by table.
#[derive(Default)]
struct RequestCounts(Mutex<BTreeMap<(String, &'static str), usize>>);

impl RequestCounts {
    fn add(&self, table: &str, what: &'static str, count: usize) {
        let mut asked = self.0.lock().expect("nobody panicked");
        *asked.entry((table.to_owned(), what)).or_default() += count;
    }

    fn take(&self) -> BTreeMap<(String, &'static str), usize> {
        std::mem::take(&mut *self.0.lock().expect("nobody panicked"))
    }
}

/// Store that delays and counts requests.
struct Slow {
    inner: Arc<dyn Store>,
    asked: Arc<RequestCounts>,
}

struct SlowSnapshot {
    inner: Arc<dyn Snapshot>,
    asked: Arc<RequestCounts>,
}

#[async_trait::async_trait]
impl StoreWrapper for Slow {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, inner: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        let asked = Arc::clone(&self.asked);
        Arc::new(SlowSnapshot { inner, asked })
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        tokio::time::sleep(STAGE).await;
        if let Some(first) = writes.first() {
            self.asked.add(first.table.name(), "writes", 1);
            self.asked
                .add(first.table.name(), "partitions written", writes.len());
        }
        self.inner.write_many(writes, atomicity, options).await
    }
}

#[async_trait::async_trait]
impl SnapshotWrapper for SlowSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        tokio::time::sleep(STAGE).await;
        self.asked.add(slice.table.name(), "reads", 1);
        self.inner.slice(slice, options).await
    }
}

async fn slow(direction: Direction) -> (Stream, Arc<RequestCounts>) {
    slow_of(pieced(direction)).await
}

async fn slow_of(pieced: Arc<PiecedTable>) -> (Stream, Arc<RequestCounts>) {
    let (environment, asked) = (environment(), Arc::new(RequestCounts::default()));
    let store = Slow {
        inner: Arc::new(memory(&environment)),
        asked: Arc::clone(&asked),
    };
    let stream = Stream::of(Arc::new(store), environment, pieced).await;
    (stream, asked)
}

/// Returns the result of a task, and the number of its sequential requests, computed from its duration.
async fn stages<T>(work: impl Future<Output = T>) -> (T, u128) {
    let begun = tokio::time::Instant::now();
    let done = work.await;
    (done, begun.elapsed().as_millis() / STAGE.as_millis())
}

fn of(bucket: u64) -> Roles {
    Roles::of(recto_protocol::buckets::Bucket(bucket))
}

impl Stream {
    /// Writes rows. Repeats the write with newer timestamps if rows moved to other buckets.
    async fn put_all_together(&self, rows: &[(&Partition, i64)], atomicity: Atomicity) {
        while self.put_together(rows, atomicity).await != Ended::Done {}
    }

    async fn put_together(&self, rows: &[(&Partition, i64)], atomicity: Atomicity) -> Ended {
        let options = WriteOptions::default();
        let rows = rows.iter().map(|(partition, at)| self.row(partition, *at));
        let group = Group {
            rows: rows.collect(),
            others: Vec::new(),
            atomicity,
            since: MapFreshness::Stamps,
            options,
        };
        let deadline = self.pieces.deadline(TIME);
        self.pieces
            .write_group(&group, deadline)
            .await
            .expect("it is sent")
    }

    fn row(&self, partition: &Partition, at: i64) -> RowWrite {
        let change = RowChange {
            clustering: clustering(at, "a"),
            change: Change::Put {
                cells: cells(&[None, None, Some(&[b'x'; 200])]),
                replace: true,
                ttl_seconds: None,
            },
        };
        let stamp = (self.pieces.stamps)();
        RowWrite::new(Partition::clone(partition), change, stamp).expect("it is one")
    }

    /// Writes a row that is not sampled, as most rows are. Returns the result, the number of sequential requests and
    /// the number of all requests.
    async fn put_alone(&self, asked: &RequestCounts, at: &mut i64) -> (Ended, u128, usize) {
        let sampled = |row: RowWrite| samples::is_changed(&row.key, row.became, self.pieced.sampling);
        while sampled(self.row(&self.partition, *at)) {
            *at += 1;
        }
        asked.take();
        let (ended, took) = stages(self.put_together(&[(&self.partition, *at)], Atomicity::Each)).await;
        *at += 1;
        (ended, took, asked.take().values().sum())
    }

    fn partitions(&self, count: u16) -> Vec<Partition> {
        let partition = |number: u16| {
            let key = cells(&[Some(format!("{number}").as_bytes())]);
            self.pieces.partition(&self.pieced, key).expect("it is one")
        };
        (0..count).map(partition).collect()
    }
}

fn count(asked: &BTreeMap<(String, &'static str), usize>, table: &str, what: &'static str) -> usize {
    asked.get(&(table.to_owned(), what)).copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn writes_many_rows_with_one_range_map_read() {
    let (stream, asked) = slow(Direction::Ascending).await;
    let all: Vec<_> = (0..100).map(|at| (&stream.partition, at)).collect();
    for (atomicity, is_known, expected) in [
        (Atomicity::Each, false, (1, 2)),
        (Atomicity::Each, true, (0, 2)),
        (Atomicity::Logged, true, (0, 2)),
        // An atomic group does not guess buckets, so the read of the range map is one more stage.
        (Atomicity::Logged, false, (1, 3)),
    ] {
        if !is_known {
            tokio::time::sleep(TIME * 3).await;
        }
        asked.take();
        // A write takes two stages: first the samples, then the rows.
        let ((), took) = stages(stream.put_all_together(&all, atomicity)).await;
        let asked = asked.take();
        assert_eq!(
            (count(&asked, "recto_buckets", "reads"), took),
            expected,
            "{atomicity:?}, {is_known}: {asked:?}"
        );
        for what in ["writes", "partitions written"] {
            assert_eq!(count(&asked, "events", what), 1, "{asked:?}");
            assert_eq!(count(&asked, "recto_samples", what), 1, "{asked:?}");
        }
    }
    assert_eq!(stream.all().await.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_row_goes_straight_by_a_copy_that_lives() {
    let (stream, asked) = slow(Direction::Ascending).await;
    let (begun, mut at) = (tokio::time::Instant::now(), 0);
    let life = Duration::from_millis(stream.pieces.protocol.short_life_ms);
    assert!(stream.all().await.is_empty(), "this reads the directory");
    // A row with a valid range map takes one write, to one partition.
    assert_eq!(stream.put_alone(&asked, &mut at).await, (Ended::Done, 1, 2));
    tokio::time::sleep_until(begun + life - 2 * STAGE).await;
    assert_eq!(stream.put_alone(&asked, &mut at).await, (Ended::Done, 1, 2));
    assert_eq!(stream.in_bucket(0).await.len(), 2);
    // If the range map expires during the write, the write reads the range map again.
    let begun = tokio::time::Instant::now();
    assert_eq!(stream.all().await.len(), 2, "this reads it again");
    tokio::time::sleep_until(begun + life - STAGE / 2).await;
    assert_eq!(stream.put_alone(&asked, &mut at).await, (Ended::Done, 2, 3));
    assert_eq!(stream.in_bucket(0).await.len(), 3);
    // If the new range map names another bucket, the write removes the row and reports that it must
    // be repeated.
    let begun = tokio::time::Instant::now() - 2 * STAGE;
    tokio::time::sleep_until(begun + life - STAGE / 2).await;
    let (written, _) = join(
        stream.put_alone(&asked, &mut at),
        stream.is_kept_in(&[(0, of(1))]),
    )
    .await;
    assert_eq!(written.0, Ended::Moved { is_sent: true });
    assert_eq!(stream.in_bucket(0).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn directories_of_several_partitions_are_read_side_by_side() {
    let (stream, asked) = slow(Direction::Ascending).await;
    let most = MAX_DIRECTORIES_AT_ONCE as u16;
    for (partitions, expected) in [(most, 1), (3 * most, 3)] {
        let partitions = stream.partitions(partitions);
        let all = partitions
            .iter()
            .flat_map(|partition| [(partition, 1), (partition, 2)]);
        let all: Vec<_> = all.collect();
        for atomicity in [Atomicity::Each, Atomicity::Logged] {
            tokio::time::sleep(TIME * 3).await;
            asked.take();
            let ((), took) = stages(stream.put_all_together(&all, atomicity)).await;
            let asked = asked.take();
            assert_eq!(count(&asked, "recto_buckets", "reads"), partitions.len());
            let written = (
                count(&asked, "events", "writes"),
                count(&asked, "events", "partitions written"),
            );
            assert_eq!(written, (1, partitions.len()));
            let samples = u128::from(count(&asked, "recto_samples", "writes") > 0);
            let stages = match atomicity {
                Atomicity::Each => expected.max(1 + samples),
                Atomicity::Logged => expected + 1 + samples,
            };
            assert_eq!(took, stages, "{atomicity:?}: {asked:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_were_guessed_wrong_are_all_removed() {
    let (stream, asked) = slow(Direction::Ascending).await;
    stream.is_kept_in(&[(0, of(0)), (10, of(1)), (20, of(2))]).await;
    stream.pieces.copies.forget("events");
    asked.take();
    let all: Vec<_> = (0..30).map(|at| (&stream.partition, at)).collect();
    let moved = stream.put_together(&all, Atomicity::Each).await;
    assert_eq!(moved, Ended::Moved { is_sent: true });
    assert_eq!(count(&asked.take(), "recto_buckets", "reads"), 1);
    assert_eq!(stream.in_bucket(0).await.len(), 10, "the others are removed");
    assert_eq!(stream.all().await.len(), 10);
    assert_eq!(stream.put_together(&all, Atomicity::Each).await, Ended::Done);
    for bucket in 0..3 {
        assert_eq!(stream.in_bucket(bucket).await.len(), 10);
    }
    assert_eq!(stream.all().await.len(), 30);
    assert_eq!(count(&asked.take(), "events", "partitions written"), 3);
}

#[tokio::test(start_paused = true)]
async fn rows_of_several_windows_are_written_by_each_of_them() {
    let (stream, asked) = slow(Direction::Ascending).await;
    stream.is_kept_in_windows().await;
    let all: Vec<_> = (0..60).map(|at| (&stream.partition, at * 25)).collect();
    for (atomicity, most) in [
        (Atomicity::Logged, 10),
        (Atomicity::Each, 4),
        (Atomicity::Logged, 4),
    ] {
        asked.take();
        stream.put_all_together(&all, atomicity).await;
        let asked = asked.take();
        let reads = count(&asked, "recto_buckets", "reads");
        assert!(reads <= most, "{asked:?}");
        tokio::time::sleep(TIME * 3).await;
    }
    assert_eq!(stream.all().await.len(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_page_is_read_beside_the_directory_where_rows_lay() {
    for direction in [ReadDirection::Forward, ReadDirection::Backward] {
        let (stream, asked) = slow(Direction::Ascending).await;
        let first = stream.slice(direction, 5);
        let rows = async |expected: u128| {
            let (read, took) = stages(stream.read(&first)).await;
            let asked = asked.take();
            assert_eq!((read.rows.len(), took), (5, expected), "{asked:?}");
        };
        for at in 0..30 {
            stream.put(at, "a", "x").await.expect("it is written");
        }
        asked.take();
        rows(1).await;
        for _ in 0..2 {
            tokio::time::sleep(TIME * 3).await;
            rows(1).await;
        }
        stream.pieces.copies.forget("events");
        rows(1).await;
        let halves = [(0, of(0)), (15, of(1))];
        stream.is_kept_in(&halves).await;
        tokio::time::sleep(TIME * 3).await;
        for at in 0..30 {
            stream.put(at, "a", "x").await.expect("it is written");
        }
        tokio::time::sleep(TIME * 3).await;
        asked.take();
        rows(1).await;
        // Move the rows to other buckets, so that the last known range map is wrong.
        stream.is_kept_in(&[(0, of(2)), (15, of(3))]).await;
        tokio::time::sleep(TIME * 3).await;
        for at in 0..30 {
            stream.put(at, "a", "y").await.expect("it is written");
        }
        stream.pieces.copies.forget("events");
        asked.take();
        rows(2).await;
        let read = stream.read(&first).await;
        assert!(said(&read).iter().all(|(_, text)| text == "y"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_shards_is_one_stage_of_as_many_requests() {
    let shards = Shards::new(8).expect("there may be so many");
    let (stream, asked) = slow_of(sharded(Direction::Ascending, shards)).await;
    for at in 0..400 {
        stream.put(at, "a", "x").await.expect("it is written");
    }
    for direction in [ReadDirection::Forward, ReadDirection::Backward] {
        tokio::time::sleep(TIME * 3).await;
        asked.take();
        let (read, took) = stages(stream.read(&stream.slice(direction, 51))).await;
        assert_eq!((read.rows.len(), took), (51, 1));
        assert_eq!(count(&asked.take(), "events", "reads"), 8);
    }
    tokio::time::sleep(TIME * 3).await;
    asked.take();
    let one = |partition| [(partition, 1), (partition, 2), (partition, 3), (partition, 4)];
    // The root mark for scans and the rows are written while the range map is read once.
    let (_, took) = stages(stream.put_together(&one(&stream.partition), Atomicity::Each)).await;
    let told = asked.take();
    assert_eq!((count(&told, "events", "writes"), took), (2, 2), "{told:?}");
    let (_, took) = stages(stream.put_together(&one(&stream.partition), Atomicity::Each)).await;
    let told = asked.take();
    let samples = u128::from(count(&told, "recto_samples", "writes") > 0);
    assert_eq!(
        (count(&told, "events", "writes"), took),
        (1, 1 + samples),
        "{told:?}"
    );
}
