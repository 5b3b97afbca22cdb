//! State of the models of views, and its possible next events. Processes change the record, one
//! process completes changes of dead processes, and one adds or drops a view.

use std::collections::{BTreeMap, BTreeSet};

use super::buckets::{Cut, Routes, Steps};
use super::model::{Config, Script};
use super::reader::{Reader, Reading};
use super::store::{Request, Store, TinyRow};
use super::tiny::{BY_PLACE, Tiny};
use crate::views::building::{BuildStep, Progress, ViewState, barrier_by, next_step_by};
use crate::views::member::{Joining, Member, Registration};
use crate::views::row::{Generation, Token, Version};
use crate::views::rules::{Rule, Rules};
use crate::views::segments::{DEAD_SEGMENT_SECONDS, DeadSegment, IntentPlace, Segments, dead_segment_by};
use crate::views::write::{Answer, Write};

/// Intent (pending change), identified by its process and by the index of the request in that
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Intent {
    pub(crate) process: u8,
    pub(crate) request: u8,
}

/// State of a stored intent (note of a pending change).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Stored {
    pub(super) place: Option<IntentPlace>,
    /// True if its process reports that the intent (pending change) is completed.
    pub(super) is_settled: bool,
    /// Number of times that other processes completed the intent (pending change).
    pub(super) resolved: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
pub(crate) struct Process {
    pub(super) asked: u8,
    pub(super) write: Option<Write<Tiny>>,
    /// Intent of a dead process that this process is resolving.
    pub(super) sweeping: Option<Intent>,
    pub(super) is_reading: bool,
    pub(super) is_reloading: bool,
    pub(super) tokens: u8,
    pub(super) schema: u8,
    pub(super) member: Member,
    pub(super) segments: Segments,
    pub(super) place: Option<IntentPlace>,
    pub(super) began: Option<Generation>,
    pub(super) registration: Option<Registration>,
    pub(super) has_lease: bool,
    pub(super) is_crashed: bool,
    pub(super) routes: Routes,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(super) store: Store,
    pub(super) processes: Vec<Process>,
    pub(super) intents: BTreeMap<Intent, Stored>,
    /// Deleted intents (pending changes). A copy of an intent that arrives later is invisible.
    pub(super) deleted: BTreeSet<Intent>,
    /// Requests that have not arrived, each with the index of the process that waits for it.
    pub(super) sent: Vec<(Option<u8>, Request)>,
    pub(super) catalog: u8,
    pub(super) progress: Progress,
    pub(super) filling: Option<(TinyRow, Steps)>,
    pub(super) losses: u8,
    pub(super) crashes: u8,
    pub(super) freezes: u8,
    pub(super) leaves: u8,
    pub(super) deadlines: u8,
    /// Applied changes of the record, in order, each with its new version and its place. `answers`
    /// has the answers of all changes.
    pub(super) applied: Vec<(Intent, Version, Option<u8>)>,
    pub(super) answers: BTreeMap<Intent, Answer>,
    pub(super) broken: Option<&'static str>,
    pub(super) reader: Reader,
    /// True if the key of an entry was moved to another bucket while the entry was written.
    pub(super) has_moved: bool,
}

/// Event of the model, which changes its state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Happening {
    Begins(u8),
    Reads(u8),
    ReadsMissing(u8),
    Reloads(u8),
    /// A process that failed to resolve an intent (pending change) starts over.
    BeginsAgain(u8),
    /// A request arrives, and its sender receives the result.
    Arrives(Option<u8>, Request),
    /// The result of a request is lost. The request may still arrive.
    Lost(u8, Request),
    /// A conditional write is not sent, and its sender knows this.
    NotSent(u8, Request),
    Deadline(u8),
    Crashes(u8),
    FoundDead(u8),
    /// A process ends in order, and removes its registration.
    Leaves(u8),
    Sweeps(u8, Intent),
    /// A process reads the catalog of schemas again.
    Adopts(u8),
    /// A process renews its registration.
    Renews(u8),
    Joins(u8),
    /// A process deletes its settled intents (pending changes) without a renewal.
    DeletesIntents(u8),
    Builds(BuildStep),
    MarkerExpires,
    Page(Reading),
    /// A process sends its waiting entries (rows in views) to their buckets.
    Routes(u8),
    /// The split of a key range continues with its next step.
    Cut(usize),
    /// A process reads the range map (which bucket holds which keys).
    ReadsDirectory(u8),
}

