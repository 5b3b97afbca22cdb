//! Model of a process, its registration, and an observer. Checks that no process has a lease after
//! the observer declared it dead.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::usually;
use crate::views::member::{Member, RENEWAL_MICROS, Registration, Watch};
use crate::views::rules::{Rule, Rules};

/// Length of a time step, in microseconds.
const TICK: i64 = RENEWAL_MICROS;
/// Number of time steps that the model explores.
const TICKS: u8 = 12;
/// Time by which the observer's clock is ahead of the process's clock, in microseconds.
const APART: i64 = 3_600_000_000;

const SAFE: &str = "who is found dead has no lease";
const TOLD: &str = "who is told to be dead was found dead";

#[derive(Debug, Clone, Default)]
struct Leases {
    without: Option<Rule>,
    /// True if the process's clock stops while the process is suspended.
    forgets_suspension: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    ticks: u8,
    suspended: u8,
    member: Member,
    stored: Registration,
    /// Renewal under way, and its outcome, if it has arrived. The process does not know the outcome
    /// yet.
    renewal: Option<(Sent, Option<Ended>)>,
    /// Renewal that may still arrive, although the process no longer waits for it.
    late: Option<Sent>,
    losses: u8,
    last_sent: i64,
    /// True if the process knows that it was declared dead.
    is_told: bool,
    watch: Option<Watch>,
}

