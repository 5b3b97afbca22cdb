//! Tests of complete splits, from the first sample to the clearing of the old bucket.

use std::time::{Duration, Instant};

use recto_buckets::Change;
use recto_model::table::{Direction, ReadDirection};
use recto_protocol::buckets::sizing::Sizing;
use recto_protocol::buckets::{Directory, Shards};

use crate::process::{Process, Setting, TIME, patch, put, short_protocol};

/// Time limit until all splits are complete and all old buckets are cleared.
const SETTLED: Duration = Duration::from_secs(600);
/// Pause of a writer after a put.
const PUT_PAUSE: Duration = Duration::from_millis(40);
/// Number of puts during one split after which the writer waits for the end of the split.
const MAX_PUTS_DURING_SPLIT: u32 = 10;

fn setting(direction: Direction, stream: &str, samples: u32) -> Setting {
    Setting {
        direction,
        sizing: Sizing::with_samples(64 << 10, 1_500, 0.1, samples).unwrap(),
        stream: stream.to_owned(),
        protocol: short_protocol(),
        shards: Shards::ONE,
    }
}

/// Waits until all due splits are complete and all old buckets are cleared. Returns the number of key
/// ranges.
async fn settled(process: &Process) -> usize {
    let begun = Instant::now();
    loop {
        process.partition.look(TIME).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let windows = process.directory().await;
        let is_busy = windows
            .iter()
            .any(|window| window.is_being_cut() || window.is_to_be_cleared());
        let is_hot = windows[0].life_ms < process.setting.protocol.long_life_ms;
        if windows[0].version > 0 && !is_busy && !is_hot {
            return windows.iter().map(|window| window.pieces.len()).sum();
        }
        assert!(begun.elapsed() < SETTLED, "{windows:?}");
    }
}

async fn is_being_cut(process: &Process) -> bool {
    let windows = process.directory().await;
    windows.iter().any(Directory::is_being_cut)
}

