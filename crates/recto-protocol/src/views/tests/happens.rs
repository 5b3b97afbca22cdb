//! Events of the models of views: requests arrive, processes receive results, crash and continue,
//! and a view is built.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::buckets::Steps;
use super::model::{Config, DROPPED, I2, I3, I4};
use super::store::{Request, TinyFound, TinyRow};
use super::tiny::{ADDED, Record, Tiny};
use super::world::{Happening, Intent, Stored, World};
use crate::views::building::{BuildStep, Built, Progress};
use crate::views::change::decide;
use crate::views::judge::{Mend, fill};
use crate::views::member::{Joining, Registration};
use crate::views::row::{Generation, Token};
use crate::views::rules::{Rule, Rules};
use crate::views::segments::{DEAD_SEGMENT_SECONDS, DeadSegment, dead_segment_by};
use crate::views::write::{Action, Answer, Decision, Event, StepContext, Write};

impl World {
    pub(super) fn happens(&mut self, config: &Config, happening: Happening) {
        match happening {
            Happening::Begins(p) => self.begins(config, p),
            Happening::Reads(p) => {
                let found = self.store.read();
                self.reads(config, p, found);
            }
            Happening::ReadsMissing(p) => {
                if let Some(found) = self.store.read_missing() {
                    self.reads(config, p, found);
                }
            }
            Happening::Reloads(p) => {
                self.adopts(p);
                self.processes[p as usize].is_reloading = false;
                self.tell(config, p, Event::Begin);
            }
            Happening::Arrives(from, request) => self.arrives(config, from, &request),
            Happening::Lost(p, request) => self.loses(config, p, &request),
            Happening::BeginsAgain(p) => self.tell(config, p, Event::Begin),
            Happening::NotSent(p, request) => self.does_not_send(config, p, &request),
            Happening::Deadline(p) => {
                self.deadlines -= 1;
                self.tell(config, p, Event::Deadline);
            }
            Happening::Crashes(p) => self.crashes(config, p),
            Happening::FoundDead(p) => self.found_dead(config, p),
            Happening::Leaves(p) => self.leaves(p),
            Happening::Sweeps(p, intent) => {
                let process = &mut self.processes[p as usize];
                process.sweeping = Some(intent);
                process.began = process.member.began();
                self.processes[p as usize].write = Some(Write::new(None, config.rules()));
                self.tell(config, p, Event::Begin);
            }
            Happening::Adopts(p) => self.adopts(p),
            Happening::Renews(p) => self.renews(p),
            Happening::DeletesIntents(p) => self.deletes_segments(p),
            Happening::Joins(p) => self.joins(p),
            Happening::Builds(step) => self.builds(config, step),
            Happening::MarkerExpires => self.store.forget(),
            Happening::Page(reading) => self.page_reads(config, reading),
            Happening::Routes(p) => self.routes(config, p),
            Happening::Cut(index) => self.cut_goes_on(index),
            Happening::ReadsDirectory(p) => self.processes[p as usize].routes.looked = self.store.steps(),
        }
    }

    fn begins(&mut self, config: &Config, p: u8) {
        let process = &mut self.processes[p as usize];
        let request = config.scripts[p as usize].requests[process.asked as usize].clone();
        process.asked += 1;
        process.began = process.member.began();
        process.write = Some(Write::new(Some(request), config.rules()));
        self.tell(config, p, Event::Begin);
    }

    fn reads(&mut self, config: &Config, p: u8, found: TinyFound) {
        self.processes[p as usize].is_reading = false;
        self.tell(config, p, Event::Read(found));
    }

