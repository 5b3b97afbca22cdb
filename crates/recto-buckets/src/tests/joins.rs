//! Tests of joins by the engine, from the page that finds few rows to the removal of inner edges.

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Roles};
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{Snapshot, StoreError};

use super::*;
use crate::directory::Seek;

/// Time in which a join is made after a page found few rows.
const JOINED: Duration = Duration::from_secs(60);
/// Time after which old buckets are removed, and inner edges after them.
const CLEARED: Duration = Duration::from_secs(9_000);
/// Time after which samples no longer prevent a join.
const QUIET: Duration = Duration::from_secs(700);

impl Stream {
    /// Returns -1 if the stream is in descending order, else 1.
    fn sign(&self) -> i64 {
        match self.pieced.table.clustering()[0].kind {
            ColumnKind::Clustering(Direction::Descending) => -1,
            _ => 1,
        }
    }

    /// Stores a range map with an empty bucket for each ten times.
    async fn has_empty_buckets(&self, buckets: i64) {
        let of = |bucket: i64| Roles::of(Bucket(bucket.unsigned_abs()));
        let pieces: Vec<_> = (0..buckets)
            .map(|bucket| (self.sign() * bucket * 10, of(bucket)))
            .collect();
        let mut put = self.is_kept_in(&pieces).await;
        let before = put.clone();
        (put.version, put.life_ms, put.longest_ms) = (put.version + 1, 20_000, 20_000);
        self.put_directory(&before, &put).await;
    }

    /// Stores a range map with a bucket for each ten times, and puts one row into each tenth bucket.
    async fn is_sparse(&self, buckets: i64) -> Vec<(i64, String)> {
        self.has_empty_buckets(buckets).await;
        for bucket in (0..buckets).step_by(10) {
            self.put(self.sign() * (bucket * 10 + 5), "a", "one")
                .await
                .expect("it is written");
        }
        tokio::time::sleep(QUIET).await;
        self.all().await
    }

    /// Returns the number of distinct buckets that a page of 50 rows reads.
    async fn buckets_of_a_page(&self) -> usize {
        let read = self.read(&self.slice(ReadDirection::Forward, 50)).await;
        let mut buckets = read.buckets.asked;
        buckets.sort_unstable();
        buckets.dedup();
        buckets.len()
    }

    /// Returns the number of rows of the stored range map, and the number of buckets that are read.
    async fn ranges(&self) -> (usize, usize) {
        let (mut ranges, mut buckets, mut next) = (0, Vec::new(), Some(Vec::new()));
        while let Some(key) = next {
            let mut window = self
                .partition
                .window(key.clone(), TIME)
                .await
                .expect("it is read");
            window.pieces.retain(|piece| piece.start >= key);
            ranges += window.pieces.len();
            buckets.extend(window.pieces.iter().map(|piece| piece.roles.read));
            next = window.end;
        }
        buckets.dedup();
        (ranges, buckets.len())
    }
}

#[tokio::test(start_paused = true)]
async fn joins_buckets_with_few_rows_after_a_page() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let stream = Stream::new(direction).await;
        let rows = stream.is_sparse(60).await;
        let _work = stream.works();
        assert_eq!(stream.buckets_of_a_page().await, 60);
        tokio::time::sleep(JOINED).await;
        assert_eq!(stream.buckets_of_a_page().await, 1);
        assert_eq!(stream.all().await, rows);
        assert_eq!(
            stream.ranges().await,
            (60, 1),
            "inner edges stay until old buckets are cleared"
        );
        tokio::time::sleep(CLEARED).await;
        assert_eq!(stream.ranges().await, (1, 1));
        assert_eq!(stream.all().await, rows);
        assert_eq!(stream.pieces.metrics().joined, 60);
    }
}

