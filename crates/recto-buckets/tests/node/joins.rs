//! Tests of joins: of buckets that became empty, from the page that finds few rows, and of tombstones.

use std::time::{Duration, Instant};

use recto_buckets::{BucketSize, Change};
use recto_model::table::{Direction, ReadDirection};
use recto_protocol::buckets::sizing::Sizing;
use recto_protocol::buckets::{Directory, Shards};

use crate::process::{Process, Setting, TIME, short_protocol};

/// Time limit until the work of the test is done.
const SETTLED: Duration = Duration::from_secs(600);
/// Number of rows that are deleted. Cassandra warns of reads that pass 1,000 tombstones.
const DELETED: i64 = 1_500;

fn setting(stream: &str, target: u64) -> Setting {
    Setting {
        direction: Direction::Ascending,
        sizing: Sizing::with_samples(target, 1_500, 0.1, 8).unwrap(),
        stream: stream.to_owned(),
        protocol: short_protocol(),
        shards: Shards::ONE,
    }
}

/// Waits until the range map is at rest and is as `is_reached` requires.
async fn until(process: &Process, is_reached: impl Fn(&[Directory]) -> bool) -> Vec<Directory> {
    let begun = Instant::now();
    loop {
        process.partition.look(TIME).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let windows = process.directory().await;
        let is_busy = |window: &Directory| {
            window.is_being_cut() || window.is_to_be_cleared() || window.inner_edge().is_some()
        };
        if !windows.iter().any(is_busy) && is_reached(&windows) {
            return windows;
        }
        assert!(begun.elapsed() < SETTLED, "{windows:?}");
    }
}

/// Returns the number of different buckets that a page of 50 rows reads.
async fn buckets_of_a_page(process: &Process) -> usize {
    let slice = process.slice(ReadDirection::Forward, None, 50);
    let mut buckets = process.read(&slice).await.unwrap().buckets.asked;
    buckets.sort_unstable();
    buckets.dedup();
    buckets.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_emptied_buckets_on_demand() {
    let process = Process::start(&setting("emptied", 64 << 10), 0).await;
    let working = process.works();
    for at in (0..600).map(|at| at * 7_919 % 600) {
        process.put(at, &[b'x'; 900]).await.unwrap();
    }
    let windows = until(&process, |windows| windows[0].pieces.len() >= 8).await;
    let before = windows[0].pieces.len();
    for at in 20..600 {
        process.change(at, Change::Delete).await.unwrap();
    }
    let rows = process.rows(ReadDirection::Forward, 100).await;
    assert_eq!(rows.len(), 20);
    assert!(buckets_of_a_page(&process).await >= before);
    let mended = process
        .partition
        .mend(BucketSize::Bytes(64 << 10), false)
        .await
        .unwrap();
    // The empty buckets are joined. The buckets of the 20 remaining rows may stay, because these rows are
    // new. A bucket that received rows in the last ten minutes may soon be full, so it is not joined.
    assert!(mended.buckets <= 3, "{mended:?}");
    assert_eq!(process.rows(ReadDirection::Forward, 100).await, rows);
    assert!(buckets_of_a_page(&process).await <= 3);
    let windows = until(&process, |windows| windows[0].pieces.len() <= 3).await;
    assert_eq!(process.rows(ReadDirection::Forward, 7).await, rows);
    assert!(windows[0].pieces.len() < before);
    // The list grows again.
    for at in 1_000..1_400 {
        process.put(at, &[b'x'; 900]).await.unwrap();
    }
    until(&process, |windows| windows[0].pieces.len() >= 4).await;
    assert_eq!(process.rows(ReadDirection::Forward, 100).await.len(), 420);
    drop(working);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_a_bucket_full_of_tombstones() {
    let process = Process::start(&setting("tombstones", 10 << 20), 0).await;
    let working = process.works();
    for at in 0..DELETED + 60 {
        process.put(at, b"text").await.unwrap();
    }
    for at in 0..DELETED {
        process.change(at, Change::Delete).await.unwrap();
    }
    let slice = process.slice(ReadDirection::Forward, None, 50);
    let read = process.read(&slice).await.unwrap();
    assert!(read.tombstones > 1_000, "{} tombstones", read.tombstones);
    let begun = Instant::now();
    while process.read(&slice).await.unwrap().tombstones > 0 {
        assert!(begun.elapsed() < SETTLED);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(process.rows(ReadDirection::Forward, 50).await.len(), 60);
    drop(working);
}
