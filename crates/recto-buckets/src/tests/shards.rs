//! Tests of buckets with shards: reads merge the rows of all shards in order. Each row stays in its shard
//! during a split and the removal of the old bucket.

use std::collections::BTreeSet;

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Shard, Shards};
use recto_store::PointRead;

use super::*;
use crate::shards;

const SHARDS: u8 = 8;

fn eight() -> Shards {
    Shards::new(SHARDS).expect("there may be so many")
}

async fn stream(direction: Direction) -> Stream {
    let environment = environment();
    let store = memory(&environment);
    Stream::of(Arc::new(store), environment, sharded(direction, eight())).await
}

impl Stream {
    /// Returns the rows of each shard of a bucket.
    async fn in_shards(&self, bucket: u64) -> Vec<Vec<i64>> {
        let mut all = Vec::new();
        for shard in eight().all() {
            let mut slice = self.slice(ReadDirection::Forward, 100_000);
            slice.partition = self.partition.place.shard_partition(Bucket(bucket), shard);
            let snapshot = self.pieces.store.snapshot().expect("it is open");
            let read = snapshot.slice(&slice, &ReadOptions::default()).await;
            let rows = said(&read.expect("it is read"));
            all.push(rows.into_iter().map(|(at, _)| at).collect());
        }
        all
    }

