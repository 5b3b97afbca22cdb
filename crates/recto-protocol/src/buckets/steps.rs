//! Effect of each step of a split on a range map (which bucket holds which keys). In the table, b
//! is the previous bucket of a key range, and n is its new bucket.
//!
//! | step | receives writes | receives deletions | is read |
//! |---|---|---|---|
//! | the range is in b | b | b | b |
//! | 1. n also receives deletions; wait | b | b n | b |
//! | 2. n also receives writes; wait | b n | b n | b |
//! | 3. the rows of b are copied to n | b n | b n | b |
//! | 4. n is read; wait | b n | b n | n |
//! | 5. b receives no writes any more | n | b n | n |
//! | 6. later: the remaining rows of b are copied to n, and deleted in b | n | n | n |
//!
//! The roles of a range's buckets determine the next step, so any process can continue. If a range
//! is split again before a split is done, several buckets can have one role. Then the newest of
//! these buckets decides the next step.
//!
//! A join moves adjacent ranges to one new bucket. Step 1 gives all of the ranges the same new
//! bucket n. Each range then goes through steps 2 to 6 independently, as in a split. When all
//! ranges are done, [`Clearing`] removes the edges between them.
//!
//! The *destination* of a range is the bucket that is read when its splits and joins are done.
//! Adjacent ranges with one destination are a *run*. Splits and joins ensure that each bucket is
//! the destination of only one run.
//!
//! [`Clearing`]: crate::buckets::Clearing

use crate::buckets::clearing::Cleared;
use crate::buckets::directory::{Directory, Figures, Piece, Roles, Run, Span};
use crate::buckets::limits::{MAX_CUT_EDGES, MAX_FURTHER_BUCKETS, MAX_JOINED_PIECES, Protocol};
use crate::buckets::names::{Bucket, Key};
use crate::buckets::rules::Rule;
use crate::buckets::sampling::Sampling;

/// Requested split of a bucket: the keys at which to split, and parameters of the new buckets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Keys at which the bucket is split, ascending. Each is the first key of a part.
    pub edges: Vec<Key>,
    /// Part (first or last) that stays in the bucket. The other parts get new buckets.
    pub stays: Stays,
    /// Sampling parameters of the new buckets.
    pub sampling: Sampling,
    /// Estimated content of each part, in the order of the parts; `None`: unknown. An empty list:
    /// the content of no part is known.
    pub figures: Vec<Option<Figures>>,
}

/// Requested join of adjacent key ranges, whose rows are moved to one new bucket. A join of one
/// range moves its rows to a bucket without tombstones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Join {
    /// Start, and bucket that is read, of each range when the join was decided, in the order of the
    /// keys. At most [`MAX_JOINED_PIECES`] ranges.
    pub pieces: Vec<(Key, Bucket)>,
    /// Sampling parameters of the new bucket.
    pub sampling: Sampling,
    /// Content of each range, in the order of the ranges. An empty list: the content of no range is known.
    pub figures: Vec<Figures>,
}

impl Join {
    /// Returns whether step 1 of the join fits into one conditional write. A larger join is not
    /// made, because after a part of step 1 the ranges would have different destination buckets.
    pub(crate) fn fits(&self, room: Room) -> bool {
        let extents = self.pieces.iter().map(|(start, _)| (1, start.len()));
        self.pieces.len() <= MAX_JOINED_PIECES && room.fitting(extents) == self.pieces.len()
    }
}

/// Size limits of one conditional write of a range map (which bucket holds which keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Room {
    /// Maximum number of ranges that one conditional write creates or changes.
    pub pieces: usize,
    /// Maximum bytes of the ranges that one conditional write creates or changes.
    pub bytes: usize,
}

/// Approximate bytes of a range in a conditional write, without its start key.
const PIECE_BYTES: usize = 256;

impl Default for Room {
    /// Returns the limits for a store that accepts writes of any size.
    fn default() -> Self {
        Self {
            pieces: MAX_CUT_EDGES,
            bytes: usize::MAX,
        }
    }
}

