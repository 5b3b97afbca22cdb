//! Model of cached range maps: a process uses a cached range map, and another process waits for its
//! expiry, while clocks stop or are set.

use std::sync::Arc;

use stateright::{Checker, Model, Property};

use super::SAMPLING;
use super::model::{by_seconds, is_broken, told};
use crate::buckets::rules::Rule;
use crate::buckets::{Clock, Directory, DirectoryCopy, Protocol};

const OVER: &str = "nobody goes by a copy that was waited for";
const HELD: &str = "a copy lives while there is no need to wait for it";

/// Duration of the model, in seconds.
const SECONDS: u64 = 8;
/// Seconds by which a clock can be set back.
const SET_BACK_SECONDS: i64 = 5;

/// Clock that is never set, and stops only together with the other clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reliable {
    Boot,
    Wall,
}

#[derive(Debug, Clone)]
struct Clocks {
    without: Option<Rule>,
    reliable: Reliable,
    /// Number of seconds for which both clocks can stop.
    standstill: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Copy {
    None,
    Asked(Clock),
    /// The store has answered with the range map (which bucket holds which keys) from before its
    /// change.
    Answered(Clock),
    Held(DirectoryCopy),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    /// Seconds since the start of the model.
    now: u64,
    clock: Clock,
    standstill: u64,
    copy: Copy,
    /// Second in which a new range map (which bucket holds which keys) was stored; `None`: not yet.
    changed: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Happening {
    /// One second passes on both clocks. In the next three events, clocks stop, or one is set back.
    BothGoOn,
    OnlyReliable,
    SetBack,
    NoneGoesOn,
    Asks,
    Answers,
    Hears,
    Changes,
}

impl Clocks {
    fn new(reliable: Reliable) -> Self {
        Self {
            without: None,
            reliable,
            standstill: 1,
        }
    }

    fn protocol(&self) -> Protocol {
        by_seconds(self.without)
    }

    fn breaks(mut self, rule: Rule) {
        self.without = Some(rule);
        is_broken(rule, self.checker().spawn_bfs().join().discovery(OVER));
    }
}

impl Model for Clocks {
    type State = State;
    type Action = Happening;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            clock: Clock {
                boot_ms: 10,
                wall_ms: 10,
            },
            standstill: self.standstill,
            copy: Copy::None,
            changed: None,
        }]
    }

    fn actions(&self, state: &State, happenings: &mut Vec<Happening>) {
        if state.now < SECONDS {
            happenings.extend([Happening::BothGoOn, Happening::OnlyReliable, Happening::SetBack]);
            if state.standstill > 0 {
                happenings.push(Happening::NoneGoesOn);
            }
        }
        happenings.extend(match state.copy {
            Copy::None => Some(Happening::Asks),
            Copy::Asked(_) if state.changed.is_none() => Some(Happening::Answers),
            Copy::Answered(_) => Some(Happening::Hears),
            Copy::Asked(_) | Copy::Held(_) => None,
        });
        if state.changed.is_none() {
            happenings.push(Happening::Changes);
        }
    }

    fn next_state(&self, state: &State, happening: Happening) -> Option<State> {
        let mut next = state.clone();
        let (mut boot, mut wall) = (0, 0);
        match happening {
            Happening::BothGoOn => (boot, wall) = (1, 1),
            Happening::OnlyReliable if self.reliable == Reliable::Boot => boot = 1,
            Happening::OnlyReliable => wall = 1,
            // Only the unreliable clock can be set back. This event sets the wall clock, so it is
            // impossible if the wall clock is reliable.
            Happening::SetBack if self.reliable == Reliable::Boot => (boot, wall) = (1, -SET_BACK_SECONDS),
            Happening::SetBack => return None,
            Happening::NoneGoesOn => next.standstill -= 1,
            Happening::Asks => next.copy = Copy::Asked(state.clock),
            Happening::Answers => {
                if let Copy::Asked(asked) = state.copy {
                    next.copy = Copy::Answered(asked);
                }
            }
            Happening::Hears => {
                if let Copy::Answered(asked) = state.copy {
                    let directory = Arc::new(Directory::absent(SAMPLING, self.protocol()));
                    let copy = DirectoryCopy::new(directory, asked, state.clock, self.protocol());
                    next.copy = Copy::Held(copy);
                }
            }
            Happening::Changes => next.changed = Some(state.now),
        }
        next.clock.boot_ms += boot;
        next.clock.wall_ms += wall;
        let is_second = matches!(
            happening,
            Happening::BothGoOn | Happening::OnlyReliable | Happening::SetBack | Happening::NoneGoesOn
        );
        next.now += u64::from(is_second);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn lives(state: &State) -> bool {
            matches!(&state.copy, Copy::Held(copy) if copy.lives(state.clock))
        }
        vec![
            Property::always(OVER, |model: &Self, state: &State| {
                let protocol = model.protocol();
                let waited = protocol.wait_ms(protocol.short_life_ms);
                let is_over = |changed| state.now >= changed + waited;
                !(state.changed.is_some_and(is_over) && lives(state))
            }),
            Property::sometimes(HELD, |_, state| lives(state) && state.changed.is_some()),
        ]
    }
}

#[test]
fn a_copy_is_over_when_it_was_waited_for() {
    for reliable in [Reliable::Boot, Reliable::Wall] {
        let checker = Clocks::new(reliable).checker().spawn_bfs().join();
        eprintln!("life by {reliable:?}: {} states", checker.unique_state_count());
        if let Some(path) = checker.discovery(OVER) {
            panic!("{}", told(path));
        }
        assert!(checker.discovery(HELD).is_some());
    }
}

#[test]
fn without_counting_from_the_asking() {
    Clocks::new(Reliable::Boot).breaks(Rule::LifeFromBeforeReading);
}

#[test]
fn without_the_other_clock() {
    Clocks::new(Reliable::Wall).breaks(Rule::LargerOfClocks);
}

#[test]
fn without_a_margin_for_clocks() {
    Clocks::new(Reliable::Boot).breaks(Rule::MarginForStandstill);
}
