//! Splits of a bucket at given edges, before rows arrive.

use std::sync::{Arc, PoisonError};

use recto_model::Slice;
use recto_model::table::ReadDirection;
use recto_protocol::buckets::{Bucket, Directory, Key, Piece, Span};
use recto_store::{PartitionCount, PartitionWrite, ReadOptions, Stamp};

use super::Transacted;
use super::arrivals::{End, Fill};
use super::moving::{Found, Load, Row, Way};
use super::plan::Plan;
use crate::error::Result;
use crate::limits::{MAX_MOVED_ROWS, MAX_STEP_TIME};
use crate::place::{Deadline, Place};

impl Transacted {
    /// Splits a bucket at an edge. Its key range begins at `start`. The rows beyond the edge, towards `end`, move to
    /// another bucket, in as many transactions as necessary. Returns false if another change came first.
    ///
    /// # Errors
    /// Rows cannot be read or written in time. Some rows are moved, and the range map is right.
    pub(super) async fn cut_at(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        start: &mut Key,
        edge: &Key,
        (end, relaxed): (End, bool),
    ) -> Result<bool> {
        let plan = Plan::towards(end);
        let mut way = Way::new(bucket, start.clone());
        loop {
            self.make().await?;
            let deadline = self.deadline(MAX_STEP_TIME);
            let mut alone = self.alone(place, deadline).await?;
            let found = self.look(place, &plan, &way, deadline).await?;
            let Some(found) = found.filter(|found| is_within(&found.span, edge)) else {
                return Ok(false);
            };
            let load = self.load_to(&found, end, edge, deadline).await?;
            let part = found.part.as_ref().map(|part| part.roles.read);
            let part = part.unwrap_or(found.whole.next_bucket);
            let (now, bytes) = (load.edge.clone(), load.count.bytes);
            self.transact(&mut alone, &found, &plan, load, part, (deadline, relaxed))
                .await?;
            self.counters.moved(bytes);
            way.part = Some(part);
            let is_done = now.as_ref() == Some(edge);
            if let (End::First, Some(now)) = (end, now) {
                start.clone_from(&now);
                way.start = now;
            }
            if is_done {
                return Ok(true);
            }
        }
    }

