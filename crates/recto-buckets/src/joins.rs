//! Join policy: finds adjacent key ranges whose rows fit into one bucket, and moves them there. Also replaces a
//! bucket that is full of tombstones (markers of deleted rows, which each read passes) by a new one.
//!
//! A page that reads several buckets for few rows queues the check of a window, as does a page that passes many
//! tombstones. `docs/design/buckets.md`, "Joins", has the protocol.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Bound, Slice};
use recto_protocol::buckets::limits::MAX_JOINED_PIECES;
use recto_protocol::buckets::{Bucket, Directory, Figures, Floor, Join, Key, Piece, Span};
use recto_store::{RowsRead, Stamp};

use crate::copying::{clustering_of, slice_of, whole_row};
use crate::error::Result;
use crate::holding::bytes_of;
use crate::limits::{
    JOIN_PAUSE, JOIN_QUIET, MAX_CUT_ROUNDS, MAX_JOIN_PAUSES, MAX_PATIENT_PAUSE, MAX_PIECES_AT_ONCE,
    MAX_STEP_TIME,
};
use crate::notices::Notice;
use crate::place::{PieceStore, Place, PlaceId};
use crate::splitter::Changes;
use crate::tables::{BucketSize, PiecedTable};

/// Minimum number of buckets of a page after which their joins are checked. The bucket in the middle was read as a
/// whole.
const MIN_SPARSE_BUCKETS: usize = 3;
/// Divisor of the maximum size of a bucket: joined key ranges have at most this part of it. A bucket is split at
/// one and a half times its size, so that joins and splits do not alternate.
const JOINED_PART: u64 = 2;

/// Reason to check the joins of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinReason {
    /// Several buckets have few rows.
    FewRows,
    /// A read of the bucket that has the key passed many tombstones.
    Tombstones,
}

/// Windows of range maps that were checked without a result. They are not checked again for some time.
#[derive(Debug, Default)]
pub(crate) struct JoinPauses {
    /// Span of each window, and the end of its pause by the monotonic clock.
    windows: Mutex<BTreeMap<PlaceId, Vec<(Span, u64)>>>,
}

impl JoinPauses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PlaceId, Vec<(Span, u64)>>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, place: &PlaceId, span: Span, (now_nanos, pause): (u64, Duration)) {
        let mut windows = self.lock();
        if windows.len() >= MAX_JOIN_PAUSES {
            windows.clear();
        }
        let of_place = windows.entry(Arc::clone(place)).or_default();
        of_place.retain(|(_, end_nanos)| *end_nanos > now_nanos);
        let pause_nanos = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        of_place.push((span, now_nanos.saturating_add(pause_nanos)));
    }

    /// Returns `key`, or the first key after it that is in no paused window. Returns `None` if all later keys are
    /// paused.
    fn first_outside(&self, place: &PlaceId, key: &[u8], now_nanos: u64) -> Option<Key> {
        let windows = self.lock();
        let of_place = windows.get(place).into_iter().flatten();
        let paused: Vec<&Span> = of_place
            .filter(|(_, end_nanos)| *end_nanos > now_nanos)
            .map(|(span, _)| span)
            .collect();
        let mut key = key.to_vec();
        while let Some(span) = paused.iter().find(|span| span.has(&key)) {
            key.clone_from(span.end.as_ref()?);
        }
        Some(key)
    }
}

/// Adjacent key ranges that are joined.
#[derive(Debug, Default)]
struct Group {
    pieces: Vec<(Span, Piece)>,
    content: Figures,
    buckets: usize,
}

/// Adjacent key ranges with one bucket, and their content as the samples show it.
struct Run {
    pieces: Vec<(Span, Piece)>,
    content: Figures,
    /// False if the run cannot be joined now.
    is_ready: bool,
}

