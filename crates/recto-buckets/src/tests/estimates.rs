//! Tests of the estimated number of rows of a partition with very many key ranges. The estimate uses sums
//! and a few reads of samples.

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Directory, Figures, Piece, Roles, Span};

use super::*;
use crate::limits::{MAX_BLOCK_PIECES, MAX_CERTAIN_PIECES, MAX_DRAWN_PIECES};
use crate::sums::Block;
use crate::survey::Survey;

/// Number of possible row positions in each key range. The number exceeds the number of parts into
/// which a test splits a key range.
const EACH: i64 = 100;
/// Size of a row in bytes at which every row is sampled.
const ROW_BYTES: usize = 12_000;

impl Stream {
    /// Writes a range map with `pieces` key ranges.
    async fn is_cut_into(&self, pieces: i64) {
        let few: Vec<_> = (0..200_i64).map(|piece| (piece * EACH, roles(piece))).collect();
        self.is_kept_in(&few).await;
        self.is_cut_on(200, pieces).await;
    }

    /// Adds key ranges up to the number `pieces` to a range map, one window (part) at a time.
    async fn is_cut_on(&self, from: i64, pieces: i64) {
        for first in (from..pieces).step_by(100) {
            let before = self.window_at((first - 1) * EACH).await;
            let mut put = before.clone();
            (put.version, put.next_bucket) = (before.version + 1, Bucket(pieces.unsigned_abs() + 100));
            put.pieces
                .extend((first..pieces.min(first + 100)).map(|piece| Piece {
                    start: self.edge(piece * EACH),
                    roles: roles(piece),
                    ..before.pieces[0].clone()
                }));
            self.put_directory(&before, &put).await;
        }
    }

    /// Sets the row count that the range map records for each key range. `None` removes the record.
    async fn records(&self, rows: impl Fn(u64) -> Option<u64>) {
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            let before = self.partition.window(key, TIME).await.expect("it is read");
            let mut put = before.clone();
            put.version += 1;
            for piece in &mut put.pieces {
                piece.sampling.mean = ROW_BYTES as u64;
                piece.figures = rows(piece.roles.read.0).map(|rows| Figures {
                    rows,
                    ..Figures::default()
                });
            }
            next = put.end.clone();
            self.put_directory(&before, &put).await;
        }
    }

    fn edge(&self, at: i64) -> Vec<u8> {
        self.pieced.edge_at(at).expect("it is one")
    }

    async fn window_at(&self, at: i64) -> Directory {
        let window = self.partition.window(self.edge(at), TIME).await;
        window.expect("it is read")
    }

    async fn surveyed(&self, from: i64, to: Option<i64>) -> Survey {
        let span = Span {
            start: if from > 0 { self.edge(from) } else { Vec::new() },
            end: to.map(|to| self.edge(to)),
        };
        let (pieces, place) = (&self.pieces, &self.partition.place);
        // Wait until cached range maps have expired, so that the survey reads the current one.
        tokio::time::sleep(Duration::from_secs(21)).await;
        let deadline = pieces.deadline(TIME);
        let layout = pieces.layout(place, &span, deadline).await;
        let layout = layout.expect("it is read").expect("it is kept");
        let survey = pieces.survey(place, layout, deadline).await;
        survey.expect("it is surveyed")
    }

    async fn sums_up_at(&self, at: i64) {
        let keys = [self.edge(at)];
        let summed = self.pieces.sum_up(&self.partition.place, &keys).await;
        summed.expect("it is written");
    }

    /// Writes all sums again, from the current range map.
    async fn sums_up(&self) {
        let starts = self.blocks().await.into_iter().map(|block| block.start);
        let starts: Vec<_> = std::iter::once(Vec::new()).chain(starts).collect();
        let summed = self.pieces.sum_up(&self.partition.place, &starts).await;
        summed.expect("it is written");
    }

    async fn blocks(&self) -> Vec<Block> {
        let deadline = self.pieces.deadline(TIME);
        let (place, all) = (&self.partition.place, Span::all());
        let blocks = self.pieces.blocks(place, &all, deadline).await;
        blocks.expect("they are read")
    }
}

/// Asserts that the true number of rows is within the error of the estimate. Returns this error.
fn holds(survey: &Survey, truth: u64) -> u64 {
    let (rows, error) = (survey.figures.rows, survey.figures.rows_error());
    assert!(rows.abs_diff(truth) <= error, "{rows} ± {error}, and not {truth}");
    error
}

fn roles(bucket: i64) -> Roles {
    Roles::of(Bucket(bucket.unsigned_abs()))
}

