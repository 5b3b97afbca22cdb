//! Tests that rows are written to the buckets that take them, and read from the buckets that have them.

use std::collections::BTreeSet;

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Directory, Figures, Floor, Kept, Piece, Roles};
use recto_store::{BucketsRead, Operation, PartitionWrite, StoreError, WriteOptions, WriteOutcome};

use super::*;
use crate::PiecesErrorKind;

const ALL: u32 = 1_000;

impl Stream {
    /// Writes a range map whose key ranges begin at the times in `pieces`. The roles say for each
    /// key range which bucket is read, and which further buckets take writes and deletions.
    pub(super) async fn is_kept_in(&self, pieces: &[(i64, Roles)]) -> Directory {
        let before = self.partition.directory(TIME).await.expect("it is read");
        let mut put = before.clone();
        put.version += 1;
        put.next_bucket = Bucket(pieces.len().max(100) as u64);
        put.pieces = pieces
            .iter()
            .enumerate()
            .map(|(index, (at, roles))| Piece {
                start: if index == 0 {
                    Vec::new()
                } else {
                    self.pieced.edge_at(*at).expect("it is one")
                },
                roles: roles.clone(),
                sampling: self.pieced.sampling,
                next_sampling: None,
                figures: None,
            })
            .collect();
        self.put_directory(&before, &put).await;
        put
    }

    pub(super) async fn put_directory(&self, before: &Directory, put: &Directory) {
        let decided = self
            .pieces
            .change_directory(&self.partition.place, before, (put, &[]), TIME)
            .await;
        assert_eq!(
            decided.expect("it is sent"),
            recto_protocol::buckets::Decision::Applied
        );
    }

    /// Returns all rows of a bucket, including rows that reads hide.
    pub(super) async fn in_bucket(&self, bucket: u64) -> Vec<(i64, String)> {
        let mut slice = self.slice(ReadDirection::Forward, 100_000);
        slice.partition = self.partition.place.bucket_partition(Bucket(bucket));
        let snapshot = self.pieces.store.snapshot().expect("it is open");
        said(
            &snapshot
                .slice(&slice, &ReadOptions::default())
                .await
                .expect("it is read"),
        )
    }

    async fn put_all(&self, range: std::ops::Range<i64>) {
        for at in range {
            self.put(at, "a", &at.to_string()).await.expect("it is written");
        }
    }
}

fn rows(range: impl Iterator<Item = i64>) -> Vec<(i64, String)> {
    range.map(|at| (at, at.to_string())).collect()
}

