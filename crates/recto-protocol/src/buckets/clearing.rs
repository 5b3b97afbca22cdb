//! Clearing of old buckets: the last step of a split, one hour later. An old bucket no longer holds
//! current rows of a key range, but may still have rows of a writer whose clocks stopped. The
//! clearing copies these rows to the bucket that is read, and then deletes the old bucket.
//!
//! During the wait, the ranges may be split again, any number of times. The buckets that were old
//! when the wait began are cleared nevertheless, whichever bucket is read by then. The wait is
//! shorter if a range already has many old buckets, because their number is limited.
//!
//! After a join, the clearing removes the edges between the joined ranges, when the old buckets of
//! these ranges are cleared. If an edge were removed earlier, a row of an old bucket could be
//! copied into the wrong range. A write with a wrong guess may have left such a row, and the row
//! may have been deleted since.

use std::collections::BTreeSet;

use crate::buckets::directory::{Directory, Roles, Span};
use crate::buckets::limits::{MAX_CLEARING_LOOKS, MAX_FURTHER_BUCKETS, Protocol};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::rules::Rule;
use crate::buckets::splitting::Decision;
use crate::buckets::steps::Copying;

/// Event that the caller reports to [`Clearing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearEvent {
    /// The caller starts the clearing of old buckets (left by splits).
    Begin,
    /// The caller has read the range map (which bucket holds which keys), or a window of it.
    Read(Directory),
    /// The time of [`ClearAction::Wait`] has passed.
    Waited,
    /// All rows of [`ClearAction::Copy`] are copied.
    Copied,
    /// All rows of [`ClearAction::Delete`] are deleted.
    Deleted,
    /// The conditional write of [`ClearAction::Cas`] ended.
    Decided(Decision),
}

/// Action that the caller of [`Clearing`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClearAction {
    /// Read the range map (which bucket holds which keys) with serial consistency.
    Read,
    /// Wait for `ms`, and then report [`Waited`](ClearEvent::Waited).
    Wait {
        /// Time to wait, in milliseconds.
        ms: u64,
    },
    /// Copy the remaining rows of old buckets, then report [`Copied`](ClearEvent::Copied).
    Copy(Vec<Copying>),
    /// Delete all rows of these spans of keys in these old buckets. No process reads these buckets.
    Delete(Vec<(Bucket, Span)>),
    /// Replace the range map by `put`, and remove the ranges that start at `gone`, if the stored
    /// version is `expected`.
    Cas {
        /// Version that the stored range map (which bucket holds which keys) must have.
        expected: Version,
        /// Range map to put.
        put: Directory,
        /// Starts of the ranges that the write removes from the range map, because they were joined with the
        /// range before them.
        gone: Vec<Key>,
    },
    /// The clearing has ended. Later changes of other processes are left to those processes, or to
    /// a later clearing.
    Over,
}

/// State machine that clears the old buckets of a range map: buckets that a split or a join left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clearing {
    /// Old buckets of each key range when the wait began.
    first: Vec<Left>,
    /// Old buckets of each key range when the range map (which bucket holds which keys) was last
    /// read.
    last: Vec<Left>,
    /// Number of parts of the wait that have passed.
    looks: u32,
    /// Ranges whose old buckets (left by splits) are being cleared, with the state in which they
    /// were found.
    pieces: Vec<Cleared>,
    /// Range map of the conditional write under way; `None`: no write is under way.
    put: Option<Directory>,
    stage: Stage,
    protocol: Protocol,
}

/// Keys of a range, and the old buckets (left by splits) of the range.
pub(crate) type Left = (Span, BTreeSet<Bucket>);

/// Key range in the state in which it was found, and the old buckets to remove from it.
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
    /// Creates the state machine that clears all old buckets of a range map (which bucket holds
    /// which keys).
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

    /// Handles an event, and returns the next action of the caller.
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
            // A write that removed edges preceded the clearing of old buckets: now begin with the
            // buckets.
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

    /// Returns the conditional write that removes the edges between joined ranges; `None` if the
    /// range map has no such edges.
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
        // Leave out each range that changed since it was found. If a range was split, its rows must
        // be copied again before its old buckets are deleted.
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

    /// Waits until the old buckets are old enough. After the wait, starts to clear the ranges in
    /// which no split is under way.
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
            // No range can be cleared now: each range with old enough buckets is being split, or
            // another process cleared it. After twice the planned number of waits, leave the ranges
            // to a later clearing.
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

    /// Returns the old buckets (left by splits) to clear. Each item has the keys of the range, the
    /// old bucket, and the bucket that is read.
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
    /// Returns the old buckets (left by splits) of each range that has some.
    pub(crate) fn left(&self) -> Vec<Left> {
        let left = self.spans().filter(|(_, piece)| !piece.roles.old.is_empty());
        left.map(|(span, piece)| (span, piece.roles.old.clone()))
            .collect()
    }

    /// Returns the ranges that are not being split, with those old buckets (left by splits) that
    /// the earlier list `by_then` has as well. Ranges without such buckets are left out.
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

    /// Returns whether the range has the same keys and buckets as when it was found.
    fn is_as(&self, found: &Cleared) -> bool {
        let mut spans = self.spans();
        spans.any(|(span, piece)| span == found.span && piece.roles == found.roles)
    }
}
