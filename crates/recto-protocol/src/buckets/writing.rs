//! One write of a row on its way into its buckets.
//!
//! ```text
//!  take a copy ──► take a stamp ──► write ──┬─ the copy lives ────────────────► acknowledge
//!       ▲                                   │                                        ▲
//!       │ elsewhere: another stamp          ▼                                        │
//!       └────────────────────────────── read again ─── all that take it have it ─────┘
//! ```
//!
//! A write that is begun anew is another write: what the first one left has an older stamp. An old stamp must not go where a
//! newer directory says: a deletion that was acknowledged since may not have gone there.

use std::collections::BTreeSet;

use crate::buckets::copy::{Clock, DirectoryCopy};
use crate::buckets::limits::Protocol;
use crate::buckets::names::{Bucket, Key, Micros};
use crate::buckets::routing::{Operation, Unrouted};
use crate::buckets::rules::Rule;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteEvent {
    /// It can begin.
    Begin,
    /// A copy of the directory, or of the window of it that has the key.
    Copy(DirectoryCopy),
    /// A stamp was taken, greater than all that were taken before.
    Stamped(Micros),
    /// It is applied, in all of the buckets. What was of unknown outcome was sent again, at the same stamp.
    Written,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteAction {
    /// Take the copy that this process has, if it lives; else read one.
    Take,
    /// Read a copy anew.
    Read,
    /// Take a stamp.
    Stamp,
    /// Write the row to these buckets, or delete it there.
    Write {
        /// Where.
        buckets: BTreeSet<Bucket>,
        /// At which stamp.
        stamp: Micros,
    },
    /// Delete the row where it does not belong, at its own stamp. Nobody waits for that.
    Remove {
        /// Where.
        bucket: Bucket,
        /// At which stamp.
        stamp: Micros,
    },
    /// It is done, at this stamp.
    Acknowledge(Micros),
    /// No bucket takes it.
    Refuse(Unrouted),
}

/// A write on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writing {
    key: Key,
    operation: Operation,
    /// Until something is known that is better.
    guess: Option<Bucket>,
    copy: Option<DirectoryCopy>,
    /// Who takes it by that copy.
    takers: BTreeSet<Bucket>,
    stamp: Option<Micros>,
    /// Where it goes at that stamp.
    buckets: BTreeSet<Bucket>,
    stage: Stage,
    protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// No copy is there.
    Taking,
    /// It is on its way.
    Writing,
    /// It is written, and a copy is read: the first one, or another one since that was over.
    Reading,
}

impl Writing {
    /// Of a row that has this key. Where no copy is there, a `guess` saves the time to read one: it is written to that
    /// bucket beside the reading.
    pub fn new(key: Key, operation: Operation, guess: Option<Bucket>, protocol: Protocol) -> Self {
        Self {
            key,
            operation,
            guess,
            copy: None,
            takers: BTreeSet::new(),
            stamp: None,
            buckets: BTreeSet::new(),
            stage: Stage::Taking,
            protocol,
        }
    }

    /// What is to be done about what happened, when the clocks show this.
    pub fn step(&mut self, event: WriteEvent, now: Clock) -> Vec<WriteAction> {
        match event {
            WriteEvent::Begin if self.guess.is_some() => vec![WriteAction::Read, WriteAction::Stamp],
            WriteEvent::Begin if self.keeps(Rule::StampAfterCopy) => vec![WriteAction::Take],
            WriteEvent::Begin => vec![WriteAction::Stamp],
            WriteEvent::Copy(copy) => self.goes_by(copy, now),
            WriteEvent::Stamped(stamp) => self.stamped(stamp),
            WriteEvent::Written => match &self.copy {
                None => {
                    self.stage = Stage::Reading;
                    Vec::new()
                }
                Some(copy) => {
                    let lives = copy.lives(now);
                    self.judge(lives)
                }
            },
        }
    }

    fn goes_by(&mut self, copy: DirectoryCopy, now: Clock) -> Vec<WriteAction> {
        let directory = copy.directory();
        match directory.takers(&self.key, self.operation, self.protocol) {
            Ok(takers) => self.takers = takers,
            Err(unrouted) => {
                self.takers.clear();
                let mut actions = self.removes();
                actions.push(WriteAction::Refuse(unrouted));
                return actions;
            }
        }
        // What was written before it was read again is wherever it is now, if that says so; however old it is by now.
        let is_again = self.copy.is_some();
        let is_safe = is_again || copy.lives(now);
        self.copy = Some(copy);
        match self.stage {
            Stage::Reading => self.judge(is_safe),
            // What is on its way is the guess.
            Stage::Writing => Vec::new(),
            Stage::Taking if self.guess.is_some() => Vec::new(),
            Stage::Taking if self.stamp.is_some() => self.write(),
            Stage::Taking => vec![WriteAction::Stamp],
        }
    }

    fn stamped(&mut self, stamp: Micros) -> Vec<WriteAction> {
        self.stamp = Some(stamp);
        if self.guess.is_none() && self.copy.is_none() {
            return vec![WriteAction::Take];
        }
        self.write()
    }

    fn write(&mut self) -> Vec<WriteAction> {
        self.stage = Stage::Writing;
        self.buckets = match self.guess {
            Some(bucket) => [bucket].into(),
            None => self.takers.clone(),
        };
        let buckets = self.buckets.clone();
        let write = |stamp| WriteAction::Write { buckets, stamp };
        self.stamp.map(write).into_iter().collect()
    }

    /// It is written. `is_safe`: nobody can have gone on meanwhile with a cut that the copy does not know.
    fn judge(&mut self, is_safe: bool) -> Vec<WriteAction> {
        let is_there = self.takers.is_subset(&self.buckets);
        if !is_there && (self.guess.is_none() || self.keeps(Rule::GuessIsChecked)) {
            return self.begin_again();
        }
        if let (Some(stamp), true) = (self.stamp, is_safe || !self.keeps(Rule::AcknowledgedByLivingCopy)) {
            return vec![WriteAction::Acknowledge(stamp)];
        }
        self.stage = Stage::Reading;
        vec![WriteAction::Read]
    }

    /// What lies where it does not belong goes: nobody else would know of it.
    fn removes(&self) -> Vec<WriteAction> {
        let Some(stamp) = self.stamp.filter(|_| self.operation == Operation::Put) else {
            return Vec::new();
        };
        let strays = self.buckets.difference(&self.takers).copied();
        strays
            .map(|bucket| WriteAction::Remove { bucket, stamp })
            .collect()
    }

    /// As another write, by the copy that was just read.
    fn begin_again(&mut self) -> Vec<WriteAction> {
        let mut actions = self.removes();
        self.guess = None;
        if self.keeps(Rule::NewStampForNewCopy) {
            self.stage = Stage::Taking;
            actions.push(WriteAction::Stamp);
        } else {
            actions.extend(self.write());
        }
        actions
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.protocol.rules.keeps(rule)
    }
}
