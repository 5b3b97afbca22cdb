//! Reads the rows of a slice of a partition from all of its buckets. Executes the actions of
//! `recto_protocol::buckets::Reading`.

use std::sync::Arc;

use futures::future::{join, join_all};
use recto_model::table::ReadDirection;
use recto_model::{RowSet, Slice};
use recto_protocol::buckets::{Directory, DirectoryCopy, Key, ReadAction, ReadEvent, Reading, Span};
use recto_store::{BucketsRead, ReadOptions, RowsRead, Snapshot, StoreError};

use crate::copies::Taken;
use crate::copying::clustering_of;
use crate::directory::Seek;
use crate::error::{PiecesError, Result};
use crate::joins::may_need_joins;
use crate::limits::MAX_PIECES_AT_ONCE;
use crate::place::{Deadline, Partition, PieceStore};
use crate::shards;
use crate::tables::PiecedTable;

/// Rows that were read concurrently with the range map, from the buckets of the last known range
/// map.
///
/// If the new range map names the same buckets, the rows equal those of a read after the range map:
/// a bucket that is no longer read never becomes current again, so the buckets were current during
/// the whole read. The expiry of the range map is checked as usual.
struct Ahead {
    slices: Vec<recto_protocol::buckets::Slice>,
    read: RowsRead,
}

/// Read of a slice of a partition, in progress.
struct Way<'r> {
    partition: Partition,
    snapshot: &'r dyn Snapshot,
    /// Slice of the whole partition, which the read divides by buckets.
    slice: &'r Slice,
    span: Span,
    options: &'r ReadOptions,
    deadline: Deadline,
    /// Start of the slice that was read first, from a bucket.
    first: Option<Key>,
}

impl PieceStore {
    /// Returns the rows of a slice of a partition from all of its buckets, each row once, as
    /// [`Snapshot::slice`] does. `slice.partition` is the partition that a query names, without the
    /// bucket. `snapshot` must return the current state at each read.
    ///
    /// # Errors
    /// The slice cannot be read in time, or is damaged.
    pub async fn slice(
        &self,
        pieced: &Arc<PiecedTable>,
        snapshot: &dyn Snapshot,
        slice: &Slice,
        options: &ReadOptions,
    ) -> Result<RowsRead> {
        let partition = self.partition(pieced, slice.partition.clone())?;
        let mut read = nothing(pieced);
        let Some(span) = pieced.span(&slice.from, &slice.to)? else {
            return Ok(read);
        };
        let deadline = self.deadline(options.timeout);
        let mut way = Way {
            partition,
            snapshot,
            slice,
            span: span.clone(),
            options,
            deadline,
            first: None,
        };
        let (mut rest, mut least) = (Some(span), 1);
        while let Some(span) = rest {
            way.span = span;
            let (window, behind) = way.window(&read, &mut least).await?;
            append(&mut read, window, slice.limit);
            rest = behind.filter(|_| read.exhausted);
        }
        if may_need_joins(&read)
            && let Some(whole) = pieced.span(&slice.from, &slice.to)?
        {
            let place = &way.partition.place;
            let last = read.rows.iter().next_back();
            let last = last.and_then(|row| place.key(&clustering_of(&pieced.table, row)).ok());
            let end = last.clone().filter(|_| !read.exhausted);
            let span = match slice.direction {
                ReadDirection::Forward => Span {
                    start: way.first.unwrap_or(whole.start),
                    end: end.or(whole.end),
                },
                ReadDirection::Backward => Span {
                    start: end.unwrap_or(whole.start),
                    end: whole.end,
                },
            };
            self.note_page(place, (&span, last), &read);
        }
        Ok(read)
    }
}