impl World {
    pub(super) fn new(config: &Config) -> Self {
        let mut store = Store::default();
        store.cuts = config.cuts.iter().map(Cut::new).collect();
        if let Some(record) = config.first {
            let schema = config.schema_of(1);
            let row = TinyRow {
                tokens: crate::views::row::Tokens::pushed(None, Token(0)),
                version: Version(0),
                generation: schema.generation,
                record: Some(record),
                expires_at: None,
                must_go: BTreeSet::new(),
                claims: crate::views::row::RowClaims::NONE,
            };
            for entry in crate::views::arranged::Arranged::entries(schema, &record) {
                store.plain(&Request::Put(entry, row.version, 0), Rules::default());
            }
            store.plain(&Request::Done(row.version), Rules::default());
            store.base = Some(row);
        }
        if let Some((place, version)) = config.orphan {
            store.plant_orphan(place, version);
        }
        Self {
            store,
            processes: config
                .scripts
                .iter()
                .map(|script| Process::new(config, script))
                .collect(),
            intents: BTreeMap::new(),
            deleted: BTreeSet::new(),
            sent: Vec::new(),
            catalog: if config.is_recorded { 2 } else { 1 },
            progress: match (config.is_recorded, config.drops) {
                (false, _) => Progress::Table,
                (true, false) => Progress::recorded(ViewState::Building),
                (true, true) => Progress::recorded(ViewState::Dropping),
            },
            filling: None,
            losses: config.losses,
            crashes: config.crashes,
            freezes: config.freezes,
            leaves: config.leaves,
            deadlines: config.deadlines,
            applied: Vec::new(),
            answers: BTreeMap::new(),
            broken: None,
            reader: Reader::default(),
            has_moved: false,
        }
    }

    pub(super) fn processes_act(&self, config: &Config, happenings: &mut Vec<Happening>) {
        for (index, process) in self.processes.iter().enumerate() {
            let p = index as u8;
            if process.is_crashed {
                continue;
            }
            if !process.routes.waiting.is_empty() {
                happenings.push(Happening::Routes(p));
            }
            if self.may_read_directory(config, p) {
                happenings.push(Happening::ReadsDirectory(p));
            }
            let is_joined = process.member.joining() == Joining::Joined;
            match &process.write {
                None if !is_joined => happenings.push(Happening::Joins(p)),
                None if (process.asked as usize) < config.scripts[index].requests.len() => {
                    happenings.push(Happening::Begins(p));
                }
                None if config.sweeps && p == config.sweeper() => {
                    let sweeps = |intent: &Intent| Happening::Sweeps(p, *intent);
                    let open = self
                        .intents
                        .keys()
                        .filter(|intent| self.is_to_be_swept(config, **intent));
                    happenings.extend(open.map(sweeps));
                }
                None => {}
                Some(write) => {
                    if write.is_waiting() && !process.is_reloading {
                        happenings.push(Happening::BeginsAgain(p));
                    }
                    if process.is_reading {
                        happenings.push(Happening::Reads(p));
                        if self.store.missed.is_some() {
                            happenings.push(Happening::ReadsMissing(p));
                        }
                    }
                    if process.is_reloading {
                        happenings.push(Happening::Reloads(p));
                    }
                    if self.deadlines > 0 && process.sweeping.is_none() {
                        happenings.push(Happening::Deadline(p));
                    }
                }
            }
            self.process_ends(config, p, process, happenings);
        }
    }