#[tokio::test(start_paused = true)]
async fn joins_a_long_range_map_window_by_window() {
    let stream = Stream::new(Direction::Ascending).await;
    let rows = stream.is_sparse(600).await;
    let _work = stream.works();
    let mended = stream
        .partition
        .mend(crate::BucketSize::Bytes(SIZING.0), false)
        .await;
    let mended = mended.expect("it is mended");
    assert!(mended.joined > 0 && mended.buckets <= 14, "{mended:?}");
    let (_, buckets) = stream.ranges().await;
    assert!(buckets <= 14, "{buckets} buckets");
    assert_eq!(stream.all().await, rows);
    tokio::time::sleep(CLEARED).await;
    let _ = stream.partition.look(TIME).await;
    tokio::time::sleep(CLEARED).await;
    let (ranges, buckets) = stream.ranges().await;
    assert_eq!(ranges, buckets, "inner edges are removed");
    assert_eq!(stream.all().await, rows);
}

#[tokio::test(start_paused = true)]
async fn joins_a_thousand_empty_buckets_in_ten_minutes() {
    let stream = Stream::new(Direction::Ascending).await;
    stream.has_empty_buckets(1_000).await;
    let _work = stream.works();
    assert_eq!(stream.buckets_of_a_page().await, 1_000);
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        stream.buckets_of_a_page().await;
    }
    let buckets = stream.buckets_of_a_page().await;
    assert!(buckets <= 16, "{buckets} buckets");
    // A join takes at most 64 ranges, so the new buckets are joined once the old edges are gone.
    for _ in 0..4 {
        tokio::time::sleep(CLEARED).await;
        stream.buckets_of_a_page().await;
    }
    let buckets = stream.buckets_of_a_page().await;
    assert!(buckets <= 2, "one bucket more than an empty list: {buckets}");
}

#[tokio::test(start_paused = true)]
async fn does_not_join_where_rows_arrive() {
    let stream = Stream::new(Direction::Ascending).await;
    stream.is_sparse(6).await;
    // All rows of this bucket are large, so they are sampled.
    stream.fill(20..24, Duration::ZERO).await;
    let _work = stream.works();
    assert_eq!(stream.buckets_of_a_page().await, 6);
    tokio::time::sleep(JOINED).await;
    let (_, buckets) = stream.ranges().await;
    assert_eq!(buckets, 3, "those before and behind the bucket are joined");
}

#[tokio::test(start_paused = true)]
async fn writes_and_deletions_beside_a_join_stay() {
    let stream = Stream::new(Direction::Ascending).await;
    let before = stream.is_sparse(40).await;
    let _work = stream.works();
    stream.buckets_of_a_page().await;
    let (mut expected, mut at) = (before, 0);
    for step in 0..200_i64 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        at = (at + 37) % 400;
        expected.retain(|(of, _)| *of != at);
        if step % 3 == 0 {
            stream
                .write(at, "a", Change::Delete)
                .await
                .expect("it is deleted");
        } else {
            stream.put(at, "a", "new").await.expect("it is written");
            expected.push((at, "new".to_owned()));
        }
    }
    expected.sort();
    assert_eq!(stream.all().await, expected);
    tokio::time::sleep(CLEARED).await;
    assert_eq!(
        stream.all().await,
        expected,
        "nothing returns when old buckets are cleared"
    );
}

