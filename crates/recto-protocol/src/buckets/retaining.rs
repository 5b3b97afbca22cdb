//! Deletion of rows beyond a retention bound: the rows are hidden, then deleted, and then their ranges are
//! removed.
//!
//! ```text
//!  begin ──► read ──► raise the floor ──► wait ──► delete whole buckets ──► forget their pieces ──► over
//!              ▲              │                             │                        │
//!              └──────────────┴── read again ◄──────────────┴────────────────────────┘
//! ```
//!
//! The range map contains the progress: ranges beyond the bound still have to be deleted. The next process
//! that finds such ranges continues. It waits again, and deletes again.
//!
//! A bucket is deleted as a whole only if the process sees the whole range map, and no kept range names the
//! bucket. A window does not show this: a range behind it may still be read from the bucket, because a split
//! of that range is unfinished. In all other cases, only the hidden keys of the bucket are deleted.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Floor, Kept, Piece, Span};
use crate::buckets::limits::Protocol;
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::rules::Rule;
use crate::buckets::splitting::Decision;

/// Event of the deletion that the caller reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RetainEvent {
    /// The caller starts the deletion.
    Begin,
    /// The range map, or the window of it that contains the oldest ranges, was read.
    Read(Directory),
    /// The conditional write of the range map ended.
    Decided(Decision),
    /// The time of [`RetainAction::Wait`] has passed.
    Waited,
    /// All rows of [`RetainAction::Delete`] are deleted.
    Deleted,
}

/// Action of the deletion that the caller takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RetainAction {
    /// Read the range map, serially.
    Read,
    /// Put this range map, without the ranges that start at `gone`, if this version is stored.
    Cas {
        /// Version that the stored range map must have.
        expected: Version,
        /// Range map to put.
        put: Directory,
        /// Starts of the ranges that the write removes from the range map.
        gone: Vec<Key>,
    },
    /// Wait for this time, measured with the clock that counts since the machine was started.
    Wait {
        /// Time to wait, in milliseconds.
        ms: u64,
    },
    /// Delete all rows of these spans in these buckets. Rows that arrive late there must not be visible. If a
    /// span contains all keys, delete the bucket as a whole.
    Delete(Vec<(Bucket, Span)>),
    /// No rows or ranges are left to delete. The machine has ended.
    Over,
}

/// State machine that deletes rows beyond a retention bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Retaining {
    wanted: Floor,
    known: Option<Directory>,
    /// Buckets for which the process has waited, or whose rows it has deleted, with the span of these rows.
    hidden: Vec<(Bucket, Span)>,
    is_deleted: bool,
    /// True if each range has a bucket of its own, which no other range ever names.
    is_unshared: bool,
    protocol: Protocol,
}

impl Retaining {
    /// Creates the deletion of the rows beyond a bound.
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

    /// Creates the deletion of the rows beyond a bound in time buckets. Each time bucket belongs to one range,
    /// so it is always deleted as a whole.
    pub fn of_time_buckets(wanted: Floor, protocol: Protocol) -> Self {
        Self {
            is_unshared: true,
            ..Self::new(wanted, protocol)
        }
    }

    /// Handles an event, and returns the next action.
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
    /// Returns the range map with the furthest retention bound that `wanted` allows. The bound is at an edge
    /// between ranges of this window that have no bucket in common, so that buckets can usually be deleted as
    /// a whole. Returns `None` if no such bound hides more rows than the present bound.
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

    /// Returns the number of ranges that the retention bound hides completely. They are the oldest ranges.
    fn count_below(&self) -> usize {
        let Some(floor) = &self.floor else { return 0 };
        self.spans().filter(|(span, _)| floor.hides_all(span)).count()
    }

    /// Returns the buckets of the ranges that the retention bound hides completely, each with the span of the
    /// rows that are deleted there. If `may_share`, a bucket that another range may name is not deleted as a
    /// whole.
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

    /// Returns the range map without the ranges that the retention bound hides, and the starts of the removed
    /// ranges. The adjacent range gets the keys of the removed ranges, which have no rows. Returns `None` if
    /// this window has no other range.
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
