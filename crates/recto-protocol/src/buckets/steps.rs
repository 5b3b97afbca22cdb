//! Effect of each step of a split on a range map. In the table, b is the previous bucket of a range, and n is
//! its new bucket.
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
//! The roles of the buckets determine the next step, so any process that finds them can continue. A range
//! that is split again meanwhile has several buckets in a step. The newest of these buckets counts.

use crate::buckets::clearing::Cleared;
use crate::buckets::directory::{Directory, Figures, Piece, Roles, Span};
use crate::buckets::limits::{MAX_CUT_EDGES, MAX_FURTHER_BUCKETS, Protocol};
use crate::buckets::names::{Bucket, Key};
use crate::buckets::rules::Rule;
use crate::buckets::sampling::Sampling;

/// Requested split of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Edges at which the bucket is split, ascending.
    pub edges: Vec<Key>,
    /// Part of each split range that stays in its bucket.
    pub stays: Stays,
    /// Sampling parameters of the new buckets.
    pub sampling: Sampling,
    /// Content of each part, in the order of the parts, if known. An empty list: the content of no part is
    /// known.
    pub figures: Vec<Option<Figures>>,
}

/// Size limits of one conditional write of a range map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Room {
    /// Maximum number of ranges that the write creates or changes.
    pub pieces: usize,
    /// Maximum bytes of the ranges that the write creates or changes.
    pub bytes: usize,
}

/// Approximate bytes of a range in a conditional write, in addition to its edge.
const PIECE_BYTES: usize = 256;

impl Default for Room {
    /// Returns the limits on a store that accepts any size.
    fn default() -> Self {
        Self {
            pieces: MAX_CUT_EDGES,
            bytes: usize::MAX,
        }
    }
}

impl Room {
    /// Returns the number of items, from the first item on, that together fit into one conditional write.
    /// Each item is a number of ranges, and the bytes of their edges. The first item always fits.
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
    /// Returns the number of ranges that the split adds, and the bytes of their edges.
    pub(crate) fn extent(&self) -> (usize, usize) {
        (self.edges.len(), self.edges.iter().map(Vec::len).sum())
    }

    /// Divides the split into several splits that each fit into one conditional write, to be made one after
    /// the other. After each of these splits, no split is under way in the range that the next split divides.
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

    /// Removes this number of edges from the split, and returns them as another split. The removed edges are
    /// those furthest from the part that stays in its bucket.
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

/// Part of a range that stays in its bucket when the range is split. Each other part gets its own bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stays {
    /// The first part: new rows have greater keys, or nothing is known about new keys.
    First,
    /// The last part: new rows have smaller keys.
    Last,
}

/// Rows that a split copies from one bucket to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Copying {
    /// Bucket to copy from.
    pub from: Bucket,
    /// Bucket to copy to. Each row is copied as a whole, with its own timestamp and its remaining lifetime. Samples are
    /// copied in the same way.
    pub to: Bucket,
    /// Keys of the rows to copy.
    pub span: Span,
}

/// Span and roles of a range when a wait began. After the wait, no process uses an earlier state of the
/// range. In a list, the ranges are in the order of their edges.
pub(crate) type Ripe = (Span, Roles);

impl Directory {
    /// Returns the range map after step 1 of a split; `None` if there is nothing to split, because a range
    /// already begins at each edge, or because this window does not contain the edges.
    pub fn cut(&self, cut: &Cut, protocol: Protocol) -> Option<Self> {
        let mut next = self.next();
        let edges: Vec<_> = cut.edges.iter().collect();
        for (span, piece) in self.spans() {
            let is_inside = |edge: &&&Key| span.start < ***edge && span.has(edge);
            let inside: Vec<&Key> = edges.iter().filter(is_inside).copied().collect();
            if inside.is_empty() || !piece.roles.have_room() {
                next.pieces.push(piece.clone());
                continue;
            }
            let starts = [&piece.start].into_iter().chain(inside);
            let starts: Vec<_> = starts.collect();
            let stays = match cut.stays {
                Stays::First => 0,
                Stays::Last => starts.len() - 1,
            };
            // `cut.figures` has one item for each part of the split bucket. If the bucket has
            // several ranges, the items cannot be assigned to the parts of this range, so their
            // contents are recorded as unknown.
            let is_known = cut.figures.len() == starts.len();
            let figures = cut.figures.iter().filter(|_| is_known);
            let figures = figures.copied().chain(std::iter::repeat(None));
            for (index, (start, figures)) in starts.into_iter().zip(figures).enumerate() {
                let mut part = Piece {
                    start: start.clone(),
                    figures,
                    ..piece.clone()
                };
                if index != stays {
                    next.gives_bucket(&mut part, cut.sampling, protocol);
                }
                next.pieces.push(part);
            }
        }
        next.life_ms = protocol.short_life_ms.min(self.life_ms);
        (next.pieces.len() > self.pieces.len()).then_some(next)
    }

