//! Models of two records that want the same unique value. Processes change them with the step
//! functions of the engine. A process reserves the value (takes the claim) before it writes the
//! row, and releases claims that it no longer needs.

use std::collections::BTreeSet;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::usually;
use crate::views::arranged::Arranged;
use crate::views::change::{Change, FoundOf, Refusal, Request as Asked, RowOf};
use crate::views::misfit::Misfit;
use crate::views::row::{
    Entry, EntryKey, Found, Generation, Row, RowClaims, Token, Tokens, Version, ViewNumber,
};
use crate::views::rules::{Rule, Rules};
use crate::views::taking::{Claim, ClaimDecision, TakingStep};
use crate::views::write::{Action, Answer, Conditional, Decision, Event, StepContext, Write};

const I8: &str = "I8: no two live records have one value";
const CLAIMED: &str = "who has the value has its claim";
const FREED: &str = "what nobody has is claimed by nobody, where nobody crashed";
const GAVE_UP: &str = "the time of a change was over, if that may happen";
const LOST: &str = "a registration was lost under a claim, if that may happen";
const NEVER_STUCK: &str = "whatever is begun comes to an end";

const UNIQUE: ViewNumber = ViewNumber(1);
const NOW: i64 = 10;

type Record = u8;

/// Collection with one possible unique value. Each record either has the value or not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wanting;

impl Arranged for Wanting {
    type Record = bool;
    type Patch = ();
    type Key = u8;
    type Cells = ();

    fn generation(&self) -> Generation {
        Generation(1)
    }

    fn entries(&self, _: &bool) -> Vec<Entry<u8, ()>> {
        Vec::new()
    }

    fn claims(&self, record: &bool) -> Vec<EntryKey<u8>> {
        let claim = EntryKey { view: UNIQUE, key: 0 };
        record.then_some(claim).into_iter().collect()
    }

    fn has_unique(&self, _: ViewNumber) -> bool {
        true
    }

    fn misfits(&self, _: &bool) -> Vec<Misfit> {
        Vec::new()
    }

    fn has_same_value(&self, _: usize, one: &bool, other: &bool) -> bool {
        one == other
    }

    fn has_view(&self, _: ViewNumber) -> bool {
        false
    }

    fn view_count(&self) -> usize {
        0
    }

    fn key_bytes(&self, _: &u8) -> usize {
        1
    }

    fn patched(&self, record: &bool, (): &()) -> bool {
        *record
    }
}

