//! What is not kept any more goes: it is hidden, then deleted, then forgotten.
//!
//! ```text
//!  begin ──► read ──► raise the floor ──► wait ──► delete whole buckets ──► forget their pieces ──► over
//!              ▲              │                             │                        │
//!              └──────────────┴── read again ◄──────────────┴────────────────────────┘
//! ```
//!
//! The directory says how far it is: what lies below the floor and is named by pieces is to be deleted yet. So whoever comes there next goes on, waits anew, and
//! deletes anew.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Floor, Kept, Piece};
use crate::buckets::limits::Protocol;
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::rules::Rule;
use crate::buckets::splitting::Decision;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RetainEvent {
    /// It can begin.
    Begin,
    /// The directory, or the window of it that has the oldest pieces.
    Read(Directory),
    /// The conditional write ended.
    Decided(Decision),
    /// So much time went by.
    Waited,
    /// All is deleted.
    Deleted,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RetainAction {
    /// Read the directory, serially.
    Read,
    /// Put this, without the pieces that begin there, if this version is there.
    Cas {
        /// The version.
        expected: Version,
        /// What to put.
        put: Directory,
        /// The edges of pieces that are no more.
        gone: Vec<Key>,
    },
    /// Wait so long, by the clock that counts since the machine was started.
    Wait {
        /// How long.
        ms: u64,
    },
    /// Delete these buckets, each as a whole, so that nothing that comes late is seen there.
    Delete(BTreeSet<Bucket>),
    /// Nothing is left to be done.
    Over,
}

/// What is not kept any more, on its way out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Retaining {
    wanted: Floor,
    known: Option<Directory>,
    /// What was waited for, or deleted.
    buckets: BTreeSet<Bucket>,
    is_deleted: bool,
    protocol: Protocol,
}

impl Retaining {
    /// Of what lies below a floor: as much of it as whole buckets are.
    pub fn new(wanted: Floor, protocol: Protocol) -> Self {
        Self {
            wanted,
            known: None,
            buckets: BTreeSet::new(),
            is_deleted: false,
            protocol,
        }
    }

    /// What is to be done about what happened.
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
    /// With a floor as high as the wanted one allows: at an edge between pieces that have no bucket in common. None: it is not
    /// higher than it was.
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

    /// How many pieces are below the floor, the oldest ones.
    fn count_below(&self) -> usize {
        let Some(floor) = &self.floor else { return 0 };
        self.spans().filter(|(span, _)| floor.hides_all(span)).count()
    }

    /// The buckets of what lies below the floor.
    fn below_floor(&self) -> BTreeSet<Bucket> {
        let count = self.count_below();
        match self.floor.as_ref().map(|floor| floor.kept) {
            Some(Kept::Before) => named(&self.pieces[self.pieces.len() - count..]),
            _ => named(&self.pieces[..count]),
        }
    }

    /// Without the pieces below the floor, whose keys are those of the one beside them then: there is nothing; and where they began. None: this
    /// window has no other.
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

/// All buckets of some pieces.
fn named(pieces: &[Piece]) -> BTreeSet<Bucket> {
    let roles = pieces.iter().map(|piece| &piece.roles);
    roles
        .flat_map(|roles| roles.further().chain([roles.read]))
        .collect()
}
