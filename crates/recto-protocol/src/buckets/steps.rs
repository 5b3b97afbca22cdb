//! What each step of a cut makes of a directory.
//!
//! | step | who takes writes | deletions | is read |
//! |---|---|---|---|
//! | the piece lies in b | b | b | b |
//! | 1. n takes deletions, too; wait | b | b n | b |
//! | 2. n takes writes, too; wait | b n | b n | b |
//! | 3. what b has is copied to n | b n | b n | b |
//! | 4. n is read; wait | b n | b n | n |
//! | 5. b is left | n | b n | n |
//! | 6. later: what b still has is copied to n, and goes | n | n | n |
//!
//! So what is done follows from the roles, and who finds them goes on. A piece that is cut again meanwhile has several
//! buckets in a step, of which the newest is the one that counts.

use crate::buckets::clearing::Cleared;
use crate::buckets::directory::{Directory, Figures, Piece, Roles, Span};
use crate::buckets::limits::{MAX_CUT_EDGES, MAX_FURTHER_BUCKETS, Protocol};
use crate::buckets::names::{Bucket, Key};
use crate::buckets::rules::Rule;
use crate::buckets::sampling::Sampling;

/// A cut that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Where, ascending.
    pub edges: Vec<Key>,
    /// Which part of each piece that is cut stays in its bucket.
    pub stays: Stays,
    /// By what rows of the new buckets are sampled.
    pub sampling: Sampling,
    /// What each part holds, in their order; none at all: of no part that is known.
    pub figures: Vec<Option<Figures>>,
}

/// What one conditional write has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Room {
    /// Pieces that it makes or changes.
    pub pieces: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// Bytes that a piece takes beside its edge, about.
const PIECE_BYTES: usize = 256;

impl Default for Room {
    /// Of a store that takes any.
    fn default() -> Self {
        Self {
            pieces: MAX_CUT_EDGES,
            bytes: usize::MAX,
        }
    }
}

impl Room {
    /// How many of these it has room for, each with so many pieces, whose edges have so many bytes together; the first one always has it.
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
    /// Of how many pieces it is one more each, and the bytes of their edges.
    pub(crate) fn extent(&self) -> (usize, usize) {
        (self.edges.len(), self.edges.iter().map(Vec::len).sum())
    }

    /// The same as cuts for each of which there is room, one after the other: each leaves at rest what is to be cut by the next one.
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

    /// Takes so many of its edges, those furthest from what stays.
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

/// Which part of a piece stays where it is when it is cut; each other one gets a bucket of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stays {
    /// The first one: what comes from now on are greater keys, or nothing of the kind is known.
    First,
    /// The last one: what comes from now on are smaller keys.
    Last,
}

/// Rows that are to be copied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Copying {
    /// From which bucket.
    pub from: Bucket,
    /// To which one: each row whole, at its own stamp, with what remains until it expires; and samples likewise.
    pub to: Bucket,
    /// Which rows.
    pub span: Span,
}

/// A piece as it was when a wait for it began: when it is over, nobody goes by what was before. Several are in the order of their edges.
pub(crate) type Ripe = (Span, Roles);

impl Directory {
    /// Step 1; none if there is nothing to cut: a piece begins at each edge, or the window does not have it.
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
            // Of a bucket of several pieces it is not known which of them holds what.
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

    /// Step 1 of several cuts at once; none if there is nothing to cut.
    pub(crate) fn cut_all(&self, cuts: &[Cut], protocol: Protocol) -> Option<Self> {
        let mut next: Option<Self> = None;
        for cut in cuts {
            let before = next.as_ref().unwrap_or(self);
            if let Some(after) = before.cut(cut, protocol) {
                next = Some(after);
            }
        }
        // It is one change.
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
        // Who is being cut already has a bucket that samples so.
        part.next_sampling.get_or_insert(sampling);
    }

    /// Steps 2, 4 and 5, each for the pieces that are ripe for it, as many as there is room for; none if no piece is. `waited`: this very
    /// version was waited for, so that no copy of an earlier one is in use.
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

    /// The pieces that are being cut, as they are.
    pub(crate) fn being_cut(&self) -> Vec<Ripe> {
        let pieces = self.spans().filter(|(_, piece)| !piece.roles.is_at_rest());
        pieces.map(|(span, piece)| (span, piece.roles.clone())).collect()
    }

    /// Step 6: these pieces do not have these left buckets any more; none if no piece is as it was.
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

    /// Copies live longer again, since nothing is to be expected; none if they do.
    pub(crate) fn calmed(&self, protocol: Protocol) -> Option<Self> {
        let mut next = self.next();
        next.pieces.clone_from(&self.pieces);
        next.life_ms = protocol.long_life_ms;
        next.longest_ms = protocol.long_life_ms;
        (self.life_ms < protocol.long_life_ms).then_some(next)
    }

    /// The next version, of which no pieces are there yet.
    fn next(&self) -> Self {
        Self {
            version: self.version + 1,
            pieces: Vec::new(),
            ..self.clone()
        }
    }
}

/// What has to be copied before these pieces are read in newer buckets.
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
    /// Whether there is room for one more bucket: each goes from one kind to the next, and is left in the end.
    fn have_room(&self) -> bool {
        self.further().count() + 1 < MAX_FURTHER_BUCKETS
    }
}

impl Piece {
    fn advance(&mut self, protocol: Protocol) {
        let roles = &mut self.roles;
        // Nobody reads them any more.
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
        // Nobody deletes without them any more.
        roles.writes.append(&mut roles.deletes);
        let is_last = roles.writes.last().is_none_or(|bucket| *bucket < roles.read);
        if is_last {
            self.next_sampling = None;
        }
    }
}
