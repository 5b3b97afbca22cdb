//! The last step of a cut, an hour later: what a bucket that was left still has, of somebody whose clocks stood still, is
//! copied to the bucket that is read; then it goes, as a range.

use crate::directory::{Directory, Span};
use crate::limits::Protocol;
use crate::names::{Bucket, Version};
use crate::rules::Rule;
use crate::splitting::Decision;
use crate::steps::{Copying, Ripe};

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
    pieces: Option<Vec<Ripe>>,
    stage: Stage,
    protocol: Protocol,
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
            pieces: None,
            stage: Stage::Waiting,
            protocol,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: ClearEvent) -> ClearAction {
        match event {
            ClearEvent::Decided(Decision::Applied) => ClearAction::Over,
            ClearEvent::Begin | ClearEvent::Decided(_) => ClearAction::Read,
            ClearEvent::Read(directory) => self.reads(&directory),
            ClearEvent::Waited if self.keeps(Rule::CopiedBeforeCleared) => {
                let copies = self.left().map(|(span, from, to)| Copying { from, to, span });
                ClearAction::Copy(copies.collect())
            }
            ClearEvent::Waited | ClearEvent::Copied => {
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
        let found = directory.to_clear();
        let Some(pieces) = &mut self.pieces else {
            if found.is_empty() {
                return ClearAction::Over;
            }
            self.pieces = Some(found);
            let ms = self.protocol.clearing_ms;
            return ClearAction::Wait { ms };
        };
        // What was cut since is copied again, and so is not gone on with here.
        pieces.retain(|piece| found.contains(piece));
        let cleared = directory.cleared(pieces);
        match (&self.stage, cleared) {
            (_, None) => ClearAction::Over,
            (Stage::Deleted, Some(put)) => ClearAction::Cas {
                expected: directory.version,
                put,
            },
            (Stage::Waiting | Stage::Copied, Some(_)) => self.delete(),
        }
    }

    fn delete(&self) -> ClearAction {
        let left = self.left().map(|(span, from, _)| (from, span));
        ClearAction::Delete(left.collect())
    }

    /// What was left of each piece, and where it is read.
    fn left(&self) -> impl Iterator<Item = (Span, Bucket, Bucket)> {
        let pieces = self.pieces.iter().flatten();
        pieces.flat_map(|(span, roles)| {
            let old = roles.old.iter();
            old.map(|from| (span.clone(), *from, roles.read))
        })
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.protocol.rules.keeps(rule)
    }
}