fn of(bucket: u64) -> Roles {
    Roles::of(Bucket(bucket))
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_was_never_cut_is_bucket_0() {
    let stream = Stream::new(Direction::Ascending).await;
    stream.put_all(0..5).await;
    assert_eq!(stream.in_bucket(0).await, rows(0..5));
    assert_eq!(stream.all().await, rows(0..5));
    stream.write(2, "a", Change::Delete).await.expect("it is deleted");
    let patch = Change::Patch {
        columns: vec![2],
        cells: cells(&[Some(b"patched")]),
        ttl_seconds: None,
    };
    stream.write(3, "a", patch).await.expect("it is patched");
    let expected = [(0, "0"), (1, "1"), (3, "patched"), (4, "4")];
    assert_eq!(
        stream.all().await,
        expected.map(|(at, text)| (at, text.to_owned()))
    );
    assert!(
        stream
            .pieces
            .partition(&stream.pieced, cells(&[Some(b"t")]))
            .is_ok()
    );
    assert!(stream.pieces.partition(&stream.pieced, Cells::new()).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_slice_goes_through_pieces_in_both_directions() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let stream = Stream::new(direction).await;
        let edges = if direction == Direction::Ascending {
            [10, 20, 30]
        } else {
            [30, 20, 10]
        };
        let pieces = [
            (0, of(0)),
            (edges[0], of(1)),
            (edges[1], of(2)),
            (edges[2], of(3)),
        ];
        stream.is_kept_in(&pieces).await;
        stream.put_all(0..40).await;
        let mut buckets = Vec::new();
        for bucket in 0..4 {
            buckets.push(stream.in_bucket(bucket).await.len());
        }
        assert_eq!(buckets.iter().sum::<usize>(), 40);
        assert!(buckets.iter().all(|rows| (9..=11).contains(rows)), "{buckets:?}");
        let forward = |wanted: std::ops::Range<i64>| -> Vec<_> {
            if direction == Direction::Ascending {
                rows(wanted)
            } else {
                rows(wanted.rev())
            }
        };
        assert_eq!(stream.all().await, forward(0..40));
        for read_direction in [ReadDirection::Forward, ReadDirection::Backward] {
            let in_order = |mut rows: Vec<(i64, String)>| {
                if read_direction == ReadDirection::Backward {
                    rows.reverse();
                }
                rows
            };
            for limit in [1, 7, 10, 11, 39, 40, 41] {
                let mut slice = stream.slice(read_direction, limit);
                let read = stream.read(&slice).await;
                let expected: Vec<_> = in_order(forward(0..40))
                    .into_iter()
                    .take(limit as usize)
                    .collect();
                assert_eq!(said(&read), expected);
                assert_eq!(read.exhausted, limit > 40);
                assert_eq!(read.stamps.len(), expected.len());
                let (from, to) = if direction == Direction::Ascending {
                    (5, 32)
                } else {
                    (32, 5)
                };
                slice.from = Bound::After(cells(&[Some(&i64::to_be_bytes(from))]));
                slice.to = Bound::Before(clustering(to, "b"));
                let read = stream.read(&slice).await;
                let edges = if direction == Direction::Ascending {
                    6..33
                } else {
                    5..32
                };
                let expected: Vec<_> = in_order(forward(edges))
                    .into_iter()
                    .take(limit as usize)
                    .collect();
                assert_eq!(said(&read), expected);
                slice.to = Bound::start();
                assert!(stream.read(&slice).await.rows.is_empty());
            }
        }
    }
}

impl Stream {
    /// Writes a range map of more key ranges than one window (part) has. The buckets of these key
    /// ranges are empty.
    pub(super) async fn is_kept_in_windows(&self) {
        let pieces: Vec<_> = (0..90_i64)
            .map(|number| (number * 2, of(number.cast_unsigned())))
            .collect();
        self.is_kept_in(&pieces).await;
        let before = self.partition.directory(TIME).await.expect("it is read");
        let mut put = before.clone();
        (put.version, put.next_bucket) = (before.version + 1, Bucket(1_000));
        put.pieces.extend((0..500_i64).map(|number| Piece {
            start: self.pieced.edge_at(1_000 + number).expect("it is one"),
            roles: of(200 + number.cast_unsigned()),
            ..before.pieces[0].clone()
        }));
        self.put_directory(&before, &put).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_goes_through_windows() {
    let stream = Stream::new(Direction::Ascending).await;
    stream.is_kept_in_windows().await;
    stream.put_all(0..180).await;
    stream.put(1_499, "a", "last").await.expect("it is written");
    let mut expected = rows(0..180);
    expected.push((1_499, "last".to_owned()));
    assert_eq!(stream.all().await, expected);
    let read = stream.read(&stream.slice(ReadDirection::Backward, ALL)).await;
    expected.reverse();
    assert_eq!(said(&read), expected);
    assert!(read.round_trips < 150, "{} round trips", read.round_trips);
    let read = stream.read(&stream.slice(ReadDirection::Backward, 3)).await;
    assert_eq!(said(&read), expected[..3]);
}

#[tokio::test(start_paused = true)]
async fn pieces_are_asked_side_by_side_where_their_figures_say_so() {
    let stream = Stream::new(Direction::Ascending).await;
    let pieces: Vec<_> = (0..20_i64)
        .map(|number| (number * 10, of(number.cast_unsigned())))
        .collect();
    let mut put = stream.is_kept_in(&pieces).await;
    stream.put_all(0..200).await;
    let read = stream.read(&stream.slice(ReadDirection::Forward, 150)).await;
    assert_eq!((read.rows.len(), read.round_trips), (150, 15), "nothing is known");
    let before = put.clone();
    put.version += 1;
    for piece in &mut put.pieces {
        piece.figures = Some(Figures {
            rows: 10,
            ..Figures::default()
        });
    }
    stream.put_directory(&before, &put).await;
    tokio::time::sleep(TIME).await;
    for (round_trips, directory_reads) in [(2, 1), (1, 0)] {
        // The first read finds no cached range map, so it reads the range map concurrently with the
        // first key range.
        let read = stream.read(&stream.slice(ReadDirection::Forward, 150)).await;
        assert_eq!((read.rows.len(), read.round_trips), (150, round_trips));
        let took = BucketsRead {
            asked: (0..15).collect(),
            directory_reads,
        };
        assert_eq!(read.buckets, took);
    }
    let read = stream.read(&stream.slice(ReadDirection::Forward, 15)).await;
    assert_eq!(
        (read.rows.len(), read.round_trips, said(&read)),
        (15, 1, rows(0..15))
    );
    // If a page begins near the end of a bucket, the read also requests the next bucket, in both
    // directions. From the middle of a bucket, it does not.
    for (at, direction, limit, asked) in [
        (57, ReadDirection::Forward, 8, vec![5, 6]),
        (62, ReadDirection::Backward, 8, vec![6, 5]),
        (51, ReadDirection::Forward, 5, vec![5]),
        (68, ReadDirection::Backward, 5, vec![6]),
    ] {
        let mut slice = stream.slice(direction, limit);
        match direction {
            ReadDirection::Forward => slice.from = Bound::Before(clustering(at, "a")),
            ReadDirection::Backward => slice.to = Bound::After(clustering(at, "a")),
        }
        let read = stream.read(&slice).await;
        assert_eq!((read.rows.len(), read.round_trips), (limit as usize, 1), "{at}");
        assert_eq!(read.buckets.asked, asked, "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_go_wherever_the_piece_takes_them() {
    let stream = Stream::new(Direction::Ascending).await;
    let roles = Roles {
        writes: [Bucket(0), Bucket(4)].into(),
        deletes: [Bucket(5)].into(),
        old: [Bucket(1)].into(),
        ..of(3)
    };
    stream.is_kept_in(&[(0, roles)]).await;
    stream.put_all(0..3).await;
    for (bucket, expected) in [(0, 3), (1, 0), (3, 3), (4, 3), (5, 0)] {
        assert_eq!(stream.in_bucket(bucket).await.len(), expected, "bucket {bucket}");
    }
    // A deletion also deletes rows in buckets that take only deletions.
    for bucket in [1, 5] {
        stream.plant(bucket, 1, 5).await;
    }
    stream.write(1, "a", Change::Delete).await.expect("it is deleted");
    for bucket in [0, 1, 3, 4, 5] {
        let left = stream.in_bucket(bucket).await;
        assert!(left.iter().all(|(at, _)| *at != 1), "bucket {bucket}");
    }
    assert_eq!(stream.all().await, rows([0, 2].into_iter()));
}

impl Stream {
    /// Writes a row to a bucket of the underlying store, as a misplaced row.
    async fn plant(&self, bucket: u64, at: i64, stamp: i64) {
        let put = Operation::Put {
            clustering: clustering(at, "a"),
            cells: cells(&[None, None, Some(b"planted")]),
            replace: true,
        };
        let write = PartitionWrite {
            table: Arc::clone(&self.pieced.table),
            partition: self.partition.place.bucket_partition(Bucket(bucket)),
            mutations: vec![crate::tables::mutation(put, Stamp(stamp), None)],
        };
        let written = self.pieces.store.write(write, WriteOptions::default()).await;
        assert!(matches!(written, Ok(WriteOutcome::Done)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_guess_is_removed() {
    let stream = Stream::new(Direction::Ascending).await;
    stream.is_kept_in(&[(0, of(0)), (10, of(1))]).await;
    stream.put(12, "a", "12").await.expect("it is written");
    assert!(
        stream.in_bucket(0).await.is_empty(),
        "it was guessed, and removed"
    );
    assert_eq!(stream.in_bucket(1).await, rows(12..13));
    // Reads hide a row in a bucket that does not have the row's key range.
    stream.plant(0, 11, 5).await;
    assert_eq!(stream.all().await, rows(12..13));
}

#[tokio::test(start_paused = true)]
async fn rows_below_the_floor_are_refused_and_not_shown() {
    let stream = Stream::new(Direction::Ascending).await;
    stream.put_all(0..4).await;
    let before = stream.is_kept_in(&[(0, of(0))]).await;
    let mut put = before.clone();
    put.version += 1;
    put.floor = Some(Floor {
        at: stream.pieced.edge_at(2).expect("it is one"),
        kept: Kept::After,
    });
    stream.put_directory(&before, &put).await;
    tokio::time::sleep(TIME).await;
    assert_eq!(stream.all().await, rows(2..4));
    let refused = stream.put(1, "a", "1").await.expect_err("it is refused");
    assert_eq!(refused.kind(), PiecesErrorKind::BelowFloor);
}

/// Checks that retention deletes only the hidden keys of a bucket that a kept range still reads, and the whole bucket
/// otherwise.
#[tokio::test(start_paused = true)]
async fn retention_keeps_rows_of_shared_buckets() {
    let leaving = Roles {
        deletes: [Bucket(2)].into(),
        ..of(0)
    };
    for (newest, left) in [(leaving, rows(2..6)), (of(2), Vec::new())] {
        let stream = Stream::new(Direction::Ascending).await;
        stream.put_all(0..6).await;
        let before = stream.is_kept_in(&[(0, of(0)), (2, of(1)), (4, newest)]).await;
        let floor = Floor {
            at: stream.pieced.edge_at(2).expect("it is one"),
            kept: Kept::After,
        };
        let put = Directory {
            version: before.version + 1,
            floor: Some(floor.clone()),
            ..before.clone()
        };
        stream.put_directory(&before, &put).await;
        let place = &stream.partition.place;
        let dropped = stream.pieces.drop_below(place, floor).await;
        dropped.expect("the hidden rows are deleted");
        assert_eq!(stream.in_bucket(0).await, left);
        tokio::time::sleep(2 * TIME).await;
        let after = stream.partition.directory(TIME).await.expect("it is read");
        let starts: Vec<_> = after.pieces.iter().map(|piece| &piece.start).collect();
        assert_eq!(starts, [&Vec::new(), &before.pieces[2].start]);
    }
}

/// Store that loses writes to the buckets `losing`.
struct Losing {
    inner: Arc<dyn Store>,
    losing: BTreeSet<u64>,
}

#[async_trait::async_trait]
impl recto_store::wrapper::StoreWrapper for Losing {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: recto_store::Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let is_lost = |write: &PartitionWrite| {
            let bucket = write.partition.get(1).and_then(|bucket| bucket.try_into().ok());
            let is_row = write.table.name() == "events";
            is_row && bucket.is_some_and(|bucket| self.losing.contains(&u64::from_be_bytes(bucket)))
        };
        if writes.iter().any(is_lost) {
            let error = StoreError::new(recto_store::StoreErrorKind::Timeout, "no answer");
            return Ok(WriteOutcome::Unknown(error));
        }
        self.inner.write_many(writes, atomicity, options).await
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_acknowledge_writes_lost_in_a_bucket() {
    let environment = environment();
    let store = Losing {
        inner: Arc::new(memory(&environment)),
        losing: [1].into(),
    };
    let stream = Stream::on(Arc::new(store), environment, Direction::Ascending).await;
    let roles = Roles {
        writes: [Bucket(1)].into(),
        ..of(0)
    };
    stream.is_kept_in(&[(0, roles)]).await;
    let error = stream
        .put(1, "a", "1")
        .await
        .expect_err("bucket 1 does not have it");
    assert_eq!(error.kind(), PiecesErrorKind::OutcomeUnknown);
    stream.is_kept_in(&[(0, of(0)), (10, of(1))]).await;
    tokio::time::sleep(TIME).await;
    stream.put(2, "a", "2").await.expect("it is written");
    let error = stream
        .put(12, "a", "12")
        .await
        .expect_err("bucket 1 does not have it");
    assert_eq!(error.kind(), PiecesErrorKind::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn samples_are_written_before_rows_and_marked_when_they_go() {
    let stream = Stream::new(Direction::Ascending).await;
    let text = "x".repeat(900);
    for at in 0..60 {
        stream.put(at, "a", &text).await.expect("it is written");
    }
    let deadline = stream.pieces.deadline(TIME);
    let place = &stream.partition.place;
    let span = recto_protocol::buckets::Span::all();
    let samples = stream
        .pieces
        .samples(place, Bucket(0), &span, deadline)
        .await
        .expect("they are read");
    let bytes = |at: i64| (clustering(at, "a").byte_len() + 900 + 64) as u64;
    let sampled = |at: &i64| {
        let key = stream
            .pieced
            .key(clustering(*at, "a").as_row())
            .expect("it is one");
        stream
            .pieced
            .sampling
            .is_sampled(recto_protocol::buckets::sampling::hash(&key), bytes(*at))
    };
    let expected: Vec<_> = (0..60).filter(sampled).collect();
    let found: Vec<_> = samples
        .iter()
        .filter_map(|dated| stream.pieced.position(&dated.sample.key))
        .collect();
    assert_eq!(found, expected);
    assert!(!found.is_empty() && found.len() < 60, "{found:?}");
    assert!(samples.iter().all(|dated| dated.sample.bytes == bytes(0)));
    stream
        .write(found[0], "a", Change::Delete)
        .await
        .expect("it is deleted");
    let samples = stream
        .pieces
        .samples(place, Bucket(0), &span, deadline)
        .await
        .expect("they are read");
    assert_eq!(samples.len(), found.len() - 1);
    stream.put(found[0], "a", &text).await.expect("it is written");
    let samples = stream
        .pieces
        .samples(place, Bucket(0), &span, deadline)
        .await
        .expect("they are read");
    assert_eq!(samples.len(), found.len());
}

#[test]
fn row_size_cells_match_the_golden_file() {
    let lines = include_str!("golden/row-v1.txt").lines();
    let mut count = 0;
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (counted, bytes) = line.split_once("; ").expect("there are two");
        let counted = counted.parse().expect("it is a number");
        let bytes = recto_model::golden::bytes_of_hex(bytes);
        assert_eq!(crate::tables::row_cell(counted), bytes);
        assert_eq!(crate::tables::read_row_cell(&bytes), Some(counted));
        count += 1;
    }
    assert_eq!(count, 6);
    let later = [2, 0, 0, 0, 0, 0, 0, 0, 64];
    assert_eq!(crate::tables::read_row_cell(&later), None);
    assert_eq!(crate::tables::read_row_cell(&[1, 64]), None);
}
