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

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Floor, Kept, Piece};
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
    /// All buckets of [`RetainAction::Delete`] are deleted.
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
    /// Delete these buckets, each as a whole, so that rows that arrive late in a deleted bucket are not
    /// visible.
    Delete(BTreeSet<Bucket>),
    /// No rows or ranges are left to delete. The machine has ended.
    Over,
}

/// State machine that deletes rows beyond a retention bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Retaining {
    wanted: Floor,
    known: Option<Directory>,
    /// Buckets for which the process has waited, or that it has deleted.
    buckets: BTreeSet<Bucket>,
    is_deleted: bool,
    protocol: Protocol,
}

impl Retaining {
    /// Creates the deletion of the rows beyond a bound. It deletes only whole buckets.
    pub fn new(wanted: Floor, protocol: Protocol) -> Self {
        Self {
            wanted,
            known: None,
            buckets: BTreeSet::new(),
            is_deleted: false,
            protocol,
        }
    }

    /// Handles an event, and returns the next action.
    pub fn step(&mut self, event: RetainEvent) -> RetainAction {
        match event {
            RetainEvent::Begin | RetainEvent::Decided(_) => RetainAction::Read,
            RetainEvent::Read(directory) => self.reads(directory),
            RetainEvent::Waited => RetainAction::Delete(self.buckets.clone()),
            RetainEvent::Deleted => {
                self.is_deleted = true;
                RetainAction::Read
            }
        }
    }

    fn reads(&mut self, directory: Directory) -> RetainAction {
        let expected = directory.version;
        let below = directory.below_floor();
        if below.is_empty() {
            self.is_deleted = false;
            let raised = directory.raised(&self.wanted, self.protocol);
            self.known = Some(directory);
            let Some(put) = raised else {
                return RetainAction::Over;
            };
            if self.keeps(Rule::HiddenBeforeDropped) {
                let gone = Vec::new();
                return RetainAction::Cas { expected, put, gone };
            }
            self.buckets = put.below_floor();
            return RetainAction::Delete(self.buckets.clone());
        }
        let is_the_same = self.buckets == below;
        self.buckets = below;
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
            _ => RetainAction::Delete(self.buckets.clone()),
        }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.protocol.rules.keeps(rule)
    }
}

impl Directory {
    /// Returns the range map with the furthest retention bound that `wanted` allows. The bound is at an edge
    /// between ranges that have no bucket in common. Returns `None` if no such bound hides more rows than the
    /// present bound.
    fn raised(&self, wanted: &Floor, protocol: Protocol) -> Option<Self> {
        let is_higher = |edge: &Key| {
            let floor = self.floor.as_ref();
            floor.is_none_or(|floor| floor.is_lower_than(edge))
        };
        let is_apart = |index: usize| {
            let (one, other) = self.pieces.split_at(index);
            !protocol.rules.keeps(Rule::SharedBucketsStay) || named(one).is_disjoint(&named(other))
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

    /// Returns the buckets of the ranges that the retention bound hides completely.
    fn below_floor(&self) -> BTreeSet<Bucket> {
        let count = self.count_below();
        match self.floor.as_ref().map(|floor| floor.kept) {
            Some(Kept::Before) => named(&self.pieces[self.pieces.len() - count..]),
            _ => named(&self.pieces[..count]),
        }
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