/// Returns the number of rows in all buckets together.
async fn stored(process: &Process) -> usize {
    let mut stored = 0;
    for window in process.directory().await {
        for piece in &window.pieces {
            stored += process.in_bucket(piece.roles.read.0).await.len();
        }
    }
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_ahead_if_keys_follow_the_order_of_arrival() {
    let runs = [Direction::Ascending, Direction::Descending].map(|direction| {
        tokio::spawn(async move {
            let process = Process::start(&setting(direction, "ahead", 8), 0).await;
            let _working = process.works();
            let mut puts = 0;
            for at in 0..400 {
                process.put(at, &[b'x'; 300]).await.unwrap();
                tokio::time::sleep(PUT_PAUSE).await;
                puts = if is_being_cut(&process).await { puts + 1 } else { 0 };
                // A split takes longer on a busy machine, and copies the rows that arrive during
                // the split. So write no more rows until the split ends.
                while puts >= MAX_PUTS_DURING_SPLIT && is_being_cut(&process).await {
                    tokio::time::sleep(PUT_PAUSE).await;
                }
            }
            let pieces = process.directory().await[0].pieces.len();
            assert!(pieces >= 3, "{pieces} pieces");
            let stored = stored(&process).await;
            assert!(
                stored < 480,
                "{stored} rows are in all buckets: too many were copied"
            );
            assert_eq!(process.rows(ReadDirection::Forward, 50).await.len(), 400);
        })
    });
    for run in runs {
        run.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_oversized_buckets_at_samples_and_clears() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let process = Process::start(&setting(direction, "quantiles", 4), 0).await;
        let keys: Vec<i64> = (0..600).map(|at| at * 7_919 % 600).collect();
        for at in &keys {
            let change = match at % 10 {
                3 => put(None, None, None),
                5 => put(Some(b"noted"), Some(&[b'x'; 900]), Some(1_000)),
                7 => patch(&[b'p'; 900]),
                _ => put(None, Some(&[b'x'; 900]), None),
            };
            process.change(*at, change).await.unwrap();
        }
        for at in (0..600).step_by(20) {
            process.change(at, Change::Delete).await.unwrap();
        }
        let before = process.rows(ReadDirection::Forward, 100).await;
        let stamps = all_stamps(&process).await;
        assert_eq!((before.len(), process.directory().await[0].version), (570, 0));
        let _working = process.works();
        let pieces = settled(&process).await;
        assert!(pieces >= 8, "{pieces} pieces");
        assert_eq!(process.rows(ReadDirection::Forward, 100).await, before);
        assert_eq!(process.rows(ReadDirection::Forward, 7).await, before);
        assert_eq!(all_stamps(&process).await, stamps);
        assert!(
            process.in_bucket(0).await.len() < 200,
            "what is elsewhere is gone"
        );
        let backward: Vec<_> = before.into_iter().rev().collect();
        assert_eq!(process.rows(ReadDirection::Backward, 33).await, backward);
    }
}

/// Returns, for each row, its timestamp and whether it expires.
async fn all_stamps(process: &Process) -> Vec<(i64, bool)> {
    let read = process
        .read(&process.slice(ReadDirection::Forward, None, 10_000))
        .await
        .unwrap();
    let ends = read.ends_in_seconds.iter().map(Option::is_some);
    read.stamps.iter().copied().zip(ends).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: more than 256 cuts, minutes in all"]
async fn a_directory_of_more_than_a_window_is_gone_by() {
    let process = Process::start(&setting(Direction::Ascending, "windows", 4), 0).await;
    let (process, rows) = (std::sync::Arc::new(process), 12_000);
    let writers = (0..16).map(|writer| {
        let process = std::sync::Arc::clone(&process);
        tokio::spawn(async move {
            for at in (writer..rows).step_by(16) {
                process.put(at * 7_919 % rows, &[b'x'; 900]).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let _working = process.works();
    let begun = Instant::now();
    let pieces = settled(&process).await;
    println!(
        "{pieces} pieces, version {} after {:?}",
        process.directory().await[0].version,
        begun.elapsed()
    );
    println!("{:?}", process.calls.all());
    assert!(pieces > 256, "{pieces} pieces");
    let all: Vec<_> = (0..rows).collect();
    let ats = |rows: Vec<(i64, Vec<u8>)>| rows.into_iter().map(|(at, _)| at).collect::<Vec<_>>();
    assert_eq!(ats(process.rows(ReadDirection::Forward, 1_000).await), all);
    let backward: Vec<_> = all.into_iter().rev().collect();
    assert_eq!(ats(process.rows(ReadDirection::Backward, 777).await), backward);
    for at in [1, rows / 2, rows - 2] {
        process.change(at, Change::Delete).await.unwrap();
    }
    let left = process.rows(ReadDirection::Backward, 1_000).await.len();
    assert_eq!(i64::try_from(left).unwrap(), rows - 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_cut_whatever_has_expired_of_them() {
    let process = Process::start(&setting(Direction::Ascending, "expired", 4), 0).await;
    let soon_gone = || Change::Patch {
        columns: vec![2],
        cells: std::iter::once(Some(&[b'x'; 900][..])).collect(),
        ttl_seconds: Some(1),
    };
    for at in 0..300 {
        let note = (at % 3 == 0).then_some(&b"noted"[..]);
        let text = [b'x'; 900];
        let text = (at % 2 == 0).then_some(&text[..]);
        process.change(at, put(note, text, None)).await.unwrap();
        if at % 4 > 0 {
            process.change(at, soon_gone()).await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = process.rows(ReadDirection::Forward, 100).await;
    println!("{} rows are left", before.len());
    let _working = process.works();
    let pieces = settled(&process).await;
    assert!(pieces > 1, "{pieces} pieces");
    assert_eq!(process.rows(ReadDirection::Forward, 100).await, before);
}
