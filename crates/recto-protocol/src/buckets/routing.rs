//! Lookups in a range map: the buckets that receive a write, and the buckets that a read needs.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Floor, Roles, Span};
use crate::buckets::limits::{MAX_SLICES, Protocol};
use crate::buckets::names::{Bucket, Key};
use crate::buckets::rules::Rule;

/// Kind of change of a row, which determines the buckets that receive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The row is written.
    Put,
    /// The row is deleted.
    Delete,
}

/// Reason why no bucket receives a put or a deletion of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unrouted {
    /// The key is beyond the retention bound (rows there are hidden and deleted).
    #[error("the row is older than the retention time of its buckets")]
    BelowFloor,
    /// The window of the range map does not contain the key. The caller has to read another window.
    #[error("the window of the range map does not have the key")]
    OutsideWindow,
}

/// Part of one bucket that a read returns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slice {
    /// Bucket to read.
    pub bucket: Bucket,
    /// Keys to return. The reader must ignore rows of the bucket outside this span, because they
    /// may be outdated.
    pub span: Span,
}

impl Roles {
    /// Returns the buckets of a key range that receive a put or a deletion of a row.
    pub fn takers(&self, operation: Operation, protocol: Protocol) -> BTreeSet<Bucket> {
        let mut takers: BTreeSet<_> = self.writes.iter().copied().chain([self.read]).collect();
        if operation == Operation::Delete {
            takers.extend(&self.deletes);
            if protocol.rules.keeps(Rule::DeletionsReachOld) {
                takers.extend(&self.old);
            }
        }
        takers
    }
}

impl Directory {
    /// Returns the buckets that receive `operation` on the row with this key.
    ///
    /// # Errors
    /// The operation is a put and the retention bound hides the key, or this window does not
    /// contain the key.
    pub fn takers(
        &self,
        key: &[u8],
        operation: Operation,
        protocol: Protocol,
    ) -> Result<BTreeSet<Bucket>, Unrouted> {
        let is_below = self.floor.as_ref().is_some_and(|floor| floor.hides(key));
        if is_below && operation == Operation::Put {
            return Err(Unrouted::BelowFloor);
        }
        let piece = self.piece_of(key).ok_or(Unrouted::OutsideWindow)?;
        Ok(piece.roles.takers(operation, protocol))
    }

    /// Returns the slices (bucket and keys) to read for `span`, in the order of keys, without keys
    /// that the retention bound hides or that are outside this window. Adjacent ranges of one
    /// bucket make one slice.
    pub fn slices(&self, span: &Span) -> Vec<Slice> {
        self.merged(span, false, usize::MAX)
    }

    /// Returns the first slices to read for `span`, in the order of the read, and the part of the
    /// span after them. There are at most [`MAX_SLICES`], because a page needs only a few. A
    /// backward read begins with the last slices.
    pub fn first_slices(&self, span: &Span, is_backward: bool) -> (Vec<Slice>, Option<Span>) {
        let mut slices = self.merged(span, is_backward, MAX_SLICES + 1);
        let next = (slices.len() > MAX_SLICES).then(|| slices.pop()).flatten();
        let rest = match next {
            Some(next) if is_backward => Some(Span {
                start: span.start.clone(),
                end: next.span.end,
            }),
            Some(next) => Some(Span {
                start: next.span.start,
                end: span.end.clone(),
            }),
            None if is_backward => self.rest_before(span),
            None => self.rest(span),
        };
        (slices, rest)
    }

    fn merged(&self, span: &Span, is_backward: bool, most: usize) -> Vec<Slice> {
        let Some(kept) = self.kept().common(span) else {
            return Vec::new();
        };
        let mut slices: Vec<Slice> = Vec::new();
        let mut spans = self.spans_of(&kept);
        while let Some((of_piece, piece)) = if is_backward {
            spans.next_back()
        } else {
            spans.next()
        } {
            let Some(span) = of_piece.common(&kept) else {
                continue;
            };
            let bucket = piece.roles.read;
            let is_full = slices.len() == most;
            match slices.last_mut().filter(|slice| slice.bucket == bucket) {
                Some(slice) if is_backward => slice.span.start = span.start,
                Some(slice) => slice.span.end = span.end,
                None if is_full => break,
                None => slices.push(Slice { bucket, span }),
            }
        }
        slices
    }

    /// Returns the first slice to read for `span`, within one range; for a backward read, the last
    /// slice. Further slices are not computed, because they may never be read. Returns `None` if
    /// this window contains no kept key of the span.
    pub fn first_slice(&self, span: &Span, is_backward: bool) -> Option<Slice> {
        let wanted = self.kept().common(span)?;
        let mut spans = self.spans_of(&wanted);
        let (of_piece, piece) = if is_backward {
            spans.next_back()?
        } else {
            spans.next().filter(|(of, _)| of.start <= wanted.start)?
        };
        let span = wanted.common(&of_piece)?;
        let bucket = piece.roles.read;
        Some(Slice { bucket, span })
    }

    /// Returns the part of `span` after this window of the range map; `None` if there is no such
    /// part.
    pub fn rest(&self, span: &Span) -> Option<Span> {
        let end: Key = self.end.clone()?;
        let behind = Span {
            start: end,
            end: None,
        };
        span.common(&behind)
    }

    /// Returns the part of `span` before this window of the range map; `None` if there is no such
    /// part.
    pub fn rest_before(&self, span: &Span) -> Option<Span> {
        let first = self.pieces.first().filter(|piece| !piece.start.is_empty())?;
        let before = Span {
            start: Key::new(),
            end: Some(first.start.clone()),
        };
        span.common(&before)
    }

    /// Returns the span of keys that the retention bound (key beyond which rows are deleted) keeps.
    fn kept(&self) -> Span {
        self.floor.as_ref().map_or_else(Span::all, Floor::kept_span)
    }
}
