//! Background work on demand: splits buckets that are too large, resumes unfinished splits, and removes
//! the content of old buckets that splits no longer use.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_protocol::buckets::{Bucket, Directory, Key};

use crate::directory::Seek;
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_CUT_ROUNDS, MAX_PIECES_AT_ONCE, MAX_STEP_TIME};
use crate::place::{Partition, PieceStore, Place};
use crate::tables::BucketSize;

/// Results of one repair of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mended {
    /// Number of buckets after the repair.
    pub buckets: usize,
    /// Number by which splits and joins of the repair raised the number of buckets; 0 if they reduced it.
    pub made: usize,
    /// Number of key ranges that joins moved to new buckets.
    pub joined: usize,
    /// Number of key ranges whose unfinished split the repair completed.
    pub went_on: usize,
    /// Number of buckets that still exceed their maximum size. Usually they have a single row, or
    /// fewer rows than the sampled rows suggest.
    pub too_large: usize,
    /// Number of key ranges whose old bucket the repair cleared after a split.
    pub cleared: usize,
    /// Number of key ranges whose old bucket is not cleared yet. Any process clears the bucket later, at
    /// the earliest one hour after the split.
    pub to_clear: usize,
    /// Number of rows below the retention bound that an embedded store deleted. It is 0 on Cassandra, where
    /// a deletion does not count rows.
    pub deleted: u64,
}

impl Partition {
    /// Checks all buckets against the maximum `size`, makes the splits and joins that are due, and resumes
    /// unfinished ones. Waits for splits that other processes are making. If `clears` is true, then
    /// waits an hour, and clears the old buckets that splits no longer use.
    ///
    /// # Errors
    /// - A read or write does not succeed in time. Earlier changes stay.
    /// - Another process does not finish a split.
    pub async fn mend(&self, size: BucketSize, clears: bool) -> Result<Mended> {
        let (pieces, place) = (&self.pieces, &self.place);
        let before = pieces.counted(place).await?;
        let mut mended = Mended {
            went_on: before.half_done,
            ..Mended::default()
        };
        pieces.retain(place).await?;
        // Time buckets are never split, so splits leave no buckets to clear.
        let is_by_time = place.pieced.times.is_some();
        for _ in 0..MAX_CUT_ROUNDS {
            if is_by_time || pieces.cut_all(place).await? == 0 {
                break;
            }
        }
        if !is_by_time {
            mended.joined = pieces.join_all(place).await?;
        }
        if clears && !is_by_time {
            mended.cleared = pieces.clear_all(place).await?;
        }
        let after = pieces.counted(place).await?;
        let summary = self.summary(size).await?;
        mended.buckets = after.buckets;
        mended.made = after.buckets.saturating_sub(before.buckets);
        mended.to_clear = after.to_clear;
        mended.too_large = usize::try_from(summary.too_large).unwrap_or(usize::MAX);
        Ok(mended)
    }
}

impl PieceStore {
    /// Makes the splits of all buckets that are due now, and returns the number of splits.
    async fn cut_all(&self, place: &Arc<Place>) -> Result<usize> {
        let (mut cuts, mut next) = (0, Some(Key::new()));
        while let Some(key) = next {
            let mut window = self.serially(place, &key).await?;
            if window.is_being_cut() {
                window = self.at_rest(place, &key).await?.ok_or_else(|| unended(place))?;
            }
            let mut grown: Vec<(Bucket, Key)> = window
                .pieces
                .iter()
                .map(|piece| (piece.roles.read, piece.start.clone()))
                .collect();
            grown.dedup_by_key(|(bucket, _)| *bucket);
            next = window.end;
            cuts += self.cut_grown(place, grown).await?;
        }
        Ok(cuts)
    }

    /// Clears the old buckets (which splits left) an hour from now. Returns the number of key
    /// ranges that were in an old bucket.
    async fn clear_all(&self, place: &Arc<Place>) -> Result<usize> {
        let (mut keys, mut pieces, mut next) = (Vec::new(), 0, Some(Key::new()));
        while let Some(key) = next {
            let window = self.serially(place, &key).await?;
            if window.is_to_be_cleared() {
                pieces += left_in(&window);
                keys.push(key);
            }
            next = window.end;
        }
        let clearing: Vec<_> = keys.iter().map(|key| self.clear(place, key)).collect();
        stream::iter(clearing)
            .buffer_unordered(MAX_PIECES_AT_ONCE)
            .try_collect::<()>()
            .await?;
        Ok(pieces)
    }

    async fn counted(&self, place: &Place) -> Result<Counted> {
        let (mut counted, mut last, mut next) = (Counted::default(), None, Some(Key::new()));
        while let Some(key) = next {
            let window = self.serially(place, &key).await?;
            for piece in &window.pieces {
                counted.buckets += usize::from(last != Some(piece.roles.read));
                counted.half_done += usize::from(!piece.roles.is_at_rest());
                last = Some(piece.roles.read);
            }
            counted.to_clear += left_in(&window);
            next = window.end;
        }
        Ok(counted)
    }

    async fn serially(&self, place: &Place, key: &Key) -> Result<Directory> {
        let (seek, deadline) = (Seek::At(key.clone()), self.deadline(MAX_STEP_TIME));
        let mut window = self.read_directory(place, &seek, true, deadline).await?;
        // Remove the key ranges before `key`, because the caller got these key ranges with the
        // previous window.
        window.pieces.retain(|piece| piece.start >= *key);
        Ok(window)
    }
}

/// Number of buckets of a partition, of key ranges whose split is unfinished (`half_done`), and of
/// key ranges whose old bucket is not cleared yet (`to_clear`).
#[derive(Default)]
struct Counted {
    buckets: usize,
    half_done: usize,
    to_clear: usize,
}

fn left_in(window: &Directory) -> usize {
    let is_left =
        |piece: &&recto_protocol::buckets::Piece| piece.roles.is_at_rest() && !piece.roles.old.is_empty();
    window.pieces.iter().filter(is_left).count()
}

#[cold]
fn unended(place: &Place) -> PiecesError {
    let table = place.pieced.table().name();
    let message = format!("another process is splitting a partition of table {table} and does not finish");
    PiecesError::new(PiecesErrorKind::Timeout, message).with_hint("repair again: finished repairs are kept")
}
