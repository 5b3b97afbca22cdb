//! State of the model of buckets: one row, its writers and deleters, a reader, and processes that
//! split its range.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::model::{B1, B2, B3, B5, Config};
use super::places::check_places_by_read;
use super::store::{KEY, Process, Request, Store, put_window, window_of};
use crate::buckets::limits::STANDSTILL_MS;
use crate::buckets::rules::Rule;
use crate::buckets::{
    Bucket, ClearAction, ClearEvent, Clearing, Clock, Copying, Decision, Directory, DirectoryCopy, Key,
    Micros, Operation, Piece, ReadAction, ReadEvent, Reading, Roles, Slice, Span, SplitAction, SplitEvent,
    Splitting, Version, WriteAction, WriteEvent, Writing,
};

/// Source from which a process of the model gets a range map (which bucket holds which keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MapSource {
    /// The cached range map (which bucket holds which keys) of the process.
    Own,
    /// A read of the present range map (which bucket holds which keys).
    Fresh,
    /// A read without serial consistency, which misses the last conditional write.
    Missed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Happening {
    Begins(u8),
    Takes(u8, MapSource),
    /// A request arrives. The flag says whether the range map by which it was sent has not expired.
    Arrives(Option<Process>, Request, bool),
    Lost(Process, Request),
    WriterDies(u8),
    PageTakes(MapSource),
    /// A slice is read. The flag says whether the range map of the reader has not expired.
    PageReads(bool),
    SplitBegins(u8),
    SplitReads(u8, MapSource),
    Waited(u8),
    CopyReads(u8),
    SplitterDies(u8),
    ClearBegins,
    ClearWaited,
    Clears,
    Purges,
}

