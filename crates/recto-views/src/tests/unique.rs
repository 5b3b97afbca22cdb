//! Records that want one value. Each is changed as [`Write`](crate::Write) changes it, but for what has no bearing on claims:
//! looked at, then the claim is taken, then the row is written on condition of its tokens, then what must go is released.

use std::collections::BTreeSet;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::usually;
use crate::row::{Token, Tokens};
use crate::rules::{Rule, Rules};
use crate::taking::{Claim, ClaimDecision, Taking, TakingStep};
use crate::write::{Fate, fate};

const I8: &str = "I8: no two live records have one value";
const CLAIMED: &str = "who has the value has its claim";
const FREED: &str = "what nobody has is claimed by nobody, where nobody crashed";
const NEVER_STUCK: &str = "whatever is begun comes to an end";

type Record = u8;

/// What may happen, and how often.
#[derive(Debug, Clone, Default)]
struct Config {
    without: Option<Rule>,
    /// The record that has the value at first.
    first: Option<Record>,
    /// For each process, which record it changes, and whether that then has the value, one change after the other.
    scripts: Vec<(Record, Vec<bool>)>,
    losses: u8,
    crashes: u8,
    /// How often a record is fenced for its claim. Two who fence one another might do so for ever.
    fences: u8,
}

/// A base row, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Row {
    tokens: Option<Tokens>,
    /// The claim by which it has the value; none: it has it not, or is deleted.
    value: Option<Token>,
    /// Claims of earlier versions, still to be released.
    must_go: BTreeSet<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Request {
    /// The claim of a record: what must be there, and the token that is put.
    Claim(Record, Option<(Record, Token)>, Token),
    /// The row of a record: the newest token that must be there, and what is put.
    Row(Record, Option<Token>, Token, bool),
    Release(Record, Token),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// It has read its row.
    Looked(Row),
    Taking(Row, Taking<Record>),
    LookingAt(Row, Taking<Record>, Record),
    Fencing(Row, Taking<Record>, Record),
    Deciding(Row, Row, bool),
    Releasing(BTreeSet<Token>),
    Crashed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    rows: [Row; 2],
    claim: Option<Claim<Record>>,
    /// Each with who waits for it.
    sent: Vec<(Option<u8>, Request)>,
    processes: Vec<Process>,
    /// Records whose intents the dead left.
    left: BTreeSet<Record>,
    losses: u8,
    crashes: u8,
    fences: u8,
    has_refused: bool,
    has_crashed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    asked: u8,
    tokens: u8,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Happening {
    /// The next change begins: the row is read.
    Looks(u8),
    /// It goes on to the claim, or to the row.
    GoesOn(u8),
    /// It reads the record that has the claim.
    LooksAtHolder(u8),
    /// It replaces that record's token.
    Fences(u8),
    Arrives(usize),
    /// Nobody hears of a request that may still come; who waits for it is told that it is unknown.
    Lost(usize),
    Crashes(u8),
    /// What a dead process left of a record is resolved.
    Sweeps(Record),
}

impl World {
    fn new(config: &Config) -> Self {
        let mut rows = [Row::default(), Row::default()];
        let token = Token(0);
        if let Some(first) = config.first {
            rows[first as usize] = Row {
                tokens: Some(Tokens::pushed(None, token)),
                value: Some(token),
                must_go: BTreeSet::new(),
            };
        }
        let process = Process {
            asked: 0,
            tokens: 0,
            state: State::Idle,
        };
        Self {
            rows,
            claim: config.first.map(|owner| Claim { owner, token }),
            sent: Vec::new(),
            processes: vec![process; config.scripts.len()],
            left: BTreeSet::new(),
            losses: config.losses,
            crashes: config.crashes,
            fences: config.fences,
            has_refused: false,
            has_crashed: false,
        }
    }

    /// Another one each time, and of no other process, so that it says nothing of what others did meanwhile.
    fn token(&mut self, p: u8) -> Token {
        let process = &mut self.processes[p as usize];
        process.tokens += 1;
        Token(u128::from(p) * 100 + u128::from(process.tokens))
    }

    fn is_quiet(&self, config: &Config) -> bool {
        let mut processes = self.processes.iter().zip(&config.scripts);
        self.sent.is_empty()
            && self.left.is_empty()
            && processes.all(|(process, (_, changes))| match process.state {
                State::Idle => process.asked as usize == changes.len(),
                State::Crashed => true,
                _ => false,
            })
    }

    fn happens(&mut self, config: &Config, happening: &Happening) {
        match *happening {
            Happening::Looks(p) => {
                let row = self.rows[config.scripts[p as usize].0 as usize].clone();
                self.processes[p as usize].asked += 1;
                self.processes[p as usize].state = State::Looked(row);
            }
            Happening::GoesOn(p) => self.goes_on(config, p),
            Happening::LooksAtHolder(p) => {
                let state = self.state(p);
                if let State::LookingAt(row, mut taking, holder) = state {
                    let has = self.rows[holder as usize].value.is_some();
                    let step = taking.looked(has);
                    self.does(config, p, (row, taking), step);
                }
            }
            Happening::Fences(p) => {
                let state = self.state(p);
                if let State::Fencing(row, mut taking, holder) = state {
                    let had = self.rows[holder as usize].value.is_some();
                    self.fences -= 1;
                    let token = self.token(p);
                    self.fence(holder, token);
                    let step = taking.fenced(had);
                    self.does(config, p, (row, taking), step);
                }
            }
            Happening::Arrives(index) => {
                let (from, request) = self.sent.remove(index);
                self.arrives(config, from, &request);
            }
            Happening::Lost(index) => {
                self.losses -= 1;
                let (from, request) = self.sent[index].clone();
                self.sent[index].0 = None;
                if let Some(p) = from {
                    self.is_unknown(config, p, request);
                }
            }
            Happening::Crashes(p) => {
                self.crashes -= 1;
                self.has_crashed = true;
                self.processes[p as usize].state = State::Crashed;
                self.left.insert(config.scripts[p as usize].0);
                for (from, _) in &mut self.sent {
                    *from = from.filter(|from| *from != p);
                }
            }
            Happening::Sweeps(record) => {
                self.left.remove(&record);
                let swept = u128::from(self.crashes);
                self.fence(record, Token(1_000 + swept));
                let must_go = self.rows[record as usize].must_go.clone();
                let releases = must_go
                    .iter()
                    .map(|token| (None, Request::Release(record, *token)));
                self.sent.extend(releases);
            }
        }
    }

    fn state(&mut self, p: u8) -> State {
        std::mem::replace(&mut self.processes[p as usize].state, State::Idle)
    }

    fn fence(&mut self, record: Record, token: Token) {
        let row = &mut self.rows[record as usize];
        row.tokens = Some(Tokens::pushed(row.tokens.as_ref(), token));
    }

    fn goes_on(&mut self, config: &Config, p: u8) {
        let State::Looked(row) = self.state(p) else { return };
        let (record, wants) = config.change(p, self.processes[p as usize].asked);
        let token = self.token(p);
        let claims_first = config.without != Some(Rule::ClaimBeforeRow);
        if wants && claims_first {
            let own = Claim { owner: record, token };
            let (taking, step) = Taking::begin_by(own, config.rules());
            self.does(config, p, (row, taking), step);
        } else {
            self.sends_row(p, record, row, token, wants);
        }
    }

    fn does(
        &mut self,
        config: &Config,
        p: u8,
        (row, taking): (Row, Taking<Record>),
        step: TakingStep<Record>,
    ) {
        let (record, wants) = config.change(p, self.processes[p as usize].asked);
        let state = match step {
            TakingStep::Send(there) => {
                let expected = there.map(|claim| (claim.owner, claim.token));
                let request = Request::Claim(record, expected, taking.own().token);
                self.sent.push((Some(p), request));
                State::Taking(row, taking)
            }
            TakingStep::Look(holder) => State::LookingAt(row, taking, holder),
            TakingStep::Fence(holder) => State::Fencing(row, taking, holder),
            TakingStep::Held => return self.sends_row(p, record, row, taking.own().token, wants),
            TakingStep::Taken(_) => {
                self.has_refused = true;
                State::Idle
            }
        };
        self.processes[p as usize].state = state;
    }

    fn sends_row(&mut self, p: u8, record: Record, before: Row, token: Token, wants: bool) {
        let mut must_go = before.must_go.clone();
        must_go.extend(before.value);
        let next = Row {
            tokens: Some(Tokens::pushed(before.tokens.as_ref(), token)),
            value: wants.then_some(token),
            must_go,
        };
        let expected = before.tokens.as_ref().map(Tokens::newest);
        self.sent
            .push((Some(p), Request::Row(record, expected, token, wants)));
        self.processes[p as usize].state = State::Deciding(before, next, false);
    }

    fn arrives(&mut self, config: &Config, from: Option<u8>, request: &Request) {
        match *request {
            Request::Claim(owner, expected, token) => {
                let there = self.claim.as_ref().map(|claim| (claim.owner, claim.token));
                let decision = if there == expected {
                    self.claim = Some(Claim { owner, token });
                    ClaimDecision::Applied
                } else {
                    ClaimDecision::NotApplied(self.claim.clone())
                };
                let Some(p) = from else { return };
                if let State::Taking(row, mut taking) = self.state(p) {
                    let step = taking.decided(decision);
                    self.does(config, p, (row, taking), step);
                }
            }
            Request::Row(record, expected, token, wants) => {
                let row = &mut self.rows[record as usize];
                let is_applied = row.tokens.as_ref().map(Tokens::newest) == expected;
                if is_applied {
                    row.must_go.extend(row.value);
                    row.value = wants.then_some(token);
                    row.tokens = Some(Tokens::pushed(row.tokens.as_ref(), token));
                }
                if let Some(p) = from {
                    self.row_decided(p, record, is_applied);
                }
            }
            Request::Release(owner, token) => {
                let own = Claim { owner, token };
                let is_it = |claim: &mut Claim<Record>| claim.is_released_by_rules(&own, config.rules());
                self.claim.take_if(is_it);
                let Some(p) = from else { return };
                if let State::Releasing(left) = &mut self.processes[p as usize].state {
                    left.remove(&token);
                    if left.is_empty() {
                        self.processes[p as usize].state = State::Idle;
                    }
                }
            }
        }
    }

    fn row_decided(&mut self, p: u8, record: Record, is_applied: bool) {
        let State::Deciding(before, next, in_doubt) = self.state(p) else {
            return;
        };
        let own = next.tokens.as_ref().map(Tokens::newest).expect("it puts one");
        let there = self.rows[record as usize].tokens.as_ref();
        let fate = if is_applied {
            Fate::Applied
        } else {
            fate(own, before.tokens.as_ref(), there)
        };
        match fate {
            Fate::Applied => self.releases(p, record, next.must_go),
            Fate::Unknown if in_doubt => {
                self.processes[p as usize].state = State::Idle;
                self.left.insert(record);
            }
            // Begun anew, with another token; what it claimed it takes anew.
            Fate::Refused | Fate::Unknown => {
                let row = self.rows[record as usize].clone();
                self.processes[p as usize].state = State::Looked(row);
            }
        }
    }

    fn releases(&mut self, p: u8, record: Record, must_go: BTreeSet<Token>) {
        let releases = must_go
            .iter()
            .map(|token| (Some(p), Request::Release(record, *token)));
        self.sent.extend(releases);
        self.processes[p as usize].state = if must_go.is_empty() {
            State::Idle
        } else {
            State::Releasing(must_go)
        };
    }

    /// It sends the same again.
    fn is_unknown(&mut self, config: &Config, p: u8, request: Request) {
        match self.state(p) {
            State::Taking(row, mut taking) => {
                let step = taking.decided(ClaimDecision::Unknown);
                self.does(config, p, (row, taking), step);
            }
            State::Deciding(before, next, _) => {
                self.sent.push((Some(p), request));
                self.processes[p as usize].state = State::Deciding(before, next, true);
            }
            state => {
                self.sent.push((Some(p), request));
                self.processes[p as usize].state = state;
            }
        }
    }

    /// Forgets what can make no difference any more: its tokens never recur.
    fn tidy(&mut self) {
        let (rows, claim, all) = (&self.rows, &self.claim, self.sent.clone());
        let may_come = |request: &Request| match request {
            Request::Row(record, expected, ..) => {
                rows[*record as usize].tokens.as_ref().map(Tokens::newest) == *expected
            }
            Request::Claim(_, expected, _) => {
                let there = claim.as_ref().map(|claim| (claim.owner, claim.token));
                // What was there may be there again, by a claim that comes late.
                let puts = |(_, sent): &(Option<u8>, Request)| matches!(sent, Request::Claim(owner, _, token) if *expected == Some((*owner, *token)));
                expected.is_none() || there == *expected || all.iter().any(puts)
            }
            Request::Release(..) => claim.is_some(),
        };
        self.sent
            .retain(|(from, request)| from.is_some() || may_come(request));
        self.sent.sort();
        self.sent.dedup_by(|one, other| one.0.is_none() && one == other);
    }
}

impl Config {
    fn rules(&self) -> Rules {
        Rules::without([self.without, None])
    }

    fn change(&self, p: u8, asked: u8) -> (Record, bool) {
        let (record, changes) = &self.scripts[p as usize];
        (*record, changes[asked as usize - 1])
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
        for name in ["quiet", "refused"] {
            assert!(checker.discovery(name).is_some(), "never seen: {name}");
        }
    }

    fn breaks(mut self, rule: Rule) {
        self.without = Some(rule);
        let any = HasDiscoveries::AnyOf([I8].into());
        let checker = self.checker().finish_when(any).spawn_bfs().join();
        let path = checker.discovery(I8);
        let path = path.unwrap_or_else(|| panic!("nothing breaks without {rule:?}"));
        eprintln!("without {rule:?}:\n{:#?}", path.into_actions());
    }
}

impl Model for Config {
    type State = World;
    type Action = Happening;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, happenings: &mut Vec<Happening>) {
        for (p, process) in (0..).zip(&world.processes) {
            match &process.state {
                State::Idle if (process.asked as usize) < self.scripts[p as usize].1.len() => {
                    happenings.push(Happening::Looks(p));
                }
                State::Looked(_) => happenings.push(Happening::GoesOn(p)),
                State::LookingAt(..) => happenings.push(Happening::LooksAtHolder(p)),
                State::Fencing(..) if world.fences > 0 => happenings.push(Happening::Fences(p)),
                _ => {}
            }
            if world.crashes > 0 && !matches!(process.state, State::Crashed | State::Idle) {
                happenings.push(Happening::Crashes(p));
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
                world.rows.iter().filter(|row| row.value.is_some()).count() < 2
            }),
            Property::always(CLAIMED, |_, world: &World| {
                let has = |(record, row): (usize, &Row)| {
                    let owner = world.claim.as_ref().map(|claim| usize::from(claim.owner));
                    row.value.is_none() || owner == Some(record)
                };
                world.rows.iter().enumerate().all(has)
            }),
            Property::always(FREED, |config, world: &World| {
                let is_held = world.rows.iter().any(|row| row.value.is_some());
                let is_disturbed = world.has_crashed || world.losses < config.losses;
                is_held || world.claim.is_none() || is_disturbed || !world.is_quiet(config)
            }),
            Property::always(NEVER_STUCK, |config, world: &World| {
                let mut happenings = Vec::new();
                config.actions(world, &mut happenings);
                !happenings.is_empty() || world.is_quiet(config) || world.fences == 0
            }),
            Property::sometimes("quiet", |config, world: &World| world.is_quiet(config)),
            Property::sometimes("refused", |_, world: &World| world.has_refused),
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

/// Two writers of one record, and one of another.
fn beside(one: bool, other: bool) -> Config {
    Config {
        first: Some(0),
        scripts: vec![(0, vec![one]), (0, vec![other]), (1, vec![true])],
        fences: usually(2, 3),
        ..Config::default()
    }
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