/// Checks that reads ignore the rows of removed ranges that a node returns, in a small and in a long range map.
#[tokio::test(start_paused = true)]
async fn returned_rows_of_a_range_map_do_no_harm() {
    for buckets in [60, 600] {
        let stream = Stream::new(Direction::Ascending).await;
        let rows = stream.is_sparse(buckets).await;
        let (table, partition) = (
            Arc::clone(&stream.pieces.tables.directories),
            stream.partition.place.directory_partition(),
        );
        let all = Slice::from_start(&table, partition.clone(), 10_000);
        let options = ReadOptions::default();
        let before = stream
            .pieces
            .store
            .snapshot()
            .expect("it is open")
            .slice(&all, &options)
            .await;
        let before = before.expect("it is read");
        let work = stream.works();
        stream
            .partition
            .mend(crate::BucketSize::Bytes(SIZING.0), false)
            .await
            .expect("it is mended");
        for _ in 0..3 {
            let _ = stream.partition.look(TIME).await;
            tokio::time::sleep(CLEARED).await;
        }
        work.abort();
        let after = stream
            .pieces
            .store
            .snapshot()
            .expect("it is open")
            .slice(&all, &options)
            .await;
        let after = after.expect("it is read");
        assert!(after.rows.len() * 5 < before.rows.len());
        let is_there = |start: Option<&[u8]>| after.rows.iter().any(|row| row.get(2) == start);
        let mutations: Vec<_> = before
            .rows
            .iter()
            .filter(|row| !is_there(row.get(2)))
            .map(|row| recto_store::Mutation {
                operation: recto_store::Operation::Put {
                    clustering: cells(&[row.get(2)]),
                    cells: (8..18).map(|column| row.get(column)).collect(),
                    replace: true,
                },
                stamp: None,
                ttl_seconds: None,
            })
            .collect();
        let returned = mutations.len();
        let version = stream
            .partition
            .directory(TIME)
            .await
            .expect("it is read")
            .version;
        let cas = stream
            .pieces
            .tables
            .only_if(&stream.partition.place, version, mutations);
        let decided = stream.pieces.decided(cas, TIME).await.expect("it is sent");
        assert_eq!(decided, recto_protocol::buckets::Decision::Applied);
        assert!(returned > 50);
        assert_eq!(stream.all().await, rows);
        for at in [3, buckets * 5, buckets * 10 - 1] {
            let key = stream.pieced.edge_at(at).expect("it is one");
            let deadline = stream.pieces.deadline(TIME);
            let place = &stream.partition.place;
            let (around, _) = stream
                .pieces
                .read_around(place, &key, deadline)
                .await
                .expect("it is read");
            let read = stream
                .pieces
                .read_directory(place, &Seek::At(key), true, deadline)
                .await;
            assert!(around.pieces.len() < 20 && read.expect("it is read").pieces.len() < 20);
        }
    }
}

/// Store whose reads report tombstones as long as the first bucket is read.
struct Buried(Arc<dyn Store>);

struct BuriedSnapshot(Arc<dyn Snapshot>);

#[async_trait::async_trait]
impl StoreWrapper for Buried {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.0
    }

    fn on_snapshot(&self, inner: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(BuriedSnapshot(inner))
    }
}

#[async_trait::async_trait]
impl SnapshotWrapper for BuriedSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.0
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let mut read = self.0.slice(slice, options).await?;
        let is_first = slice.table.name() == "events" && slice.partition.get(1) == Some(&[0; 8]);
        read.tombstones = if is_first { 1_001 } else { 0 };
        Ok(read)
    }
}

#[tokio::test(start_paused = true)]
async fn replaces_a_bucket_full_of_tombstones() {
    let environment = environment();
    let store = Buried(Arc::new(memory(&environment)));
    let stream = Stream::on(Arc::new(store), environment, Direction::Ascending).await;
    for at in 0..5 {
        stream.put(at, "a", "one").await.expect("it is written");
    }
    let rows = stream.all().await;
    let _work = stream.works();
    assert!(
        stream
            .read(&stream.slice(ReadDirection::Forward, 50))
            .await
            .tombstones
            > 0
    );
    tokio::time::sleep(JOINED).await;
    let read = stream.read(&stream.slice(ReadDirection::Forward, 50)).await;
    assert_eq!((read.tombstones, read.buckets.asked), (0, vec![1]));
    assert_eq!(stream.all().await, rows);
    let version = stream
        .partition
        .directory(TIME)
        .await
        .expect("it is read")
        .version;
    tokio::time::sleep(JOINED).await;
    stream.all().await;
    tokio::time::sleep(JOINED).await;
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert_eq!(directory.version, version, "nothing is left to do");
}