impl Room {
    /// Returns how many of the first items together fit into one conditional write. Each item has a
    /// number of ranges, and the bytes of their start keys. The first item always counts as
    /// fitting.
    pub(crate) fn fitting(self, extents: impl IntoIterator<Item = (usize, usize)>) -> usize {
        let (mut pieces, mut bytes) = (0_usize, 0_usize);
        let fits = |(more, edges): &(usize, usize)| {
            let is_first = pieces == 0;
            pieces += more;
            bytes += more * PIECE_BYTES + edges;
            is_first || (pieces <= self.pieces && bytes <= self.bytes)
        };
        extents.into_iter().take_while(fits).count()
    }
}

impl Cut {
    /// Returns the number of ranges that the split adds, and the bytes of their start keys.
    pub(crate) fn extent(&self) -> (usize, usize) {
        (self.edges.len(), self.edges.iter().map(Vec::len).sum())
    }

    /// Divides the split into several splits that each fit into one conditional write. They are
    /// made one after the other. The range that a split divides is never being moved by an earlier
    /// one.
    pub(crate) fn in_parts(mut self, room: Room) -> Vec<Self> {
        let mut parts = Vec::new();
        let extent = |edge: &Key| (1, edge.len());
        loop {
            let fitting = match self.stays {
                Stays::First => room.fitting(self.edges.iter().rev().map(extent)),
                Stays::Last => room.fitting(self.edges.iter().map(extent)),
            };
            if fitting == self.edges.len() {
                parts.push(self);
                return parts;
            }
            parts.push(self.split_off(fitting));
        }
    }

    /// Removes `count` edges from the split, and returns them as another split. The removed edges
    /// are those furthest from the part that stays in its bucket.
    fn split_off(&mut self, count: usize) -> Self {
        let mut part = self.clone();
        let is_known = self.figures.len() == self.edges.len() + 1;
        match self.stays {
            Stays::First => {
                let at = self.edges.len() - count;
                part.edges = self.edges.split_off(at);
                if is_known {
                    part.figures = self.figures.split_off(at + 1);
                    part.figures.insert(0, None);
                }
            }
            Stays::Last => {
                part.edges = self.edges.drain(..count).collect();
                if is_known {
                    part.figures = self.figures.drain(..count).collect();
                    part.figures.push(None);
                }
            }
        }
        part
    }
}

/// Part of a range that stays in its bucket when the range is split. Each other part gets a new
/// bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stays {
    /// The first part stays: new rows have greater keys, or their keys are unpredictable.
    First,
    /// The last part stays: new rows have smaller keys.
    Last,
}

/// Rows that a split or a join copies from one bucket to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Copying {
    /// Bucket to copy from.
    pub from: Bucket,
    /// Bucket to copy to. Each row and its sample are copied with their timestamps and remaining
    /// lifetimes.
    pub to: Bucket,
    /// Span of the keys to copy.
    pub span: Span,
}

/// Key range, and the roles of its buckets, when a wait for the expiry of cached range maps began.
/// After the wait, no process uses an earlier state of the range. Lists are in the order of keys.
pub(crate) type Ripe = (Span, Roles);

impl Directory {
    /// Returns the range map after step 1 of a split: new buckets receive deletions. Returns `None`
    /// if there is nothing to split: each edge already separates two buckets, or this window does
    /// not contain the edges.
    ///
    /// The split divides runs (adjacent ranges with one destination bucket) as if each run were one
    /// range.
    pub fn cut(&self, cut: &Cut, protocol: Protocol) -> Option<Self> {
        let mut next = self.next();
        let runs = if protocol.rules.keeps(Rule::SplitByRuns) {
            self.runs()
        } else {
            (0..self.pieces.len()).map(|index| self.run_at(index)).collect()
        };
        for run in runs {
            next.put_run(self, &run, cut, protocol);
        }
        next.life_ms = protocol.short_life_ms.min(self.life_ms);
        (next.next_bucket > self.next_bucket).then_some(next)
    }