/// Renewal of the process's registration: the new registration, and the stored counter that it
/// requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent {
    puts: Registration,
    expects: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ended {
    Applied,
    /// The renewal was not applied, because the stored counter is this one.
    Refused(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Happening {
    Tick,
    TickSuspended,
    Sends,
    Arrives,
    Answered,
    /// The outcome of the renewal is lost. The renewal may still arrive.
    Lost,
    ArrivesLate,
    Observes,
    FindsDead(u64),
}

impl Leases {
    fn rules(&self) -> Rules {
        Rules::without([self.without, None])
    }
}

impl State {
    fn own_clock(&self) -> i64 {
        i64::from(self.ticks - self.suspended) * TICK
    }

    fn observers_clock(&self) -> i64 {
        i64::from(self.ticks) * TICK + APART
    }

    fn applies(&mut self, sent: Sent) -> Ended {
        if Some(self.stored.counter) != sent.expects {
            return Ended::Refused(self.stored.counter);
        }
        self.stored = sent.puts;
        Ended::Applied
    }

    fn sends(&mut self) {
        let now = self.own_clock();
        let sent = Sent {
            puts: self.member.renewal(now),
            expects: self.member.counter(),
        };
        self.last_sent = now;
        self.renewal = Some((sent, None));
    }

    fn is_answered(&mut self) {
        let now = self.own_clock();
        match self.renewal.take() {
            Some((_, Some(Ended::Applied))) => self.member.renewed(now),
            Some((_, Some(Ended::Refused(current)))) => {
                self.is_told |= !self.member.refused(Some(current), now);
            }
            _ => {}
        }
    }

    fn loses(&mut self) {
        self.losses -= 1;
        // Forget when the renewal was sent, so that the process sends it again at once.
        self.last_sent = i64::MIN;
        self.late = self.renewal.take().map(|(sent, _)| sent);
    }

    fn observes(&mut self, rules: Rules) {
        let (counter, now) = (self.stored.counter, self.observers_clock());
        match &mut self.watch {
            Some(watch) => watch.saw(counter, now),
            None => self.watch = Some(Watch::new_by(counter, now, rules)),
        }
    }

    fn finds_dead(&mut self, counter: u64, rules: Rules) {
        if counter == self.stored.counter || !rules.keeps(Rule::DeathDecidedOnCounter) {
            self.stored = self.stored.dead();
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Happening;

    fn init_states(&self) -> Vec<State> {
        let mut member = Member::new(self.rules());
        let stored = member.renewal(0);
        member.renewed(0);
        vec![State {
            ticks: 0,
            suspended: 0,
            member,
            stored,
            renewal: None,
            late: None,
            losses: usually(1, 2),
            last_sent: 0,
            is_told: false,
            watch: None,
        }]
    }

    fn actions(&self, state: &State, happenings: &mut Vec<Happening>) {
        if state.ticks < TICKS {
            happenings.push(Happening::Tick);
            if self.forgets_suspension {
                happenings.push(Happening::TickSuspended);
            }
        }
        match state.renewal {
            None if state.own_clock() > state.last_sent && !state.is_told => {
                happenings.push(Happening::Sends);
            }
            None => {}
            Some((_, Some(_))) => happenings.push(Happening::Answered),
            Some((_, None)) => happenings.push(Happening::Arrives),
        }
        if state.renewal.is_some() && state.losses > 0 {
            happenings.push(Happening::Lost);
        }
        happenings.extend(state.late.map(|_| Happening::ArrivesLate));
        if !state.stored.is_dead {
            happenings.push(Happening::Observes);
        }
        let dead = state
            .watch
            .filter(|_| !state.stored.is_dead)
            .and_then(|watch| watch.dead_at(state.observers_clock()));
        happenings.extend(dead.map(Happening::FindsDead));
    }

    fn next_state(&self, state: &State, happening: Happening) -> Option<State> {
        let mut next = state.clone();
        match happening {
            Happening::Tick => next.ticks += 1,
            Happening::TickSuspended => {
                next.ticks += 1;
                next.suspended += 1;
            }
            Happening::Sends => next.sends(),
            Happening::Arrives => {
                let (sent, _) = next.renewal?;
                next.renewal = Some((sent, Some(next.applies(sent))));
            }
            Happening::Answered => next.is_answered(),
            Happening::Lost => next.loses(),
            Happening::ArrivesLate => {
                let sent = next.late.take()?;
                next.applies(sent);
            }
            Happening::Observes => next.observes(self.rules()),
            Happening::FindsDead(counter) => next.finds_dead(counter, self.rules()),
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| {
                !(state.stored.is_dead && state.member.has_lease(state.own_clock()))
            }),
            Property::always(TOLD, |_, state: &State| !state.is_told || state.stored.is_dead),
            Property::sometimes("told", |_, state: &State| state.is_told),
            Property::sometimes("found dead", |_, state: &State| state.stored.is_dead),
            Property::sometimes("renewed for long", |_, state: &State| {
                state.ticks == TICKS && state.member.has_lease(state.own_clock())
            }),
        ]
    }
}

fn breaks(leases: Leases) {
    breaks_in(leases, SAFE);
}

fn breaks_in(leases: Leases, property: &'static str) {
    let any = HasDiscoveries::AnyOf([property].into());
    let checker = leases.checker().finish_when(any).spawn_bfs().join();
    let path = checker.assert_any_discovery(property);
    eprintln!("{:?}", path.into_actions());
}

#[test]
fn a_process_found_dead_has_no_lease() {
    let checker = Leases::default().checker().spawn_bfs().join();
    eprintln!("leases: {} states", checker.unique_state_count());
    checker.assert_properties();
}

fn without(rule: Rule) -> Leases {
    Leases {
        without: Some(rule),
        ..Leases::default()
    }
}

#[test]
fn without_counting_from_the_sending() {
    breaks(without(Rule::LeaseFromSending));
}

#[test]
fn without_waiting_longer_than_a_lease() {
    breaks(without(Rule::DeathOutlastsLease));
}

#[test]
fn without_remembering_a_renewal() {
    breaks_in(without(Rule::RenewalRemembered), TOLD);
}

#[test]
fn without_deciding_on_the_counter() {
    breaks(without(Rule::DeathDecidedOnCounter));
}

#[test]
fn without_a_clock_that_counts_suspension() {
    breaks(Leases {
        forgets_suspension: true,
        ..Leases::default()
    });
}
