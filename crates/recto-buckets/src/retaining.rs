//! Retention (deletion of rows that are too old) on stores without transactions. Executes the
//! actions of `recto_protocol::buckets::Retaining`.
//!
//! Expired data is deleted as whole partitions of the store. If a kept key range also uses a
//! bucket, only the expired range of the bucket is deleted.
//!
//! The retention bound is raised only to the end of a bucket. Buckets therefore get ends in advance: a
//! split ends a bucket at each eighth of the retention length in which rows have arrived. Time buckets
//! have fixed ends. Entries are only added to the registry of time buckets, so the retention bound is
//! stored in a range map instead. This range map has one key range, with the bucket that never has rows.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::Slice;
use recto_model::table::ReadDirection;
use recto_protocol::buckets::{
    Bucket, Cut, Decision, Directory, Figures, Floor, Kept, Key, Piece, RetainAction, RetainEvent, Retaining,
    Span, Stays,
};
use recto_store::{Operation, PartitionWrite, Stamp};

use crate::copying::{clustering_of, slice_of};
use crate::directory::Seek;
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_DROP_ROUNDS, MAX_PIECES_AT_ONCE, MAX_REQUEST_TIME, MAX_RETAIN_STEPS, MAX_STEP_TIME};
use crate::place::{PieceStore, Place};
use crate::splitter::Changes;
use crate::tables::mutation;
use crate::times::Keep;

/// Known key ranges of a partition: at least the oldest ones, which may have expired.
struct Oldest {
    known: Directory,
    /// Range map that stores only the retention bound, for a table with time buckets. `None`:
    /// `known` has the bound.
    beside: Option<Directory>,
}

impl PieceStore {
    /// Raises the retention bound of a partition to its current value, and removes the data below the
    /// bound. Splits the newest bucket at the next value of the bound.
    ///
    /// # Errors
    /// The work was not done in time. The next call continues.
    pub(crate) async fn retain(&self, place: &Arc<Place>) -> Result<()> {
        let Some(keep) = &place.pieced.keep else {
            return Ok(());
        };
        if let Some(guard) = self.store.clock_guard() {
            guard.compare(MAX_REQUEST_TIME).await;
            if !guard.allows(keep.length()) {
                return Ok(());
            }
        }
        let now_ms = self.clock().wall_ms;
        self.drop_below(place, keep.floor(now_ms)?).await?;
        if place.pieced.times.is_none() {
            self.end_buckets(place, &keep.steps(now_ms)?).await?;
        }
        Ok(())
    }

    /// Raises the retention bound of a partition to `wanted`, or to the last bucket edge before it.
    /// Removes the data below the bound.
    ///
    /// # Errors
    /// The work was not done in time. The next call continues.
    pub(crate) async fn drop_below(&self, place: &Place, wanted: Floor) -> Result<()> {
        let mut machine = match &place.pieced.times {
            Some(_) => Retaining::of_time_buckets(wanted.clone(), self.protocol),
            None => Retaining::new(wanted.clone(), self.protocol),
        };
        let mut action = machine.step(RetainEvent::Begin);
        let mut oldest: Option<Oldest> = None;
        let mut attempts = 0;
        for _ in 0..MAX_RETAIN_STEPS {
            let event = match action {
                RetainAction::Read => {
                    let read = self.oldest(place, &wanted).await?;
                    let known = read.known.clone();
                    oldest = Some(read);
                    RetainEvent::Read(known)
                }
                RetainAction::Cas { put, gone, .. } => {
                    let Some(oldest) = &oldest else { break };
                    let decision = self
                        .change_oldest(place, oldest, (&put, &gone), &mut attempts)
                        .await?;
                    if decision == Decision::Applied {
                        self.counters.dropped(gone.len() as u64);
                    }
                    RetainEvent::Decided(decision)
                }
                RetainAction::Wait { ms } => {
                    self.wait(Duration::from_millis(ms)).await;
                    RetainEvent::Waited
                }
                RetainAction::Delete(hidden) => {
                    self.drop_hidden(place, &hidden).await?;
                    RetainEvent::Deleted
                }
                RetainAction::Over => break,
            };
            action = machine.step(event);
        }
        Ok(())
    }

    async fn oldest(&self, place: &Place, wanted: &Floor) -> Result<Oldest> {
        let deadline = self.deadline(MAX_STEP_TIME);
        if place.pieced.times.is_none() {
            let seek = match wanted.kept {
                Kept::After => Seek::At(Key::new()),
                Kept::Before => Seek::Before(None),
            };
            let known = self.read_directory(place, &seek, true, deadline).await?;
            return Ok(Oldest { known, beside: None });
        }
        let beside = self.directory_beside(place, true, deadline).await?;
        let at = match &beside.floor {
            Some(floor) if wanted.is_lower_than(&floor.at) => &floor.at,
            _ => &wanted.at,
        };
        let known = self.oldest_registered(place, (at, wanted.kept), deadline);
        let known = Directory {
            version: beside.version,
            floor: beside.floor.clone(),
            ..known.await?
        };
        Ok(Oldest {
            known,
            beside: Some(beside),
        })
    }