    pub(super) fn process_ends(
        &self,
        config: &Config,
        p: u8,
        process: &Process,
        happenings: &mut Vec<Happening>,
    ) {
        let is_sweeper = config.sweeps && p == config.sweeper();
        let is_mortal = config.mortal.is_none_or(|mortal| mortal == p);
        if self.crashes > 0 && is_mortal && process.write.is_some() {
            happenings.push(Happening::Crashes(p));
        }
        if self.freezes > 0 && !is_sweeper && !process.is_dead() && process.write.is_some() {
            happenings.push(Happening::FoundDead(p));
        }
        if self.leaves > 0 && !is_sweeper && process.may_leave(config, &config.scripts[usize::from(p)]) {
            happenings.push(Happening::Leaves(p));
        }
        if config.clocks_stand_still && !process.is_dead() && self.has_settled(p) {
            happenings.push(Happening::Renews(p));
        }
        if config.clocks_stand_still && !process.segments.deletable().is_empty() {
            happenings.push(Happening::DeletesIntents(p));
        }
    }

    pub(super) fn has_settled(&self, p: u8) -> bool {
        self.intents
            .iter()
            .any(|(intent, stored)| intent.process == p && stored.is_settled)
    }

    /// Returns whether an intent of a dead process must be resolved now. The model assumes that a
    /// day has passed if the process has no write under way.
    pub(super) fn is_to_be_swept(&self, config: &Config, intent: Intent) -> bool {
        let process = &self.processes[intent.process as usize];
        let Some(stored) = self.intents.get(&intent) else {
            return false;
        };
        let waited = if process.write.is_none() {
            DEAD_SEGMENT_SECONDS
        } else {
            0
        };
        let what = dead_segment_by(stored.resolved, waited, config.rules());
        process.is_dead() && what == DeadSegment::Resolve
    }

    pub(super) fn requests_act(&self, _: &Config, happenings: &mut Vec<Happening>) {
        for (from, request) in &self.sent {
            happenings.push(Happening::Arrives(*from, request.clone()));
            if let (Some(p), true) = (*from, self.losses > 0) {
                happenings.push(Happening::Lost(p, request.clone()));
                if let Request::Cas(..) = request {
                    happenings.push(Happening::NotSent(p, request.clone()));
                }
            }
        }
        for (index, process) in self.processes.iter().enumerate() {
            if process.is_crashed && !process.is_dead() && process.registration.is_some() {
                happenings.push(Happening::FoundDead(index as u8));
            }
        }
    }

    pub(super) fn schema_acts(&self, config: &Config, happenings: &mut Vec<Happening>) {
        let keeps = config.rules();
        if !keeps.keeps(Rule::DeletedRowStays)
            && self.store.base.as_ref().is_some_and(|row| row.record.is_none())
            && self.processes.iter().all(|process| process.write.is_none())
        {
            happenings.push(Happening::MarkerExpires);
        }
        if config.later.is_none() {
            return;
        }
        for (index, process) in self.processes.iter().enumerate() {
            if process.is_crashed || process.member.joining() != Joining::Joined {
                continue;
            }
            if process.schema < self.catalog {
                happenings.push(Happening::Adopts(index as u8));
            }
            let said = process.registration.and_then(|one| one.generation);
            if said != process.member.announced() && !process.is_dead() {
                happenings.push(Happening::Renews(index as u8));
            }
        }
        let step = next_step_by(self.progress, keeps);
        let may = match step {
            BuildStep::Done | BuildStep::Forget => false,
            BuildStep::Barrier => self.barrier(keeps),
            _ => true,
        };
        if may {
            happenings.push(Happening::Builds(step));
        }
    }

    pub(super) fn barrier(&self, rules: Rules) -> bool {
        let registrations = self.processes.iter().enumerate().filter_map(|(index, process)| {
            let mut registration = process.registration?;
            let left = |intent: &Intent, stored: &Stored| {
                usize::from(intent.process) == index && stored.resolved == 0 && !stored.is_settled
            };
            registration.is_resolved = !self.intents.iter().any(|(intent, stored)| left(intent, stored));
            Some(registration)
        });
        let registrations: Vec<_> = registrations.collect();
        barrier_by(&registrations, Generation(2), rules).is_ok()
    }

