//! The last step of a cut, an hour later: what a bucket that was left still has, of somebody whose clocks stood still, is
//! copied to the bucket that is read; then it goes, as a range.
//!
//! Pieces may be cut meanwhile, again and again: what was left of them when it began to wait is cleared all the same, wherever it is read by
//! then. Where so much was left that there would soon be no room for more, less time has to do.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Roles, Span};
use crate::buckets::limits::{MAX_CLEARING_LOOKS, MAX_FURTHER_BUCKETS, Protocol};
use crate::buckets::names::{Bucket, Version};
use crate::buckets::rules::Rule;
use crate::buckets::splitting::Decision;
use crate::buckets::steps::Copying;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearEvent {
    /// It can begin.
    Begin,
    /// The directory, or a window of it.
    Read(Directory),
    /// So much time went by.
    Waited,
    /// All is copied.
    Copied,
    /// All is deleted.
    Deleted,
    /// The conditional write ended.
    Decided(Decision),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearAction {
    /// Read the directory, serially.
    Read,
    /// Wait so long.
    Wait {
        /// How long.
        ms: u64,
    },
    /// Copy what there is, if there is anything.
    Copy(Vec<Copying>),
    /// Delete all of these spans in these buckets, which are read by nobody.
    Delete(Vec<(Bucket, Span)>),
    /// Put this, if this version is there.
    Cas {
        /// The version.
        expected: Version,
        /// What to put.
        put: Directory,
    },
    /// Nothing is left to be done here. What was changed meanwhile is another's, or another time's.
    Over,
}

/// Buckets that were left are cleared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clearing {
    /// What was left when it began to wait.
    first: Vec<Left>,
    /// What was left when it looked last.
    last: Vec<Left>,
    /// How often it has waited.
    looks: u32,
    /// What is cleared, as it was found.
    pieces: Vec<Cleared>,
    stage: Stage,
    protocol: Protocol,
}

/// Buckets that were left of a span.
pub(crate) type Left = (Span, BTreeSet<Bucket>);

/// A piece as it is, and those of the buckets that were left of it that it is to have no more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cleared {
    pub(crate) span: Span,
    pub(crate) roles: Roles,
    pub(crate) buckets: BTreeSet<Bucket>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Waiting,
    Copied,
    Deleted,
}

impl Clearing {
    /// Of whatever buckets were left.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            first: Vec::new(),
            last: Vec::new(),
            looks: 0,
            pieces: Vec::new(),
            stage: Stage::Waiting,
            protocol,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: ClearEvent) -> ClearAction {
        match event {
            ClearEvent::Decided(Decision::Applied) => ClearAction::Over,
            ClearEvent::Begin | ClearEvent::Decided(_) => ClearAction::Read,
            ClearEvent::Waited => {
                self.looks += 1;
                ClearAction::Read
            }
            ClearEvent::Read(directory) => self.reads(&directory),
            ClearEvent::Copied => {
                self.stage = Stage::Copied;
                if self.keeps(Rule::LookedAgainBeforeClearing) {
                    return ClearAction::Read;
                }
                self.delete()
            }
            ClearEvent::Deleted => {
                self.stage = Stage::Deleted;
                ClearAction::Read
            }
        }
    }

    fn reads(&mut self, directory: &Directory) -> ClearAction {
        if self.stage == Stage::Waiting {
            return self.looks_at(directory);
        }
        // What was cut since is copied again, and so is not gone on with here.
        self.pieces.retain(|piece| directory.is_as(piece));
        if self.pieces.is_empty() {
            return ClearAction::Over;
        }
        match (&self.stage, directory.cleared(&self.pieces)) {
            (_, None) => ClearAction::Over,
            (Stage::Deleted, Some(put)) => ClearAction::Cas {
                expected: directory.version,
                put,
            },
            (Stage::Waiting | Stage::Copied, Some(_)) => self.delete(),
        }
    }

    /// Waits until what was left is old enough, and begins with what of it is not being cut then.
    fn looks_at(&mut self, directory: &Directory) -> ClearAction {
        let left = directory.left();
        if left.is_empty() {
            return ClearAction::Over;
        }
        let most = self.protocol.clearing_looks.clamp(1, MAX_CLEARING_LOOKS);
        let is_crowded = left
            .iter()
            .any(|(_, buckets)| buckets.len() >= MAX_FURTHER_BUCKETS / 4);
        if self.looks == 0 {
            self.first.clone_from(&left);
        } else if self.looks >= most || is_crowded {
            let old = if is_crowded { &self.last } else { &self.first };
            self.pieces = directory.clearable(old);
            if !self.pieces.is_empty() {
                return self.copy();
            }
            // All that is old enough is being cut, or is cleared.
            if self.looks >= 2 * most {
                return ClearAction::Over;
            }
        }
        self.last = left;
        let ms = self.protocol.clearing_ms / u64::from(most);
        ClearAction::Wait { ms }
    }

    fn copy(&mut self) -> ClearAction {
        if !self.keeps(Rule::CopiedBeforeCleared) {
            return self.step(ClearEvent::Copied);
        }
        let copies = self.left().map(|(span, from, to)| Copying { from, to, span });
        ClearAction::Copy(copies.collect())
    }

    fn delete(&self) -> ClearAction {
        let left = self.left().map(|(span, from, _)| (from, span));
        ClearAction::Delete(left.collect())
    }

    /// What was left of each piece, and where it is read.
    fn left(&self) -> impl Iterator<Item = (Span, Bucket, Bucket)> {
        self.pieces.iter().flat_map(|piece| {
            let buckets = piece.buckets.iter();
            buckets.map(|from| (piece.span.clone(), *from, piece.roles.read))
        })
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.protocol.rules.keeps(rule)
    }
}

impl Directory {
    /// The buckets that were left, by pieces.
    pub(crate) fn left(&self) -> Vec<Left> {
        let left = self.spans().filter(|(_, piece)| !piece.roles.old.is_empty());
        left.map(|(span, piece)| (span, piece.roles.old.clone()))
            .collect()
    }

    /// The pieces that are not being cut, with those of their left buckets that had been left of all of them by then.
    pub(crate) fn clearable(&self, by_then: &[Left]) -> Vec<Cleared> {
        let at_rest = self.spans().filter(|(_, piece)| piece.roles.is_at_rest());
        let cleared = at_rest.filter_map(|(span, piece)| {
            let of_it = by_then
                .iter()
                .find(|(of, _)| of.common(&span).as_ref() == Some(&span));
            let (_, then) = of_it?;
            let buckets: BTreeSet<Bucket> = piece.roles.old.intersection(then).copied().collect();
            let roles = piece.roles.clone();
            (!buckets.is_empty()).then_some(Cleared { span, roles, buckets })
        });
        cleared.collect()
    }

    /// Whether a piece is as it was found.
    fn is_as(&self, found: &Cleared) -> bool {
        let mut spans = self.spans();
        spans.any(|(span, piece)| span == found.span && piece.roles == found.roles)
    }
}