    /// Raises the retention bound, or removes key ranges whose buckets were removed from the store.
    async fn change_oldest(
        &self,
        place: &Place,
        oldest: &Oldest,
        (put, gone): (&Directory, &[Key]),
        attempts: &mut u32,
    ) -> Result<Decision> {
        let known = &oldest.known;
        match &oldest.beside {
            Some(beside) if gone.is_empty() => {
                let raised = Directory {
                    version: beside.version + 1,
                    floor: put.floor.clone(),
                    ..beside.clone()
                };
                self.decide(place, beside, (&raised, gone), attempts).await
            }
            Some(_) => {
                let is_below = |span: &Span| known.floor.as_ref().is_some_and(|floor| floor.hides_all(span));
                let spans = known.spans().map(|(span, _)| span);
                let starts: Vec<Key> = spans.filter(is_below).map(|span| span.start).collect();
                self.unregister(place, &starts).await?;
                Ok(Decision::Applied)
            }
            None => {
                // Remove block sums before the key ranges: a block must never begin at an edge that
                // no longer exists.
                self.forget_sums(place, gone).await?;
                let decision = self.decide(place, known, (put, gone), attempts).await?;
                if !gone.is_empty() && !known.is_whole() {
                    self.forget_sums(place, gone).await?;
                    let left = [put.pieces.first(), put.pieces.last()].into_iter().flatten();
                    let left: Vec<Key> = left.map(|piece| piece.start.clone()).collect();
                    // Ignore an error, because readers check block sums and can do without them.
                    let _ = self.sum_up(place, &left).await;
                }
                Ok(decision)
            }
        }
    }

    async fn drop_hidden(&self, place: &Place, hidden: &[(Bucket, Span)]) -> Result<()> {
        let dropped: Vec<_> = hidden
            .iter()
            .map(|(bucket, span)| self.drop_rows(place, *bucket, span))
            .collect();
        let dropped = stream::iter(dropped).buffer_unordered(MAX_PIECES_AT_ONCE);
        dropped.try_collect().await
    }

    /// Deletes the rows and the samples of a bucket within a span (range of keys). If the span
    /// contains all keys, deletes the bucket as a whole. A writer with a fast clock may have given
    /// rows a later timestamp than the deletion. In that case, repeats the deletion with a later
    /// timestamp, until no rows are visible.
    async fn drop_rows(&self, place: &Place, bucket: Bucket, span: &Span) -> Result<()> {
        let mut stamp = (self.stamps)();
        for _ in 0..MAX_DROP_ROUNDS {
            if *span == Span::all() {
                self.drop_bucket(place, bucket, stamp).await?;
            } else {
                self.delete_at(place, (bucket, span), stamp).await?;
            }
            match self.newest_in(place, bucket, span).await? {
                None => return Ok(()),
                Some(newest) => stamp = Stamp((self.stamps)().0.max(newest.saturating_add(1))),
            }
        }
        let message = format!(
            "rows of table {} that are older than its retention are written again and again",
            place.pieced.table.name()
        );
        Err(PiecesError::new(PiecesErrorKind::Conflict, message)
            .with_hint("set the clocks of all writing machines"))
    }

    /// Deletes a bucket as a whole: the rows in all its shards, and its samples (stored keys and
    /// sizes of some rows).
    async fn drop_bucket(&self, place: &Place, bucket: Bucket, stamp: Stamp) -> Result<()> {
        if bucket == Bucket(0) {
            // Mark bucket 0 at a later timestamp than the deletion, so that scans find the partition at
            // all times.
            let mark = Stamp(stamp.0.saturating_add(1));
            self.write_step(place.pieced.mark_root(&place.partition, mark))
                .await?;
        }
        let whole = || vec![mutation(Operation::DeletePartition, stamp, None)];
        for shard in place.pieced.shards.all() {
            let write = PartitionWrite {
                table: Arc::clone(&place.pieced.table),
                partition: place.shard_partition(bucket, shard),
                mutations: whole(),
            };
            self.write_step(write).await?;
        }
        self.write_step(self.samples_write(place, bucket, whole())).await
    }

