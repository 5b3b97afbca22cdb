//! Tests of splits by the engine, from a sample to the removal of old buckets.

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Cut, Roles, SplitAction, SplitEvent, Splitting, Stays};
use recto_store::PointRead;

use super::*;

/// Time after which old buckets are removed. A removal in a partition may have to wait for an
/// earlier removal there.
const CLEARED: Duration = Duration::from_secs(9_000);

impl Stream {
    /// Writes rows of 900 bytes, and pauses after each row.
    pub(super) async fn fill(&self, ats: impl Iterator<Item = i64>, pause: Duration) {
        let text = "x".repeat(900);
        for at in ats {
            self.put(at, "a", &text).await.expect("it is written");
            tokio::time::sleep(pause).await;
        }
    }

    pub(super) fn works(&self) -> tokio::task::JoinHandle<()> {
        let pieces = self.pieces.clone();
        tokio::spawn(async move { pieces.work().await })
    }

    /// Returns the number of bytes of visible rows in each bucket.
    async fn bytes(&self) -> Vec<(u64, usize)> {
        let directory = self.partition.directory(TIME).await.expect("it is read");
        let mut bytes = Vec::new();
        for (span, piece) in directory.spans() {
            let (from, to) = self.pieced.bounds(&span).expect("they are edges");
            let mut slice = self.slice(ReadDirection::Forward, 100_000);
            (slice.from, slice.to) = (from, to);
            let read = self.read(&slice).await;
            bytes.push((piece.roles.read.0, read.rows.byte_len()));
        }
        bytes
    }

    async fn rows_of(&self, bucket: u64) -> usize {
        let mut slice = self.slice(ReadDirection::Forward, 100_000);
        slice.partition = self.partition.place.bucket_partition(Bucket(bucket));
        let snapshot = self.pieces.store.snapshot().expect("it is open");
        snapshot
            .slice(&slice, &ReadOptions::default())
            .await
            .expect("it is read")
            .rows
            .len()
    }
}

