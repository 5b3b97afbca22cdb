//! Deletion of rows beyond a retention bound (key that separates kept rows from older rows). The
//! rows are hidden, then deleted, and then their key ranges are removed from the range map.
//!
//! ```text
//!  begin ──► read ──► raise the floor ──► wait ──► delete whole buckets ──► forget their pieces ──► over
//!              ▲              │                             │                        │
//!              └──────────────┴── read again ◄──────────────┴────────────────────────┘
//! ```
//!
//! The range map shows the progress: a range beyond the bound still has to be deleted. Any process
//! that finds such a range continues the deletion: it waits again, and deletes again.
//!
//! A bucket is deleted as a whole only if the process sees the whole range map, and no kept range
//! names the bucket. A window of the range map is not enough: a range outside the window may still
//! be read from the bucket, because a split of that range is unfinished. In all other cases, only
//! the hidden keys of the bucket are deleted.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Floor, Kept, Piece, Span};
use crate::buckets::limits::Protocol;
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::rules::Rule;
use crate::buckets::splitting::Decision;

/// Event that the caller reports to [`Retaining`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RetainEvent {
    /// The caller starts the deletion.
    Begin,
    /// The caller has read the range map, or the window of it that contains the oldest ranges.
    Read(Directory),
    /// The conditional write of [`RetainAction::Cas`] ended.
    Decided(Decision),
    /// The time of [`RetainAction::Wait`] has passed.
    Waited,
    /// All rows of [`RetainAction::Delete`] are deleted.
    Deleted,
}

/// Action that the caller of [`Retaining`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RetainAction {
    /// Read the range map (which bucket holds which keys) with serial consistency.
    Read,
    /// Replace the range map by `put`, and remove the ranges that start at `gone`, if the stored
    /// version is `expected`.
    Cas {
        /// Version that the stored range map (which bucket holds which keys) must have.
        expected: Version,
        /// Range map to put.
        put: Directory,
        /// Starts of the ranges to remove from the range map (which bucket holds which keys).
        gone: Vec<Key>,
    },
    /// Wait for `ms`, measured with the clock that counts since the start of the machine.
    Wait {
        /// Time to wait, in milliseconds.
        ms: u64,
    },
    /// Delete all rows of these spans of keys in these buckets, also rows that arrive late with
    /// earlier timestamps. If a span contains all keys, delete the bucket as a whole.
    Delete(Vec<(Bucket, Span)>),
    /// The deletion has ended: no hidden rows or ranges are left.
    Over,
}

/// State machine that deletes the rows beyond a retention bound (a key in the sort order).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Retaining {
    wanted: Floor,
    known: Option<Directory>,
    /// Buckets with rows to delete, at the last read of the range map, each with the span of the
    /// rows.
    hidden: Vec<(Bucket, Span)>,
    is_deleted: bool,
    /// True if each bucket belongs to only one range, now and later, as time buckets do.
    is_unshared: bool,
    protocol: Protocol,
}

impl Retaining {
    /// Creates the deletion of the rows beyond the retention bound `wanted` (a key in the sort
    /// order).
    pub fn new(wanted: Floor, protocol: Protocol) -> Self {
        Self {
            wanted,
            known: None,
            hidden: Vec::new(),
            is_deleted: false,
            is_unshared: false,
            protocol,
        }
    }

    /// Creates the deletion of the rows beyond `wanted` in time buckets (one bucket for each
    /// interval of time). Each time bucket belongs to one range, so it is always deleted as a
    /// whole.
    pub fn of_time_buckets(wanted: Floor, protocol: Protocol) -> Self {
        Self {
            is_unshared: true,
            ..Self::new(wanted, protocol)
        }
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: RetainEvent) -> RetainAction {
        match event {
            RetainEvent::Begin | RetainEvent::Decided(_) => RetainAction::Read,
            RetainEvent::Read(directory) => self.reads(directory),
            RetainEvent::Waited => RetainAction::Delete(self.hidden.clone()),
            RetainEvent::Deleted => {
                self.is_deleted = true;
                RetainAction::Read
            }
        }
    }

    fn reads(&mut self, directory: Directory) -> RetainAction {
        let expected = directory.version;
        let below = self.below_floor(&directory);
        if below.is_empty() {
            self.is_deleted = false;
            let raised = directory.raised(&self.wanted);
            self.known = Some(directory);
            let Some(put) = raised else {
                return RetainAction::Over;
            };
            if self.keeps(Rule::HiddenBeforeDropped) {
                let gone = Vec::new();
                return RetainAction::Cas { expected, put, gone };
            }
            self.hidden = self.below_floor(&put);
            return RetainAction::Delete(self.hidden.clone());
        }
        let is_the_same = self.hidden == below;
        self.hidden = below;
        let longest_ms = directory.longest_ms;
        let forgotten = directory.forgotten();
        self.known = Some(directory);
        let is_done = self.is_deleted && is_the_same;
        match forgotten {
            Some((put, gone)) if is_done || !self.keeps(Rule::DroppedBeforeForgotten) => {
                RetainAction::Cas { expected, put, gone }
            }
            _ if self.keeps(Rule::WaitBeforeDropping) => RetainAction::Wait {
                ms: self.protocol.wait_ms(longest_ms),
            },
            _ => RetainAction::Delete(self.hidden.clone()),
        }
    }

