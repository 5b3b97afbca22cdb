//! Last step of a split, an hour later: removal of old buckets. An old bucket may still have rows of a writer
//! whose clocks stopped. They are copied to the bucket that is read, and then the old bucket is deleted.
//!
//! Meanwhile the ranges may be split again, any number of times. The buckets that were old when the wait
//! began are cleared nevertheless, whichever bucket is read by then. The wait is shorter if there will soon
//! be no room for more old buckets.
//!
//! After a join, the edges between the joined ranges are removed when the old buckets of these ranges are
//! cleared. Without the edges, this machine would copy rows of an old bucket that belong to another range. Such
//! a row may be left from a wrong guess, and may have been deleted since.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Roles, Span};
use crate::buckets::limits::{MAX_CLEARING_LOOKS, MAX_FURTHER_BUCKETS, Protocol};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::rules::Rule;
use crate::buckets::splitting::Decision;
use crate::buckets::steps::Copying;

/// Event of the clearing that the caller reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearEvent {
    /// The caller starts the clearing of old buckets.
    Begin,
    /// The range map, or a window of it, was read.
    Read(Directory),
    /// The time of [`ClearAction::Wait`] has passed.
    Waited,
    /// All rows of [`ClearAction::Copy`] are copied.
    Copied,
    /// All rows of [`ClearAction::Delete`] are deleted.
    Deleted,
    /// The conditional write of the range map ended.
    Decided(Decision),
}

/// Action of the clearing that the caller takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearAction {
    /// Read the range map, serially.
    Read,
    /// Wait for this time, and then report [`Waited`](ClearEvent::Waited).
    Wait {
        /// Time to wait, in milliseconds.
        ms: u64,
    },
    /// Copy these rows, if there are any.
    Copy(Vec<Copying>),
    /// Delete all rows of these spans in these buckets. No process reads these buckets.
    Delete(Vec<(Bucket, Span)>),
    /// Put this range map, without the ranges that start at `gone`, if this version is stored.
    Cas {
        /// Version that the stored range map must have.
        expected: Version,
        /// Range map to put.
        put: Directory,
        /// Starts of the ranges that the write removes from the range map, because they were joined with the
        /// range before them.
        gone: Vec<Key>,
    },
    /// Nothing is left to do here. Changes that other processes made meanwhile are left to them, or to a
    /// later run.
    Over,
}

/// State machine that clears the old buckets of a range map.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clearing {
    /// Old buckets of each span when the wait began.
    first: Vec<Left>,
    /// Old buckets of each span at the last read.
    last: Vec<Left>,
    /// Number of waits that are over.
    looks: u32,
    /// Ranges whose old buckets are being cleared, as they were found.
    pieces: Vec<Cleared>,
    /// Conditional write that is under way.
    put: Option<Directory>,
    stage: Stage,
    protocol: Protocol,
}

/// Span of a range, and the old buckets of the range.
pub(crate) type Left = (Span, BTreeSet<Bucket>);

/// Range as it was found, and the old buckets that are removed from it.
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
    /// Edges between joined ranges are being removed.
    Merging,
}

impl Clearing {
    /// Creates the machine that clears all old buckets.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            first: Vec::new(),
            last: Vec::new(),
            looks: 0,
            pieces: Vec::new(),
            put: None,
            stage: Stage::Waiting,
            protocol,
        }
    }

    /// Handles an event, and returns the next action.
    pub fn step(&mut self, event: ClearEvent) -> ClearAction {
        match event {
            ClearEvent::Begin => ClearAction::Read,
            ClearEvent::Decided(decision) => self.decided(decision),
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

    fn decided(&mut self, decision: Decision) -> ClearAction {
        let put = self.put.take();
        let is_merging = self.stage == Stage::Merging;
        match decision {
            // Edges were removed before any old bucket was cleared: now begin with the old buckets.
            _ if is_merging && self.pieces.is_empty() => {
                self.stage = Stage::Waiting;
                ClearAction::Read
            }
            _ if is_merging => ClearAction::Over,
            Decision::Applied => {
                let merging = put.and_then(|put| self.merge(&put));
                merging.unwrap_or(ClearAction::Over)
            }
            Decision::Refused | Decision::Unknown => ClearAction::Read,
        }
    }

    /// Removes the edges between joined ranges; `None` if the range map has no such edges.
    fn merge(&mut self, directory: &Directory) -> Option<ClearAction> {
        let (put, gone) = directory.without_inner_edges(self.protocol)?;
        self.stage = Stage::Merging;
        Some(ClearAction::Cas {
            expected: directory.version,
            put,
            gone,
        })
    }

    fn reads(&mut self, directory: &Directory) -> ClearAction {
        if self.stage == Stage::Waiting {
            return self.looks_at(directory);
        }
        // Leave out each range that changed after it was found. If it was split, its rows must be
        // copied again before its old buckets are deleted.
        self.pieces.retain(|piece| directory.is_as(piece));
        if self.pieces.is_empty() {
            return ClearAction::Over;
        }
        match directory.cleared(&self.pieces) {
            None => ClearAction::Over,
            Some(put) if self.stage == Stage::Deleted => {
                self.put = Some(put.clone());
                ClearAction::Cas {
                    expected: directory.version,
                    put,
                    gone: Vec::new(),
                }
            }
            Some(_) => self.delete(),
        }
    }

    /// Waits until the old buckets are old enough. After the wait, begins with the ranges of which no split
    /// is under way.
    fn looks_at(&mut self, directory: &Directory) -> ClearAction {
        if self.looks == 0
            && let Some(merging) = self.merge(directory)
        {
            return merging;
        }
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
            // No range can be cleared now: the ranges with old enough buckets are being split, or are
            // cleared. After twice the number of waits, leave them to a later run.
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

    /// Returns the old buckets to clear. Each item has the span of the range, the old bucket, and the bucket
    /// that is read.
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
    /// Returns the old buckets of the range map, by range.
    pub(crate) fn left(&self) -> Vec<Left> {
        let left = self.spans().filter(|(_, piece)| !piece.roles.old.is_empty());
        left.map(|(span, piece)| (span, piece.roles.old.clone()))
            .collect()
    }

    /// Returns the ranges that are not being split and that have old buckets which `by_then` lists for the
    /// whole range. Each range is returned with these buckets.
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

    /// Returns whether a range still is as it was found.
    fn is_as(&self, found: &Cleared) -> bool {
        let mut spans = self.spans();
        spans.any(|(span, piece)| span == found.span && piece.roles == found.roles)
    }
}