impl PieceStore {
    /// Queues a check of the joins, if a page shows a reason for it. `span` is the span that the page read, and `last`
    /// the key of its last row.
    pub(crate) fn note_page(&self, place: &Arc<Place>, (span, last): (&Span, Option<Key>), read: &RowsRead) {
        let mut buckets = read.buckets.asked.clone();
        buckets.sort_unstable();
        buckets.dedup();
        let is_sparse = buckets.len() >= MIN_SPARSE_BUCKETS;
        let now_nanos = self.environment.monotonic_nanos();
        if is_sparse && has_few_rows(&place.pieced, buckets.len(), read) {
            // A page of many buckets reads several windows. Check the first one that is not paused.
            let key = self.pauses.first_outside(&place.id, &span.start, now_nanos);
            if let Some(key) = key.filter(|key| span.has(key)) {
                self.notices.add(place, Notice::Sparse, &key);
            }
        } else if !is_sparse && read.tombstones > 0 {
            // If the page read two buckets, the tombstones are more likely in the second one: a page reads on because
            // of them.
            let key = last.unwrap_or_else(|| span.start.clone());
            let unpaused = self.pauses.first_outside(&place.id, &key, now_nanos);
            if unpaused.as_ref() == Some(&key) {
                self.notices.add(place, Notice::Tombstones, &key);
            }
        }
    }

    /// Makes the joins that are due in the window around a key. Returns the number of joined key ranges.
    ///
    /// # Errors
    /// The range map, the samples or the rows cannot be read in time, or a row is damaged: then no range is
    /// joined, because the rows could not be copied.
    pub(crate) async fn join(&self, place: &Arc<Place>, key: &Key, reason: JoinReason) -> Result<usize> {
        let due = self.due_joins(place, key, reason).await;
        let (directory, joins) = due.inspect_err(|_| {
            let pause = (self.environment.monotonic_nanos(), JOIN_PAUSE);
            self.pauses.begin(&place.id, Span::all(), pause);
        })?;
        let pause = match &joins {
            None => Some(MAX_PATIENT_PAUSE),
            Some(joins) if joins.is_empty() || reason == JoinReason::Tombstones => Some(JOIN_PAUSE),
            Some(_) => None,
        };
        if let Some(pause) = pause {
            let pause = (self.environment.monotonic_nanos(), pause);
            self.pauses.begin(&place.id, span_of_window(&directory), pause);
        }
        let joins = joins.unwrap_or_default();
        if joins.is_empty() {
            return Ok(0);
        }
        let count = joins.iter().map(|join| join.pieces.len()).sum();
        let changes = Changes {
            joins,
            ..Changes::default()
        };
        let is_made = self.split(place, key, directory, changes).await?;
        Ok(if is_made { count } else { 0 })
    }

    /// Makes the joins that are due in all windows. Returns the number of joined key ranges.
    ///
    /// # Errors
    /// As for [`join`](Self::join). Completed joins stay.
    pub(crate) async fn join_all(&self, place: &Arc<Place>) -> Result<usize> {
        let (mut joined, mut next) = (0, Some(Key::new()));
        while let Some(key) = next {
            for _ in 0..MAX_CUT_ROUNDS {
                // Wait for the changes of other processes, and of the background task of this one.
                let directory = self.at_rest(place, &key).await?;
                if directory.is_some_and(|directory| self.is_hot(&directory)) {
                    self.calm(place, &key).await?;
                }
                match self.join(place, &key, JoinReason::FewRows).await? {
                    0 => break,
                    count => joined += count,
                }
            }
            let deadline = self.deadline(MAX_STEP_TIME);
            next = self.read_around(place, &key, deadline).await?.0.end;
        }
        Ok(joined)
    }

    /// Returns the window around a key, and the joins that are due in it; `None` if no joins can be made now.
    async fn due_joins(
        &self,
        place: &Arc<Place>,
        key: &Key,
        reason: JoinReason,
    ) -> Result<(Directory, Option<Vec<Join>>)> {
        let deadline = self.deadline(MAX_STEP_TIME);
        let (directory, tombstones) = self.read_around(place, key, deadline).await?;
        // Each removed edge leaves a tombstone in the range map, so make no joins while there are many.
        let is_busy = self.is_hot(&directory) || directory.is_being_cut();
        if place.pieced.times.is_some() || tombstones > 0 || is_busy {
            return Ok((directory, None));
        }
        let mut groups = self.group_runs(place, &directory, reason).await?;
        groups.retain(|group| {
            let has_key = group.pieces.iter().any(|(span, _)| span.has(key));
            group.buckets > 1 || (has_key && reason == JoinReason::Tombstones)
        });
        let mut joins = Vec::new();
        if !groups.is_empty() {
            let stored = self.as_stored(place).await?;
            for group in groups {
                joins.extend(self.check_group(&stored, &group).await?);
            }
        }
        Ok((directory, Some(joins)))
    }

