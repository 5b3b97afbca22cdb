//! Moves rows from one bucket to another together with the change of the range map, in one transaction.

use std::sync::{Arc, PoisonError};

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice, Table};
use recto_protocol::buckets::{Bucket, Directory, Figures, Key, Piece, Roles, Span};
use recto_store::read::ROW_OVERHEAD_BYTES;
use recto_store::{
    Cas, Mutation, Operation, PartitionCount, PartitionWrite, ReadOptions, Snapshot, Stamp, Store,
};

use super::Transacted;
use super::arrivals::{End, Fill, Trend};
use super::locks::Alone;
use super::plan::Plan;
use super::whole::Whole;
use crate::copying::{clustering_of, put_of, whole_row};
use crate::error::Result;
use crate::limits::{MAX_MOVED_BYTES, MAX_MOVED_ROWS, MAX_STEP_TIME};
use crate::place::{Deadline, Place};
use crate::tables::{BucketSize, mutation};

/// Split under way, from one transaction to the next.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) bucket: Bucket,
    /// Start of the key range of the bucket.
    pub(super) start: Key,
    /// Amount of rows moved so far.
    moved: u64,
    /// New bucket that is being filled. Its key range is adjacent.
    pub(super) part: Option<Bucket>,
    /// Number of new buckets.
    parts: usize,
}

/// Result of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// Further rows have to be moved.
    Some,
    /// Enough rows were moved, or no row can be moved.
    Enough,
}

/// Rows that one transaction moves.
#[derive(Default)]
pub(super) struct Load {
    pub(super) rows: Vec<Mutation>,
    pub(super) count: PartitionCount,
    /// Number of bytes of the rows in a request.
    pub(super) bytes: usize,
    newest: Option<Stamp>,
    /// Keys of the last row and of the row before it.
    pub(super) last: Option<Key>,
    pub(super) last_clustering: Option<Cells>,
    before_last: Option<Key>,
    last_counted: u64,
    /// Edge between the moved rows and the rows that stay. `None`: all rows move.
    pub(super) edge: Option<Key>,
    /// True if enough rows are moved after this transaction.
    is_enough: bool,
    /// True if the new bucket is full after this transaction.
    is_full: bool,
}

/// Row that may be moved.
pub(super) struct Row {
    pub(super) key: Key,
    clustering: Cells,
    /// Number of bytes as the store counts them.
    counted: u64,
    stamp: Stamp,
    pub(super) put: Mutation,
}

/// State that was read while the lock is held.
pub(super) struct Found<'f> {
    pub(super) place: &'f Arc<Place>,
    /// Table as it is stored, including added columns.
    table: Arc<Table>,
    pub(super) snapshot: Arc<dyn Snapshot>,
    pub(super) whole: Arc<Whole>,
    pub(super) span: Span,
    pub(super) piece: Piece,
    /// Content of the bucket, and of the new bucket that is being filled.
    pub(super) counts: [PartitionCount; 2],
    /// Key range of the new bucket, if there is one.
    pub(super) part: Option<Piece>,
}

impl Found<'_> {
    /// Returns a key range that is adjacent to this one, or replaces it.
    pub(super) fn piece_of(&self, start: &Key, bucket: Bucket, count: PartitionCount) -> Piece {
        Piece {
            start: start.clone(),
            roles: Roles::of(bucket),
            sampling: self.piece.sampling,
            next_sampling: None,
            figures: Some(Figures {
                rows: count.rows,
                bytes: count.bytes,
                ..Figures::default()
            }),
        }
    }

    /// Returns the rows of the bucket, beginning at an end. `behind`: only the rows behind this one.
    pub(super) fn slice(&self, end: End, behind: Option<&Cells>) -> Result<Slice> {
        let (mut from, mut to) = self.place.pieced.bounds(&self.span)?;
        match (behind, end) {
            (None, _) => {}
            (Some(row), End::First) => from = Bound::After(row.clone()),
            (Some(row), End::Last) => to = Bound::Before(row.clone()),
        }
        Ok(Slice {
            table: Arc::clone(&self.table),
            partition: self.place.bucket_partition(self.piece.roles.read),
            from,
            to,
            direction: match end {
                End::First => ReadDirection::Forward,
                End::Last => ReadDirection::Backward,
            },
            limit: MAX_MOVED_ROWS,
        })
    }
}