/// Model of unique values: its records and processes, and the number of faults of each kind.
#[derive(Debug, Clone, Default)]
struct Config {
    without: Option<Rule>,
    /// Record that has the value at first; `None`: no record has it.
    first: Option<Record>,
    /// True if the record `first` has no claim at first, because the unique constraint was added
    /// later. Its process takes the claim.
    is_added: bool,
    /// True if records are inserted, not put.
    inserts: bool,
    /// For each process, its record, and for each of its changes whether the record then has the
    /// value.
    scripts: Vec<(Record, Vec<bool>)>,
    losses: u8,
    crashes: u8,
    /// Number of changes whose deadline can pass before they end.
    deadlines: u8,
    /// Number of leases that can end during a change.
    lapses: u8,
    /// Number of times that a process may replace another record's token to take its claim. Without
    /// a limit, two processes could do so forever.
    fences: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Request {
    /// Stores the second claim (reserved unique value), if the stored claim is the first one.
    Claim(Option<Claim<Record>>, Claim<Record>),
    /// Writes the row of this record.
    Row(Record, Conditional<Wanting>),
    Release(Claim<Record>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
struct World {
    rows: [FoundOf<Wanting>; 2],
    claim: Option<Claim<Record>>,
    /// Requests that have not arrived, each with the index of the process that waits for it.
    sent: Vec<(Option<u8>, Request)>,
    processes: Vec<Process>,
    /// Records for which dead processes have left intents (pending changes).
    left: BTreeSet<Record>,
    losses: u8,
    crashes: u8,
    deadlines: u8,
    lapses: u8,
    fences: u8,
    has_refused: bool,
    has_given_up: bool,
    has_lost: bool,
    has_crashed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    asked: u8,
    tokens: u8,
    has_crashed: bool,
    has_lease: bool,
    write: Option<Write<Wanting>>,
    /// Action that the process takes next.
    next: Next,
    /// Tokens of the releases for which the process waits.
    releasing: BTreeSet<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Next {
    /// No action: the process waits for replies, or has ended.
    Nothing,
    Reads,
    LooksAtHolder(Token, Record),
    Fences(Token, Record),
    /// Releases claims (reserved unique values) under the next registration, when no claim of the
    /// process is under way.
    Releases,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Happening {
    /// The next change of the process begins.
    Begins(u8),
    /// The process executes its next action.
    Does(u8),
    Arrives(usize),
    /// The result of a request is lost, but the request may still arrive. The waiting process
    /// learns that the outcome is unknown.
    Lost(usize),
    Crashes(u8),
    /// The deadline of the process's change passes.
    Deadline(u8),
    /// The lease of the process ends.
    Lapses(u8),
    /// The process renews its registration, and has a lease (time for which it may write) again.
    Renews(u8),
    /// Another process declared the process dead. It drops its writes, and registers again.
    Loses(u8),
    /// The pending changes of a dead process on this record are completed.
    Sweeps(Record),
}

impl World {
    fn new(config: &Config) -> Self {
        let mut rows = [Found::absent(), Found::absent()];
        let token = Token(0);
        let mut claims = RowClaims::NONE;
        if !config.is_added {
            claims.held.insert(UNIQUE, token);
        }
        if let Some(first) = config.first {
            rows[first as usize].row = Some(Row {
                tokens: Tokens::pushed(None, token),
                version: Version(0),
                generation: Generation(1),
                record: Some(true),
                expires_at: None,
                must_go: BTreeSet::new(),
                claims,
            });
        }
        let process = Process {
            asked: 0,
            tokens: 0,
            has_crashed: false,
            has_lease: true,
            write: None,
            next: Next::Nothing,
            releasing: BTreeSet::new(),
        };
        let first = config.first.filter(|_| !config.is_added);
        Self {
            rows,
            claim: first.map(|owner| Claim { owner, token }),
            sent: Vec::new(),
            processes: vec![process; config.scripts.len()],
            left: BTreeSet::new(),
            losses: config.losses,
            crashes: config.crashes,
            deadlines: config.deadlines,
            lapses: config.lapses,
            fences: config.fences,
            has_refused: false,
            has_given_up: false,
            has_lost: false,
            has_crashed: false,
        }
    }

    /// Returns whether the process waits for the result of a claim (reserved unique values).
    fn has_sent_claim(&self, p: u8) -> bool {
        let mut sent = self.sent.iter();
        sent.any(|(from, request)| *from == Some(p) && matches!(request, Request::Claim(..)))
    }

    fn is_quiet(&self, config: &Config) -> bool {
        let mut processes = self.processes.iter().zip(&config.scripts);
        self.sent.is_empty()
            && self.left.is_empty()
            && processes.all(|(process, (_, changes))| {
                process.has_crashed || process.write.is_none() && process.asked as usize == changes.len()
            })
    }

    fn happens(&mut self, config: &Config, happening: &Happening) {
        match *happening {
            Happening::Begins(p) => {
                let process = &mut self.processes[p as usize];
                process.asked += 1;
                process.write = Some(Write::new(Some(config.change(p, process.asked)), config.rules()));
                self.tell(config, p, Event::Begin);
            }
            Happening::Does(p) => self.does_next(config, p),
            Happening::Arrives(index) => {
                let (from, request) = self.sent.remove(index);
                self.arrives(config, from, request);
            }
            Happening::Lost(index) => {
                self.losses -= 1;
                let (from, request) = self.sent[index].clone();
                self.sent[index].0 = None;
                if let Some(p) = from {
                    self.is_unknown(config, p, request);
                }
            }
            Happening::Deadline(p) => {
                self.deadlines -= 1;
                self.tell(config, p, Event::Deadline);
            }
            Happening::Lapses(p) => {
                self.lapses -= 1;
                self.processes[p as usize].has_lease = false;
            }
            Happening::Renews(p) => self.processes[p as usize].has_lease = true,
            Happening::Loses(p) => self.loses_registration(config, p),
            Happening::Crashes(p) => {
                self.crashes -= 1;
                self.has_crashed = true;
                let process = &mut self.processes[p as usize];
                (process.write, process.next, process.has_crashed) = (None, Next::Nothing, true);
                process.releasing.clear();
                self.left.insert(config.scripts[p as usize].0);
                for (from, _) in &mut self.sent {
                    *from = from.filter(|from| *from != p);
                }
            }
            Happening::Sweeps(record) => {
                self.left.remove(&record);
                let token = Token(1_000 + 10 * u128::from(self.lapses) + u128::from(self.crashes));
                self.resolve(record, Write::resolve(), token);
            }
        }
    }

    /// Leaves the intent to other processes, because the registration is lost. The process still
    /// waits for a claim under way: a release that arrives before the claim would have no effect.
    fn loses_registration(&mut self, config: &Config, p: u8) {
        let process = &mut self.processes[p as usize];
        (process.has_lease, process.next) = (true, Next::Nothing);
        process.releasing.clear();
        for (from, request) in &mut self.sent {
            if *from == Some(p) && !matches!(request, Request::Claim(..)) {
                *from = None;
            }
        }
        let Some(write) = process.write.take() else { return };
        self.left.insert(config.scripts[p as usize].0);
        let unreleased = write.unreleased(&Wanting);
        if !unreleased.is_empty() {
            self.has_lost = true;
            (process.write, process.next) = (Some(Write::releasing(unreleased)), Next::Releases);
        }
    }

    /// Executes the next action of a process.
    fn does_next(&mut self, config: &Config, p: u8) {
        let next = std::mem::replace(&mut self.processes[p as usize].next, Next::Nothing);
        let has_value = |world: &Self, holder: Record| {
            let row = world.rows[holder as usize].row.as_ref();
            row.is_some_and(|row| row.record == Some(true))
        };
        match next {
            Next::Nothing => {}
            Next::Releases => self.tell(config, p, Event::Begin),
            Next::Reads => {
                let found = self.rows[config.scripts[p as usize].0 as usize].clone();
                self.tell(config, p, Event::Noted);
                self.tell(config, p, Event::Read(found));
            }
            Next::LooksAtHolder(token, holder) => {
                let event = Event::HolderLooked(token, has_value(self, holder));
                self.tell(config, p, event);
            }
            Next::Fences(token, holder) => {
                self.fences -= 1;
                let had_value = has_value(self, holder);
                let fence = Token(2_000 + u128::from(self.fences));
                self.resolve(holder, Write::fencing(), fence);
                self.tell(config, p, Event::HolderFenced(token, had_value));
            }
        }
    }

    /// Resolves a record in one step. The releases that follow from it may arrive later.
    fn resolve(&mut self, record: Record, mut write: Write<Wanting>, token: Token) {
        let here = StepContext {
            schema: &Wanting,
            owner: &record,
            now: NOW,
            token,
            has_lease: true,
        };
        let mut events = vec![Event::Begin];
        while let Some(event) = events.pop() {
            for action in write.step(event, &here) {
                match action {
                    Action::Look { .. } => events.push(Event::Read(self.rows[record as usize].clone())),
                    Action::Cas(conditional) => {
                        self.rows[record as usize].row = Some(conditional.row);
                        events.push(Event::Decided(token, Decision::Applied));
                    }
                    Action::Write(entries) => {
                        let releases = entries.releases.into_iter();
                        let releases = releases.map(|(_, token)| release(record, token));
                        self.sent.extend(releases.map(|release| (None, release)));
                        events.push(Event::Written);
                    }
                    // Do not mark the version as done, because the releases of the record may
                    // arrive late.
                    Action::MarkDone(_) => {}
                    Action::Settled => return,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Reports an event to the write of a process, and executes the actions that the write returns.
    fn tell(&mut self, config: &Config, p: u8, event: Event<bool, Record>) {
        let record = config.scripts[p as usize].0;
        let process = &mut self.processes[p as usize];
        let has_lease = process.has_lease;
        let Some(write) = &mut process.write else { return };
        // The token is new each time, and unique to the process, so it does not depend on the
        // actions of other processes.
        let token = Token(u128::from(p) * 100 + u128::from(process.tokens) + 1);
        let here = StepContext {
            schema: &Wanting,
            owner: &record,
            now: NOW,
            token,
            has_lease,
        };
        for action in write.step(event, &here) {
            self.does(config, p, action);
        }
    }

    fn does(&mut self, config: &Config, p: u8, action: Action<Wanting>) {
        let record = config.scripts[p as usize].0;
        let process = &mut self.processes[p as usize];
        let uses = |process: &mut Process, token: Token| {
            let used = u8::try_from(token.0 % 100).expect("few");
            process.tokens = process.tokens.max(used);
        };
        match action {
            Action::Look { .. } => process.next = Next::Reads,
            Action::Claim { own, step, .. } => match step {
                TakingStep::Send(there) => {
                    uses(process, own.token);
                    self.sent.push((Some(p), Request::Claim(there, own)));
                }
                TakingStep::Look(holder) => process.next = Next::LooksAtHolder(own.token, holder),
                TakingStep::Fence(holder) => process.next = Next::Fences(own.token, holder),
                TakingStep::Held | TakingStep::Taken(_) | TakingStep::Anew => {
                    unreachable!("nothing to be done")
                }
            },
            Action::Cas(conditional) => {
                uses(process, conditional.row.tokens.newest());
                self.sent.push((Some(p), Request::Row(record, conditional)));
            }
            Action::Write(entries) => {
                process.releasing = entries.releases.iter().map(|(_, token)| *token).collect();
                let releases = entries.releases.iter();
                let releases = releases.map(|(_, token)| (Some(p), release(record, *token)));
                self.sent.extend(releases);
                if entries.releases.is_empty() {
                    self.tell(config, p, Event::Written);
                }
            }
            Action::Release(claims) => {
                let releases = claims.iter().map(|(_, token)| (None, release(record, *token)));
                self.sent.extend(releases);
            }
            Action::MarkDone(version) => {
                let found = &mut self.rows[record as usize];
                found.done = found.done.max(Some(version));
            }
            Action::Answer(answer) => {
                self.has_refused |= matches!(answer, Answer::Refused(Refusal::Taken(_)));
                self.has_given_up |= matches!(answer, Answer::NotWritten(_));
            }
            Action::Settled => process.write = None,
            Action::Reload => unreachable!("there is one schema"),
        }
    }

    fn arrives(&mut self, config: &Config, from: Option<u8>, request: Request) {
        match request {
            Request::Claim(there, own) => {
                let token = own.token;
                let decision = if self.claim == there {
                    self.claim = Some(own);
                    ClaimDecision::Applied
                } else {
                    ClaimDecision::NotApplied(self.claim.clone())
                };
                if let Some(p) = from {
                    self.tell(config, p, Event::Claimed(token, decision));
                }
            }
            Request::Row(record, conditional) => {
                let token = conditional.row.tokens.newest();
                let row = &mut self.rows[record as usize].row;
                let there = row.as_ref().map(|row| row.tokens.clone());
                let decision = if there == conditional.expected {
                    *row = Some(conditional.row);
                    Decision::Applied
                } else {
                    Decision::NotApplied(there)
                };
                if let Some(p) = from {
                    self.tell(config, p, Event::Decided(token, decision));
                }
            }
            Request::Release(own) => {
                self.claim
                    .take_if(|claim| claim.is_released_by_rules(&own, config.rules()));
                let Some(p) = from else { return };
                let releasing = &mut self.processes[p as usize].releasing;
                if releasing.remove(&own.token) && releasing.is_empty() {
                    self.tell(config, p, Event::Written);
                }
            }
        }
    }

    /// Reports to a process that the outcome of a request is unknown. A release is sent again.
    fn is_unknown(&mut self, config: &Config, p: u8, request: Request) {
        match request {
            Request::Claim(_, own) => {
                self.tell(config, p, Event::Claimed(own.token, ClaimDecision::Unknown));
            }
            Request::Row(_, conditional) => {
                let token = conditional.row.tokens.newest();
                self.tell(config, p, Event::Decided(token, Decision::Unknown));
            }
            release @ Request::Release(_) => self.sent.push((Some(p), release)),
        }
    }

    /// Removes requests that can no longer have an effect, because their expected tokens (ids of
    /// writes) never recur.
    fn tidy(&mut self) {
        let (rows, claim, all) = (&self.rows, &self.claim, self.sent.clone());
        let may_come = |request: &Request| match request {
            Request::Row(record, conditional) => {
                let row = rows[*record as usize].row.as_ref();
                row.map(|row| &row.tokens) == conditional.expected.as_ref()
            }
            Request::Claim(there, _) => {
                // The expected claim may be stored again, by a request that arrives late.
                let puts = |(_, sent): &(Option<u8>, Request)| matches!(sent, Request::Claim(_, own) if Some(own) == there.as_ref());
                there.is_none() || there == claim || all.iter().any(puts)
            }
            Request::Release(_) => claim.is_some(),
        };
        self.sent
            .retain(|(from, request)| from.is_some() || may_come(request));
        let mut sorted: Vec<_> = self.sent.drain(..).map(|one| (format!("{one:?}"), one)).collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        sorted.dedup_by(|one, other| one.1.0.is_none() && one.1 == other.1);
        self.sent = sorted.into_iter().map(|(_, one)| one).collect();
    }
}

fn release(owner: Record, token: Token) -> Request {
    Request::Release(Claim { owner, token })
}

impl Config {
    fn rules(&self) -> Rules {
        Rules::without([self.without, None])
    }

    fn change(&self, p: u8, asked: u8) -> Asked<bool, ()> {
        let (record, changes) = &self.scripts[p as usize];
        let change = if self.is_added && self.first == Some(*record) {
            Change::Claim
        } else if self.inserts {
            Change::Insert {
                record: changes[asked as usize - 1],
                expires_at: None,
            }
        } else {
            Change::Put {
                record: changes[asked as usize - 1],
                expires_at: None,
            }
        };
        Asked {
            change,
            if_version: None,
        }
    }

    fn holds(self, name: &str) {
        let started = Instant::now();
        let checker = self.checker().spawn_bfs().join();
        eprintln!(
            "{name}: {} states, {:.1?}",
            checker.unique_state_count(),
            started.elapsed()
        );
        for name in [I8, CLAIMED, FREED, NEVER_STUCK] {
            if let Some(path) = checker.discovery(name) {
                panic!("{name}\n{:#?}", path.into_actions());
            }
        }
        for name in ["quiet", "refused", GAVE_UP, LOST] {
            assert!(checker.discovery(name).is_some(), "never seen: {name}");
        }
    }

    fn breaks(mut self, rule: Rule) {
        self.without = Some(rule);
        let any = HasDiscoveries::AnyOf([I8].into());
        let checker = self.checker().finish_when(any).spawn_dfs().join();
        let path = checker.discovery(I8);
        let path = path.unwrap_or_else(|| panic!("nothing breaks without {rule:?}"));
        eprintln!("without {rule:?}:\n{:#?}", path.into_actions());
    }
}

/// Returns whether a row has the unique value, and lists a claim (reserved unique values) for it.
fn has_it(row: &RowOf<Wanting>) -> bool {
    row.record == Some(true) && row.claims.held.contains_key(&UNIQUE)
}

impl Model for Config {
    type State = World;
    type Action = Happening;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, happenings: &mut Vec<Happening>) {
        for (p, process) in (0..).zip(&world.processes) {
            let (_, changes) = &self.scripts[p as usize];
            if process.write.is_none() && !process.has_crashed && (process.asked as usize) < changes.len() {
                happenings.push(Happening::Begins(p));
            }
            match process.next {
                Next::Nothing => {}
                Next::Fences(..) if world.fences == 0 => {}
                Next::Releases if world.has_sent_claim(p) => {}
                _ => happenings.push(Happening::Does(p)),
            }
            if world.crashes > 0 && process.write.is_some() {
                happenings.push(Happening::Crashes(p));
            }
            if world.deadlines > 0 && process.write.is_some() {
                happenings.push(Happening::Deadline(p));
            }
            if world.lapses > 0 && process.has_lease && process.write.is_some() {
                happenings.push(Happening::Lapses(p));
            }
            if !process.has_lease && !process.has_crashed {
                happenings.extend([Happening::Renews(p), Happening::Loses(p)]);
            }
        }
        for (index, (from, _)) in world.sent.iter().enumerate() {
            happenings.push(Happening::Arrives(index));
            if world.losses > 0 && from.is_some() {
                happenings.push(Happening::Lost(index));
            }
        }
        happenings.extend(world.left.iter().map(|record| Happening::Sweeps(*record)));
    }

    fn next_state(&self, world: &World, happening: Happening) -> Option<World> {
        let mut next = world.clone();
        next.happens(self, &happening);
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(I8, |_, world: &World| {
                let rows = world.rows.iter().filter_map(|found| found.row.as_ref());
                rows.filter(|row| has_it(row)).count() < 2
            }),
            Property::always(CLAIMED, |config, world: &World| {
                let has = |(owner, found): (Record, &FoundOf<Wanting>)| {
                    let Some(row) = found.row.as_ref().filter(|row| row.record == Some(true)) else {
                        return true;
                    };
                    // Compare only the owner. The token differs if another change of the record
                    // took the claim again, and was not applied.
                    match row.claims.held.get(&UNIQUE) {
                        Some(_) => world.claim.as_ref().is_some_and(|claim| claim.owner == owner),
                        None => config.is_added,
                    }
                };
                (0..).zip(&world.rows).all(has)
            }),
            Property::always(FREED, |config, world: &World| {
                let mut rows = world.rows.iter().filter_map(|found| found.row.as_ref());
                let is_held = rows.any(|row| row.record == Some(true));
                let mut records: Vec<Record> = config.scripts.iter().map(|(record, _)| *record).collect();
                records.dedup();
                let is_disturbed =
                    world.has_crashed || world.losses < config.losses || records.len() < config.scripts.len();
                is_held || world.claim.is_none() || is_disturbed || !world.is_quiet(config)
            }),
            Property::always(NEVER_STUCK, |config, world: &World| {
                let mut happenings = Vec::new();
                config.actions(world, &mut happenings);
                !happenings.is_empty() || world.is_quiet(config) || world.fences == 0
            }),
            Property::sometimes("quiet", |config, world: &World| world.is_quiet(config)),
            Property::sometimes("refused", |_, world: &World| world.has_refused),
            Property::sometimes(GAVE_UP, |config, world: &World| {
                world.has_given_up || config.deadlines == 0
            }),
            Property::sometimes(LOST, |config, world: &World| world.has_lost || config.lapses == 0),
        ]
    }
}

fn two(first: Option<Record>, one: &[bool], other: &[bool]) -> Config {
    Config {
        first,
        scripts: vec![(0, one.to_vec()), (1, other.to_vec())],
        fences: usually(3, 4),
        ..Config::default()
    }
}

/// Returns a model with two writers of one record, and one writer of another record.
fn beside(one: bool, other: bool) -> Config {
    Config {
        first: Some(0),
        scripts: vec![(0, vec![one]), (0, vec![other]), (1, vec![true])],
        fences: usually(2, 3),
        ..Config::default()
    }
}

/// Checks that the claim of a change is released after the change's deadline, even if the claim
/// arrives later.
#[test]
fn releases_claims_of_late_changes() {
    let config = Config {
        deadlines: usually(1, 2),
        ..two(None, &[true], &[true])
    };
    config.holds("two want it, and run out of time");
    let config = Config {
        deadlines: 1,
        ..two(Some(0), &[false, true], &[true])
    };
    config.holds("one gives it up, and both run out of time");
}

/// Checks that a process whose lease ends, or whose registration is lost, releases its claims when
/// it has a lease again.
#[test]
fn releases_claims_after_a_lost_lease() {
    let config = Config {
        lapses: usually(1, 2),
        ..two(None, &[true], &[true])
    };
    config.holds("two want it, and lose their leases");
    let config = Config {
        lapses: 1,
        ..two(Some(0), &[false, true], &[true])
    };
    config.holds("one gives it up, and both lose their leases");
    let config = Config {
        lapses: 1,
        ..beside(false, true)
    };
    config.holds("two of one, one of another, who lose their leases");
}

#[test]
fn two_records_want_a_value() {
    let config = Config {
        losses: usually(2, 3),
        crashes: usually(1, 2),
        ..two(None, &[true], &[true])
    };
    config.holds("two want it");
}

#[test]
fn a_record_gives_a_value_up_and_takes_it_back() {
    let config = Config {
        losses: usually(1, 2),
        crashes: usually(1, 2),
        ..two(Some(0), &[false, true], &[true])
    };
    config.holds("given up, taken back");
}

#[test]
fn two_change_a_record_and_another_wants_its_value() {
    let config = Config {
        crashes: 1,
        losses: usually(1, 2),
        ..beside(false, true)
    };
    config.holds("two of one, one of another");
}

#[test]
fn two_keep_a_records_value_and_another_wants_it() {
    let config = Config {
        crashes: 1,
        losses: usually(1, 2),
        ..beside(true, true)
    };
    config.holds("kept by two, wanted by another");
}

/// Returns a model with two writers of one record, and one writer of another record. No record has
/// the value at first.
fn given_by_two(inserts: bool) -> Config {
    Config {
        first: None,
        inserts,
        crashes: usually(0, 1),
        losses: usually(1, 2),
        ..beside(true, true)
    }
}

/// Checks two processes that put the same record with the unique value, while a third wants the
/// value for another record.
#[test]
fn two_give_a_record_a_value_that_another_wants() {
    given_by_two(false).holds("given by two, wanted by another");
}

/// Checks two processes that insert the same record with the unique value: one of them must be
/// rejected.
#[test]
fn two_insert_a_record_with_a_value_that_another_wants() {
    given_by_two(true).holds("inserted by two, wanted by another");
}

/// Checks that existing records get their claims (reserved unique values) while other records are
/// written.
#[test]
fn a_record_gets_a_claim_for_a_value_that_it_has() {
    let config = Config {
        is_added: true,
        crashes: 1,
        losses: usually(1, 2),
        ..two(Some(0), &[true], &[true])
    };
    config.holds("added to a record");
}

#[test]
fn without_claims_before_rows() {
    two(None, &[true], &[true]).breaks(Rule::ClaimBeforeRow);
}

#[test]
fn without_fencing_who_has_a_claim() {
    two(None, &[true], &[true]).breaks(Rule::HolderFenced);
}

#[test]
fn without_taking_anew_what_is_its_own() {
    beside(false, true).breaks(Rule::TakenAnew);
}

#[test]
fn without_releasing_by_token() {
    beside(false, true).breaks(Rule::ReleasedByToken);
}

#[test]
fn without_another_token_after_doubt() {
    let config = Config {
        first: None,
        losses: 1,
        ..beside(true, true)
    };
    config.breaks(Rule::ClaimTokenOnce);
}