    /// Returns whether splits are expected: then cached range maps have a short lifetime.
    fn is_hot(&self, directory: &Directory) -> bool {
        directory.version > 0 && directory.life_ms < self.protocol.long_life_ms
    }

    /// Divides a window into groups whose rows fit into one bucket.
    async fn group_runs(
        &self,
        place: &Arc<Place>,
        directory: &Directory,
        reason: JoinReason,
    ) -> Result<Vec<Group>> {
        let steps = match &place.pieced.keep {
            Some(keep) => keep.steps(self.clock().wall_ms)?,
            None => Vec::new(),
        };
        // A range that is about to be deleted is not joined: its old buckets would delay the deletion.
        let wanted = place.pieced.floor(self.environment.now_micros())?;
        let floors = directory.floor.iter().chain(&wanted);
        let kept: Vec<Span> = floors.map(Floor::kept_span).collect();
        let is_kept = |span: &Span| kept.iter().all(|kept| kept.common(span).as_ref() == Some(span));
        let runs: Vec<_> = runs_of(directory)
            .into_iter()
            .map(|pieces| {
                let is_ready = |(span, piece): &(Span, Piece)| piece.roles.is_at_rest() && is_kept(span);
                let run = Run {
                    is_ready: pieces.iter().all(is_ready) && is_whole(directory, &pieces),
                    pieces,
                    content: Figures::default(),
                };
                self.read_run(place, run, reason)
            })
            .collect();
        let mut runs = stream::iter(runs).buffered(MAX_PIECES_AT_ONCE);
        let (mut groups, mut group) = (Vec::new(), Group::default());
        while let Some(run) = runs.try_next().await? {
            if !run.is_ready || !group.has_room(&run, place.pieced.size, &steps) {
                groups.push(std::mem::take(&mut group));
            }
            if run.is_ready {
                group.add(run);
            }
        }
        groups.push(group);
        Ok(groups)
    }

    /// Adds the content to a run that can be joined.
    async fn read_run(&self, place: &Place, mut run: Run, reason: JoinReason) -> Result<Run> {
        let Some(((first, piece), (last, _))) = run.pieces.first().zip(run.pieces.last()) else {
            return Ok(run);
        };
        if run.is_ready {
            let span = Span {
                start: first.start.clone(),
                end: last.end.clone(),
            };
            let deadline = self.deadline(MAX_STEP_TIME);
            let samples = self.samples(place, piece.roles.read, &span, deadline).await?;
            run.content = piece.sampling.estimate(samples.iter().map(|dated| &dated.sample));
            // Rows that arrive fill the bucket again. Tombstones slow down each page, so they do not wait.
            let quiet_ms = i64::try_from(JOIN_QUIET.as_millis()).unwrap_or(i64::MAX);
            let quiet_since_ms = self.clock().wall_ms.saturating_sub(quiet_ms);
            let is_quiet = samples.iter().all(|dated| dated.at_ms() < quiet_since_ms);
            run.is_ready = is_quiet || reason == JoinReason::Tombstones;
        }
        Ok(run)
    }