    /// Adds the ranges of `run` (adjacent ranges with one destination bucket) of the range map
    /// `before`, after step 1 of the split `cut`.
    fn put_run(&mut self, before: &Self, run: &Run, cut: &Cut, protocol: Protocol) {
        let pieces = &before.pieces[run.pieces.clone()];
        let end = before.pieces.get(run.pieces.end).map(|next| &next.start);
        let span = Span {
            start: pieces[0].start.clone(),
            end: end.or(before.end.as_ref()).cloned(),
        };
        let is_inside = |edge: &&Key| span.start < **edge && span.has(edge);
        let inside: Vec<&Key> = cut.edges.iter().filter(is_inside).collect();
        let have_room = pieces.iter().all(|piece| piece.roles.have_room());
        let staying = run.staying_part(cut.stays, inside.len(), protocol);
        let Some(staying) = staying.filter(|_| !inside.is_empty() && have_room) else {
            self.pieces.extend_from_slice(pieces);
            return;
        };
        // `cut.figures` has one item for each part of the split bucket. If the run has several
        // ranges, the items cannot be assigned to the ranges, so the contents are recorded as
        // unknown.
        let is_known = pieces.len() == 1 && cut.figures.len() == inside.len() + 1;
        let mut buckets: Vec<Option<Bucket>> = vec![None; inside.len() + 1];
        for (piece, next) in pieces.iter().zip(pieces[1..].iter().map(Some).chain([None])) {
            let ends_behind = |edge: &&&Key| next.is_none_or(|next| ***edge < next.start);
            let within = inside
                .iter()
                .filter(|edge| piece.start < ***edge)
                .filter(ends_behind);
            for start in std::iter::once(&piece.start).chain(within.copied()) {
                let part = inside.partition_point(|edge| *edge <= start);
                let mut one = Piece {
                    start: start.clone(),
                    figures: if is_known { cut.figures[part] } else { None },
                    ..piece.clone()
                };
                if part != staying {
                    let bucket = *buckets[part].get_or_insert_with(|| self.new_bucket());
                    one.gives_bucket(bucket, cut.sampling, protocol);
                }
                self.pieces.push(one);
            }
        }
    }

    /// Returns the range map after step 1 of a join: one new bucket receives deletions of all
    /// ranges. Returns `None` if the ranges changed since the join was decided, or cannot be
    /// joined. So a repeated join changes nothing.
    pub fn join(&self, join: &Join, protocol: Protocol) -> Option<Self> {
        let keeps = |rule| protocol.rules.keeps(rule);
        let (first, _) = join.pieces.first()?;
        let from = self.pieces.iter().position(|piece| piece.start == *first)?;
        let to = from + join.pieces.len();
        let taken = self.pieces.get(from..to)?;
        let are_adjacent = taken
            .iter()
            .zip(&join.pieces)
            .all(|(piece, (start, _))| piece.start == *start);
        let are_as_decided = taken
            .iter()
            .zip(&join.pieces)
            .all(|(piece, (_, read))| piece.roles.read == *read);
        let are_at_rest = taken.iter().all(|piece| piece.roles.is_at_rest());
        let have_room = taken.iter().all(|piece| piece.roles.have_room());
        let are_kept = !self.spans().skip(from).take(taken.len()).any(|(span, _)| {
            let floor = self.floor.as_ref();
            floor.is_some_and(|floor| floor.hides_all(&span))
        });
        let are_whole_runs = self.runs().iter().all(|run| {
            let is_outside = run.pieces.end <= from || to <= run.pieces.start;
            let is_inside = from <= run.pieces.start && run.pieces.end <= to;
            is_outside || (is_inside && run.is_whole())
        });
        let is_possible = are_adjacent
            && have_room
            && (are_as_decided || !keeps(Rule::JoinedAsDecided))
            && (are_at_rest || !keeps(Rule::JoinedAtRest))
            && (are_kept || !keeps(Rule::JoinedAboveFloor))
            && (are_whole_runs || !keeps(Rule::WholeRuns));
        if !is_possible {
            return None;
        }
        let mut next = self.next();
        next.pieces.clone_from(&self.pieces);
        let bucket = next.new_bucket();
        for (index, piece) in next.pieces[from..to].iter_mut().enumerate() {
            piece.gives_bucket(bucket, join.sampling, protocol);
            piece.figures = join.figures.get(index).copied();
        }
        next.life_ms = protocol.short_life_ms.min(self.life_ms);
        Some(next)
    }