impl Way<'_> {
    /// Reads the rows of the slice in one window (part) of the range map, and returns the remaining span.
    /// `read` has the rows of the previous windows. `least` is the minimum number of slices to request
    /// concurrently. It grows while slices have no rows.
    async fn window(&mut self, read: &RowsRead, least: &mut usize) -> Result<(RowsRead, Option<Span>)> {
        let pieces = self.partition.pieces.clone();
        let is_backward = self.slice.direction == ReadDirection::Backward;
        let seek = if is_backward {
            Seek::Before(self.span.end.clone())
        } else {
            Seek::At(self.span.start.clone())
        };
        let mut machine = Reading::new(self.span.clone(), is_backward, pieces.protocol);
        let (mut event, mut copy, mut ahead) = (ReadEvent::Begin, None, None);
        let (mut found, mut behind) = (nothing(&self.partition.place.pieced), None);
        let (mut round_trips, mut buckets) = (0, BucketsRead::default());
        loop {
            let taken = match machine.step(event, pieces.clock()) {
                ReadAction::Take => {
                    let (taken, read_beside) = self.take(&seek, read).await?;
                    ahead = read_beside;
                    // The range map and the first rows are read concurrently, so count the round
                    // trips of the longer read.
                    let beside = ahead
                        .as_mut()
                        .map(|ahead| std::mem::take(&mut ahead.read.round_trips));
                    round_trips += taken.requests.max(beside.unwrap_or(0));
                    taken
                }
                ReadAction::Read => {
                    let taken = self.partition.read_copy(&seek, self.deadline).await?;
                    round_trips += taken.requests;
                    taken
                }
                ReadAction::Slices { slices, rest } => {
                    if self.first.is_none() {
                        self.first = slices.first().map(|slice| slice.span.start.clone());
                    }
                    let ahead: Option<Ahead> = ahead.take();
                    let begun = match ahead {
                        Some(ahead) if slices.starts_with(&ahead.slices) => (ahead.read, ahead.slices.len()),
                        ahead => {
                            buckets.add(ahead.map(|ahead| ahead.read.buckets).unwrap_or_default());
                            (nothing(&self.partition.place.pieced), 0)
                        }
                    };
                    let copy = copy.as_ref();
                    let (mut of_slices, count) =
                        self.slices(&slices, copy, read, begun, Some(&mut *least)).await?;
                    round_trips += of_slices.round_trips;
                    buckets.add(std::mem::take(&mut of_slices.buckets));
                    (found, behind) = (of_slices, rest);
                    event = ReadEvent::Read(count);
                    continue;
                }
                ReadAction::Done => {
                    found.round_trips = round_trips;
                    found.statements += buckets.directory_reads;
                    found.buckets = buckets;
                    return Ok((found, behind));
                }
            };
            buckets.directory_reads += taken.requests;
            copy = Some(taken.copy.clone());
            event = ReadEvent::Copy(taken.copy);
        }
    }

    /// Returns a range map. If no valid one is cached, reads rows concurrently with the range map,
    /// from the buckets of the last known range map, and returns these rows, too. Most partitions
    /// were never split, so this guess is usually right.
    async fn take(&self, seek: &Seek, before: &RowsRead) -> Result<(Taken, Option<Ahead>)> {
        if let Some(taken) = self.partition.living(seek) {
            return Ok((taken, None));
        }
        let (pieces, place) = (&self.partition.pieces, &self.partition.place);
        let last = pieces.copies.last(&place.id, seek);
        let absent = || Directory::absent(place.pieced.sampling, pieces.protocol);
        let is_backward = self.slice.direction == ReadDirection::Backward;
        let (mut slices, _) = match &last {
            Some(last) => last.directory().first_slices(&self.span, is_backward),
            None => absent().first_slices(&self.span, is_backward),
        };
        let known = last.map(|last| last.copy);
        let begun = (nothing(&place.pieced), 0);
        let reading = self.slices(&slices, known.as_ref(), before, begun, None);
        let (taken, read) = join(self.partition.take(seek, self.deadline), reading).await;
        // Ignore an error, because the slices are read again when the range map is known.
        let ahead = read.ok().map(|(read, count)| {
            slices.truncate(count);
            Ahead { slices, read }
        });
        Ok((taken?, ahead))
    }

    /// Reads slices in their order until there are enough rows. Returns the rows and the number of slices
    /// that were read. `before` has the rows of earlier windows, and `begun` the rows of the first slices.
    ///
    /// The function requests several slices concurrently if the first slices are known to have too few
    /// rows, or if `least` requires it. `least` doubles after slices without rows. If `least` is `None`,
    /// there is only one round of requests, because the range map arrives next.
    async fn slices(
        &self,
        slices: &[recto_protocol::buckets::Slice],
        copy: Option<&DirectoryCopy>,
        before: &RowsRead,
        begun: (RowsRead, usize),
        mut least: Option<&mut usize>,
    ) -> Result<(RowsRead, usize)> {
        let pieced = &self.partition.place.pieced;
        let (mut read, mut count) = begun;
        while read.exhausted && count < slices.len() {
            let missing = self.slice.limit - (before.rows.len() + read.rows.len()) as u32;
            let bytes = before.bytes + read.bytes;
            if missing == 0 || (bytes >= self.options.max_bytes && bytes > 0) {
                read.exhausted = false;
                break;
            }
            let left = &slices[count..];
            let at_once = side_by_side(pieced, left, copy, missing.into())
                .max(least.as_deref().copied().unwrap_or(1))
                .min(shards::at_once(pieced, MAX_PIECES_AT_ONCE))
                .min(left.len());
            let Some(timeout) = self.partition.pieces.request_time(self.deadline) else {
                return Err(PiecesError::out_of_time(None));
            };
            let options = ReadOptions {
                timeout,
                max_bytes: self.options.max_bytes.saturating_sub(bytes).max(1),
                ..pieced.read_by(self.options)
            };
            let asked: Result<Vec<Slice>> = left[..at_once]
                .iter()
                .map(|one| pieced.slice_of(self.slice, one, missing))
                .collect();
            let asked = asked?;
            let numbers = left[..at_once].iter().map(|one| one.bucket.0);
            read.buckets.asked.extend(numbers);
            let answers = asked
                .iter()
                .map(|one| shards::slice(self.snapshot, pieced, one, &options));
            let answers = join_all(answers).await;
            let (rows, round_trips) = (read.rows.len(), read.round_trips);
            // Concurrent requests take as long as the slowest request. A local store reports 0
            // round trips, which count as one.
            let trips = answers.iter().flatten().map(|answer| answer.round_trips);
            let trips = trips.max().unwrap_or(0).max(1);
            count += self.take_all(&mut read, answers, before)?;
            read.round_trips = round_trips + trips;
            let Some(least) = &mut least else { break };
            **least = if read.rows.len() == rows {
                (**least * 2).min(MAX_PIECES_AT_ONCE)
            } else {
                1
            };
        }
        Ok((read, count))
    }

    /// Appends results until there are enough rows. Returns the number of slices that were used.
    fn take_all(
        &self,
        read: &mut RowsRead,
        answers: Vec<std::result::Result<RowsRead, StoreError>>,
        before: &RowsRead,
    ) -> Result<usize> {
        let limit = self.slice.limit - before.rows.len() as u32;
        let mut count = 0;
        for answer in answers {
            let answer = answer?;
            if read.exhausted {
                count += 1;
                append(read, answer, limit);
            } else {
                read.statements += answer.statements;
            }
        }
        Ok(count)
    }
}

