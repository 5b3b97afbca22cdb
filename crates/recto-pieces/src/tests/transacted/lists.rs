//! Tests of listings of buckets with the counts of the store.

use recto_protocol::buckets::Figures;

use super::*;
use crate::list::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_bucket_is_listed_with_what_the_store_counts() {
    let directory = tempfile::tempdir().expect("there is room");
    let order = Order::of_numbers(Direction::Descending);
    let stream = Stream::new(on_disk(&directory), order, BucketSize::Rows(20)).await;
    let _work = stream.works();
    for at in shuffled(2_000) {
        stream.put(at, b"text").await;
    }
    let buckets = stream.settled().await;
    assert!(buckets.len() >= 100, "{}", buckets.len());
    for most in [7, 64, 256] {
        let (mut seen, mut seek) = (Vec::new(), Some(Seek::At(Vec::new())));
        while let Some(next) = seek {
            let listed = stream.engine.list(&stream.place, next, most).await;
            let listed = listed.expect("it is listed");
            assert!(listed.pieces.len() <= most);
            seek = listed.behind.clone().map(Seek::At);
            seen.extend(listed.pieces);
        }
        let ends: Vec<_> = seen.iter().map(|piece| piece.end.clone()).collect();
        let starts = seen.iter().skip(1).map(|piece| Some(piece.start.clone()));
        assert_eq!(ends, starts.chain([None]).collect::<Vec<_>>());
        let counts = seen.iter().map(|piece| {
            assert_eq!((piece.stage, piece.other), (Stage::AtRest, None));
            (piece.bucket, piece.figures)
        });
        let exact = buckets.iter().map(|(bucket, count)| {
            let figures = Figures {
                rows: count.rows,
                bytes: count.bytes,
                ..Figures::default()
            };
            (*bucket, figures)
        });
        assert_eq!(counts.collect::<Vec<_>>(), exact.collect::<Vec<_>>());
    }
    let summary = stream.engine.summary(&stream.place).await.expect("it is summed");
    assert_eq!(
        (summary.buckets, summary.figures.rows),
        (buckets.len() as u64, 2_000)
    );
    assert_eq!(summary.figures.rows_error(), 0);
    assert_eq!(
        (summary.too_large, summary.is_being_cut, summary.is_whole),
        (0, false, true)
    );
    let most = buckets.iter().map(|(_, count)| count.bytes).max();
    assert_eq!(Some(summary.largest.bytes), most);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_oversized_buckets() {
    let stream = Stream::new(
        in_memory(),
        Order::of_numbers(Direction::Ascending),
        BucketSize::Rows(20),
    )
    .await;
    for at in 0..100 {
        stream.put(at, b"text").await;
    }
    let summary = stream.engine.summary(&stream.place).await.expect("it is summed");
    assert_eq!(
        (summary.buckets, summary.too_large, summary.largest.rows),
        (1, 1, 100)
    );
    let mended = stream.engine.mend(&stream.place).await.expect("it is mended");
    let summary = stream.engine.summary(&stream.place).await.expect("it is summed");
    assert_eq!((summary.buckets, summary.too_large), (mended.buckets as u64, 0));
    assert_eq!(mended.made + 1, mended.buckets);
}