    /// Returns the range map without the edges between joined ranges, and the starts of the removed
    /// ranges; `None` if there is no such edge. An edge is removed if the ranges on both sides have
    /// the same bucket and sampling, and no other buckets.
    pub(crate) fn without_inner_edges(&self, protocol: Protocol) -> Option<(Self, Vec<Key>)> {
        let is_last = protocol.rules.keeps(Rule::EdgesGoLast);
        let is_done = |roles: &Roles| roles.is_at_rest() && (roles.old.is_empty() || !is_last);
        let (mut next, mut gone) = (self.next(), Vec::new());
        for piece in &self.pieces {
            let before = next.pieces.last_mut().filter(|before| {
                before.roles.read == piece.roles.read
                    && before.sampling == piece.sampling
                    && is_done(&before.roles)
                    && is_done(&piece.roles)
            });
            let Some(before) = before else {
                next.pieces.push(piece.clone());
                continue;
            };
            before.roles.old.extend(&piece.roles.old);
            before.figures = before
                .figures
                .zip(piece.figures)
                .map(|(one, other)| one.plus(other));
            gone.push(piece.start.clone());
        }
        (!gone.is_empty()).then_some((next, gone))
    }

    /// Returns the range map after step 1 of several splits in one write; `None` if there is
    /// nothing to split.
    pub(crate) fn cut_all(&self, cuts: &[Cut], protocol: Protocol) -> Option<Self> {
        let mut next: Option<Self> = None;
        for cut in cuts {
            let before = next.as_ref().unwrap_or(self);
            if let Some(after) = before.cut(cut, protocol) {
                next = Some(after);
            }
        }
        // One conditional write puts all splits, so they increase the version by only 1.
        next.map(|next| Self {
            version: self.version + 1,
            ..next
        })
    }

    /// Returns the id of a new bucket, and increases the next id.
    fn new_bucket(&mut self) -> Bucket {
        let bucket = self.next_bucket;
        self.next_bucket = Bucket(bucket.0.saturating_add(1));
        bucket
    }

    /// Returns the range map after the next step (2, 4 or 5) of each range in `ripe` that has not
    /// changed since; `None` if there is no such range. Only as many ranges advance as fit into one
    /// conditional write. `waited` is true if the process has waited for this version, so that no
    /// older cached range map is in use.
    pub(crate) fn advanced(
        &self,
        ripe: &[Ripe],
        waited: bool,
        room: Room,
        protocol: Protocol,
    ) -> Option<Self> {
        let is_ripe = |(span, piece): &(Span, &Piece)| {
            let at = ripe.partition_point(|(of, _)| of.start < span.start);
            let is_it = |(of, roles): &Ripe| of == span && *roles == piece.roles;
            !piece.roles.is_at_rest() && ripe.get(at).is_some_and(is_it)
        };
        let indexes: Vec<usize> = (0..)
            .zip(self.spans())
            .filter(|(_, one)| is_ripe(one))
            .map(|(index, _)| index)
            .collect();
        let extents = indexes.iter().map(|index| (1, self.pieces[*index].start.len()));
        let fitting = room.fitting(extents);
        let mut next = self.next();
        next.pieces.clone_from(&self.pieces);
        for index in &indexes[..fitting] {
            next.pieces[*index].advance(protocol);
        }
        if waited {
            next.longest_ms = self.life_ms;
        }
        (fitting > 0).then_some(next)
    }

    /// Returns the ranges that are being split or joined, with the roles of their buckets.
    pub(crate) fn being_cut(&self) -> Vec<Ripe> {
        let pieces = self.spans().filter(|(_, piece)| !piece.roles.is_at_rest());
        pieces.map(|(span, piece)| (span, piece.roles.clone())).collect()
    }

    /// Returns the range map after step 6: the ranges in `pieces` no longer name their cleared
    /// buckets. Returns `None` if all of these ranges have changed since they were found.
    pub(crate) fn cleared(&self, pieces: &[Cleared]) -> Option<Self> {
        let mut next = self.next();
        let mut is_changed = false;
        for (span, piece) in self.spans() {
            let mut piece = piece.clone();
            let is_one = |cleared: &&Cleared| cleared.span == span && cleared.roles == piece.roles;
            if let Some(cleared) = pieces.iter().find(is_one) {
                piece.roles.old.retain(|bucket| !cleared.buckets.contains(bucket));
                is_changed = true;
            }
            next.pieces.push(piece);
        }
        is_changed.then_some(next)
    }