    fn arrives(&mut self, config: &Config, from: Option<u8>, request: &Request) {
        self.take(from, request);
        match request {
            Request::Note(intent) => {
                let place = self.processes[intent.process as usize].place;
                if !self.deleted.contains(intent) {
                    self.intents.entry(*intent).or_default().place = place;
                }
            }
            Request::Cas(conditional, change) => {
                let before = self.store.base.clone();
                let decision = self.store.cas(conditional, from.is_some());
                if decision == Decision::Applied {
                    self.applies(config, before.as_ref(), &conditional.row, *change);
                }
                if let Some(p) = from {
                    let token = conditional.row.tokens.newest();
                    self.tell(config, p, Event::Decided(token, decision));
                }
                return;
            }
            plain if plain.is_in(ADDED) && self.progress == Progress::Dropped => {
                // A view is dropped without waiting for dead processes. To a dead process, its
                // entries in the dropped view count as written.
                let waits = |p: u8| !self.processes[p as usize].is_dead();
                if from.is_some_and(waits) {
                    self.broken = Some(DROPPED);
                }
            }
            plain => self.store.plain(plain, config.rules()),
        }
        let Some(p) = from else { return };
        match request {
            Request::Note(_) => self.tell(config, p, Event::Noted),
            _ if self
                .sent
                .iter()
                .any(|(from, request)| *from == Some(p) && request.is_entry()) => {}
            _ => self.all_came(config, p),
        }
    }

    fn all_came(&mut self, config: &Config, p: u8) {
        match self.is_written(p) {
            Some(true) => self.tell(config, p, Event::Written),
            Some(false) => {
                self.has_moved = true;
                self.tell(config, p, Event::Moved);
            }
            None => {}
        }
    }

    fn take(&mut self, from: Option<u8>, request: &Request) {
        let is_it = |sent: &(Option<u8>, Request)| sent.0 == from && sent.1 == *request;
        if let Some(index) = self.sent.iter().position(is_it) {
            self.sent.remove(index);
        }
    }

    /// Loses the reply to a request, which may still arrive. A conditional write is reported as
    /// unknown. Other requests are sent again.
    fn loses(&mut self, config: &Config, p: u8, request: &Request) {
        self.losses -= 1;
        self.take(Some(p), request);
        self.sent.push((None, request.clone()));
        if let Request::Cas(conditional, _) = request {
            let token = conditional.row.tokens.newest();
            self.tell(config, p, Event::Decided(token, Decision::Unknown));
        } else {
            self.sent.push((Some(p), request.clone()));
        }
    }

    fn does_not_send(&mut self, config: &Config, p: u8, request: &Request) {
        self.losses -= 1;
        self.take(Some(p), request);
        if let Request::Cas(conditional, _) = request {
            let token = conditional.row.tokens.newest();
            self.tell(config, p, Event::Decided(token, Decision::NotSent));
        }
    }

    /// Checks the invariants when a conditional write is applied.
    fn applies(&mut self, config: &Config, before: Option<&TinyRow>, after: &TinyRow, change: Option<u8>) {
        let Some(change) = change else { return };
        let intent = Intent {
            process: change / 16,
            request: change % 16,
        };
        let script = &config.scripts[intent.process as usize];
        let request = &script.requests[intent.request as usize];
        let decided = decide(request, before, config.schema_of(1), script.clock);
        if self
            .applied
            .iter()
            .any(|(_, version, _)| *version >= after.version)
        {
            self.broken = Some(I4);
        }
        if decided.map(|decided| decided.record) != Ok(after.record) {
            self.broken = Some(I4);
        }
        let is_again = self.applied.iter().any(|(one, ..)| *one == intent);
        let is_refused = matches!(
            self.answers.get(&intent),
            Some(Answer::Refused(_) | Answer::NotWritten(_))
        );
        if is_again || is_refused {
            self.broken = Some(I3);
        }
        let place = after.record.map(|record| record.place);
        self.applied.push((intent, after.version, place));
        self.reader.sees_change(before, after);
    }

    fn crashes(&mut self, config: &Config, p: u8) {
        self.crashes -= 1;
        // A process without requests only resolves intents. If it crashes, another process replaces
        // it, so it is not gone.
        let is_gone = !config.scripts[p as usize].requests.is_empty();
        self.ends(p, is_gone);
    }

    /// Ends a process in order: deletes its intents (pending changes), and then its registration.
    fn leaves(&mut self, p: u8) {
        self.leaves -= 1;
        self.ends(p, true);
        self.processes[p as usize].registration = None;
        let of_it = self.intents.keys().filter(|intent| intent.process == p);
        let gone: Vec<Intent> = of_it.copied().collect();
        for intent in gone {
            self.deletes(intent);
        }
    }

