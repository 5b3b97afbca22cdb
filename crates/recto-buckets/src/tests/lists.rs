//! Tests of listings of buckets, and of repairs on demand, on stores without transactions.

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Roles};

use super::cuts::half_done;
use super::*;
use crate::list::{Listing, Seek, Stage};
use crate::tables::BucketSize;

const TARGET: BucketSize = BucketSize::Bytes(SIZING.0);

impl Stream {
    async fn listed(&self, seek: Seek, most: usize) -> Listing {
        self.partition.list(seek, most).await.expect("it is listed")
    }
}

/// Returns the starts of key ranges.
fn starts(listing: &Listing) -> Vec<i64> {
    let starts = listing.pieces.iter().map(|piece| {
        let first = piece.start.iter().next().flatten();
        first.map_or(i64::MIN, |at| {
            i64::from_be_bytes(at.try_into().expect("it is a number"))
        })
    });
    starts.collect()
}

#[tokio::test(start_paused = true)]
async fn an_unsplit_partition_is_one_bucket() {
    let stream = Stream::new(Direction::Ascending).await;
    let ats = (0..30).map(|at| at * 7_919 % 30);
    stream.fill(ats, Duration::ZERO).await;
    let listed = stream.listed(Seek::At(Vec::new()), 10).await;
    let [one] = listed.pieces.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!(
        (one.bucket, one.stage, one.other),
        (Bucket(0), Stage::AtRest, None)
    );
    assert!(one.start.is_empty() && one.end.is_none() && !one.is_below_floor);
    assert_eq!((listed.before, listed.behind), (None, None));
    let (rows, error) = (one.figures.rows, one.figures.rows_error());
    assert!(error > 0 && rows.abs_diff(30) <= error, "{rows} ± {error}");
    let summary = stream.partition.summary(TARGET).await.expect("it is summed");
    assert_eq!(
        (summary.buckets, summary.too_large, summary.is_whole),
        (1, 0, true)
    );
    assert_eq!(summary.figures, one.figures);
    assert_eq!(summary.largest, one.figures);
}

#[tokio::test(start_paused = true)]
async fn a_long_directory_is_listed_in_parts_both_ways() {
    let stream = Stream::new(Direction::Ascending).await;
    let of = |bucket| Roles::of(Bucket(bucket));
    // Create enough key ranges for three windows of the range map.
    let pieces: Vec<_> = (0..600_i64)
        .map(|bucket| (bucket * 10, of(bucket.unsigned_abs())))
        .collect();
    stream.is_kept_in(&pieces).await;
    let all: Vec<i64> = std::iter::once(i64::MIN)
        .chain((1..600).map(|bucket| bucket * 10))
        .collect();
    for most in [7, 100, 256] {
        let (mut seen, mut seek) = (Vec::new(), Some(Seek::At(Vec::new())));
        while let Some(next) = seek {
            let listed = stream.listed(next, most).await;
            assert!(listed.pieces.len() <= most);
            assert_eq!(
                listed.pieces.len() < most,
                listed.behind.is_none() && seen.len() + most > 600
            );
            seen.extend(starts(&listed));
            seek = listed.behind.map(Seek::At);
        }
        assert_eq!(seen, all, "forwards, {most} at a time");
        let (mut seen, mut seek) = (Vec::new(), Some(Seek::Before(None)));
        while let Some(next) = seek {
            let listed = stream.listed(next, most).await;
            seen.splice(0..0, starts(&listed));
            seek = listed.before.map(|edge| Seek::Before(Some(edge)));
        }
        assert_eq!(seen, all, "backwards, {most} at a time");
    }
    let key = stream.pieced.edge_at(3_005).expect("it is one");
    let listed = stream.listed(Seek::At(key), 3).await;
    assert_eq!(
        starts(&listed),
        [3_000, 3_010, 3_020],
        "from the piece that has it"
    );
    let ends: Vec<_> = listed.pieces.iter().map(|piece| piece.end.clone()).collect();
    assert_eq!(ends[0], Some(listed.pieces[1].start.clone()));
    let summary = stream.partition.summary(TARGET).await.expect("it is summed");
    assert_eq!((summary.buckets, summary.is_whole), (600, true));
}

