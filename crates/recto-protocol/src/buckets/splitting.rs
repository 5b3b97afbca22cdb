//! A cut, from the first step to the last but one; and whoever goes on with one that was left half done.
//!
//! ```text
//!  begin ──► read ──► cut: conditional write ──► wait ──► copy ──► conditional write ──┬──► over
//!              ▲            │                     ▲                      │             │
//!              └─ refused, unknown ◄──────────────┼──────────────────────┘             │
//!                                                 └──────── steps are left ────────────┘
//! ```
//!
//! Who goes on knows nothing of who began: it waits and copies anew. Each conditional write compares the version, so that of
//! two who go on one is let on; and whatever is copied twice is copied at the stamps it had.
//!
//! What one conditional write has no room for is several, one after the other, with one wait behind all of them: what is waited for is that nobody goes
//! by how a piece was, and the other writes change other pieces.

use crate::buckets::directory::Directory;
use crate::buckets::limits::Protocol;
use crate::buckets::names::Version;
use crate::buckets::rules::Rule;
use crate::buckets::steps::{Copying, Cut, Ripe, Room, copies};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SplitEvent {
    /// It can begin.
    Begin,
    /// The directory, or the window of it that is cut.
    Read(Directory),
    /// It is marked in bucket 0 that the partition is there.
    RootMarked,
    /// The conditional write ended.
    Decided(Decision),
    /// So much time went by.
    Waited,
    /// All is copied. What was of unknown outcome was sent again.
    Copied,
}

/// How a conditional write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It is applied.
    Applied,
    /// It is not: the version is another one.
    Refused,
    /// It may be, now or later; or it was not sent.
    Unknown,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SplitAction {
    /// Read the directory, serially: what is read, nobody reads an older one than that any more.
    Read,
    /// Mark in bucket 0 that the partition is there.
    MarkRoot,
    /// Put this, if this version is there.
    Cas {
        /// The version; 0: there is no directory.
        expected: Version,
        /// What to put: of it, what was changed since that.
        put: Directory,
    },
    /// Wait so long, by the clock that counts since the machine was started.
    Wait {
        /// How long.
        ms: u64,
    },
    /// Copy these rows.
    Copy(Vec<Copying>),
    /// Nothing is left to be done; but buckets that were left may be [cleared](crate::buckets::Clearing) later.
    Over,
}

/// A cut under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Splitting {
    /// What is to be cut yet, as many by one conditional write as it has room for.
    cuts: Vec<Cut>,
    room: Room,
    /// Whether the partition grows so fast that it is to be cut again soon.
    is_hot: bool,
    is_root_marked: bool,
    /// Whether what is to be done was begun by another.
    is_others: bool,
    known: Option<Directory>,
    /// The version by which the last wait began, and the pieces that were being cut then.
    waited: Option<(Version, Vec<Ripe>)>,
    /// The conditional write that is on its way.
    put: Option<Directory>,
    protocol: Protocol,
}

impl Splitting {
    /// To make these cuts, each of another bucket; none: to go on with what is half done. `is_hot`: the partition will be cut again soon, so that copies of
    /// its directory stay short-lived. `room`: of one conditional write.
    pub fn new(cuts: impl IntoIterator<Item = Cut>, is_hot: bool, room: Room, protocol: Protocol) -> Self {
        let cuts: Vec<Cut> = cuts.into_iter().flat_map(|cut| cut.in_parts(room)).collect();
        Self {
            is_others: cuts.is_empty(),
            cuts,
            room,
            is_hot,
            is_root_marked: false,
            known: None,
            waited: None,
            put: None,
            protocol,
        }
    }

    /// What is to be done about what happened.
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
        while !self.cuts.is_empty() {
            let fitting = self.room.fitting(self.cuts.iter().map(Cut::extent));
            if let Some(cut) = known.cut_all(&self.cuts[..fitting], self.protocol) {
                let must_mark = known.version == 0 && self.keeps(Rule::RootMarkedFirst);
                if must_mark && !self.is_root_marked {
                    return SplitAction::MarkRoot;
                }
                return self.cas(cut);
            }
            self.cuts.drain(..fitting);
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

    /// What is there now was shown to everybody: from now on nobody begins by anything older.
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