impl Row {
    pub(super) fn new(
        found: &Found<'_>,
        row: RowRef<'_>,
        stamp: Stamp,
        ends_in_seconds: Option<u32>,
    ) -> Result<Self> {
        let (clustering, cells) = whole_row(&found.table, row, stamp)?;
        let counted = (clustering.byte_len() + cells.byte_len()) as u64 + ROW_OVERHEAD_BYTES;
        Ok(Self {
            key: found.place.pieced.key(clustering.as_row())?,
            put: put_of(clustering.clone(), cells, stamp, ends_in_seconds),
            clustering,
            counted,
            stamp,
        })
    }
}

impl Load {
    /// Returns whether a row moves in this transaction. The first row always moves.
    fn takes(&mut self, row: &Row, found: &mut Found<'_>, plan: &Plan, way: &Way, budget: usize) -> bool {
        let size = found.place.pieced.size;
        let gone = size.of(self.count);
        let is_full = |found: &Found<'_>| {
            let number = way.parts.saturating_sub(usize::from(found.part.is_some()));
            let there = size.of(found.counts[1]).saturating_add(gone);
            there > 0 && there + size.of_row(row.counted) > plan.part(number)
        };
        if self.rows.is_empty() && is_full(found) {
            // Begin another new bucket.
            found.part = None;
            found.counts[1] = PartitionCount::default();
        }
        if self.rows.is_empty() {
            return true;
        }
        self.is_enough = plan.is_enough(way.moved.saturating_add(gone), &row.key);
        self.is_full = is_full(found);
        let is_heavy = self.bytes + row.put.byte_len() > budget;
        !(self.is_enough || self.is_full || is_heavy)
    }

    pub(super) fn push(&mut self, row: Row) {
        self.bytes += row.put.byte_len();
        self.count.rows += 1;
        self.count.bytes += row.counted;
        self.newest = self.newest.max(Some(row.stamp));
        self.before_last = self.last.replace(row.key);
        self.last_clustering = Some(row.clustering);
        self.last_counted = row.counted;
        self.rows.push(row.put);
    }

    /// Adjusts a load that has all readable rows. Keeps one row in the bucket, unless the bucket also has expired rows,
    /// which move with the others. Returns `None` if there is only one row.
    fn without_last(mut self, found: &Found<'_>, end: End) -> Option<Self> {
        if self.count.rows < found.counts[0].rows {
            return Some(self);
        }
        self.edge = match end {
            End::First => self.last.take(),
            End::Last => self.before_last.take(),
        };
        self.rows.pop();
        self.count.rows -= 1;
        self.count.bytes -= self.last_counted;
        self.is_enough = true;
        (!self.rows.is_empty() && self.edge.is_some()).then_some(self)
    }
}

impl Way {
    pub(super) fn new(bucket: Bucket, start: Key) -> Self {
        Self {
            bucket,
            start,
            moved: 0,
            part: None,
            parts: 0,
        }
    }

    pub(super) fn has_moved(&self) -> bool {
        self.parts > 0
    }
}

