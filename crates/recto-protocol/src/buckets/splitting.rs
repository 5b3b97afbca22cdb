//! Split and join of buckets, up to the clearing of old buckets. Any process can continue a split
//! or a join that another process left half done.
//!
//! ```text
//!  begin ──► read ──► cut: conditional write ──► wait ──► copy ──► conditional write ──┬──► over
//!              ▲            │                     ▲                      │             │
//!              └─ refused, unknown ◄──────────────┼──────────────────────┘             │
//!                                                 └──────── steps are left ────────────┘
//! ```
//!
//! A process that continues a split knows nothing about the process that began it, so it waits
//! again and copies again. Each conditional write compares the version of the range map, so only
//! one of two processes can continue. Rows may be copied twice without harm, because copies keep
//! their timestamps.
//!
//! A large split needs several conditional writes, but only one wait after the last write. During
//! the wait, every cached range map of an earlier version expires.
//!
//! The first step of a join is always one conditional write. After the first step, a join proceeds
//! like a split.

use crate::buckets::directory::Directory;
use crate::buckets::limits::Protocol;
use crate::buckets::names::Version;
use crate::buckets::rules::Rule;
use crate::buckets::steps::{Copying, Cut, Join, Ripe, Room, copies};

/// Event that the caller reports to [`Splitting`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SplitEvent {
    /// The caller starts or continues the split.
    Begin,
    /// The caller has read the range map (which bucket holds which keys), or the window of it that
    /// is split.
    Read(Directory),
    /// The caller has stored the mark of [`SplitAction::MarkRoot`].
    RootMarked,
    /// The conditional write of [`SplitAction::Cas`] ended.
    Decided(Decision),
    /// The time of [`SplitAction::Wait`] has passed.
    Waited,
    /// All rows of [`SplitAction::Copy`] are copied. The caller has repeated requests of unknown
    /// outcome.
    Copied,
}

/// Outcome of a conditional write of a range map (which bucket holds which keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The write is applied.
    Applied,
    /// The write is not applied, because the stored version was not the expected one.
    Refused,
    /// The outcome is unknown: the write may be applied, now or later, or was never sent.
    Unknown,
}

/// Action that the caller of [`Splitting`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SplitAction {
    /// Read the range map with serial consistency, so that no process can read an older one
    /// afterwards.
    Read,
    /// Store a mark in bucket 0 which shows that the partition exists, so that scans find the
    /// partition.
    MarkRoot,
    /// Replace the range map (which bucket holds which keys) by `put`, if the stored version is
    /// `expected`.
    Cas {
        /// Version that the stored range map (which bucket holds which keys) must have; 0: there is
        /// no stored range map.
        expected: Version,
        /// Range map to put. The caller writes only its changes since the expected version.
        put: Directory,
    },
    /// Wait for `ms`, measured with the clock that counts since the start of the machine.
    Wait {
        /// Time to wait, in milliseconds.
        ms: u64,
    },
    /// Copy these rows to their new buckets, then report [`Copied`](SplitEvent::Copied).
    Copy(Vec<Copying>),
    /// The split has ended. Old buckets may have to be [cleared](crate::buckets::Clearing) later.
    Over,
}

/// State machine that splits and joins buckets, or continues a half-done split or join.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Splitting {
    /// Splits that are not begun. Each conditional write begins as many of the first splits as fit
    /// into it.
    cuts: Vec<Cut>,
    /// Joins that are not begun, in reverse order.
    joins: Vec<Join>,
    room: Room,
    /// True if the partition grows so fast that it will soon be split again, so that its range map
    /// keeps its short lifetime.
    is_hot: bool,
    is_root_marked: bool,
    /// True if another process began the current step, so that this process has to wait and copy
    /// again.
    is_others: bool,
    known: Option<Directory>,
    /// Version of the range map when the last wait began, and the ranges that were being split
    /// then.
    waited: Option<(Version, Vec<Ripe>)>,
    /// Range map of the conditional write under way; `None`: no write is under way.
    put: Option<Directory>,
    protocol: Protocol,
}

impl Splitting {
    /// Creates the machine that makes these splits, each of another bucket. Without splits, the
    /// machine continues a half-done split. `is_hot` is true if the partition will soon be split
    /// again, so that cached range maps keep their short lifetime. `room` limits the size of one
    /// conditional write.
    pub fn new(cuts: impl IntoIterator<Item = Cut>, is_hot: bool, room: Room, protocol: Protocol) -> Self {
        let cuts: Vec<Cut> = cuts.into_iter().flat_map(|cut| cut.in_parts(room)).collect();
        Self {
            is_others: cuts.is_empty(),
            cuts,
            joins: Vec::new(),
            room,
            is_hot,
            is_root_marked: false,
            known: None,
            waited: None,
            put: None,
            protocol,
        }
    }

