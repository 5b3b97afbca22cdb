//! Splits buckets before a load, if the caller knows the rows in advance. A split of an empty bucket
//! copies no rows. A split during the load would come too late.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_protocol::buckets::limits::MAX_EDGE_BYTES;
use recto_protocol::buckets::{Bucket, Cut, Directory, Key, Sampling, Span, Stays};

use crate::error::Result;
use crate::growth::span_of;
use crate::limits::{MAX_CUT_ROUNDS, MAX_PIECES_AT_ONCE, MAX_ROOM_EDGES, MAX_STEP_TIME};
use crate::place::{PieceStore, Place};
use crate::splitter::Changes;

/// Size of the parts into which a bucket is split before a load, in quarters of the target size of
/// a bucket. At three quarters, few parts have enough samples by chance to be split again.
const PART_QUARTERS: u64 = 3;

/// Row that represents several rows which are about to arrive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Coming {
    /// Key of the representative row.
    pub(crate) key: Key,
    /// Counted size of all represented rows, in bytes.
    pub(crate) bytes: u64,
    /// Number of represented rows.
    pub(crate) rows: u64,
}

impl PieceStore {
    /// Splits the buckets of a partition that would become too large. `coming` has a sample of the rows that are about
    /// to arrive.
    ///
    /// # Errors
    /// A split cannot be made in time.
    pub(crate) async fn make_room(&self, place: &Arc<Place>, mut coming: Vec<Coming>) -> Result<()> {
        let bytes: u64 = coming.iter().map(|one| one.bytes).sum();
        // If few rows are about to arrive, make no room: the splitter handles grown buckets.
        if bytes < place.pieced.sampling.unit {
            return Ok(());
        }
        coming.sort();
        let mut next = coming.first().map(|first| first.key.clone());
        for _ in 0..MAX_CUT_ROUNDS {
            let Some(key) = next else { break };
            let Some(directory) = self.at_rest(place, &key).await? else {
                break;
            };
            let cuts = self.room_in(place, &directory, &coming).await?;
            if cuts.is_empty() {
                let end = directory.end.as_ref();
                let behind = end.and_then(|end| coming.iter().find(|one| one.key >= *end));
                next = behind.map(|one| one.key.clone());
                continue;
            }
            let changes = Changes {
                cuts,
                is_hot: true,
                ..Changes::default()
            };
            self.split(place, &key, directory, changes).await?;
            next = Some(key);
        }
        Ok(())
    }

    /// Returns the splits of one window (part) of the range map. All of them take effect together,
    /// so that the caller waits only once.
    async fn room_in(&self, place: &Place, directory: &Directory, coming: &[Coming]) -> Result<Vec<Cut>> {
        let mut buckets: Vec<(Bucket, Span, Sampling)> = Vec::new();
        for one in coming {
            let Some(piece) = directory.piece_of(&one.key) else {
                continue;
            };
            let bucket = piece.roles.read;
            if buckets.last().is_none_or(|(last, ..)| *last != bucket)
                && let Some((span, sampling)) = span_of(directory, bucket)
            {
                buckets.push((bucket, span, sampling));
            }
        }
        let cuts = buckets
            .iter()
            .map(|(bucket, span, sampling)| self.cut_in(place, (*bucket, span, *sampling), coming));
        let cuts: Vec<_> = cuts.collect();
        let cuts: Vec<Option<Cut>> = stream::iter(cuts)
            .buffered(MAX_PIECES_AT_ONCE)
            .try_collect()
            .await?;
        let mut edges = 0;
        let is_in = |cut: &Cut| {
            edges += cut.edges.len();
            edges <= MAX_ROOM_EDGES
        };
        Ok(cuts.into_iter().flatten().take_while(is_in).collect())
    }

    async fn cut_in(
        &self,
        place: &Place,
        (bucket, span, sampling): (Bucket, &Span, Sampling),
        coming: &[Coming],
    ) -> Result<Option<Cut>> {
        let deadline = self.deadline(MAX_STEP_TIME);
        let there = self.samples(place, bucket, span, deadline).await?;
        let there = there.into_iter().map(|dated| Coming {
            key: dated.sample.key,
            bytes: sampling.unit,
            rows: 0,
        });
        Ok(cut_for(place, span, there.collect(), coming))
    }
}

/// Returns the split of a bucket that has the samples `there` and is about to receive the rows `coming`.
/// Returns `None` if the bucket will not be too large.
fn cut_for(place: &Place, span: &Span, there: Vec<Coming>, coming: &[Coming]) -> Option<Cut> {
    let pieced = &place.pieced;
    let most = pieced.sampling.unit.saturating_mul(pieced.samples.into());
    let coming = coming.iter().filter(|one| span.has(&one.key)).cloned();
    let mut all: Vec<Coming> = there.iter().cloned().chain(coming).collect();
    all.sort();
    let total: u64 = all.iter().map(|one| one.bytes).sum();
    if total <= most {
        return None;
    }
    let part = (most / 4 * PART_QUARTERS).max(1);
    let parts = total.div_ceil(part).min(MAX_ROOM_EDGES as u64 + 1);
    let (mut edges, mut before) = (Vec::new(), 0);
    for one in &all {
        let is_due = u128::from(before) * u128::from(parts) >= u128::from(total) * (edges.len() as u128 + 1);
        let is_edge = span.start < one.key && one.key.len() <= MAX_EDGE_BYTES;
        if is_due && is_edge && edges.last() != Some(&one.key) && before > 0 {
            edges.push(one.key.clone());
        }
        before += one.bytes;
    }
    let (first, last) = (edges.first()?, edges.last()?);
    let stays_first = there.iter().filter(|one| one.key < *first).count();
    let stays_last = there.iter().filter(|one| one.key >= *last).count();
    let (rows, bytes) = all
        .iter()
        .filter(|one| one.rows > 0)
        .fold((0, 0), |(rows, bytes), one| (rows + one.rows, bytes + one.bytes));
    Some(Cut {
        stays: if stays_last > stays_first {
            Stays::Last
        } else {
            Stays::First
        },
        sampling: pieced.next_sampling(bytes.checked_div(rows).unwrap_or(pieced.sampling.mean)),
        // Leave the figures empty, because the content after the arrival of all rows is unknown.
        figures: Vec::new(),
        edges,
    })
}
