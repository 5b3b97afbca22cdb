//! A process, its registration, and who observes it: no process writes that another has found dead.

use stateright::{Checker, Model, Property};

use crate::member::{Member, RENEWAL_MICROS, Registration, Watch};
use crate::rules::{Rule, Rules};

/// Time goes in steps of this.
const TICK: i64 = RENEWAL_MICROS;
/// For how many steps it is looked at.
const TICKS: u8 = 16;
/// How far the observer's clock is ahead.
const APART: i64 = 3_600_000_000;

const SAFE: &str = "who is found dead has no lease";

#[derive(Debug, Clone, Default)]
struct Leases {
    without: Option<Rule>,
    /// Whether the process' clock does not count the time in which it is suspended.
    forgets_suspension: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    ticks: u8,
    suspended: u8,
    member: Member,
    stored: Registration,
    /// A renewal on its way, with the counter that must be there and when it was sent; whether it was applied.
    renewal: Option<(Registration, Option<u64>, i64, bool)>,
    last_sent: i64,
    watch: Option<Watch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Happening {
    Tick,
    TickSuspended,
    Sends,
    Applied,
    Answered,
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

    fn applies(&mut self) {
        if let Some((renewal, expected, _, is_applied)) = &mut self.renewal
            && Some(self.stored.counter) == *expected
        {
            self.stored = *renewal;
            *is_applied = true;
        }
    }

    fn is_answered(&mut self) {
        let now = self.own_clock();
        if let Some((renewal, _, sent, true)) = self.renewal.take() {
            self.member.renewed(&renewal, sent, now);
        }
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
        let stored = member.renewal();
        member.renewed(&stored, 0, 0);
        vec![State {
            ticks: 0,
            suspended: 0,
            member,
            stored,
            renewal: None,
            last_sent: 0,
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
            None if state.own_clock() > state.last_sent => happenings.push(Happening::Sends),
            None => {}
            Some((.., true)) => happenings.push(Happening::Answered),
            Some((.., false)) => happenings.push(Happening::Applied),
        }
        if !state.stored.is_dead {
            happenings.push(Happening::Observes);
        }
        let dead = state
            .watch
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
            Happening::Sends => {
                let renewal = next.member.renewal();
                next.last_sent = next.own_clock();
                next.renewal = Some((renewal, next.member.counter(), next.own_clock(), false));
            }
            Happening::Applied => next.applies(),
            Happening::Answered => next.is_answered(),
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
            Property::sometimes("found dead", |_, state: &State| state.stored.is_dead),
            Property::sometimes("renewed for long", |_, state: &State| {
                state.ticks == TICKS && state.member.has_lease(state.own_clock())
            }),
        ]
    }
}

fn breaks(leases: Leases) {
    let path = leases.checker().spawn_bfs().join().assert_any_discovery(SAFE);
    eprintln!("{:?}", path.into_actions());
}

#[test]
fn who_is_found_dead_has_no_lease() {
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
