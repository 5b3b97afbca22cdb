//! Model of a claim: the process that gave it, and another process that wants its message. Checks
//! that no worker gets a message that another process could already claim.

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::rules::{Rule, Rules};
use crate::queues::{Claim, ClaimId, Clock, Leases, Micros, Segment};

/// Length of a time step, in microseconds.
const TICK: Micros = LEASE_MARGIN_MICROS;
/// Number of time steps that the model explores.
const TICKS: u8 = 8;
const VISIBILITY: Micros = 2 * TICK;
const CLAIM: Claim = (Segment(1), 0, ClaimId(1));

const APART: &str = "nobody is handed a message that another was given since";

#[derive(Debug, Clone)]
struct Lease {
    without: Option<Rule>,
    /// Time by which the wall clock of the other process is ahead, in microseconds.
    ahead: Micros,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
struct State {
    ticks: u8,
    /// Clocks when the claim was sent, and the stored end of the claim; `None`: not sent.
    sent: Option<(Clock, Micros)>,
    is_stored: bool,
    leases: Leases,
    is_heard: bool,
    is_handed_out: bool,
    /// True if the other process has claimed the message.
    is_taken: bool,
    is_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Happening {
    Tick,
    Sends,
    Stored,
    Heard,
    HandsOut,
    Taken,
}

impl State {
    fn clock(&self) -> Clock {
        let now = Micros::from(self.ticks) * TICK;
        Clock {
            wall: now,
            monotonic: now,
        }
    }

    /// Returns whether the other process may claim the message.
    fn may_be_taken(&self, lease: &Lease) -> bool {
        let others = Leases::new(Rules::without([lease.without, None]));
        let clock = Clock {
            wall: self.clock().wall + lease.ahead,
            monotonic: 0,
        };
        self.is_stored
            && self
                .sent
                .is_some_and(|(_, until)| others.is_over(CLAIM, until, clock))
    }
}

impl Model for Lease {
    type State = State;
    type Action = Happening;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            ticks: 0,
            sent: None,
            is_stored: false,
            leases: Leases::new(Rules::without([self.without, None])),
            is_heard: false,
            is_handed_out: false,
            is_taken: false,
            is_late: false,
        }]
    }

    fn actions(&self, state: &State, happenings: &mut Vec<Happening>) {
        if state.ticks < TICKS {
            happenings.push(Happening::Tick);
        }
        match state.sent {
            None => happenings.push(Happening::Sends),
            Some(_) if !state.is_stored => happenings.push(Happening::Stored),
            Some(_) if !state.is_heard => happenings.push(Happening::Heard),
            Some(_) if !state.is_handed_out && state.leases.holds(CLAIM, state.clock()) => {
                happenings.push(Happening::HandsOut);
            }
            Some(_) => {}
        }
        if state.may_be_taken(self) && !state.is_taken {
            happenings.push(Happening::Taken);
        }
    }

    fn next_state(&self, state: &State, happening: Happening) -> Option<State> {
        let mut next = state.clone();
        match happening {
            Happening::Tick => next.ticks += 1,
            Happening::Sends => {
                let clock = state.clock();
                next.sent = Some((clock, clock.wall + VISIBILITY));
            }
            Happening::Stored => next.is_stored = true,
            Happening::Heard => {
                next.is_heard = true;
                next.leases.given(CLAIM, VISIBILITY, state.sent?.0, state.clock());
            }
            Happening::HandsOut => {
                next.is_handed_out = true;
                next.is_late = state.is_taken;
            }
            Happening::Taken => next.is_taken = true,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(APART, |_, state: &State| !state.is_late),
            Property::sometimes("handed out", |_, state: &State| state.is_handed_out),
            Property::sometimes("given to another", |_, state: &State| {
                state.is_taken && state.is_handed_out
            }),
        ]
    }
}

/// Returns a model in which the clock of the other process is ahead by the maximum difference.
fn lease(without: Option<Rule>) -> Lease {
    Lease {
        without,
        ahead: LEASE_MARGIN_MICROS,
    }
}

fn breaks(lease: Lease) {
    let any = HasDiscoveries::AnyOf([APART].into());
    let checker = lease.checker().finish_when(any).spawn_bfs().join();
    let path = checker.assert_any_discovery(APART);
    eprintln!("{:?}", path.into_actions());
}

#[test]
fn nobody_is_handed_what_another_was_given() {
    for ahead in [-100 * TICK, 0, LEASE_MARGIN_MICROS] {
        let lease = Lease { without: None, ahead };
        let checker = lease.checker().spawn_bfs().join();
        eprintln!("leases: {} states", checker.unique_state_count());
        checker.assert_no_discovery(APART);
        checker.assert_any_discovery("handed out");
    }
}

#[test]
fn claims_that_lapsed_are_forgotten() {
    let mut leases = Leases::default();
    let at = |monotonic| Clock { wall: 0, monotonic };
    let claim = |number| (Segment(1), 0, ClaimId(number));
    for number in 0..100 {
        let now = at(Micros::from(number as u32) * TICK);
        leases.given(claim(number), VISIBILITY, now, now);
        assert!(leases.holds(claim(number), now));
        assert!(leases.known() <= 3, "{} are known", leases.known());
    }
    // An extended claim replaces its earlier lease, so it is stored only once, with its new end.
    let now = at(99 * TICK);
    leases.given(claim(99), 100 * VISIBILITY, now, now);
    leases.given(claim(100), VISIBILITY, at(150 * TICK), at(150 * TICK));
    assert!(leases.holds(claim(99), at(150 * TICK)));
    assert_eq!(leases.known(), 2);
    leases.forget(claim(99));
    assert_eq!(leases.known(), 1);
}

#[test]
fn without_counting_from_the_sending() {
    breaks(lease(Some(Rule::LeaseFromSending)));
}

#[test]
fn without_looking_at_the_lease() {
    breaks(lease(Some(Rule::HandedOutInLease)));
}

#[test]
fn without_a_margin() {
    breaks(lease(Some(Rule::MarginForClocks)));
}

#[test]
fn without_clocks_that_are_near() {
    breaks(Lease {
        without: None,
        ahead: LEASE_MARGIN_MICROS + TICK,
    });
}