    /// Reads the rows of a group, and returns its joins: one if the rows fit into one bucket. Samples can suggest fewer
    /// rows than there are, and then a join ends before the bucket that does not fit. `place` must come from
    /// [`as_stored`](Self::as_stored).
    async fn check_group(&self, place: &Place, group: &Group) -> Result<Vec<Join>> {
        let size = place.pieced.size;
        let (mut checked, mut part) = (Vec::new(), CheckedGroup::default());
        for run in group
            .pieces
            .chunk_by(|(_, one), (_, next)| one.roles.read == next.roles.read)
        {
            let mut of_run = CheckedGroup {
                buckets: 1,
                ..CheckedGroup::default()
            };
            for (span, piece) in run {
                let fit = |content| group.fits(size, of_run.content.plus(content));
                let content = self.count_rows(place, piece.roles.read, span, &fit).await?;
                of_run.add(span, piece, content);
            }
            if !group.fits(size, part.content.plus(of_run.content)) {
                checked.push(std::mem::take(&mut part));
            }
            if group.fits(size, of_run.content) {
                part.append(of_run);
            }
        }
        checked.push(part);
        let least = group.buckets.min(2);
        let joins = checked.into_iter().filter(|part| part.buckets >= least);
        Ok(joins.map(|part| part.into_join(place)).collect())
    }