    /// Returns the range map after step 1 of several splits at once; `None` if there is nothing to split.
    pub(crate) fn cut_all(&self, cuts: &[Cut], protocol: Protocol) -> Option<Self> {
        let mut next: Option<Self> = None;
        for cut in cuts {
            let before = next.as_ref().unwrap_or(self);
            if let Some(after) = before.cut(cut, protocol) {
                next = Some(after);
            }
        }
        // All splits are put by one conditional write, so together they raise the version by 1.
        next.map(|next| Self {
            version: self.version + 1,
            ..next
        })
    }

    fn gives_bucket(&mut self, part: &mut Piece, sampling: Sampling, protocol: Protocol) {
        let bucket = self.next_bucket;
        self.next_bucket = Bucket(bucket.0.saturating_add(1));
        if protocol.rules.keeps(Rule::DeletionsFirst) {
            part.roles.deletes.insert(bucket);
        } else {
            part.roles.writes.insert(bucket);
        }
        // If the range is being split already, keep the sampling parameters that this earlier split
        // has set: its new bucket is sampled with them.
        part.next_sampling.get_or_insert(sampling);
    }

    /// Returns the range map after step 2, 4 or 5 of the ranges that are ready for the step; `None` if no
    /// range is ready. It changes only as many ranges as fit into one conditional write. `waited` is true if
    /// the process has waited for this version, so that no cached range map of an earlier version is in use.
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

    /// Returns the ranges that are being split, in their current state.
    pub(crate) fn being_cut(&self) -> Vec<Ripe> {
        let pieces = self.spans().filter(|(_, piece)| !piece.roles.is_at_rest());
        pieces.map(|(span, piece)| (span, piece.roles.clone())).collect()
    }

    /// Returns the range map after step 6, in which the ranges in `pieces` no longer have their cleared
    /// buckets; `None` if every one of these ranges has changed since it was found.
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

    /// Returns the range map with the long lifetime of cached range maps, because no split is expected;
    /// `None` if its lifetime is already long.
    pub(crate) fn calmed(&self, protocol: Protocol) -> Option<Self> {
        let mut next = self.next();
        next.pieces.clone_from(&self.pieces);
        next.life_ms = protocol.long_life_ms;
        next.longest_ms = protocol.long_life_ms;
        (self.life_ms < protocol.long_life_ms).then_some(next)
    }

    /// Returns the next version of the range map, without ranges.
    fn next(&self) -> Self {
        Self {
            version: self.version + 1,
            pieces: Vec::new(),
            ..self.clone()
        }
    }
}

/// Returns the rows that must be copied before these ranges are read in newer buckets.
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
    /// Returns whether there is room for one more bucket. Each bucket of a range changes its role until it
    /// becomes old, so the limit applies to all roles together.
    fn have_room(&self) -> bool {
        self.further().count() + 1 < MAX_FURTHER_BUCKETS
    }
}

impl Piece {
    fn advance(&mut self, protocol: Protocol) {
        let roles = &mut self.roles;
        // No process still reads the buckets that are older than the bucket that is read now. These buckets
        // receive no more writes, and become old.
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
        // Every process now has a range map that sends deletions to the buckets in `deletes`, so
        // these buckets can receive all writes.
        roles.writes.append(&mut roles.deletes);
        let is_last = roles.writes.last().is_none_or(|bucket| *bucket < roles.read);
        if is_last {
            self.next_sampling = None;
        }
    }
}
