//! Tests of the sizes of buckets, and of the amount of rows that splits move.

use super::*;

/// Writes rows in this order. Returns the fraction of their bytes that was moved, and the mean size of the buckets.
async fn moved_by(
    at_once: usize,
    size: BucketSize,
    order: Order,
    rows: i64,
    ats: impl Iterator<Item = i64>,
) -> (f64, f64) {
    let directory = tempfile::tempdir().expect("there is room");
    let stream = Stream::new(on_disk(&directory), order, size).await;
    let _work = stream.works();
    let text = [b'x'; 900];
    let ats: Vec<_> = ats.collect();
    for some in ats.chunks(at_once) {
        let each = some.iter().map(|at| {
            let stream = stream.clone();
            async move { stream.put(*at, &text).await }
        });
        futures::future::join_all(each).await;
    }
    let buckets = stream.settled().await;
    let total: u64 = buckets.iter().map(|(_, count)| count.rows).sum();
    assert_eq!(total, rows.unsigned_abs());
    let put = stream.put.load(Ordering::SeqCst) as f64;
    (stream.moved() as f64 / put, put / buckets.len() as f64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_no_order_little_more_than_half_is_moved() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let size = BucketSize::Bytes(200_000);
        let (moved, mean) = moved_by(20, size, Order::of_numbers(direction), 6_000, shuffled(6_000)).await;
        eprintln!("{direction:?}, in no order: {moved:.3} bytes moved per byte, buckets of {mean:.0} bytes");
        assert!(moved > 0.1 && moved <= 0.6, "{moved}");
        assert!(mean > 90_000.0, "{mean}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_nearly_nothing_is_moved() {
    for (direction, is_falling) in [
        (Direction::Ascending, false),
        (Direction::Ascending, true),
        (Direction::Descending, false),
        (Direction::Descending, true),
    ] {
        let size = BucketSize::Bytes(200_000);
        let ats = (0..4_000).map(|at| if is_falling { 4_000 - at } else { at });
        let (moved, mean) = moved_by(4, size, Order::of_numbers(direction), 4_000, ats).await;
        eprintln!("{direction:?}, falling: {is_falling}: {moved:.3} moved, buckets of {mean:.0} bytes");
        // The fraction is greater if the splitter has to wait for a processor.
        assert!(moved < 0.4, "{moved}");
        assert!(mean > 90_000.0, "{mean}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_buckets_have_as_many_rows_as_they_may() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let stream = Stream::new(in_memory(), Order::of_numbers(direction), BucketSize::Rows(50)).await;
        let _work = stream.works();
        for at in 0..1_000 {
            stream.put(at, b"x").await;
        }
        let mut counts: Vec<_> = stream
            .settled()
            .await
            .iter()
            .map(|(_, count)| count.rows)
            .collect();
        assert!(counts.iter().all(|rows| *rows <= 50), "{counts:?}");
        counts.sort_unstable();
        assert!(counts[counts.len() / 2] >= 45, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn splits_an_oversized_write_into_several_buckets() {
    for (size, direction) in [
        (BucketSize::Bytes(20_000), Direction::Ascending),
        (BucketSize::Bytes(20_000), Direction::Descending),
        (BucketSize::Rows(10), Direction::Ascending),
        (BucketSize::Rows(10), Direction::Descending),
    ] {
        let stream = Stream::new(in_memory(), Order::of_numbers(direction), size).await;
        let rows = (0..1_000).map(|at| stream.put_of(at, "a", Some(&[b'x'; 100])));
        stream.write_all(rows.collect(), None).await;
        let mended = stream.engine.mend(&stream.place).await.expect("it is mended");
        assert_eq!(mended.too_large, 0);
        let buckets = stream.buckets().await;
        assert!(
            buckets.iter().all(|(_, count)| !stream.is_over(count)),
            "{buckets:?}"
        );
        assert!(buckets.len() > 8);
        assert_eq!(stream.all().await.len(), 1_000);
        assert!(
            stream.moved() <= stream.put.load(Ordering::SeqCst),
            "nothing is moved twice"
        );
    }
}
