//! Tests that buckets are split before a load, and that a load waits if its buckets are too full.

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Roles};
use recto_store::{Atomicity, WriteOptions};

use super::*;
use crate::limits::MAX_LOAD_WAIT;
use crate::room::Coming;
use crate::writer::{Ended, Group, MapFreshness, RowWrite};

const ROW_BYTES: usize = 900;

impl Stream {
    fn coming(&self, ats: impl Iterator<Item = i64>, each: u64) -> Vec<Coming> {
        let coming = |at: i64| Coming {
            key: self.pieced.key(clustering(at, "a").as_row()).expect("it is one"),
            bytes: each * (ROW_BYTES as u64 + 73),
            rows: each,
        };
        ats.map(coming).collect()
    }

    /// Loads all rows in one group. The load does not wait if the buckets have room for the rows.
    async fn load(&self, ats: impl Iterator<Item = i64>) {
        let text = "x".repeat(ROW_BYTES);
        let rows = ats.map(|at| {
            let change = Change::Put {
                cells: cells(&[None, None, Some(text.as_bytes())]),
                replace: false,
                ttl_seconds: None,
            };
            let clustering = clustering(at, "a");
            RowWrite::new(
                self.partition.clone(),
                RowChange { clustering, change },
                Stamp(1_000),
            )
            .expect("it is one")
        });
        let options = WriteOptions {
            relaxed: true,
            timeout: TIME * 12,
            ..WriteOptions::default()
        };
        let group = Group {
            rows: rows.collect(),
            others: Vec::new(),
            atomicity: Atomicity::Each,
            since: MapFreshness::Sent,
            options,
        };
        let deadline = self.pieces.deadline(options.timeout);
        self.pieces.slow_down(&group, deadline).await;
        while self
            .pieces
            .write_group(&group, deadline)
            .await
            .expect("it is sent")
            != Ended::Done
        {}
    }

    async fn buckets(&self) -> Vec<(u64, usize)> {
        let directory = self.partition.directory(TIME).await.expect("it is read");
        let mut buckets = Vec::new();
        for piece in &directory.pieces {
            let bucket = piece.roles.read.0;
            buckets.push((bucket, self.in_bucket(bucket).await.len()));
        }
        buckets
    }
}

#[tokio::test(start_paused = true)]
async fn loads_with_enough_room_neither_wait_nor_copy() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let stream = Stream::new(direction).await;
        let begun = tokio::time::Instant::now();
        let coming = stream.coming((0..1_000).map(|at| (999 - at) * 2), 2);
        stream
            .pieces
            .make_room(&stream.partition.place, coming)
            .await
            .expect("it is made");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let begun = tokio::time::Instant::now();
        for first in (0..2_000).step_by(100) {
            stream
                .load((first..first + 100).map(|at| at * 7_919 % 2_000))
                .await;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "nobody waits: {:?}",
            begun.elapsed()
        );
        let buckets = stream.buckets().await;
        let rows: usize = buckets.iter().map(|(_, rows)| rows).sum();
        assert_eq!(rows, 2_000, "each lies in its bucket alone: {buckets:?}");
        let target = usize::try_from(SIZING.0).expect("it is small");
        assert!(
            buckets.iter().all(|(_, rows)| rows * (ROW_BYTES + 73) < target),
            "{buckets:?}"
        );
        assert_eq!(stream.all().await.len(), 2_000);
    }
}

#[tokio::test(start_paused = true)]
async fn room_is_made_where_rows_are_only_as_far_as_it_takes() {
    let stream = Stream::new(Direction::Ascending).await;
    stream
        .is_kept_in(&[(0, Roles::of(Bucket(0))), (1_000, Roles::of(Bucket(1)))])
        .await;
    stream.load(0..5).await;
    stream.load(1_000..1_005).await;
    let before = stream
        .partition
        .directory(TIME)
        .await
        .expect("it is read")
        .version;
    let few = stream.coming([5].into_iter(), 5);
    stream
        .pieces
        .make_room(&stream.partition.place, few)
        .await
        .expect("it is made");
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert_eq!(
        (directory.version, directory.pieces.len()),
        (before, 2),
        "there is room"
    );
    let many = stream.coming((1_500..1_600).step_by(10), 10);
    stream
        .pieces
        .make_room(&stream.partition.place, many)
        .await
        .expect("it is made");
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert!(directory.pieces.len() > 3 && !directory.is_being_cut());
    assert_eq!(directory.pieces[0].roles.read, Bucket(0));
    assert_eq!(directory.pieces[1].roles.read, Bucket(1), "what was there stays");
    assert_eq!(stream.all().await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn loads_without_room_wait_for_splits() {
    let stream = Stream::new(Direction::Ascending).await;
    let pieces = stream.pieces.clone();
    tokio::spawn(async move { pieces.work().await });
    let mut fullest = 0;
    for first in (0..1_000).step_by(20) {
        stream.load(first..first + 20).await;
        let directory = stream.partition.directory(TIME).await.expect("it is read");
        if !directory.is_being_cut() {
            let rows = stream.buckets().await.into_iter().map(|(_, rows)| rows).max();
            fullest = fullest.max(rows.unwrap_or_default());
        }
    }
    let target = usize::try_from(SIZING.0).expect("it is small");
    let most = fullest * (ROW_BYTES + 73);
    assert!(most < target * 3 / 2, "{most} bytes of {target}");
    assert_eq!(stream.all().await.len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn loads_without_a_splitter_do_not_wait_forever() {
    let stream = Stream::new(Direction::Ascending).await;
    let begun = tokio::time::Instant::now();
    for first in (0..200).step_by(20) {
        stream.load(first..first + 20).await;
    }
    let waited = begun.elapsed();
    assert!(
        waited >= MAX_LOAD_WAIT && waited < MAX_LOAD_WAIT * 8,
        "{waited:?}"
    );
    assert_eq!(stream.all().await.len(), 200);
}