    fn ends(&mut self, p: u8, is_gone: bool) {
        let process = &mut self.processes[p as usize];
        if is_gone {
            process.is_crashed = true;
            process.has_lease = false;
        }
        process.write = None;
        process.is_reading = false;
        process.is_reloading = false;
        process.sweeping = None;
        process.routes.waiting.clear();
        if let Some(began) = process.began.take() {
            process.member.ended(began);
        }
        for (from, _) in &mut self.sent {
            if *from == Some(p) {
                *from = None;
            }
        }
    }

    fn found_dead(&mut self, config: &Config, p: u8) {
        let process = &mut self.processes[p as usize];
        if !process.is_crashed {
            self.freezes -= 1;
        }
        if !config.clocks_stand_still {
            process.has_lease = false;
        }
        process.registration = process.registration.map(Registration::dead);
    }

    fn adopts(&mut self, p: u8) {
        let process = &mut self.processes[p as usize];
        process.schema = self.catalog;
        process.member.read(Generation(self.catalog.into()));
    }

    fn renews(&mut self, p: u8) {
        let process = &mut self.processes[p as usize];
        let generation = process.member.announced();
        if let Some(registration) = &mut process.registration {
            registration.generation = generation;
        }
        let naming = process.segments.renewing();
        process.segments.renewed(&naming);
    }

    fn deletes_segments(&mut self, p: u8) {
        let segments = &self.processes[p as usize].segments;
        let deletable = segments.deletable();
        for segment in deletable {
            self.processes[p as usize].segments.deleted(segment);
            let is_in = |stored: &Stored| stored.place.is_some_and(|place| place.segment == segment);
            let gone = self
                .intents
                .iter()
                .filter(|(intent, stored)| intent.process == p && is_in(stored));
            let gone: Vec<Intent> = gone.map(|(intent, _)| *intent).collect();
            for intent in gone {
                self.deletes(intent);
            }
        }
    }

    fn deletes(&mut self, intent: Intent) {
        self.intents.remove(&intent);
        self.deleted.insert(intent);
    }

    fn joins(&mut self, p: u8) {
        match self.processes[p as usize].member.joining() {
            Joining::Register => {
                let process = &mut self.processes[p as usize];
                let registration = process.member.renewal(0);
                process.member.renewed(0);
                process.registration = Some(registration);
                process.has_lease = true;
            }
            Joining::ReadCatalog => self.adopts(p),
            Joining::Joined => {}
        }
    }

    fn builds(&mut self, config: &Config, step: BuildStep) {
        match step {
            BuildStep::Record(state) => {
                self.progress = Progress::recorded(state);
                self.catalog = 2;
            }
            BuildStep::Barrier if config.drops => {
                self.progress = Progress::Dropping { is_unwritten: true };
            }
            BuildStep::Barrier => self.progress = Progress::Building(Built::Passed),
            BuildStep::Fill => match self.filling.take() {
                None if self.store.base.is_none() => self.progress = Progress::Building(Built::Verified),
                None => {
                    let copy = self.store.steps();
                    self.filling = self.store.base.clone().map(|row| (row, copy));
                }
                Some((row, copy)) => self.fills(config, &row, copy),
            },
            BuildStep::DropTable => {
                self.progress = Progress::Dropped;
                self.store.drop_view(ADDED);
            }
            BuildStep::MakeTable
            | BuildStep::Verify
            | BuildStep::WaitForReaders
            | BuildStep::Forget
            | BuildStep::Done => {}
        }
    }

    fn fills(&mut self, config: &Config, row: &TinyRow, mut copy: Steps) {
        if !config.rules().keeps(Rule::CopyBeforeRow) {
            copy = self.store.steps();
        }
        if let Some(Mend::Put { entry, version, .. }) = fill(row, ADDED, config.schema_of(2), 0) {
            for bucket in self.store.takers(&entry.key, true, &copy) {
                let put = Request::Put(entry.clone(), version, *bucket);
                self.store.plain(&put, config.rules());
            }
            if !self.is_put(&entry.key, &copy) {
                return;
            }
        }
        self.progress = Progress::Building(Built::Verified);
    }