    /// Adds joins, which are made before the splits. A join that is no longer possible is skipped.
    #[must_use]
    pub fn with_joins(mut self, joins: impl IntoIterator<Item = Join>) -> Self {
        let room = self.room;
        self.joins = joins.into_iter().filter(|join| join.fits(room)).collect();
        self.joins.reverse();
        self.is_others &= self.joins.is_empty();
        self
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: SplitEvent) -> SplitAction {
        match event {
            SplitEvent::Begin => return SplitAction::Read,
            SplitEvent::Read(directory) => {
                let is_first = self.known.is_none();
                self.known = Some(directory);
                if is_first && self.is_others && !self.keeps(Rule::WaitedByOneself) {
                    return self.begins_to_wait(true);
                }
            }
            SplitEvent::RootMarked => self.is_root_marked = true,
            SplitEvent::Decided(Decision::Applied) => self.applied(),
            SplitEvent::Decided(Decision::Unknown) if !self.keeps(Rule::UnknownIsRead) => self.applied(),
            SplitEvent::Decided(_) => {
                self.put = None;
                return SplitAction::Read;
            }
            SplitEvent::Waited => {
                if let Some(copy) = self.copy() {
                    return copy;
                }
            }
            SplitEvent::Copied => {}
        }
        self.go_on()
    }

    fn applied(&mut self) {
        self.known = self.put.take();
        self.is_others = false;
    }

    fn go_on(&mut self) -> SplitAction {
        let Some(known) = &self.known else {
            return SplitAction::Read;
        };
        let must_mark = known.version == 0 && self.keeps(Rule::RootMarkedFirst) && !self.is_root_marked;
        while let Some(join) = self.joins.last() {
            match known.join(join, self.protocol) {
                Some(_) if must_mark => return SplitAction::MarkRoot,
                Some(put) => return self.cas(put),
                None => self.joins.pop(),
            };
        }
        while !self.cuts.is_empty() {
            let fitting = self.room.fitting(self.cuts.iter().map(Cut::extent));
            match known.cut_all(&self.cuts[..fitting], self.protocol) {
                Some(_) if must_mark => return SplitAction::MarkRoot,
                Some(put) => return self.cas(put),
                None => self.cuts.drain(..fitting),
            };
        }
        if !known.is_being_cut() {
            return self.ends();
        }
        if let Some((version, ripe)) = &self.waited {
            let is_of_this = *version == known.version;
            if let Some(next) = known.advanced(ripe, is_of_this, self.room, self.protocol) {
                return self.cas(next);
            }
        }
        self.wait()
    }

    /// Starts to wait for the expiry of cached range maps. Every process that reads the range map
    /// from now on gets the stored version.
    fn wait(&mut self) -> SplitAction {
        let pieces = self.known.as_ref().map(Directory::being_cut).unwrap_or_default();
        let may_skip = pieces.iter().all(|(_, roles)| {
            let rule = match (roles.deletes.is_empty(), roles.next_read()) {
                (false, _) => Rule::WaitAfterDeletions,
                (true, Some(_)) => Rule::WaitAfterWrites,
                (true, None) => Rule::WaitBeforeLeaving,
            };
            !self.keeps(rule)
        });
        self.begins_to_wait(may_skip)
    }

    fn begins_to_wait(&mut self, may_skip: bool) -> SplitAction {
        let Some(known) = &self.known else {
            return SplitAction::Read;
        };
        let longest_ms = if self.keeps(Rule::LongestLifeRemembered) {
            known.longest_ms
        } else {
            known.life_ms
        };
        self.waited = Some((known.version, known.being_cut()));
        if may_skip {
            return self.step(SplitEvent::Waited);
        }
        let ms = self.protocol.wait_ms(longest_ms);
        SplitAction::Wait { ms }
    }

    fn copy(&self) -> Option<SplitAction> {
        let (_, ripe) = self.waited.as_ref()?;
        let copies = copies(ripe);
        let was_copied = self.is_others && !self.keeps(Rule::CopiedByOneself);
        let must = !copies.is_empty() && !was_copied && self.keeps(Rule::CopiedBeforeRead);
        must.then_some(SplitAction::Copy(copies))
    }

    fn ends(&mut self) -> SplitAction {
        let calmed = self.known.as_ref().filter(|known| known.version > 0);
        let calmed = calmed.and_then(|known| known.calmed(self.protocol));
        match calmed.filter(|_| !self.is_hot) {
            Some(next) => self.cas(next),
            None => SplitAction::Over,
        }
    }

    fn cas(&mut self, put: Directory) -> SplitAction {
        self.put = Some(put.clone());
        let expected = self.known.as_ref().map_or(0, |known| known.version);
        SplitAction::Cas { expected, put }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.protocol.rules.keeps(rule)
    }
}