    /// Returns whether all intents (pending changes) are resolved, and no write is under way.
    pub(super) fn is_quiet(&self) -> bool {
        let is_building = matches!(self.progress, Progress::Building(_));
        self.intents
            .values()
            .all(|stored| stored.is_settled && !self.has_dead())
            && self.processes.iter().all(|process| process.write.is_none())
            && !is_building
    }

    pub(super) fn has_no_sweeper(&self, config: &Config) -> bool {
        self.processes[config.sweeper() as usize].is_crashed
    }

    pub(super) fn has_dead(&self) -> bool {
        self.processes.iter().any(Process::is_dead)
    }

    pub(super) fn is_at_end(&self, config: &Config) -> bool {
        let scripts = self.processes.iter().zip(&config.scripts);
        scripts
            .filter(|(process, _)| !process.is_crashed)
            .all(|(process, script)| process.asked as usize == script.requests.len())
    }

    pub(super) fn is_exact(&self, config: &Config) -> bool {
        let is_ready = self.progress == Progress::Ready;
        let schema = config.schema_of(if is_ready || config.drops { 2 } else { 1 });
        if config.clocks_stand_still && config.later.is_some() {
            // A writer whose clock stops can write after the barrier. It may leave entries without
            // a record, which verified pages skip and `verify` finds. So check only that no entry
            // is missing.
            return self.store.is_complete(schema);
        }
        self.store.is_exact(schema)
    }

    /// Returns whether the views show the last change, if it is acknowledged.
    pub(super) fn shows_acknowledged(&self, config: &Config) -> bool {
        let last = self.applied.last().map(|(intent, ..)| intent);
        let answer = last.and_then(|intent| self.answers.get(intent));
        !matches!(answer, Some(Answer::Done(_)))
            || self
                .store
                .is_exact(config.schema_of(if config.drops { 2 } else { 1 }))
    }
}

impl World {
    /// Returns whether the record is visible at its place, if it has not moved since the last
    /// acknowledged change.
    pub(super) fn keeps_acknowledged(&self, config: &Config) -> bool {
        if !config.schema_of(1).views.contains(&BY_PLACE) {
            return true;
        }
        let is_done = |(intent, ..): &(Intent, Version, Option<u8>)| {
            matches!(self.answers.get(intent), Some(Answer::Done(_)))
        };
        let Some(from) = self.applied.iter().rposition(is_done) else {
            return true;
        };
        let mut places = self.applied[from..].iter().map(|(.., place)| *place);
        let Some(Some(key)) = places.next() else {
            return true;
        };
        let is_seen = |oldest| {
            let shown = self.store.shown(&[BY_PLACE], oldest);
            shown.iter().any(|(at, ..)| at.key == key)
        };
        places.any(|place| place != Some(key)) || (is_seen(false) && is_seen(true))
    }
}

impl Process {
    pub(super) fn new(config: &Config, script: &Script) -> Self {
        let mut member = Member::new(config.rules());
        let mut segments = Segments::new(config.rules());
        segments.renewed(&segments.renewing());
        let mut registration = None;
        let schema = if script.knows_later { 2 } else { 1 };
        if !script.is_new {
            let first = member.renewal(0);
            member.renewed(0);
            member.read(Generation(schema.into()));
            registration = Some(Registration {
                generation: member.announced(),
                ..first
            });
        }
        Self {
            asked: 0,
            write: None,
            sweeping: None,
            is_reading: false,
            is_reloading: false,
            tokens: 0,
            schema,
            member,
            segments,
            place: None,
            began: None,
            registration,
            has_lease: !script.is_new,
            is_crashed: false,
            routes: Routes::new(config.cuts.len()),
        }
    }

    /// Returns whether the process may remove its registration: it is registered, and has no write
    /// under way.
    fn may_leave(&self, config: &Config, script: &Script) -> bool {
        let is_registered = self
            .registration
            .is_some_and(|registration| !registration.is_dead);
        let is_done = self.write.is_none() && self.asked as usize == script.requests.len();
        is_registered && (is_done || !config.rules().keeps(Rule::SettledBeforeLeaving))
    }

    pub(super) fn is_dead(&self) -> bool {
        self.registration.is_some_and(|registration| registration.is_dead)
    }
}