impl Transacted {
    /// Moves the rows of one transaction.
    ///
    /// # Errors
    /// Rows cannot be read or written in time. Either nothing or everything has changed.
    pub(super) async fn step(
        &self,
        place: &Arc<Place>,
        plan: &mut Plan,
        trend: Option<&Trend>,
        way: &mut Way,
    ) -> Result<Moved> {
        self.make().await?;
        let deadline = self.deadline(MAX_STEP_TIME);
        let mut alone = self.alone(place, deadline).await?;
        let Some(mut found) = self.look(place, plan, way, deadline).await? else {
            return Ok(Moved::Enough);
        };
        if !way.has_moved() {
            // Plan again by the content under the lock. Otherwise, rows that arrived since would
            // form a tiny bucket next to a full one.
            *plan = Plan::new(place.pieced.size, found.counts[0], trend.cloned());
        }
        let Some(load) = self.load(&mut found, plan, way, deadline).await? else {
            return Ok(Moved::Enough);
        };
        let part = found.part.as_ref().map(|part| part.roles.read);
        let part = part.unwrap_or(found.whole.next_bucket);
        let amount = place.pieced.size.of(load.count);
        let bytes = load.count.bytes;
        let (is_enough, is_full, edge) = (load.is_enough, load.is_full, load.edge.clone());
        self.transact(&mut alone, &found, plan, load, part, (deadline, false))
            .await?;
        self.counters.moved(bytes);
        way.moved = way.moved.saturating_add(amount);
        way.parts += usize::from(way.part != Some(part));
        way.part = (!is_full).then_some(part);
        match (plan.end, edge) {
            (_, None) => return Ok(Moved::Enough),
            (End::First, Some(edge)) => way.start = edge,
            (End::Last, Some(_)) => {}
        }
        Ok(if is_enough { Moved::Enough } else { Moved::Some })
    }