    /// Returns all rows, read by pages of at most `limit` rows and `max_bytes` bytes.
    async fn paged(&self, direction: ReadDirection, limit: u32, max_bytes: u64) -> Vec<i64> {
        let (mut rows, mut slice) = (Vec::new(), self.slice(direction, limit));
        loop {
            let snapshot = self.pieces.store.snapshot().expect("it is open");
            let options = ReadOptions {
                max_bytes,
                stamps: true,
                ..ReadOptions::default()
            };
            let read = self
                .pieces
                .slice(&self.pieced, &*snapshot, &slice, &options)
                .await;
            let read = read.expect("it is read");
            assert!(read.rows.len() <= limit as usize);
            assert_eq!(read.rows.len(), read.stamps.len());
            assert!(read.exhausted || !read.rows.is_empty(), "it comes to an end");
            let ats = said(&read).into_iter().map(|(at, _)| at);
            rows.extend(ats);
            let Some(last) = rows.last().filter(|_| !read.exhausted) else {
                return rows;
            };
            match direction {
                ReadDirection::Forward => slice.from = Bound::After(clustering(*last, "a")),
                ReadDirection::Backward => slice.to = Bound::Before(clustering(*last, "a")),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn shards_are_read_in_one_order() {
    for stored in [Direction::Ascending, Direction::Descending] {
        let stream = stream(stored).await;
        stream
            .fill((0..300).map(|at| at * 7_919 % 300), Duration::ZERO)
            .await;
        let of_shards = stream.in_shards(0).await;
        assert!(of_shards.iter().all(|rows| (15..=65).contains(&rows.len())));
        for direction in [ReadDirection::Forward, ReadDirection::Backward] {
            let mut expected: Vec<i64> = (0..300).collect();
            if (stored == Direction::Descending) != (direction == ReadDirection::Backward) {
                expected.reverse();
            }
            for (limit, max_bytes) in [
                (1, u64::MAX),
                (2, u64::MAX),
                (50, u64::MAX),
                (301, u64::MAX),
                // Byte limits reduce a page to one row, or to less than the requested number of
                // rows.
                (50, 1),
                (50, 20_000),
            ] {
                let paged = stream.paged(direction, limit, max_bytes).await;
                assert_eq!(paged, expected, "{direction:?}, {limit}, {max_bytes}");
            }
        }
    }
}

/// Checks that pages are complete if all of their rows are in one shard. A row is final only up to the
/// position that all other shards have reached.
#[tokio::test(start_paused = true)]
async fn fills_pages_from_a_single_shard() {
    let stream = stream(Direction::Ascending).await;
    let of = |at: i64| {
        let key = stream
            .pieced
            .key(clustering(at, "a").as_row())
            .expect("it is one");
        eight().of(&key)
    };
    // Write rows that are all in the first shard, followed by rows of all shards.
    let first = (0..2_000).filter(|at| of(*at) == Shard(0)).take(60);
    let ats: Vec<i64> = first.chain(3_000..3_040).collect();
    stream.fill(ats.iter().copied(), Duration::ZERO).await;
    for limit in [7, 50] {
        assert_eq!(stream.paged(ReadDirection::Forward, limit, u64::MAX).await, ats);
        assert_eq!(stream.paged(ReadDirection::Forward, limit, 9_000).await, ats);
        let mut backward = ats.clone();
        backward.reverse();
        assert_eq!(
            stream.paged(ReadDirection::Backward, limit, u64::MAX).await,
            backward
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_is_read_and_deleted_in_its_shard_alone() {
    let stream = stream(Direction::Ascending).await;
    stream.fill(0..100, Duration::ZERO).await;
    let key = |at| clustering(at, "a");
    let one = Slice {
        from: Bound::Before(key(7)),
        to: Bound::After(key(7)),
        limit: 1,
        ..stream.slice(ReadDirection::Forward, 1)
    };
    let snapshot = stream.pieces.store.snapshot().expect("it is open");
    let bucket = Slice {
        partition: stream.partition.place.bucket_partition(Bucket(0)),
        ..one.clone()
    };
    let options = ReadOptions::default();
    let read = shards::slice(&*snapshot, &stream.pieced, &bucket, &options).await;
    let read = read.expect("it is read");
    let of_one = PointRead {
        table: Arc::clone(&stream.pieced.table),
        partition: read.rows.row(0).iter().take(3).collect(),
        clustering: key(7),
    };
    let alone = snapshot.get(&of_one, &options).await.expect("it is there");
    assert_eq!(
        (read.rows.len(), read.bytes),
        (1, alone.bytes),
        "nothing else is read"
    );
    assert_eq!(said(&stream.read(&one).await).len(), 1);
    stream.write(7, "a", Change::Delete).await.expect("it is deleted");
    assert!(said(&stream.read(&one).await).is_empty());
    assert_eq!(stream.all().await.len(), 99);
}

#[tokio::test(start_paused = true)]
async fn each_row_is_in_its_shard_through_a_cut_and_its_clearing() {
    let stream = stream(Direction::Ascending).await;
    let _work = stream.works();
    stream
        .fill((0..600).map(|at| at * 7_919 % 600), Duration::from_millis(1))
        .await;
    tokio::time::sleep(Duration::from_secs(12_000)).await;
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert!(!directory.is_being_cut() && !directory.is_to_be_cleared());
    assert!(directory.pieces.len() >= 8, "{directory:?}");
    let expected: Vec<i64> = (0..600).collect();
    for limit in [3, 50, 1_000] {
        assert_eq!(
            stream.paged(ReadDirection::Forward, limit, u64::MAX).await,
            expected
        );
    }
    let buckets: BTreeSet<u64> = directory.pieces.iter().map(|piece| piece.roles.read.0).collect();
    let mut there = Vec::new();
    for bucket in buckets {
        for (shard, rows) in stream.in_shards(bucket).await.into_iter().enumerate() {
            for at in rows {
                let key = stream
                    .pieced
                    .key(clustering(at, "a").as_row())
                    .expect("it is one");
                assert_eq!(eight().of(&key).0 as usize, shard, "{at}");
                there.push(at);
            }
        }
    }
    there.sort_unstable();
    assert_eq!(
        there, expected,
        "each is in one place, and nothing is left elsewhere"
    );
}

#[tokio::test(start_paused = true)]
async fn how_many_slices_are_read_at_once_is_bounded_by_all_shards() {
    let of = |shards| {
        let shards = Shards::new(shards).expect("there may be so many");
        shards::at_once(&sharded(Direction::Ascending, shards), 16)
    };
    assert_eq!([1, 2, 8, 16, 64].map(of), [16, 16, 16, 8, 2]);
    assert_eq!(Shards::new(0), None);
}