#[tokio::test(start_paused = true)]
async fn splits_oversized_buckets_at_samples_and_clears() {
    let stream = Stream::new(Direction::Ascending).await;
    let _work = stream.works();
    // Write the keys in no particular order.
    let ats = (0..600).map(|at| at * 7_919 % 600);
    stream.fill(ats, Duration::from_millis(1)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert!(
        !directory.is_being_cut() && directory.pieces.len() >= 8,
        "{directory:?}"
    );
    assert_eq!(directory.life_ms, 20_000, "it is calm");
    let target = usize::try_from(SIZING.0).expect("it is small");
    let bytes = stream.bytes().await;
    assert!(
        bytes.iter().all(|(_, bytes)| *bytes <= target * 3 / 2),
        "{bytes:?}"
    );
    assert_eq!(stream.all().await.len(), 600);
    assert_eq!(stream.rows_of(0).await, 600, "nothing is cleared yet");
    let root = PointRead {
        table: Arc::clone(&stream.pieced.table),
        partition: stream.partition.place.bucket_partition(Bucket(0)),
        clustering: clustering(0, "a"),
    };
    let snapshot = stream.pieces.store.snapshot().expect("it is open");
    let row = snapshot
        .get(&root, &ReadOptions::default())
        .await
        .expect("it is read");
    assert_eq!(
        row.rows
            .iter()
            .next()
            .and_then(|row| row.get(4).map(<[u8]>::to_vec)),
        Some(vec![1])
    );
    tokio::time::sleep(CLEARED).await;
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert!(!directory.is_to_be_cleared());
    assert!(stream.rows_of(0).await < 200, "what is elsewhere is gone");
    assert_eq!(stream.all().await.len(), 600);
}

#[tokio::test(start_paused = true)]
async fn buckets_that_are_full_at_once_are_cut_together() {
    let stream = Stream::new(Direction::Ascending).await;
    let of = |bucket| Roles::of(Bucket(bucket));
    let pieces: Vec<_> = (0..6_i64)
        .map(|bucket| (bucket * 100, of(bucket.unsigned_abs())))
        .collect();
    let before = stream.is_kept_in(&pieces).await;
    // Write the keys in no particular order, so that all buckets are full when the splitter starts.
    stream
        .fill((0..600).map(|at| at * 7_919 % 600), Duration::ZERO)
        .await;
    let _work = stream.works();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert!(
        !directory.is_being_cut() && directory.pieces.len() >= 9,
        "{directory:?}"
    );
    let changes = directory.version - before.version;
    assert!(
        changes <= 6,
        "{changes} conditional writes, which are as many as for one bucket"
    );
    assert_eq!(stream.all().await.len(), 600);
}

#[tokio::test(start_paused = true)]
async fn does_not_split_buckets_that_shrank() {
    let stream = Stream::new(Direction::Ascending).await;
    let ats = || (0..300).map(|at| at * 7_919 % 300);
    stream.fill(ats(), Duration::from_millis(1)).await;
    for at in ats() {
        stream.put(at, "a", "small").await.expect("it is written");
    }
    let samples = async || {
        let (pieces, all) = (&stream.pieces, recto_protocol::buckets::Span::all());
        let samples = pieces.samples(&stream.partition.place, Bucket(0), &all, pieces.deadline(TIME));
        samples.await.expect("they are read").len()
    };
    let before = samples().await;
    assert!(before > 40, "{before} samples, of large rows");
    let _work = stream.works();
    stream.partition.look(TIME).await.expect("it is read");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert_eq!(directory.version, 0, "nothing is cut");
    assert!(samples().await < 12, "{} samples, of small rows", samples().await);
    assert_eq!(stream.all().await.len(), 300);
}

#[tokio::test(start_paused = true)]
async fn splits_ahead_if_keys_follow_the_order_of_arrival() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let stream = Stream::new(direction).await;
        let _work = stream.works();
        stream.fill(0..400, Duration::from_secs(3)).await;
        let directory = stream.partition.directory(TIME).await.expect("it is read");
        assert!(directory.pieces.len() >= 5, "{}", directory.pieces.len());
        let mut elsewhere = 0;
        for (bucket, _) in stream.bytes().await {
            elsewhere += stream.rows_of(bucket).await;
        }
        assert!(
            elsewhere < 480,
            "{elsewhere} rows lie in all buckets: nearly nothing was copied"
        );
        assert_eq!(stream.all().await.len(), 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_left_half_done_is_gone_on_with() {
    for steps in 1..12 {
        let stream = Stream::new(Direction::Ascending).await;
        stream.fill(0..40, Duration::ZERO).await;
        let edge = stream.pieced.edge_at(20).expect("it is one");
        half_done(&stream, edge, steps).await;
        assert_eq!(stream.all().await.len(), 40);
        let begun = stream
            .partition
            .directory(TIME)
            .await
            .expect("it is read")
            .version;
        let _work = stream.works();
        // The write notices the unfinished split, and so makes the splitter continue it.
        stream.put(25, "b", "late").await.expect("it is written");
        tokio::time::sleep(Duration::from_secs(300)).await;
        let directory = stream.partition.directory(TIME).await.expect("it is read");
        assert!(!directory.is_being_cut(), "after {steps} steps");
        assert_eq!(stream.all().await.len(), 41);
        if begun > 0 {
            assert_eq!(stream.rows_of(1).await, 21, "after {steps} steps");
        }
    }
}

/// Makes the first `steps` steps of a split at an edge, and leaves the split unfinished.
pub(super) async fn half_done(stream: &Stream, edge: Vec<u8>, steps: usize) {
    let (pieces, place) = (&stream.pieces, &stream.partition.place);
    let cut = Cut {
        edges: vec![edge],
        stays: Stays::First,
        sampling: stream.pieced.sampling,
        figures: Vec::new(),
    };
    let mut machine = Splitting::new(Some(cut), false, pieces.room(), pieces.protocol);
    let mut known = stream.partition.directory(TIME).await.expect("it is read");
    let mut action = machine.step(SplitEvent::Begin);
    for _ in 0..steps {
        let event = match action {
            SplitAction::Read => SplitEvent::Read(known.clone()),
            SplitAction::MarkRoot => SplitEvent::RootMarked,
            SplitAction::Cas { put, .. } => {
                let decided = pieces
                    .change_directory(place, &known, (&put, &[]), TIME)
                    .await
                    .expect("it is sent");
                known = put;
                SplitEvent::Decided(decided)
            }
            SplitAction::Wait { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                SplitEvent::Waited
            }
            SplitAction::Copy(copies) => {
                for copying in copies {
                    let copied = pieces.copy(place, &copying, stream.pieced.sampling).await;
                    copied.expect("they are copied");
                }
                SplitEvent::Copied
            }
            SplitAction::Over => return,
        };
        action = machine.step(event);
    }
}

#[tokio::test(start_paused = true)]
async fn copies_rows_with_their_timestamps_and_lifetimes() {
    let stream = Stream::new(Direction::Ascending).await;
    let put = |note: Option<&'static [u8]>, text: Option<&'static [u8]>, ttl_seconds| Change::Put {
        cells: cells(&[note, None, text]),
        replace: true,
        ttl_seconds,
    };
    stream
        .write(1, "a", put(Some(b"n"), Some(b"1"), None))
        .await
        .expect("it is written");
    stream
        .write(2, "a", put(None, None, None))
        .await
        .expect("it is written");
    stream
        .write(3, "a", put(None, Some(b"3"), Some(60)))
        .await
        .expect("it is written");
    let before = stream.read(&stream.slice(ReadDirection::Forward, 10)).await;
    let copying = recto_protocol::buckets::Copying {
        from: Bucket(0),
        to: Bucket(1),
        span: recto_protocol::buckets::Span::all(),
    };
    tokio::time::sleep(Duration::from_secs(30)).await;
    let place = &stream.partition.place;
    // Copy twice, because a process that continues a split copies again.
    for _ in 0..2 {
        stream
            .pieces
            .copy(place, &copying, stream.pieced.sampling)
            .await
            .expect("they are copied");
    }
    let mut slice = stream.slice(ReadDirection::Forward, 10);
    slice.partition = place.bucket_partition(Bucket(1));
    let snapshot = stream.pieces.store.snapshot().expect("it is open");
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let copied = snapshot.slice(&slice, &options).await.expect("they are read");
    assert_eq!(copied.stamps, before.stamps);
    assert_eq!(said(&copied), said(&before));
    assert_eq!(copied.ends_in_seconds, [None, None, Some(30)]);
    // A later deletion of a copied row takes effect, and another copy of the old row does not
    // revive it.
    stream
        .pieces
        .delete(place, Bucket(1), &recto_protocol::buckets::Span::all())
        .await
        .expect("they are deleted");
    stream
        .pieces
        .copy(place, &copying, stream.pieced.sampling)
        .await
        .expect("they are copied");
    let left = snapshot.slice(&slice, &options).await.expect("they are read");
    assert!(left.rows.is_empty());
}