    /// Returns the state of the bucket, or `None` if the bucket no longer exists.
    pub(super) async fn look<'f>(
        &self,
        place: &'f Arc<Place>,
        plan: &Plan,
        way: &Way,
        deadline: Deadline,
    ) -> Result<Option<Found<'f>>> {
        let whole = self.entry(place, deadline).await?.whole;
        let Some((span, piece)) = whole.piece_at(&way.start) else {
            return Ok(None);
        };
        if piece.roles.read != way.bucket {
            return Ok(None);
        }
        let beside = match (plan.end, &span.end) {
            (End::First, _) => whole.piece_before(&span.start),
            (End::Last, Some(end)) => whole.piece_at(end),
            (End::Last, None) => None,
        };
        let part = beside.map(|(_, piece)| piece);
        let part = part.filter(|piece| way.part == Some(piece.roles.read));
        let table = stored(&*self.store, &place.pieced.table).await?;
        let snapshot = self.store.snapshot()?;
        let buckets = [Some(way.bucket), part.as_ref().map(|part| part.roles.read)];
        let partitions: Vec<Cells> = buckets
            .into_iter()
            .flatten()
            .map(|bucket| place.bucket_partition(bucket))
            .collect();
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            ..ReadOptions::default()
        };
        let counts = snapshot.count_partitions(&table, &partitions, &options).await?;
        let count = |index: usize| counts.get(index).copied().unwrap_or_default();
        Ok(Some(Found {
            place,
            table,
            snapshot,
            whole,
            span,
            piece,
            counts: [count(0), count(1)],
            part,
        }))
    }

    /// Returns the maximum number of bytes that one transaction moves.
    pub(super) fn moved_at_once(&self) -> usize {
        let limits = self.store.limits();
        MAX_MOVED_BYTES
            .min(limits.batch_bytes / 2)
            .min(limits.mutation_bytes / 2)
    }

    /// Returns the rows to move next, or `None` if no row can be moved.
    async fn load(
        &self,
        found: &mut Found<'_>,
        plan: &Plan,
        way: &Way,
        deadline: Deadline,
    ) -> Result<Option<Load>> {
        let budget = self.moved_at_once();
        let mut options = ReadOptions {
            timeout: self.request_time(deadline)?,
            stamps: true,
            max_bytes: budget as u64,
            ..ReadOptions::default()
        };
        let mut slice = found.slice(plan.end, None)?;
        // Do not read more rows than fit into a small bucket.
        match found.place.pieced.size {
            BucketSize::Bytes(most) => options.max_bytes = options.max_bytes.min(most),
            BucketSize::Rows(most) => {
                slice.limit = slice
                    .limit
                    .min(u32::try_from(most.saturating_add(1)).unwrap_or(u32::MAX));
            }
        }
        let read = found.snapshot.slice(&slice, &options).await?;
        let mut load = Load::default();
        let times = read.stamps.iter().zip(&read.ends_in_seconds);
        for (row, (stamp, ends)) in read.rows.iter().zip(times) {
            let row = Row::new(found, row, Stamp(*stamp), *ends)?;
            if load.takes(&row, found, plan, way, budget) {
                load.push(row);
                continue;
            }
            let next = match plan.end {
                End::First => Some(row.key),
                End::Last => None,
            };
            load.edge = next.or_else(|| load.last.take());
            return Ok(Some(load));
        }
        // All rows that were read move, and there may be more.
        let behind = match &load.last_clustering {
            None => return Ok(None),
            Some(_) if read.exhausted => None,
            Some(last) => self.key_behind(found, plan.end, last, deadline).await?,
        };
        let behind = match plan.end {
            End::First => behind,
            End::Last => behind.and(load.last.clone()),
        };
        load.edge = behind;
        Ok(if load.edge.is_some() {
            Some(load)
        } else {
            load.without_last(found, plan.end)
        })
    }

    /// Returns the key of the row after `last`, seen from `end`. `None`: no row follows.
    pub(super) async fn key_behind(
        &self,
        found: &Found<'_>,
        end: End,
        last: &Cells,
        deadline: Deadline,
    ) -> Result<Option<Key>> {
        let slice = Slice {
            limit: 1,
            ..found.slice(end, Some(last))?
        };
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            ..ReadOptions::default()
        };
        let read = found.snapshot.slice(&slice, &options).await?;
        let row = read.rows.iter().next();
        row.map(|row| {
            let clustering = clustering_of(&found.table, row);
            found.place.pieced.key(clustering.as_row())
        })
        .transpose()
    }

    /// Moves rows into a bucket.
    pub(super) async fn transact(
        &self,
        alone: &mut Alone,
        found: &Found<'_>,
        plan: &Plan,
        load: Load,
        part: Bucket,
        until: (Deadline, bool),
    ) -> Result<()> {
        let counts = counts_after(found, load.count, load.edge.is_none());
        let (whole, cas) = self.changed(found, plan, &load, part, counts);
        let plain = self.writes(found, plan, load, part)?;
        self.commit(alone, found.place, whole, cas, plain, until).await?;
        self.counted(found, part, counts);
        Ok(())
    }

    /// Returns the range map after the move, and the write that stores it.
    fn changed(
        &self,
        found: &Found<'_>,
        plan: &Plan,
        load: &Load,
        part: Bucket,
        counts: [PartitionCount; 2],
    ) -> (Whole, Cas) {
        let piece = |start: &Key, bucket: Bucket, count: PartitionCount| found.piece_of(start, bucket, count);
        let [stays, goes] = counts;
        let bucket = found.piece.roles.read;
        // The key range that is being filled is merged with the key range of the moved rows.
        let filled = found.part.as_ref().map(|part| part.start.clone());
        let start = match plan.end {
            End::First => filled.as_ref().unwrap_or(&found.span.start),
            End::Last => &found.span.start,
        };
        let end = match (plan.end, &filled) {
            (End::Last, Some(_)) => found
                .span
                .end
                .as_ref()
                .and_then(|end| found.whole.piece_at(end))
                .and_then(|(span, _)| span.end),
            _ => found.span.end.clone(),
        };
        let put = match (plan.end, &load.edge) {
            (_, None) => vec![piece(start, part, goes)],
            (End::First, Some(edge)) => vec![piece(start, part, goes), piece(edge, bucket, stays)],
            (End::Last, Some(edge)) => vec![piece(start, bucket, stays), piece(edge, part, goes)],
        };
        let shared = Directory {
            version: found.whole.version + 1,
            next_bucket: Bucket(found.whole.next_bucket.0.max(part.0 + 1)),
            ..found.whole.shared()
        };
        let before = [Some(&found.span.start), filled.as_ref()];
        let is_gone = |start: &&Key| put.iter().all(|piece| piece.start != **start);
        let gone: Vec<Key> = before.into_iter().flatten().filter(is_gone).cloned().collect();
        let pieces: Vec<&Piece> = put.iter().collect();
        let cas = self
            .tables
            .put(found.place, found.whole.version, &shared, &pieces, &gone);
        let start = start.clone();
        (found.whole.with(&shared, &start, end.as_ref(), put), cas)
    }

    /// Returns the writes that put the rows into their new bucket and delete them in the old one.
    fn writes(
        &self,
        found: &Found<'_>,
        plan: &Plan,
        load: Load,
        part: Bucket,
    ) -> Result<Vec<PartitionWrite>> {
        let (place, pieced) = (found.place, &found.place.pieced);
        let span = match (plan.end, load.edge) {
            (_, None) => found.span.clone(),
            (End::First, edge) => Span {
                start: found.span.start.clone(),
                end: edge,
            },
            (End::Last, Some(start)) => Span {
                start,
                end: found.span.end.clone(),
            },
        };
        let (from, to) = pieced.bounds(&span)?;
        // No earlier write has a newer timestamp, including nulls and expired cells, and no later write goes to these
        // keys.
        let stamp = load.newest.max(Some(self.newest())).unwrap_or(Stamp(0));
        let range = mutation(Operation::DeleteRange { from, to }, stamp, None);
        let write = |bucket, mutations| PartitionWrite {
            table: Arc::clone(&found.table),
            partition: place.bucket_partition(bucket),
            mutations,
        };
        let mut writes = vec![write(part, load.rows), write(found.piece.roles.read, vec![range])];
        if found.whole.version == 0 {
            let root = pieced.mark_root(&place.partition, stamp);
            writes[1].mutations.extend(root.mutations);
        }
        Ok(writes)
    }

    /// Returns the newest timestamp of all writes so far.
    pub(super) fn newest(&self) -> Stamp {
        self.store.newest_stamp().unwrap_or(Stamp(0))
    }

    /// Records the new content of both buckets.
    fn counted(&self, found: &Found<'_>, part: Bucket, counts: [PartitionCount; 2]) {
        let Some(entry) = self.known.find(&found.place.id) else {
            return;
        };
        let mut fills = entry.fills.lock().unwrap_or_else(PoisonError::into_inner);
        let heir = fills.get(&found.piece.roles.read).map(Fill::heir);
        let buckets = [found.piece.roles.read, part];
        for (bucket, count) in buckets.into_iter().zip(counts) {
            let fill = fills
                .entry(bucket)
                .or_insert_with(|| heir.clone().unwrap_or_default());
            fill.begin_count();
            fill.counted(count);
        }
        if counts[0].rows == 0 {
            fills.remove(&found.piece.roles.read);
        }
    }
}

/// Returns the content of both buckets after a move.
fn counts_after(found: &Found<'_>, moved: PartitionCount, is_all: bool) -> [PartitionCount; 2] {
    let [stays, goes] = found.counts;
    let stays = if is_all {
        PartitionCount::default()
    } else {
        PartitionCount {
            rows: stays.rows.saturating_sub(moved.rows),
            bytes: stays.bytes.saturating_sub(moved.bytes),
        }
    };
    let goes = PartitionCount {
        rows: goes.rows + moved.rows,
        bytes: goes.bytes + moved.bytes,
    };
    [stays, goes]
}

/// Returns a table as it is stored, including added columns, so that rows are moved with all columns.
pub(super) async fn stored(store: &dyn Store, table: &Arc<Table>) -> Result<Arc<Table>> {
    let tables = store.list_tables().await?;
    let found = tables.into_iter().find(|there| there.name() == table.name());
    Ok(found.map_or_else(|| Arc::clone(table), Arc::new))
}
