//! Which buckets take a write, and which are read.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Floor, Roles, Span};
use crate::buckets::limits::{MAX_SLICES, Protocol};
use crate::buckets::names::{Bucket, Key};
use crate::buckets::rules::Rule;

/// What is done to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// It is written.
    Put,
    /// It is deleted.
    Delete,
}

/// Why a key has no bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unrouted {
    /// Rows there are not kept any more.
    #[error("it is below the floor: rows that old are not kept any more")]
    BelowFloor,
    /// The window does not have it: another one is to be read.
    #[error("the window of the directory does not have it")]
    OutsideWindow,
}

/// What is read of one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The bucket.
    pub bucket: Bucket,
    /// What of it is shown: all else that lies there is not so.
    pub span: Span,
}

impl Roles {
    /// Which buckets take it.
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
    /// Which buckets take that, of this key.
    ///
    /// # Errors
    /// None does, or none of this window.
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

    /// What is to be read of a span, in the order of keys, as far as this window goes and rows are kept. Pieces that lie side by
    /// side in one bucket are one.
    pub fn slices(&self, span: &Span) -> Vec<Slice> {
        self.merged(span, false, usize::MAX)
    }

    /// The first of these, or the last ones where it is read backward, in the order of reading; and what of the span lies behind them. A page needs few of
    /// many.
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

    /// The first of these slices, or the last one if it is read backward, of one piece: where there are many pieces, no more is made of
    /// them than is read. None: nothing of the span is in this window, or kept.
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

    /// What of a span lies behind this window.
    pub fn rest(&self, span: &Span) -> Option<Span> {
        let end: Key = self.end.clone()?;
        let behind = Span {
            start: end,
            end: None,
        };
        span.common(&behind)
    }

    /// What of a span lies before this window.
    pub fn rest_before(&self, span: &Span) -> Option<Span> {
        let first = self.pieces.first().filter(|piece| !piece.start.is_empty())?;
        let before = Span {
            start: Key::new(),
            end: Some(first.start.clone()),
        };
        span.common(&before)
    }

    /// Where rows are kept.
    fn kept(&self) -> Span {
        self.floor.as_ref().map_or_else(Span::all, Floor::kept_span)
    }
}