#[tokio::test(start_paused = true)]
async fn how_far_a_cut_is_is_listed() {
    let mut seen = Vec::new();
    for steps in 1..12 {
        let stream = Stream::new(Direction::Ascending).await;
        stream.fill(0..40, Duration::ZERO).await;
        let edge = stream.pieced.edge_at(20).expect("it is one");
        half_done(&stream, edge, steps).await;
        let listed = stream.listed(Seek::At(Vec::new()), 10).await;
        let last = listed.pieces.last().expect("there is one");
        seen.push((last.bucket.0, last.stage, last.other.map(|other| other.0)));
        let summary = stream.partition.summary(TARGET).await.expect("it is summed");
        let is_under_way = !matches!(last.stage, Stage::AtRest | Stage::Left);
        assert_eq!(summary.is_being_cut, is_under_way, "after {steps} steps");
        // Until the switch, both key ranges are read from one bucket.
        let buckets = if last.bucket == Bucket(0) { 1 } else { 2 };
        assert_eq!(summary.buckets, buckets, "after {steps} steps");
    }
    seen.dedup();
    let stages = [
        (0, Stage::AtRest, None),
        (0, Stage::Announced, Some(1)),
        (0, Stage::Copying, Some(1)),
        (1, Stage::Switched, Some(0)),
        (1, Stage::Left, Some(0)),
    ];
    assert_eq!(seen, stages);
}

#[tokio::test(start_paused = true)]
async fn by_hand_is_cut_and_cleared_what_is_due() {
    let stream = Stream::new(Direction::Ascending).await;
    // Write the keys in no particular order, without a splitter.
    stream
        .fill((0..600).map(|at| at * 7_919 % 600), Duration::from_millis(1))
        .await;
    let before = stream.partition.summary(TARGET).await.expect("it is summed");
    assert_eq!((before.buckets, before.too_large), (1, 1));
    let mended = stream.partition.mend(TARGET, false).await.expect("it is mended");
    assert!(
        mended.buckets >= 8 && mended.made == mended.buckets - 1,
        "{mended:?}"
    );
    assert!(mended.to_clear >= 7 && mended.cleared == 0, "{mended:?}");
    let after = stream.partition.summary(TARGET).await.expect("it is summed");
    assert_eq!(after.buckets, mended.buckets as u64);
    assert!(after.largest.bytes < before.largest.bytes / 4, "{after:?}");
    let again = stream.partition.mend(TARGET, true).await.expect("it is mended");
    assert_eq!(
        (again.made, again.cleared, again.to_clear),
        (0, mended.to_clear, 0),
        "{again:?}"
    );
    assert_eq!(stream.all().await.len(), 600);
}

#[tokio::test(start_paused = true)]
async fn by_hand_is_gone_on_with_what_was_left_half_done() {
    for steps in 1..12 {
        let stream = Stream::new(Direction::Ascending).await;
        stream.fill(0..40, Duration::ZERO).await;
        let edge = stream.pieced.edge_at(20).expect("it is one");
        half_done(&stream, edge, steps).await;
        let begun = stream.partition.directory(TIME).await.expect("it is read");
        let mended = stream.partition.mend(TARGET, false).await.expect("it is mended");
        let directory = stream.partition.directory(TIME).await.expect("it is read");
        assert!(!directory.is_being_cut(), "after {steps} steps");
        assert_eq!(
            mended.went_on,
            usize::from(begun.is_being_cut()),
            "after {steps} steps"
        );
        assert_eq!(mended.buckets, directory.pieces.len());
        assert_eq!(stream.all().await.len(), 40);
    }
}
