//! State machine that writes one row to its buckets.
//!
//! ```text
//!  take a copy ──► take a stamp ──► write ──┬─ the copy lives ────────────────► acknowledge
//!       ▲                                   │                                        ▲
//!       │ elsewhere: another stamp          ▼                                        │
//!       └────────────────────────────── read again ─── all that take it have it ─────┘
//! ```
//!
//! A write that starts over gets a new timestamp, and counts as another write. Its first attempt
//! may leave rows with an older timestamp. The old timestamp must not be used in the buckets of a
//! newer range map: a later deletion that was already acknowledged may not have gone to these
//! buckets, so the write could revive the deleted row.

use std::collections::BTreeSet;

use crate::buckets::copy::{Clock, DirectoryCopy};
use crate::buckets::limits::Protocol;
use crate::buckets::names::{Bucket, Key, Micros};
use crate::buckets::routing::{Operation, Unrouted};
use crate::buckets::rules::Rule;

/// Event that the caller reports to [`Writing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteEvent {
    /// The caller starts the write.
    Begin,
    /// The caller has a range map (which bucket holds which keys), or the window of it that
    /// contains the key.
    Copy(DirectoryCopy),
    /// The caller took a write timestamp, greater than all earlier ones.
    Stamped(Micros),
    /// All buckets have applied the write. The caller has repeated requests of unknown outcome with
    /// the same timestamp.
    Written,
}

/// Action that the caller of [`Writing`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteAction {
    /// Use the cached range map of this process if it has not expired. Otherwise read the range
    /// map.
    Take,
    /// Read the range map from the store, because the cached one is missing or has expired.
    Read,
    /// Take a new write timestamp, and report [`Stamped`](WriteEvent::Stamped).
    Stamp,
    /// Write the row to `buckets`, or delete it there.
    Write {
        /// Ids of the buckets that receive the write.
        buckets: BTreeSet<Bucket>,
        /// Write timestamp of the row.
        stamp: Micros,
    },
    /// Delete a misplaced row in a bucket, at the row's own timestamp. The write does not wait for
    /// the deletion.
    Remove {
        /// Bucket that has the misplaced row.
        bucket: Bucket,
        /// Timestamp of the deletion: that of the misplaced row.
        stamp: Micros,
    },
    /// Report the write as done, with this timestamp.
    Acknowledge(Micros),
    /// Reject the write, because no bucket receives it.
    Refuse(Unrouted),
}

/// State machine that writes or deletes one row in the buckets of its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writing {
    key: Key,
    operation: Operation,
    /// Likely bucket of the key, which receives the write while the range map is being read;
    /// `None`: first get the range map.
    guess: Option<Bucket>,
    copy: Option<DirectoryCopy>,
    /// Buckets that must receive the write, according to the range map (which bucket holds which
    /// keys) in `copy`.
    takers: BTreeSet<Bucket>,
    stamp: Option<Micros>,
    /// Buckets to which the write was sent with the timestamp in `stamp`.
    buckets: BTreeSet<Bucket>,
    stage: Stage,
    protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// The machine waits for a range map (which bucket holds which keys) or a timestamp.
    Taking,
    /// The write was sent to its buckets.
    Writing,
    /// The write is applied, and a range map is being read: the first one if the bucket was
    /// guessed, or a newer one because the first has expired.
    Reading,
}

impl Writing {
    /// Creates the write or deletion of the row with this key. A `guess` of its bucket saves time
    /// if no range map is cached: the row is written to the guessed bucket while the range map is
    /// read.
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

    /// Handles an event, and returns the next actions of the caller. `now` is the time of the
    /// event.
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
        // A second range map is read after the write was applied. If it names the same buckets, the
        // write is valid, even if the second range map has expired by now.
        let is_again = self.copy.is_some();
        let is_safe = is_again || copy.lives(now);
        self.copy = Some(copy);
        match self.stage {
            Stage::Reading => self.judge(is_safe),
            // The write to the guessed bucket is in progress. When it is applied, `judge` compares
            // the guessed bucket with this range map.
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

    /// Decides whether an applied write is acknowledged, or starts over. `is_safe` is true if the
    /// range map has not expired, or was read after the write. Then no process can have continued a
    /// split that the range map does not show.
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

    /// Returns the deletions of the row in buckets where it does not belong. Without them, the
    /// misplaced rows would stay there forever.
    fn removes(&self) -> Vec<WriteAction> {
        let Some(stamp) = self.stamp.filter(|_| self.operation == Operation::Put) else {
            return Vec::new();
        };
        let strays = self.buckets.difference(&self.takers).copied();
        strays
            .map(|bucket| WriteAction::Remove { bucket, stamp })
            .collect()
    }

    /// Starts the write over, with a new timestamp and the range map that was just read.
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