/// Cached range map (which bucket holds which keys) of a process, and what the model knows about
/// its expiry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Held {
    copy: Option<DirectoryCopy>,
    /// True if the range map may not have expired, because no process has waited for its expiry.
    may_live: bool,
    /// Indexes of splitting processes whose current wait does not cover this range map, because it
    /// was read during the wait.
    since: BTreeSet<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Writer {
    done: u8,
    writing: Option<Writing>,
    held: Held,
    wants: Option<Wants>,
    is_dead: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wants {
    Take,
    Read,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Page {
    reading: Reading,
    held: Held,
    wants: Option<Wants>,
    slices: Vec<Slice>,
    next: usize,
    shown: Vec<Micros>,
    /// Newest write that was acknowledged when the reader started, or started over.
    acknowledged: Option<(Micros, Operation)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Splitter {
    splitting: Option<Splitting>,
    does: Does,
    /// Version of the range map (which bucket holds which keys) that the splitting process last
    /// read.
    seen: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Does {
    Nothing,
    Reads,
    Waits(u64),
    Copies(Vec<Copying>),
    /// A request of the process is under way.
    Asks,
    IsOver,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    store: Store,
    air: Vec<(Option<Process>, Request)>,
    writers: Vec<Writer>,
    page: Option<Page>,
    splitters: Vec<Splitter>,
    clearer: Option<(Clearing, Does)>,
    stamp: Micros,
    /// Newest acknowledged write of the row.
    acknowledged: Option<(Micros, Operation)>,
    /// Newest write timestamp of a deletion that was sent.
    deleting: Micros,
    losses: u8,
    crashes: u8,
    standstills: u8,
    purges: u8,
    pub(crate) broken: Option<&'static str>,
}

/// Number of low bits of a write timestamp that repeat the index of its write. They let the model
/// recognize a copied row even if the copy got another timestamp.
const STAMP_BITS: u32 = 8;

const ALIVE: Clock = Clock {
    boot_ms: 0,
    wall_ms: 0,
};
const OVER: Clock = Clock {
    boot_ms: u64::MAX,
    wall_ms: 0,
};

/// Returns the write timestamp of the write with the index `count`.
fn stamp_of(count: Micros) -> Micros {
    count << STAMP_BITS | count
}

/// Returns the index of the write that created a row with this timestamp.
fn made_by(stamp: Micros) -> Micros {
    stamp & ((1 << STAMP_BITS) - 1)
}

/// Returns the id of the next new bucket in the first range map (which bucket holds which keys).
fn next_bucket(config: &Config) -> u64 {
    let roles = config.pieces.iter().map(|(_, roles)| roles);
    let named = roles.flat_map(|roles| roles.further().chain([roles.read]));
    named.max().map_or(1, |bucket| bucket.0 + 1)
}

fn clock(lives: bool) -> Clock {
    if lives { ALIVE } else { OVER }
}

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        let protocol = config.protocol();
        let mut store = Store::new(protocol, !config.transacts);
        if config.has_row {
            store.row(Bucket(config.row_bucket), Operation::Put, stamp_of(1));
        }
        if let Some(bucket) = config.stray {
            store.row(Bucket(bucket), Operation::Put, stamp_of(1));
        }
        if config.is_calm {
            store.directory = Arc::new(Directory {
                version: 1,
                life_ms: protocol.long_life_ms,
                longest_ms: protocol.long_life_ms,
                ..Directory::clone(&store.directory)
            });
            store.is_root_marked = true;
        }
        if !config.pieces.is_empty() {
            store.directory = Arc::new(Self::first_directory(config, &store.directory));
            store.is_root_marked = true;
        }
        let first = store.directory.clone();
        let held = Held {
            copy: Some(DirectoryCopy::new(first, ALIVE, ALIVE, protocol)),
            may_live: true,
            since: BTreeSet::new(),
        };
        let writer = |_: &Vec<Operation>| Writer {
            done: 0,
            writing: None,
            held: if config.guesses {
                Held::default()
            } else {
                held.clone()
            },
            wants: None,
            is_dead: false,
        };
        let splitter = |_: &_| Splitter {
            splitting: None,
            does: Does::Nothing,
            seen: 0,
        };
        let mut reading = Reading::new(Span::all(), false, protocol);
        assert_eq!(reading.step(ReadEvent::Begin, ALIVE), ReadAction::Take);
        let page = Page {
            reading,
            held: held.clone(),
            wants: Some(Wants::Take),
            slices: Vec::new(),
            next: 0,
            shown: Vec::new(),
            acknowledged: None,
        };
        let mut world = Self {
            store,
            air: Vec::new(),
            writers: config.writers.iter().map(writer).collect(),
            page: config.reads.then_some(page),
            splitters: config.splitters.iter().map(splitter).collect(),
            clearer: config.clears.then(|| (Clearing::new(protocol), Does::Nothing)),
            stamp: if config.is_deleted { 2 } else { 1 },
            acknowledged: if config.is_deleted {
                Some((stamp_of(2), Operation::Delete))
            } else {
                config.has_row.then_some((stamp_of(1), Operation::Put))
            },
            deleting: 0,
            losses: config.losses,
            crashes: config.crashes,
            standstills: config.standstills,
            purges: config.purges,
            broken: None,
        };
        world.begin_all(config);
        world
    }

    /// Returns the first range map (which bucket holds which keys), with the configured ranges.
    fn first_directory(config: &Config, absent: &Directory) -> Directory {
        let piece = |(start, roles): &(&str, Roles)| Piece {
            start: start.as_bytes().to_vec(),
            roles: roles.clone(),
            ..absent.pieces[0].clone()
        };
        let pieces: Vec<Piece> = config.pieces.iter().map(piece).collect();
        let directory = Directory {
            version: 1,
            next_bucket: Bucket(next_bucket(config)),
            pieces,
            ..absent.clone()
        };
        assert_eq!(directory.check(&[]), Ok(()));
        directory
    }

    /// Returns the number of ranges in the stored range map (which bucket holds which keys).
    pub(crate) fn range_count(&self) -> usize {
        self.store.directory.pieces.len()
    }

    /// Returns how many buckets were created since the start.
    pub(crate) fn new_buckets(&self, config: &Config) -> u64 {
        self.store.directory.next_bucket.0 - next_bucket(config)
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.store.directory.version == 0 || self.store.is_root_marked
    }

    /// Returns whether all processes have ended their work, and no split is unfinished.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_over = |does: &Does| *does == Does::IsOver;
        self.writers
            .iter()
            .all(|writer| writer.writing.is_none() && writer.wants.is_none())
            && self.page.is_none()
            && self
                .splitters
                .iter()
                .all(|one| one.splitting.is_none() && (is_over(&one.does) || one.does == Does::Nothing))
            && self
                .clearer
                .as_ref()
                .is_none_or(|(_, does)| is_over(does) || *does == Does::Nothing)
    }

    pub(crate) fn has_moved(&self, config: &Config) -> bool {
        self.reads_row() != Bucket(config.row_bucket) && !self.store.directory.is_being_cut()
    }

    fn reads_row(&self) -> Bucket {
        let piece = self.store.directory.piece_of(KEY).expect("all keys have a piece");
        piece.roles.read
    }

    pub(crate) fn acts(&self, config: &Config, happenings: &mut Vec<Happening>) {
        self.writers_act(config, happenings);
        self.requests_act(happenings);
        self.page_acts(happenings);
        self.splitters_act(config, happenings);
        self.clearer_acts(config, happenings);
        let may_purge = self.purges > 0 && self.air.is_empty() && !self.store.directory.is_being_cut();
        if may_purge {
            happenings.push(Happening::Purges);
        }
    }

    fn writers_act(&self, config: &Config, happenings: &mut Vec<Happening>) {
        for (p, writer) in (0..).zip(&self.writers) {
            let has_more = usize::from(writer.done) < config.writers[usize::from(p)].len();
            if writer.writing.is_none() && has_more && !writer.is_dead {
                happenings.push(Happening::Begins(p));
            }
            let takes = |by| Happening::Takes(p, by);
            happenings.extend(self.sources(writer.wants, &writer.held).map(takes));
            if self.crashes > 0 && writer.writing.is_some() {
                happenings.push(Happening::WriterDies(p));
            }
        }
    }

    /// Returns the sources from which a process can get the range map (which bucket holds which
    /// keys) that it wants.
    fn sources(&self, wants: Option<Wants>, held: &Held) -> impl Iterator<Item = MapSource> {
        let own = (wants == Some(Wants::Take) && held.may_live).then_some(MapSource::Own);
        let fresh = wants.map(|_| MapSource::Fresh);
        let missed = wants.and(self.store.missed.as_ref()).map(|_| MapSource::Missed);
        own.into_iter().chain(fresh).chain(missed)
    }

    fn requests_act(&self, happenings: &mut Vec<Happening>) {
        for (from, request) in &self.air {
            let mut arrives = |lives| happenings.push(Happening::Arrives(*from, request.clone(), lives));
            match (from, request) {
                (Some(Process::Writer(p)), Request::Row(..)) if self.is_last_of(*from) => {
                    let writer = &self.writers[usize::from(*p)];
                    arrives(false);
                    if writer.held.may_live || self.standstills > 0 {
                        arrives(true);
                    }
                }
                _ => arrives(false),
            }
            if let (Some(who), true) = (from, self.losses > 0) {
                happenings.push(Happening::Lost(*who, request.clone()));
            }
        }
    }

    fn is_last_of(&self, from: Option<Process>) -> bool {
        self.air.iter().filter(|(other, _)| *other == from).count() == 1
    }

    fn page_acts(&self, happenings: &mut Vec<Happening>) {
        let Some(page) = &self.page else { return };
        let takes = self.sources(page.wants, &page.held).map(Happening::PageTakes);
        happenings.extend(takes);
        if page.wants.is_none() {
            happenings.push(Happening::PageReads(false));
            if page.held.may_live && page.next + 1 == page.slices.len() {
                happenings.push(Happening::PageReads(true));
            }
        }
    }

    fn splitters_act(&self, config: &Config, happenings: &mut Vec<Happening>) {
        for (s, splitter) in (0..).zip(&self.splitters) {
            let has_cut = config.splitters[usize::from(s)].is_some() || config.join(s).is_some();
            match &splitter.does {
                Does::Nothing
                    if has_cut || window_of(&self.store.directory, config.window(s)).is_being_cut() =>
                {
                    happenings.push(Happening::SplitBegins(s));
                }
                Does::Nothing | Does::Asks | Does::IsOver => {}
                Does::Reads => {
                    happenings.push(Happening::SplitReads(s, MapSource::Fresh));
                    if !config.protocol().rules.keeps(Rule::ReadSerially) && self.store.missed.is_some() {
                        happenings.push(Happening::SplitReads(s, MapSource::Missed));
                    }
                }
                Does::Waits(_) => happenings.push(Happening::Waited(s)),
                Does::Copies(_) => happenings.push(Happening::CopyReads(s)),
            }
            let may_die = self.crashes > 0 && has_cut;
            if may_die && splitter.splitting.is_some() {
                happenings.push(Happening::SplitterDies(s));
            }
        }
    }

    fn clearer_acts(&self, config: &Config, happenings: &mut Vec<Happening>) {
        let Some((_, does)) = &self.clearer else { return };
        let directory = &self.store.directory;
        match does {
            Does::Nothing
                if directory.is_to_be_cleared()
                    || directory.without_inner_edges(config.protocol()).is_some() =>
            {
                happenings.push(Happening::ClearBegins);
            }
            Does::Reads | Does::Copies(_) => happenings.push(Happening::Clears),
            Does::Waits(_) => happenings.push(Happening::ClearWaited),
            Does::Nothing | Does::Asks | Does::IsOver => {}
        }
    }

    pub(crate) fn happens(&mut self, config: &Config, happening: Happening) {
        match happening {
            Happening::Begins(p) => self.begins(config, p),
            Happening::Takes(p, by) => {
                let held = self.takes(config, by, &self.writers[usize::from(p)].held.clone());
                let writer = &mut self.writers[usize::from(p)];
                writer.wants = None;
                writer.held = held.clone();
                let copy = held.copy.expect("it has taken one");
                self.tell_writer(config, p, WriteEvent::Copy(copy), ALIVE);
            }
            Happening::Arrives(from, request, lives) => self.arrives(config, from, &request, lives),
            Happening::Lost(who, request) => self.loses(config, who, &request),
            Happening::WriterDies(p) => {
                self.crashes -= 1;
                let writer = &mut self.writers[usize::from(p)];
                writer.writing = None;
                writer.wants = None;
                writer.is_dead = true;
                self.leaves(Process::Writer(p));
            }
            Happening::PageTakes(by) => self.page_takes(config, by),
            Happening::PageReads(lives) => self.page_reads(lives),
            Happening::SplitBegins(s) => {
                let cut = config.splitters[usize::from(s)].clone();
                let splitting = Splitting::new(cut, !config.is_calm, config.room, config.protocol());
                let splitting = splitting.with_joins(config.join(s).cloned());
                self.splitters[usize::from(s)].splitting = Some(splitting);
                self.tell_splitter(s, SplitEvent::Begin);
            }
            Happening::SplitReads(s, by) => self.split_reads(config, s, by),
            Happening::Waited(s) => {
                let splitter = &self.splitters[usize::from(s)];
                if let Does::Waits(ms) = splitter.does {
                    self.ends_copies(splitter.seen, ms, Some(s));
                }
                self.tell_splitter(s, SplitEvent::Waited);
            }
            Happening::CopyReads(s) => self.copies(config, s),
            Happening::SplitterDies(s) => {
                self.crashes -= 1;
                let splitter = &mut self.splitters[usize::from(s)];
                splitter.splitting = None;
                splitter.does = Does::IsOver;
                self.leaves(Process::Splitter(s));
            }
            Happening::ClearBegins => self.tell_clearer(config, ClearEvent::Begin),
            Happening::ClearWaited => {
                self.ends_copies(Version::MAX, u64::MAX, None);
                self.standstills = 0;
                self.tell_clearer(config, ClearEvent::Waited);
            }
            Happening::Clears => self.clears(config),
            Happening::Purges => {
                self.purges -= 1;
                self.ends_copies(Version::MAX, u64::MAX, None);
                self.store.purge();
            }
        }
        self.begin_all(config);
        self.tidy();
        if self.is_quiet() && self.writers.iter().all(|writer| !writer.is_dead) {
            let seen: Vec<_> = self.store.seen(self.reads_row()).into_iter().collect();
            if config.standstills == 0
                || self
                    .clearer
                    .as_ref()
                    .is_some_and(|(_, does)| *does == Does::IsOver)
            {
                self.judge(&seen, self.acknowledged);
            }
        }
    }

    /// Starts all writes that can start. Other processes do not see the first step of a write, so
    /// its time does not matter.
    fn begin_all(&mut self, config: &Config) {
        if !config.protocol().rules.keeps(Rule::StampAfterCopy) || config.guesses {
            return;
        }
        for (p, script) in (0..).zip(&config.writers) {
            let writer = &self.writers[usize::from(p)];
            let has_more = usize::from(writer.done) < script.len();
            if writer.writing.is_none() && has_more && !writer.is_dead {
                self.begins(config, p);
            }
        }
    }

    fn begins(&mut self, config: &Config, p: u8) {
        let writer = &mut self.writers[usize::from(p)];
        let operation = config.writers[usize::from(p)][usize::from(writer.done)];
        let guess = (config.guesses && writer.held.copy.is_none()).then_some(Bucket(0));
        writer.writing = Some(Writing::new(Key::from(KEY), operation, guess, config.protocol()));
        self.tell_writer(config, p, WriteEvent::Begin, ALIVE);
    }

    fn takes(&mut self, config: &Config, by: MapSource, held: &Held) -> Held {
        let directory = match by {
            MapSource::Own => return held.clone(),
            MapSource::Fresh => self.store.directory.clone(),
            MapSource::Missed => self.store.missed.clone().expect("one is missed"),
        };
        let waits = |splitter: &Splitter| {
            matches!(splitter.does, Does::Waits(_)) && splitter.seen > directory.version
        };
        let since = (0..).zip(&self.splitters).filter(|(_, splitter)| waits(splitter));
        let since = since.map(|(s, _)| s).collect();
        let copy = DirectoryCopy::new(directory, ALIVE, ALIVE, config.protocol());
        Held {
            copy: Some(copy),
            may_live: true,
            since,
        }
    }

    fn operation_of(&self, config: &Config, p: u8) -> Operation {
        config.writers[usize::from(p)][usize::from(self.writers[usize::from(p)].done)]
    }

    fn tell_writer(&mut self, config: &Config, p: u8, event: WriteEvent, now: Clock) {
        let writer = &mut self.writers[usize::from(p)];
        let Some(writing) = &mut writer.writing else {
            return;
        };
        for action in writing.step(event, now) {
            match action {
                WriteAction::Take => self.writers[usize::from(p)].wants = Some(Wants::Take),
                WriteAction::Read => self.writers[usize::from(p)].wants = Some(Wants::Read),
                WriteAction::Stamp => {
                    self.stamp += 1;
                    self.tell_writer(config, p, WriteEvent::Stamped(stamp_of(self.stamp)), now);
                }
                WriteAction::Write { buckets, stamp } => self.writes(config, p, &buckets, stamp, now),
                WriteAction::Remove { bucket, stamp } => {
                    let request = Request::Row(bucket, Operation::Delete, stamp);
                    self.air.push((None, request));
                }
                WriteAction::Acknowledge(stamp) => {
                    let operation = self.operation_of(config, p);
                    self.acknowledged = self.acknowledged.max(Some((stamp, operation)));
                    self.ended(p);
                }
                WriteAction::Refuse(unrouted) => panic!("{unrouted}"),
            }
        }
    }

    fn ended(&mut self, p: u8) {
        let writer = &mut self.writers[usize::from(p)];
        writer.writing = None;
        writer.done += 1;
    }

    fn writes(&mut self, config: &Config, p: u8, buckets: &BTreeSet<Bucket>, stamp: Micros, now: Clock) {
        let operation = self.operation_of(config, p);
        if operation == Operation::Delete {
            self.deleting = self.deleting.max(stamp);
        }
        if config.transacts {
            for bucket in buckets {
                self.store.row(*bucket, operation, stamp);
            }
            self.tell_writer(config, p, WriteEvent::Written, now);
            return;
        }
        for bucket in buckets {
            let request = Request::Row(*bucket, operation, stamp);
            self.air.push((Some(Process::Writer(p)), request));
        }
    }

    fn take_from_air(&mut self, from: Option<Process>, request: &Request) {
        let is_it = |sent: &(Option<Process>, Request)| sent.0 == from && sent.1 == *request;
        if let Some(index) = self.air.iter().position(is_it) {
            self.air.remove(index);
        }
    }

    fn arrives(&mut self, config: &Config, from: Option<Process>, request: &Request, lives: bool) {
        let is_last = self.is_last_of(from);
        self.take_from_air(from, request);
        match request {
            Request::Row(bucket, operation, stamp) => {
                self.store.row(*bucket, *operation, *stamp);
                match from {
                    Some(Process::Writer(p)) if is_last => {
                        if lives && !self.writers[usize::from(p)].held.may_live {
                            self.standstills -= 1;
                        }
                        self.tell_writer(config, p, WriteEvent::Written, clock(lives));
                    }
                    Some(Process::Splitter(s)) if is_last => self.tell_splitter(s, SplitEvent::Copied),
                    Some(Process::Clearer) if is_last => self.tell_clearer(config, ClearEvent::Copied),
                    _ => {}
                }
            }
            Request::Cas(expected, put) => {
                let decision = self.decides(config, *expected, put, from.is_some());
                match from {
                    Some(Process::Splitter(s)) => self.tell_splitter(s, SplitEvent::Decided(decision)),
                    Some(Process::Clearer) => self.tell_clearer(config, ClearEvent::Decided(decision)),
                    _ => {}
                }
            }
        }
    }

    fn decides(
        &mut self,
        config: &Config,
        expected: Version,
        put: &Arc<Directory>,
        is_heard: bool,
    ) -> Decision {
        self.store.missed = None;
        let must_match = config.protocol().rules.keeps(Rule::ChangedByVersion);
        if must_match && self.store.directory.version != expected {
            return Decision::Refused;
        }
        let put = put_window(&self.store.directory, put);
        let checked = if config.protocol().rules.keeps(Rule::PlacedByDestination) {
            put.check(&[])
        } else {
            check_places_by_read(&put)
        };
        if checked.is_err() {
            self.broken = Some(B5);
        }
        let before = std::mem::replace(&mut self.store.directory, Arc::new(put));
        self.store.missed = Some(before).filter(|_| !is_heard);
        Decision::Applied
    }

    /// Loses the reply to a request, which may still arrive. A conditional write is reported as
    /// unknown. Other requests are sent again.
    fn loses(&mut self, config: &Config, who: Process, request: &Request) {
        self.losses -= 1;
        self.take_from_air(Some(who), request);
        self.air.push((None, request.clone()));
        match (request, who) {
            (Request::Cas(..), Process::Splitter(s)) => {
                self.tell_splitter(s, SplitEvent::Decided(Decision::Unknown));
            }
            (Request::Cas(..), _) => self.tell_clearer(config, ClearEvent::Decided(Decision::Unknown)),
            (Request::Row(..), _) => self.air.push((Some(who), request.clone())),
        }
    }

    fn leaves(&mut self, who: Process) {
        for (from, _) in &mut self.air {
            if *from == Some(who) {
                *from = None;
            }
        }
    }

    /// Lets range maps before `version` expire, because `ms` milliseconds have passed since a
    /// process read `version`. Range maps with a longer lifetime do not expire.
    fn ends_copies(&mut self, version: Version, ms: u64, by: Option<u8>) {
        let helds = self.writers.iter_mut().map(|writer| &mut writer.held);
        for held in helds.chain(self.page.iter_mut().map(|page| &mut page.held)) {
            let Some(copy) = &held.copy else { continue };
            let directory = copy.directory();
            let is_over = directory.life_ms.saturating_add(STANDSTILL_MS) <= ms;
            let is_later = by.is_some_and(|s| held.since.remove(&s));
            held.may_live &= directory.version >= version || !is_over || is_later;
        }
    }

    fn split_reads(&mut self, config: &Config, s: u8, by: MapSource) {
        let directory = if by == MapSource::Missed {
            self.store.missed.clone().expect("one is missed")
        } else {
            self.store.directory.clone()
        };
        if config.protocol().rules.keeps(Rule::ReadSerially) {
            self.store.missed = None;
        }
        self.splitters[usize::from(s)].seen = directory.version;
        let window = window_of(&directory, config.window(s));
        self.tell_splitter(s, SplitEvent::Read(window));
    }

    fn tell_splitter(&mut self, s: u8, event: SplitEvent) {
        let is_decided = matches!(event, SplitEvent::Decided(Decision::Applied | Decision::Unknown));
        let splitter = &mut self.splitters[usize::from(s)];
        let Some(splitting) = &mut splitter.splitting else {
            return;
        };
        if is_decided && splitter.does == Does::Asks {
            splitter.seen += 1;
        }
        let action = splitting.step(event);
        splitter.does = match action {
            SplitAction::Read => Does::Reads,
            SplitAction::MarkRoot => {
                self.store.is_root_marked = true;
                return self.tell_splitter(s, SplitEvent::RootMarked);
            }
            SplitAction::Cas { expected, put } => {
                splitter.seen = expected;
                self.air
                    .push((Some(Process::Splitter(s)), Request::Cas(expected, Arc::new(put))));
                Does::Asks
            }
            SplitAction::Wait { ms } => Does::Waits(ms),
            SplitAction::Copy(copies) => Does::Copies(copies),
            SplitAction::Over => {
                splitter.splitting = None;
                Does::IsOver
            }
        };
    }

    fn copies(&mut self, config: &Config, s: u8) {
        let splitter = &mut self.splitters[usize::from(s)];
        let Does::Copies(copies) = std::mem::replace(&mut splitter.does, Does::Asks) else {
            return;
        };
        let sent = self.sends_copies(config, &copies, Process::Splitter(s));
        if !sent {
            self.tell_splitter(s, SplitEvent::Copied);
        }
    }

    /// Sends the row to its new bucket, if one of the copied spans contains it. Returns whether a
    /// request was sent.
    fn sends_copies(&mut self, config: &Config, copies: &[Copying], who: Process) -> bool {
        let mut is_sent = false;
        for copying in copies.iter().filter(|copying| copying.span.has(KEY)) {
            let Some(stamp) = self.store.seen(copying.from) else {
                continue;
            };
            let stamp = if config.protocol().rules.keeps(Rule::CopiedAtOwnStamp) {
                stamp
            } else {
                self.stamp += 1;
                stamp_of(self.stamp) - self.stamp + made_by(stamp)
            };
            if config.transacts {
                self.store.row(copying.to, Operation::Put, stamp);
            } else {
                let request = Request::Row(copying.to, Operation::Put, stamp);
                self.air.push((Some(who), request));
                is_sent = true;
            }
        }
        is_sent
    }

    fn page_takes(&mut self, config: &Config, by: MapSource) {
        let Some(page) = &self.page else { return };
        let held = page.held.clone();
        let held = self.takes(config, by, &held);
        let copy = held.copy.clone().expect("it has taken one");
        let Some(page) = &mut self.page else { return };
        page.held = held;
        page.wants = None;
        let action = page.reading.step(ReadEvent::Copy(copy), ALIVE);
        self.page_does(action);
    }

    fn page_does(&mut self, action: ReadAction) {
        let acknowledged = self.acknowledged;
        let Some(page) = &mut self.page else { return };
        match action {
            ReadAction::Take => page.wants = Some(Wants::Take),
            ReadAction::Read => page.wants = Some(Wants::Read),
            ReadAction::Slices { slices, rest } => {
                assert_eq!(rest, None);
                page.slices = slices;
                page.next = 0;
                page.shown = Vec::new();
                page.acknowledged = acknowledged;
            }
            ReadAction::Done => {
                let (shown, before) = (page.shown.clone(), page.acknowledged);
                self.page = None;
                self.judge(&shown, before);
            }
        }
    }

    fn page_reads(&mut self, lives: bool) {
        let Some(page) = &mut self.page else { return };
        let slice = page.slices[page.next].clone();
        if slice.span.has(KEY) {
            page.shown.extend(self.store.seen(slice.bucket));
        }
        page.next += 1;
        if page.next == page.slices.len() {
            let read = ReadEvent::Read(page.next);
            let action = page.reading.step(read, clock(lives));
            self.page_does(action);
        }
    }

    /// Records a broken invariant if the rows that a reader got contradict the newest acknowledged
    /// write.
    fn judge(&mut self, shown: &[Micros], acknowledged: Option<(Micros, Operation)>) {
        let is_older = |than: Micros| shown.first().is_some_and(|stamp| made_by(*stamp) < made_by(than));
        let is_deleted = |stamp| self.deleting > stamp;
        let broken = match acknowledged {
            _ if shown.len() > 1 => B3,
            Some((stamp, Operation::Delete)) if is_older(stamp) => B2,
            Some((stamp, Operation::Put)) if is_older(stamp) => B1,
            Some((stamp, Operation::Put)) if shown.is_empty() && !is_deleted(stamp) => B1,
            _ => return,
        };
        self.broken = Some(broken);
    }

    fn tell_clearer(&mut self, config: &Config, event: ClearEvent) {
        let Some((clearing, does)) = &mut self.clearer else {
            return;
        };
        *does = match clearing.step(event) {
            ClearAction::Read => Does::Reads,
            ClearAction::Wait { ms } => Does::Waits(ms),
            ClearAction::Copy(copies) => Does::Copies(copies),
            ClearAction::Delete(spans) => {
                let newest = stamp_of(self.stamp);
                let is_by_span = config.protocol().rules.keeps(Rule::ClearedBySpan);
                for (bucket, _) in spans.iter().filter(|(_, span)| !is_by_span || span.has(KEY)) {
                    self.store.row(*bucket, Operation::Delete, newest);
                }
                return self.tell_clearer(config, ClearEvent::Deleted);
            }
            ClearAction::Cas { expected, put, .. } => {
                self.air
                    .push((Some(Process::Clearer), Request::Cas(expected, Arc::new(put))));
                Does::Asks
            }
            ClearAction::Over => Does::IsOver,
        };
    }

    fn clears(&mut self, config: &Config) {
        let Some((_, does)) = &mut self.clearer else {
            return;
        };
        if let Does::Copies(copies) = std::mem::replace(does, Does::Asks) {
            if !self.sends_copies(config, &copies, Process::Clearer) {
                self.tell_clearer(config, ClearEvent::Copied);
            }
            return;
        }
        self.store.missed = None;
        let directory = Directory::clone(&self.store.directory);
        self.tell_clearer(config, ClearEvent::Read(directory));
    }

    /// Removes requests that can no longer change anything, to reduce the number of states.
    fn tidy(&mut self) {
        let store = &self.store;
        self.air.retain(|(from, request)| match request {
            _ if from.is_some() => true,
            Request::Row(bucket, operation, stamp) => !store.is_spent(*bucket, *operation, *stamp),
            Request::Cas(expected, _) => store.directory.version <= *expected,
        });
        self.air
            .sort_by_cached_key(|sent| BuildHasherDefault::<DefaultHasher>::default().hash_one(sent));
        self.air.dedup_by(|one, other| one.0.is_none() && one == other);
    }
}