    /// Returns the range map with the long lifetime of cached range maps, because no split is
    /// expected; `None` if the lifetime is already long.
    pub(crate) fn calmed(&self, protocol: Protocol) -> Option<Self> {
        let mut next = self.next();
        next.pieces.clone_from(&self.pieces);
        next.life_ms = protocol.long_life_ms;
        next.longest_ms = protocol.long_life_ms;
        (self.life_ms < protocol.long_life_ms).then_some(next)
    }

    /// Returns a range map (which bucket holds which keys) with the next version, and with no
    /// ranges yet.
    fn next(&self) -> Self {
        Self {
            version: self.version + 1,
            pieces: Vec::new(),
            ..self.clone()
        }
    }
}

/// Returns the rows to copy before these ranges are read in newer buckets.
pub(crate) fn copies(ripe: &[Ripe]) -> Vec<Copying> {
    let copy = |(span, roles): &Ripe| {
        let to = roles.next_read()?;
        Some(Copying {
            from: roles.read,
            to,
            span: span.clone(),
        })
    };
    ripe.iter().filter_map(copy).collect()
}

impl Roles {
    /// Returns whether a key range can get one more bucket. Each bucket passes through several
    /// roles, so the limit on buckets of one role applies to all roles together.
    fn have_room(&self) -> bool {
        self.further().count() + 1 < MAX_FURTHER_BUCKETS
    }
}

impl Run {
    /// Returns the index (from 0) of the part that keeps its bucket if the run is split at this
    /// number of edges. If the window may not show all ranges of the run, the part at that end of
    /// the window must stay, because the ranges outside keep the bucket. Returns `None` if this
    /// applies to the first and the last part.
    fn staying_part(&self, stays: Stays, edges: usize, protocol: Protocol) -> Option<usize> {
        let (first, last) = if protocol.rules.keeps(Rule::WholeRuns) {
            (self.may_begin_before, self.may_end_behind)
        } else {
            (false, false)
        };
        match (first, last, stays) {
            (true, true, _) => None,
            (true, false, _) | (false, false, Stays::First) => Some(0),
            (false, true, _) | (false, false, Stays::Last) => Some(edges),
        }
    }
}

impl Piece {
    /// Adds the new bucket to which the rows of the range will be moved. At first, it receives only
    /// deletions.
    fn gives_bucket(&mut self, bucket: Bucket, sampling: Sampling, protocol: Protocol) {
        if protocol.rules.keeps(Rule::DeletionsFirst) {
            self.roles.deletes.insert(bucket);
        } else {
            self.roles.writes.insert(bucket);
        }
        // If an earlier split or join of the range is under way, keep its sampling parameters: its
        // new bucket is sampled with them.
        self.next_sampling.get_or_insert(sampling);
    }

    fn advance(&mut self, protocol: Protocol) {
        let roles = &mut self.roles;
        // No process still reads the buckets that are older than the bucket that is read now, so
        // they become old: they receive no more writes.
        let read = roles.read;
        let mut left = roles.writes.clone();
        left.retain(|bucket| *bucket < read);
        roles.writes.retain(|bucket| *bucket > read);
        roles.old.append(&mut left);
        if let Some(newest) = roles.writes.pop_last() {
            roles.read = newest;
            if protocol.rules.keeps(Rule::WrittenWhileRead) {
                roles.writes.insert(read);
            } else {
                roles.old.insert(read);
            }
            if let Some(sampling) = self.next_sampling {
                self.sampling = sampling;
            }
        }
        // Every process now sends deletions to the buckets in `deletes`, so these buckets can
        // receive writes too.
        roles.writes.append(&mut roles.deletes);
        let is_last = roles.writes.last().is_none_or(|bucket| *bucket < roles.read);
        if is_last {
            self.next_sampling = None;
        }
    }
}