    /// Counts the rows of a bucket within a span, and checks that they can be copied. Stops when they do not fit.
    async fn count_rows(
        &self,
        place: &Place,
        bucket: Bucket,
        span: &Span,
        fit: &(dyn Fn(Figures) -> bool + Send + Sync),
    ) -> Result<Figures> {
        let mut content = Figures::default();
        for shard in place.pieced.shards.all() {
            let mut slice: Slice = slice_of(place, (bucket, shard), span)?;
            loop {
                // Ignore the result: only a closed semaphore returns an error, and this one is never closed.
                let _turn = self.copying.acquire().await;
                let read = self.read_rows(&slice).await?;
                for (row, stamp) in read.rows.iter().zip(&read.stamps) {
                    whole_row(&place.pieced.table, row, Stamp(*stamp))?;
                    content.rows += 1;
                    content.bytes += bytes_of(&place.pieced, row);
                }
                let last = read.rows.iter().next_back().filter(|_| !read.exhausted);
                match last {
                    Some(last) if fit(content) => {
                        slice.from = Bound::After(clustering_of(&place.pieced.table, last));
                    }
                    _ => break,
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(content)
    }
}

/// Adjacent key ranges whose rows were read.
#[derive(Debug, Default)]
struct CheckedGroup {
    /// Start and bucket of each range.
    pieces: Vec<(Key, Bucket)>,
    figures: Vec<Figures>,
    content: Figures,
    buckets: usize,
    /// Mean size of a row, if the ranges have no rows.
    sampled_mean: Option<u64>,
}

impl CheckedGroup {
    fn add(&mut self, span: &Span, piece: &Piece, content: Figures) {
        self.pieces.push((span.start.clone(), piece.roles.read));
        self.figures.push(content);
        self.content = self.content.plus(content);
        self.sampled_mean.get_or_insert(piece.sampling.mean);
    }

    fn append(&mut self, mut other: Self) {
        self.pieces.append(&mut other.pieces);
        self.figures.append(&mut other.figures);
        self.content = self.content.plus(other.content);
        self.buckets += other.buckets;
        self.sampled_mean = self.sampled_mean.or(other.sampled_mean);
    }

    fn into_join(self, place: &Place) -> Join {
        let mean = self.content.bytes.checked_div(self.content.rows);
        let mean = mean.or(self.sampled_mean).unwrap_or(1);
        Join {
            pieces: self.pieces,
            sampling: place.pieced.next_sampling(mean),
            figures: self.figures,
        }
    }
}

#[cfg(feature = "testing")]
impl crate::Partition {
    /// Joins the key ranges of `count` adjacent buckets, from the bucket at the index `first`, whatever they contain.
    /// Both numbers are taken modulo the number of buckets. Does nothing if a split or a join is under way.
    ///
    /// # Errors
    /// The range map or the rows cannot be read or written in time.
    pub async fn join_any(&self, first: usize, count: usize) -> Result<()> {
        let (pieces, place) = (&self.pieces, &self.place);
        let deadline = pieces.deadline(MAX_STEP_TIME);
        let (directory, _) = pieces.read_around(place, &Key::new(), deadline).await?;
        let runs = runs_of(&directory);
        if directory.is_being_cut() || !directory.is_whole() {
            return Ok(());
        }
        let taken = runs
            .iter()
            .skip(first % runs.len())
            .take(1 + count % runs.len())
            .flatten();
        let join = Join {
            pieces: taken
                .map(|(span, piece)| (span.start.clone(), piece.roles.read))
                .collect(),
            sampling: place.pieced.sampling,
            figures: Vec::new(),
        };
        let changes = Changes {
            joins: vec![join],
            ..Changes::default()
        };
        pieces
            .split(place, &Key::new(), directory, changes)
            .await
            .map(drop)
    }
}

impl Group {
    /// Returns whether a run can be added. The end of a retention step divides groups, because the retention bound
    /// is raised only to edges between buckets.
    fn has_room(&self, run: &Run, size: BucketSize, steps: &[(i64, Key)]) -> bool {
        let Some((first, _)) = self.pieces.first() else {
            return true;
        };
        let span = Span {
            start: first.start.clone(),
            end: run.pieces.last().and_then(|(span, _)| span.end.clone()),
        };
        let divides = |(_, edge): &(i64, Key)| span.start < *edge && span.has(edge);
        self.pieces.len() + run.pieces.len() <= MAX_JOINED_PIECES
            && is_part_of(size, self.content.plus(run.content))
            && !steps.iter().any(divides)
    }

    /// Returns whether rows may be moved to the new bucket of this group. A bucket that is only replaced may be full.
    fn fits(&self, size: BucketSize, content: Figures) -> bool {
        is_part_of(size, content) || (self.buckets == 1 && !size.is_exceeded(content))
    }

    fn add(&mut self, run: Run) {
        self.content = self.content.plus(run.content);
        self.buckets += 1;
        self.pieces.extend(run.pieces);
    }
}

/// Returns the key ranges of a window by bucket: adjacent ranges that are read in one bucket together.
fn runs_of(directory: &Directory) -> Vec<Vec<(Span, Piece)>> {
    let mut runs: Vec<Vec<(Span, Piece)>> = Vec::new();
    for (span, piece) in directory.spans() {
        let read = piece.roles.read;
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|(_, last)| last.roles.read == read) => {
                run.push((span, piece.clone()));
            }
            _ => runs.push(vec![(span, piece.clone())]),
        }
    }
    runs
}

/// Returns whether the window shows all ranges of the bucket of these ranges.
fn is_whole(directory: &Directory, pieces: &[(Span, Piece)]) -> bool {
    let first = directory.pieces.first().map(|piece| &piece.start);
    let begins_before = |(span, _): &(Span, Piece)| Some(&span.start) == first && !span.start.is_empty();
    let ends_behind = |(span, _): &(Span, Piece)| span.end.is_some() && span.end == directory.end;
    !pieces.iter().any(begins_before) && !pieces.iter().any(ends_behind)
}

fn span_of_window(directory: &Directory) -> Span {
    Span {
        start: directory
            .pieces
            .first()
            .map(|piece| piece.start.clone())
            .unwrap_or_default(),
        end: directory.end.clone(),
    }
}

/// Returns whether rows fit into a bucket with room for more.
fn is_part_of(size: BucketSize, content: Figures) -> bool {
    match size {
        BucketSize::Bytes(bytes) => content.bytes <= bytes / JOINED_PART,
        BucketSize::Rows(rows) => content.rows <= rows / JOINED_PART,
    }
}

/// Returns whether a page may show a reason for a join: several buckets, or tombstones.
pub(crate) fn may_need_joins(read: &RowsRead) -> bool {
    read.tombstones > 0 || read.buckets.asked.len() >= MIN_SPARSE_BUCKETS
}

/// Returns whether a page read so few rows that some of its buckets can be joined: on average, two adjacent buckets fit
/// into one.
fn has_few_rows(pieced: &PiecedTable, buckets: usize, read: &RowsRead) -> bool {
    // The first bucket was read in part.
    let pairs = ((buckets - 1) / 2).max(1) as u64;
    let content = Figures {
        rows: (read.rows.len() as u64).div_ceil(pairs),
        bytes: read.bytes.div_ceil(pairs),
        ..Figures::default()
    };
    is_part_of(pieced.size, content)
}
