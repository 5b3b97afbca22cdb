//! Tests that read rows in both directions after they were written, patched or deleted, or have expired.

use std::time::Duration;

use recto_buckets::Change;
use recto_model::table::{Direction, ReadDirection};
use recto_protocol::buckets::Shards;
use recto_protocol::buckets::sizing::Sizing;

use crate::process::{Process, Setting, patch, put, said, short_protocol};

fn setting(direction: Direction, stream: &str, shards: u8) -> Setting {
    Setting {
        direction,
        sizing: Sizing::with_samples(64 << 10, 1_000, 1e-3, 4).unwrap(),
        stream: stream.to_owned(),
        protocol: short_protocol(),
        shards: Shards::new(shards).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_as_they_were_written() {
    for (direction, shards) in [
        (Direction::Ascending, 1),
        (Direction::Descending, 1),
        (Direction::Descending, 4),
    ] {
        let process = Process::start(&setting(direction, "rows", shards), 0).await;
        for at in 0..40 {
            process.put(at, format!("{at}").as_bytes()).await.unwrap();
        }
        process.change(3, put(None, None, None)).await.unwrap();
        process
            .change(5, put(Some(b"noted"), None, Some(2)))
            .await
            .unwrap();
        process.change(7, patch(b"patched")).await.unwrap();
        process.change(50, patch(b"made by a patch")).await.unwrap();
        let stamp = process.change(9, Change::Delete).await.unwrap();
        assert!(stamp.0 > 0);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut expected: Vec<(i64, Vec<u8>)> = (0..40).map(|at| (at, at.to_string().into_bytes())).collect();
        expected[3].1.clear();
        expected[7].1 = b"patched".to_vec();
        expected.retain(|(at, _)| *at != 9 && *at != 5);
        expected.push((50, b"made by a patch".to_vec()));
        if direction == Direction::Descending {
            expected.reverse();
        }
        for limit in [1, 7, 100] {
            assert_eq!(process.rows(ReadDirection::Forward, limit).await, expected);
        }
        expected.reverse();
        assert_eq!(process.rows(ReadDirection::Backward, 7).await, expected);
        let read = process
            .read(&process.slice(ReadDirection::Forward, None, 100))
            .await
            .unwrap();
        assert!(
            read.stamps.iter().all(|stamp| *stamp > 0),
            "no row is without its stamp"
        );
        assert_eq!(said(&read).len(), 39);
    }
}