    /// Returns the rows beyond an edge that the next transaction moves, beginning at `end`.
    async fn load_to(&self, found: &Found<'_>, end: End, edge: &Key, deadline: Deadline) -> Result<Load> {
        let budget = self.moved_at_once();
        let slice = beyond(found, edge, end, MAX_MOVED_ROWS)?;
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            stamps: true,
            max_bytes: budget as u64,
            ..ReadOptions::default()
        };
        let read = found.snapshot.slice(&slice, &options).await?;
        let mut load = Load::default();
        let times = read.stamps.iter().zip(&read.ends_in_seconds);
        for (row, (stamp, ends)) in read.rows.iter().zip(times) {
            let row = Row::new(found, row, Stamp(*stamp), *ends)?;
            if !load.rows.is_empty() && load.bytes + row.put.byte_len() > budget {
                load.edge = match end {
                    End::First => Some(row.key),
                    End::Last => load.last.clone(),
                };
                return Ok(load);
            }
            load.push(row);
        }
        let behind = match (&load.last_clustering, end) {
            (Some(last), End::First) if !read.exhausted => {
                self.key_behind(found, end, last, deadline).await?
            }
            (Some(_), End::Last) if !read.exhausted => load.last.clone(),
            _ => None,
        };
        // There are no rows between the last moved row and the edge.
        let behind = behind.filter(|behind| match end {
            End::First => behind < edge,
            End::Last => behind > edge,
        });
        load.edge = Some(behind.unwrap_or_else(|| edge.clone()));
        Ok(load)
    }

    /// Splits a bucket at several edges in one transaction. Its key range begins at `start`, and the bucket must have
    /// no rows beyond the edges, towards `end`. Returns false if it has such rows, or if another change came first.
    ///
    /// # Errors
    /// The split was not confirmed in time. Either nothing or everything has changed.
    pub(super) async fn cut_ahead(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        start: &mut Key,
        edges: &[Key],
        (end, relaxed): (End, bool),
    ) -> Result<bool> {
        self.make().await?;
        let deadline = self.deadline(MAX_STEP_TIME);
        let mut alone = self.alone(place, deadline).await?;
        let way = Way::new(bucket, start.clone());
        let found = self.look(place, &Plan::towards(end), &way, deadline).await?;
        let are_within = |span: &Span| edges.iter().all(|edge| is_within(span, edge));
        let Some(found) = found.filter(|found| are_within(&found.span)) else {
            return Ok(false);
        };
        let nearest = match end {
            End::First => edges.last(),
            End::Last => edges.first(),
        };
        let Some(nearest) = nearest else { return Ok(true) };
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            ..ReadOptions::default()
        };
        let slice = beyond(&found, nearest, end, 1)?;
        if !found.snapshot.slice(&slice, &options).await?.rows.is_empty() {
            return Ok(false);
        }
        let first = found.whole.next_bucket.0;
        let made: Vec<Bucket> = (first..).map(Bucket).take(edges.len()).collect();
        let shared = Directory {
            version: found.whole.version + 1,
            next_bucket: Bucket(first + edges.len() as u64),
            ..found.whole.shared()
        };
        let put = pieces(&found, &made, edges, end);
        let of_put: Vec<&Piece> = put.iter().collect();
        let cas = self.tables.put(place, found.whole.version, &shared, &of_put, &[]);
        let (from, to) = (&found.span.start, found.span.end.as_ref());
        let whole = found.whole.with(&shared, from, to, put);
        let root: Vec<PartitionWrite> = (found.whole.version == 0)
            .then(|| found.place.pieced.mark_root(&place.partition, self.newest()))
            .into_iter()
            .collect();
        self.commit(&mut alone, place, whole, cas, root, (deadline, relaxed))
            .await?;
        self.begun(&found, &made);
        if end == End::First {
            start.clone_from(nearest);
        }
        Ok(true)
    }

    /// Records that the new buckets are empty.
    fn begun(&self, found: &Found<'_>, made: &[Bucket]) {
        let Some(entry) = self.known.find(&found.place.id) else {
            return;
        };
        let mut fills = entry.fills.lock().unwrap_or_else(PoisonError::into_inner);
        let heir = fills.get(&found.piece.roles.read).map(Fill::heir);
        for bucket in made {
            let mut fill = heir.clone().unwrap_or_default();
            fill.counted(PartitionCount::default());
            fills.insert(*bucket, fill);
        }
    }
}

/// Returns the key ranges of a bucket that is split at `edges`, in their order.
fn pieces(found: &Found<'_>, made: &[Bucket], edges: &[Key], end: End) -> Vec<Piece> {
    let (bucket, nothing) = (found.piece.roles.read, PartitionCount::default());
    let starts = std::iter::once(&found.span.start).chain(edges);
    let made = made.iter().map(|made| (*made, nothing));
    let stays = std::iter::once((bucket, found.counts[0]));
    let buckets: Vec<(Bucket, PartitionCount)> = match end {
        End::First => made.chain(stays).collect(),
        End::Last => stays.chain(made).collect(),
    };
    let pieces = starts.zip(buckets);
    pieces
        .map(|(start, (bucket, count))| found.piece_of(start, bucket, count))
        .collect()
}

fn is_within(span: &Span, edge: &Key) -> bool {
    span.start < *edge && span.has(edge)
}

/// Returns the slice of a bucket beyond an edge, beginning at `end`.
fn beyond(found: &Found<'_>, edge: &Key, end: End, limit: u32) -> Result<Slice> {
    let whole = found.slice(end, None)?;
    let at = found.place.pieced.bound(edge)?;
    Ok(match whole.direction {
        ReadDirection::Forward => Slice {
            to: at,
            limit,
            ..whole
        },
        ReadDirection::Backward => Slice {
            from: at,
            limit,
            ..whole
        },
    })
}