#[tokio::test(start_paused = true)]
async fn pieces_are_summed_up_and_again_where_they_are_cut() {
    let stream = Stream::new(Direction::Ascending).await;
    stream.is_cut_into(200).await;
    stream.records(|_| Some(7)).await;
    stream.sums_up().await;
    assert_eq!(stream.blocks().await, [], "one window is read as soon");
    stream.is_cut_on(200, 1_000).await;
    stream.records(|_| Some(7)).await;
    stream.sums_up().await;
    let all = |blocks: &[Block]| {
        blocks.iter().fold((0, 0), |(pieces, rows), block| {
            (pieces + block.summed.pieces, rows + block.summed.recorded.rows)
        })
    };
    let blocks = stream.blocks().await;
    assert_eq!(all(&blocks), (1_000, 7_000));
    let is_small = |block: &Block| block.summed.pieces <= MAX_BLOCK_PIECES as u64;
    assert!(blocks.iter().all(is_small) && blocks[0].start.is_empty());
    // After splits within a block, a new sum includes their key ranges, and divides the block if it
    // is too large.
    let before = stream.window_at(500 * EACH).await;
    let mut put = before.clone();
    (put.version, put.next_bucket) = (before.version + 1, Bucket(2_000));
    let cut = (0..90_u64).map(|number| Piece {
        start: stream.edge(500 * EACH + 1 + i64::try_from(number).expect("it is small")),
        roles: Roles::of(Bucket(1_500 + number)),
        ..before.pieces[0].clone()
    });
    put.pieces.extend(cut);
    put.pieces.sort_by(|one, other| one.start.cmp(&other.start));
    stream.put_directory(&before, &put).await;
    stream.sums_up_at(500 * EACH).await;
    let after = stream.blocks().await;
    assert!(after.len() > blocks.len() && after.iter().all(is_small));
    assert_eq!(all(&after), (1_090, 7_630));
    let place = &stream.partition.place;
    stream.pieces.forget(&place.id.0).await.expect("it is forgotten");
    assert_eq!(stream.blocks().await, []);
}

#[tokio::test(start_paused = true)]
async fn corrects_recorded_counts_by_reading_a_few_ranges() {
    const PIECES: i64 = 1_000;
    let stream = Stream::new(Direction::Ascending).await;
    stream.is_cut_into(PIECES).await;
    stream.records(|_| None).await;
    // The rows are large enough that all of them are sampled, so the results are exact.
    let large = "x".repeat(ROW_BYTES);
    let mut rows = Vec::new();
    for piece in 0..PIECES {
        for at in 0..(2 + piece % 3) {
            rows.push((piece * EACH + at, "a"));
        }
    }
    for (at, name) in &rows {
        stream.put(*at, name, &large).await.expect("it is written");
    }
    let truth = rows.len() as u64;
    let there = |from: i64, to: i64| rows.iter().filter(|(at, _)| (from..to).contains(at)).count() as u64;
    // At first, no row counts are recorded, and there are no sums.
    let blind = stream.surveyed(0, None).await;
    holds(&blind, truth);
    // Record about half of the current number of rows, so that the survey must correct the figures.
    stream.records(|piece| Some(1 + piece % 3 / 2)).await;
    stream.sums_up().await;
    holds(&stream.surveyed(0, None).await, truth);
    stream.records(|piece| Some(2 + piece % 3)).await;
    stream.sums_up().await;
    let all = stream.surveyed(0, None).await;
    let error = holds(&all, truth);
    assert!(error < truth / 12, "± {error} of {truth}");
    holds(
        &stream.surveyed(0, Some(400 * EACH + 1)).await,
        there(0, 400 * EACH + 1),
    );
    holds(
        &stream.surveyed(333 * EACH + 1, Some(900 * EACH)).await,
        there(333 * EACH + 1, 900 * EACH),
    );
    // Find the key range that contains the row of a given rank.
    for (is_backward, rank) in [
        (false, 0),
        (false, truth / 3),
        (true, truth / 3),
        (false, truth - 1),
    ] {
        let (place, deadline) = (&stream.partition.place, stream.pieces.deadline(TIME));
        let found = stream
            .pieces
            .piece_at(place, all.clone(), is_backward, rank, deadline)
            .await;
        let (look, _) = found.expect("it is read").expect("there are so many");
        let at = i64::try_from(look.piece.roles.read.0).expect("it is small");
        let before = there(0, at * EACH);
        let wanted = if is_backward { truth - 1 - rank } else { rank };
        assert!(before.abs_diff(wanted) <= error + 4, "{before}, not {wanted}");
    }
}

#[tokio::test(start_paused = true)]
async fn estimate_cost_is_independent_of_the_range_count() {
    let mut costs = Vec::new();
    for pieces in [300, 1_000, 4_000] {
        let stream = Stream::new(Direction::Ascending).await;
        stream.is_cut_into(pieces).await;
        stream.records(|_| Some(9)).await;
        stream.sums_up().await;
        let before = stream.pieces.metrics().directory_reads;
        stream.surveyed(0, Some(pieces / 2 * EACH + 1)).await;
        costs.push(stream.pieces.metrics().directory_reads - before);
    }
    let most = (MAX_DRAWN_PIECES + MAX_CERTAIN_PIECES) as u64;
    assert!(costs.iter().all(|reads| *reads <= most), "{costs:?}");
}