    /// Reports an event to the write of a process, and executes the actions that the write returns.
    fn tell(&mut self, config: &Config, p: u8, event: Event<Record, u8>) {
        let process = &mut self.processes[p as usize];
        let Some(write) = &mut process.write else { return };
        let here = StepContext {
            schema: config.schema_of(process.schema),
            owner: &0,
            now: config.scripts[p as usize].clock,
            token: Token(u128::from(p) * 100 + u128::from(process.tokens) + 1),
            has_lease: process.has_lease,
        };
        let actions = write.step(event, &here);
        for action in actions {
            self.does(config, p, action);
        }
    }

    fn does(&mut self, config: &Config, p: u8, action: Action<Tiny>) {
        let process = &mut self.processes[p as usize];
        let intent = Intent {
            process: p,
            request: process.asked.wrapping_sub(1),
        };
        match action {
            Action::Look { note, .. } => {
                process.is_reading = true;
                let process = self.looks(p);
                if note {
                    if config.clocks_stand_still {
                        process.place = process.segments.note();
                    }
                    self.sent.push((Some(p), Request::Note(intent)));
                }
            }
            Action::Claim { .. } | Action::Release(_) => unreachable!("nothing is unique"),
            Action::Reload => process.is_reloading = true,
            Action::Cas(conditional) => {
                process.tokens += 1;
                let is_change = process.write.as_ref().is_some_and(Write::sends_change);
                let change = is_change.then(|| p * 16 + intent.request);
                self.sent.push((Some(p), Request::Cas(conditional, change)));
            }
            Action::Write(entries) => {
                let version = entries.version;
                let removals = entries
                    .removals
                    .into_iter()
                    .map(|(key, stamp)| Request::Remove(key, stamp, 0));
                let puts = entries
                    .puts
                    .into_iter()
                    .map(|entry| Request::Put(entry, version, 0));
                let requests: Vec<Request> = removals.chain(puts).collect();
                let is_nothing = requests.is_empty();
                self.processes[p as usize].routes.waiting = requests;
                if is_nothing {
                    self.tell(config, p, Event::Written);
                } else if config.cuts.is_empty() {
                    self.routes(config, p);
                }
            }
            Action::MarkDone(version) => self.sent.push((None, Request::Done(version))),
            Action::Answer(answer) => self.answers(intent, answer),
            Action::Settled => self.settles(config, p, intent),
        }
    }

    fn answers(&mut self, intent: Intent, answer: Answer) {
        let is_applied = self.applied.iter().any(|(one, ..)| *one == intent);
        match answer {
            Answer::Done(_) | Answer::Pending(_) if !is_applied => self.broken = Some(I2),
            Answer::Refused(_) | Answer::NotWritten(_) if is_applied => self.broken = Some(I3),
            _ => {}
        }
        self.answers.insert(intent, answer);
    }

    fn settles(&mut self, config: &Config, p: u8, intent: Intent) {
        let process = &mut self.processes[p as usize];
        if process.write.as_ref().is_none_or(Write::is_over) {
            process.write = None;
            process.is_reading = false;
        }
        if let Some(began) = process.began.take() {
            process.member.ended(began);
        }
        match process.sweeping.take() {
            None => {
                if let Some(place) = process.place {
                    process.segments.settle(place);
                }
                if let Some(stored) = self.intents.get_mut(&intent) {
                    stored.is_settled = true;
                }
                if !config.clocks_stand_still {
                    self.deletes(intent);
                }
            }
            Some(swept) => {
                let Some(stored) = self.intents.get_mut(&swept) else {
                    return;
                };
                stored.resolved += 1;
                let what = dead_segment_by(stored.resolved, DEAD_SEGMENT_SECONDS, config.rules());
                if what == DeadSegment::Delete || !config.clocks_stand_still {
                    self.deletes(swept);
                }
            }
        }
    }

    /// Removes requests that can no longer change anything, to reduce the number of states.
    pub(super) fn tidy(&mut self, rules: Rules) {
        let store = &self.store;
        self.sent
            .retain(|(from, request)| from.is_some() || !store.is_spent(request, rules));
        self.sent
            .sort_by_cached_key(|sent| BuildHasherDefault::<DefaultHasher>::default().hash_one(sent));
        self.sent.dedup_by(|one, other| one.0.is_none() && one == other);
    }
}
