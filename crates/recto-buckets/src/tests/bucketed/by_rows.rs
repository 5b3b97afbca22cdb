//! Tests of buckets that a number of rows bounds, on a store that does not count rows. Samples show when
//! to count the keys of a bucket.

use super::*;
use crate::list::Seek;

async fn of_rows(rows: u64) -> Shown {
    let environment = environment();
    let table = table_with(BucketBound::Rows(rows));
    Shown::over(Arc::new(memory(&environment)), environment, table).await
}

/// Returns the number of rows of `ats` in each key range.
async fn counts(shown: &Shown, ats: std::ops::Range<i64>) -> Vec<u64> {
    let s = cells(&[Some(b"s")]);
    let listed = shown
        .store
        .list_buckets(&shown.table, &s, Seek::At(Vec::new()), 256);
    let listed = listed.await.expect("they are listed");
    let mut counts = vec![0; listed.pieces.len()];
    for at in ats {
        let clustering = cells(&[Some(&at.to_be_bytes())]);
        let key = shown
            .store
            .key_of(&shown.table, &clustering)
            .expect("it is a key");
        counts[listed.position(&key).expect("some piece has it")] += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn no_bucket_stays_with_more_rows_than_it_may_have() {
    for (most, rows) in [(1, 30), (2, 60), (100, 1_500), (400, 3_000)] {
        let shown = of_rows(most).await;
        for first in (0..rows).step_by(10) {
            shown
                .put("s", (first..first + 10).map(|at| at * 7_919 % rows))
                .await;
            shown.pass().await;
        }
        shown.settle().await;
        let counts = counts(&shown, 0..rows).await;
        assert!(counts.iter().all(|count| *count <= most), "{most}: {counts:?}");
        let least = rows.unsigned_abs() / most;
        assert!(
            (least..=least * 10).contains(&(counts.len() as u64)),
            "{most}: {counts:?}"
        );
        let there = shown.slice("s", ReadDirection::Forward).await;
        assert_eq!(i64::try_from(there.len()), Ok(rows));
    }
}

#[tokio::test(start_paused = true)]
async fn splits_into_buckets_of_equal_row_counts() {
    let shown = of_rows(200).await;
    shown.put("s", (0..1_000).map(|at| at * 7_919 % 1_000)).await;
    shown.settle().await;
    let counts = counts(&shown, 0..1_000).await;
    assert_eq!(counts, [50; 20]);
}

#[tokio::test(start_paused = true)]
async fn room_is_made_for_rows_that_are_loaded() {
    let shown = of_rows(200).await;
    let put = |at: i64| {
        let text = format!("{at:0>200}");
        let operation = Operation::Put {
            clustering: cells(&[Some(&at.to_be_bytes())]),
            cells: cells(&[Some(text.as_bytes()), None]),
            replace: true,
        };
        shown.write("s", operation)
    };
    let sample = (0..2_000).step_by(4).map(put).collect();
    shown
        .store
        .make_room(sample, 4, Duration::from_secs(120))
        .await
        .expect("it is made");
    let options = WriteOptions {
        relaxed: true,
        ..WriteOptions::default()
    };
    for first in (0..2_000).step_by(100) {
        let rows = (first..first + 100).map(|at| put(at * 7_919 % 2_000)).collect();
        let sent = shown.store.write_many(rows, Atomicity::Each, options).await;
        assert!(matches!(sent, Ok(WriteOutcome::Done)), "{sent:?}");
    }
    let loaded = counts(&shown, 0..2_000).await;
    assert!(loaded.iter().all(|count| *count <= 200), "{loaded:?}");
    assert_eq!(shown.store.bucket_metrics().moved_bytes, 0);
    shown.settle().await;
    let settled = counts(&shown, 0..2_000).await;
    assert!(settled.iter().all(|count| *count <= 200), "{settled:?}");
}