/// Returns the number of slices to request concurrently. All slices except the last one are known to have
/// fewer rows together than are missing. For example, if a page begins near the end of a bucket, the next
/// bucket is requested at the same time.
fn side_by_side(
    pieced: &PiecedTable,
    slices: &[recto_protocol::buckets::Slice],
    copy: Option<&DirectoryCopy>,
    missing: u64,
) -> usize {
    let (mut expected, mut count) = (0_u64, 0);
    for slice in slices.iter().take(MAX_PIECES_AT_ONCE) {
        count += 1;
        let rows = copy.and_then(|copy| rows_of(pieced, copy, &slice.span));
        expected = rows.map_or(u64::MAX, |rows| expected.saturating_add(rows));
        if expected >= missing {
            break;
        }
    }
    count
}

/// Returns the estimated number of rows of a span (range of keys), or `None` if the content of a
/// key range is unknown. A part of a key range counts by its share of the integers or times between
/// the edges of the key range, on the assumption that rows are evenly distributed.
#[expect(clippy::cast_sign_loss, reason = "it is not negative")]
fn rows_of(pieced: &PiecedTable, copy: &DirectoryCopy, span: &Span) -> Option<u64> {
    let mut rows = 0_u64;
    for (of, piece) in copy.directory().spans_of(span) {
        if let Some(common) = of.common(span) {
            let part = part_of(pieced, &of, &common).unwrap_or(1.0);
            // The cast loses nothing: `part` is at most 1, so the product is at most the number of
            // rows of the key range.
            rows = rows.saturating_add((piece.figures?.rows as f64 * part).ceil() as u64);
        }
    }
    Some(rows)
}

/// Returns the fraction of `whole` that `part` covers, or `None` if the edges are not numbers.
fn part_of(pieced: &PiecedTable, whole: &Span, part: &Span) -> Option<f64> {
    if whole == part {
        return Some(1.0);
    }
    let length = |span: &Span| {
        let ends = (
            pieced.position(&span.start)?,
            pieced.position(span.end.as_ref()?)?,
        );
        Some(ends.0.abs_diff(ends.1) as f64)
    };
    let (whole, part) = (length(whole)?, length(part)?);
    (whole > 0.0).then(|| (part / whole).min(1.0))
}

fn nothing(pieced: &PiecedTable) -> RowsRead {
    RowsRead {
        rows: RowSet::new(pieced.table.columns().len()),
        exhausted: true,
        ..RowsRead::default()
    }
}

/// Appends the rows of a later slice, up to `limit` rows in all.
fn append(read: &mut RowsRead, more: RowsRead, limit: u32) {
    let room = (limit as usize).saturating_sub(read.rows.len());
    let fits = more.rows.len() <= room;
    read.exhausted &= more.exhausted && fits;
    if fits && read.rows.is_empty() {
        // Most pages need the rows of only one request, so take these rows without a copy.
        read.rows = more.rows;
    } else {
        let rows = more.rows.iter().take(room);
        rows.for_each(|row| read.rows.push_row(row));
    }
    read.bytes += more.bytes;
    read.round_trips += more.round_trips;
    read.statements += more.statements;
    read.tombstones += more.tombstones;
    read.buckets.add(more.buckets);
    read.stamps.extend(more.stamps.into_iter().take(room));
    read.ends_in_seconds
        .extend(more.ends_in_seconds.into_iter().take(room));
}
