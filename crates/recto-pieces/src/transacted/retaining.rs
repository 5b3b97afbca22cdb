//! Retention on stores where transactions move rows. One transaction deletes whole buckets, and the expired part of the
//! bucket at the retention bound, and raises the retention bound that hides these rows.

use std::sync::Arc;

use recto_protocol::buckets::{Bucket, Directory, Floor, Kept, Key, Piece, Span};
use recto_store::{Operation, PartitionWrite};

use super::whole::Whole;
use super::{Guard, Transacted};
use crate::error::Result;
use crate::limits::{MAX_DROPPED_AT_ONCE, MAX_STEP_TIME};
use crate::place::Place;
use crate::tables::mutation;

/// Content of one transaction.
struct Drop {
    floor: Floor,
    /// Spans to delete, with their buckets.
    ranges: Vec<(Bucket, Span)>,
    /// Starts of the removed key ranges.
    gone: Vec<Key>,
    /// Key range that receives the keys of the removed ones, and the end of all of them together.
    heir: Piece,
    end: Option<Key>,
    /// Number of removed buckets.
    buckets: u64,
}

impl Guard {
    /// Returns whether the retention bound of a partition must be raised before a write.
    ///
    /// # Errors
    /// There can be no such bound.
    pub(crate) fn is_to_be_raised(&self, place: &Place, now_ms: i64) -> Result<bool> {
        let (Some(keep), Some(whole)) = (&place.pieced.keep, self.whole(place)) else {
            return Ok(false);
        };
        Ok(whole.is_raised_by(&keep.floor(now_ms)?))
    }
}

impl Transacted {
    /// Raises the retention bound of a partition to its current value, and removes the data below.
    ///
    /// # Errors
    /// The work was not done in time. Each transaction is complete or has no effect.
    pub(crate) async fn retain(&self, place: &Arc<Place>) -> Result<()> {
        let Some(keep) = &place.pieced.keep else {
            return Ok(());
        };
        loop {
            let wanted = keep.floor(self.environment.now_micros().div_euclid(1_000))?;
            self.make().await?;
            let deadline = self.deadline(MAX_STEP_TIME);
            let mut alone = self.alone(place, deadline).await?;
            let whole = self.entry(place, deadline).await?.whole;
            if !whole.is_raised_by(&wanted) {
                return Ok(());
            }
            let drop = Drop::of(&whole, wanted);
            let shared = Directory {
                version: whole.version + 1,
                floor: Some(drop.floor.clone()),
                ..whole.shared()
            };
            let cas = self
                .tables
                .put(place, whole.version, &shared, &[&drop.heir], &drop.gone);
            let writes = self.writes_of(place, &whole, &drop)?;
            let start = drop.heir.start.clone();
            let after = whole.with(&shared, &start, drop.end.as_ref(), vec![drop.heir]);
            self.commit(&mut alone, place, after, cas, writes, (deadline, false))
                .await?;
            self.counters.dropped(drop.buckets);
        }
    }

    fn writes_of(&self, place: &Place, whole: &Whole, drop: &Drop) -> Result<Vec<PartitionWrite>> {
        let pieced = &place.pieced;
        // No earlier write has a newer timestamp, and no later write goes to these keys.
        let stamp = self.newest();
        let ranges = drop.ranges.iter().map(|(bucket, span)| {
            let (from, to) = pieced.bounds(span)?;
            Ok(PartitionWrite {
                table: Arc::clone(&pieced.table),
                partition: place.bucket_partition(*bucket),
                mutations: vec![mutation(Operation::DeleteRange { from, to }, stamp, None)],
            })
        });
        let mut writes = ranges.collect::<Result<Vec<_>>>()?;
        if whole.version == 0 {
            writes.push(pieced.mark_root(&place.partition, stamp));
        }
        Ok(writes)
    }
}

impl Drop {
    /// Returns the removal of the oldest buckets, up to the maximum of one transaction.
    fn of(whole: &Whole, wanted: Floor) -> Self {
        let pieces = whole.spans();
        let below = pieces.iter().filter(|(span, _)| wanted.hides_all(span));
        let mut below: Vec<(Span, Piece)> = below.cloned().collect();
        if wanted.kept == Kept::Before {
            below.reverse();
        }
        let is_more = below.len() > MAX_DROPPED_AT_ONCE;
        below.truncate(MAX_DROPPED_AT_ONCE);
        let last = below.last().map(|(span, _)| span.clone());
        let at = match (wanted.kept, last.filter(|_| is_more)) {
            (Kept::After, Some(Span { end: Some(end), .. })) => end,
            (Kept::Before, Some(span)) => span.start,
            _ => wanted.at,
        };
        let floor = Floor {
            at,
            kept: wanted.kept,
        };
        let mut ranges: Vec<(Bucket, Span)> = below
            .iter()
            .map(|(_, piece)| (piece.roles.read, Span::all()))
            .collect();
        // Delete a part of the bucket at the bound.
        let hidden = floor.hidden_span();
        let at_edge = pieces.iter().filter(|(span, _)| !floor.hides_all(span));
        ranges.extend(at_edge.filter_map(|(span, piece)| Some((piece.roles.read, span.common(&hidden)?))));
        // The first key range stays, because it is the start of the partition.
        let (heir, end) = match floor.kept {
            Kept::After => {
                let end = below
                    .last()
                    .map_or_else(|| pieces[0].0.end.clone(), |(span, _)| span.end.clone());
                (pieces[0].1.clone(), end)
            }
            Kept::Before => {
                let (span, heir) = &pieces[pieces.len() - below.len() - 1];
                let end = if below.is_empty() { span.end.clone() } else { None };
                (heir.clone(), end)
            }
        };
        let starts = below
            .iter()
            .map(|(span, _)| &span.start)
            .filter(|start| **start != heir.start);
        let gone: Vec<Key> = starts.cloned().collect();
        Self {
            buckets: gone.len() as u64,
            floor,
            ranges,
            gone,
            heir,
            end,
        }
    }
}