    /// Returns the newest timestamp of the first rows of a bucket within a span (range of keys), or
    /// `None` if there are no rows.
    async fn newest_in(&self, place: &Place, bucket: Bucket, span: &Span) -> Result<Option<i64>> {
        let mut newest = None;
        for shard in place.pieced.shards.all() {
            let slice = slice_of(place, (bucket, shard), span)?;
            newest = newest.max(self.read_rows(&slice).await?.stamps.into_iter().max());
        }
        Ok(newest)
    }

    /// Splits a bucket at the last of `steps` (future and past values of the retention bound), and
    /// at each earlier step that separates existing rows. The last step is in the future, so
    /// usually no rows are copied.
    async fn end_buckets(&self, place: &Arc<Place>, steps: &[(i64, Key)]) -> Result<()> {
        let (Some(keep), Some((_, next))) = (&place.pieced.keep, steps.last()) else {
            return Ok(());
        };
        let Some(directory) = self.at_rest(place, next).await? else {
            return Ok(());
        };
        let piece = directory.spans().find(|(span, _)| span.has(next));
        let Some((span, piece)) = piece.map(|(span, piece)| (span, piece.clone())) else {
            return Ok(());
        };
        let old = match keep.kept() {
            Kept::After => Span {
                start: span.start.clone(),
                end: Some(next.clone()),
            },
            Kept::Before => Span {
                start: next.clone(),
                end: span.end.clone(),
            },
        };
        // If a key range begins at the last step, a bucket already ends there, so no split is due.
        if span.start == *next {
            return Ok(());
        }
        let Some(oldest_ms) = self.oldest_row(place, keep, (piece.roles.read, &old)).await? else {
            return Ok(());
        };
        let later = steps.iter().filter(|(at_ms, _)| *at_ms > oldest_ms);
        let mut edges: Vec<Key> = later.map(|(_, edge)| edge.clone()).collect();
        edges.retain(|edge| span.start < *edge && span.has(edge));
        edges.sort_unstable();
        if edges.is_empty() {
            return Ok(());
        }
        let cut = self.cut_at(place, (&span, &piece), edges, keep.kept()).await?;
        let changes = Changes {
            cuts: vec![cut],
            ..Changes::default()
        };
        self.split(place, next, directory, changes).await.map(drop)
    }

    /// Returns the time of the oldest row of a bucket within a span (range of keys), in
    /// milliseconds since 1970. Returns `None` if the span has no rows.
    async fn oldest_row(
        &self,
        place: &Place,
        keep: &Keep,
        (bucket, span): (Bucket, &Span),
    ) -> Result<Option<i64>> {
        let mut oldest: Option<i64> = None;
        for shard in place.pieced.shards.all() {
            let slice = Slice {
                direction: match keep.kept() {
                    Kept::After => ReadDirection::Forward,
                    Kept::Before => ReadDirection::Backward,
                },
                limit: 1,
                ..slice_of(place, (bucket, shard), span)?
            };
            let read = self.read_rows(&slice).await?;
            for row in read.rows.iter() {
                let key = place.key(&clustering_of(&place.pieced.table, row))?;
                let at_ms = keep.time_of(&key)?;
                oldest = Some(oldest.map_or(at_ms, |oldest| oldest.min(at_ms)));
            }
        }
        Ok(oldest)
    }

    /// Returns a split of a key range at `edges`. The content of each part is estimated from
    /// samples. The content of the newest part stays unknown, because rows are about to arrive in
    /// it.
    async fn cut_at(
        &self,
        place: &Place,
        (span, piece): (&Span, &Piece),
        edges: Vec<Key>,
        kept: Kept,
    ) -> Result<Cut> {
        let deadline = self.deadline(MAX_STEP_TIME);
        let samples = self.samples(place, piece.roles.read, span, deadline).await?;
        let starts = std::iter::once(&span.start).chain(&edges);
        let ends = edges.iter().map(Some).chain([span.end.as_ref()]);
        let figures = starts.zip(ends).map(|(start, end)| {
            let part = Span {
                start: start.clone(),
                end: end.cloned(),
            };
            let within = samples.iter().map(|dated| &dated.sample);
            Some(
                piece
                    .sampling
                    .estimate(within.filter(|sample| part.has(&sample.key))),
            )
        });
        let mut figures: Vec<Option<Figures>> = figures.collect();
        let all = piece.sampling.estimate(samples.iter().map(|dated| &dated.sample));
        let mean = all.bytes.checked_div(all.rows).unwrap_or(piece.sampling.mean);
        let (stays, newest) = match kept {
            Kept::After => (Stays::First, figures.last_mut()),
            Kept::Before => (Stays::Last, figures.first_mut()),
        };
        if let Some(newest) = newest {
            *newest = None;
        }
        Ok(Cut {
            stays,
            sampling: place.pieced.next_sampling(mean),
            figures,
            edges,
        })
    }
}