    fn below_floor(&self, directory: &Directory) -> Vec<(Bucket, Span)> {
        let may_share = !self.is_unshared && self.keeps(Rule::SharedBucketsStay);
        directory.below_floor(may_share)
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.protocol.rules.keeps(rule)
    }
}

impl Directory {
    /// Returns the range map with its retention bound moved as far as `wanted` allows. The new
    /// bound is an edge between ranges of this window that share no bucket, so that buckets can
    /// usually be deleted as a whole. Returns `None` if no such edge hides more rows than the
    /// present bound.
    fn raised(&self, wanted: &Floor) -> Option<Self> {
        let is_higher = |edge: &Key| {
            let floor = self.floor.as_ref();
            floor.is_none_or(|floor| floor.is_lower_than(edge))
        };
        let is_apart = |index: usize| {
            let (one, other) = self.pieces.split_at(index);
            named(one).is_disjoint(&named(other))
        };
        let edges = self.pieces.iter().enumerate().skip(1);
        let mut edges = edges.map(|(index, piece)| (index, &piece.start));
        let is_good = |(index, edge): &(usize, &Key)| is_higher(edge) && is_apart(*index);
        let found = match wanted.kept {
            Kept::After => edges.rfind(|edge| *edge.1 <= wanted.at && is_good(edge)),
            Kept::Before => edges.find(|edge| *edge.1 >= wanted.at && is_good(edge)),
        };
        let (_, at) = found?;
        Some(Self {
            version: self.version + 1,
            floor: Some(Floor {
                at: at.clone(),
                kept: wanted.kept,
            }),
            ..self.clone()
        })
    }

    /// Returns the number of ranges that the retention bound (key beyond which rows are deleted)
    /// hides completely.
    fn count_below(&self) -> usize {
        let Some(floor) = &self.floor else { return 0 };
        self.spans().filter(|(span, _)| floor.hides_all(span)).count()
    }

    /// Returns the buckets of the ranges that the retention bound hides completely, each with the
    /// span of the rows to delete. If `may_share`, a bucket that a kept range may name is not
    /// deleted as a whole.
    fn below_floor(&self, may_share: bool) -> Vec<(Bucket, Span)> {
        let Some(floor) = &self.floor else {
            return Vec::new();
        };
        let count = self.count_below();
        let (hidden, kept) = match floor.kept {
            Kept::After => self.pieces.split_at(count),
            Kept::Before => {
                let (kept, hidden) = self.pieces.split_at(self.pieces.len() - count);
                (hidden, kept)
            }
        };
        let kept = named(kept);
        let span = |bucket| {
            let is_shared = may_share && (!self.is_whole() || kept.contains(&bucket));
            let span = if is_shared {
                floor.hidden_span()
            } else {
                Span::all()
            };
            (bucket, span)
        };
        named(hidden).into_iter().map(span).collect()
    }

    /// Returns the range map without the ranges that the retention bound hides, and the starts of
    /// the removed ranges. The adjacent range gets their keys, which have no rows left. Returns
    /// `None` if the bound hides all ranges of this window.
    fn forgotten(&self) -> Option<(Self, Vec<Key>)> {
        let count = self.count_below();
        if count >= self.pieces.len() {
            return None;
        }
        let mut pieces = self.pieces.clone();
        let starts = |pieces: &[Piece]| pieces.iter().map(|piece| piece.start.clone()).collect();
        let gone = match self.floor.as_ref()?.kept {
            Kept::After => {
                let gone = starts(&pieces[1..=count]);
                let start = pieces[0].start.clone();
                pieces.drain(..count);
                pieces[0].start = start;
                gone
            }
            Kept::Before => starts(&pieces.split_off(pieces.len() - count)),
        };
        let put = Self {
            version: self.version + 1,
            pieces,
            ..self.clone()
        };
        Some((put, gone))
    }
}

/// Returns all buckets that these ranges name, in any role.
fn named(pieces: &[Piece]) -> BTreeSet<Bucket> {
    let roles = pieces.iter().map(|piece| &piece.roles);
    roles
        .flat_map(|roles| roles.further().chain([roles.read]))
        .collect()
}
