//! Model of the proposal in the fifth footnote of article 004, which Recto does not implement. The proposal
//! has a counter, a time at which all processes switch to the next bucket, and cached copies of the counter.
//! The copies are younger than the time until the switch. In the model, clocks are exact, and only requests
//! can take any time. The model shows four failures.

use stateright::{Checker, Model, Property};

use super::model::told;

const ADVANCED_TWICE: &str = "a bucket is left once";
const MISSED: &str = "who reads finds all rows that were there before";
const OUT_OF_ORDER: &str = "a later row never lies in an earlier bucket";
const RESET_TWICE: &str = "what was counted is not forgotten";
const NEXT: &str = "rows go to the next bucket";

/// Number of time steps of the model.
const TIMES: u8 = 6;
/// Number of rows after which the bucket changes. Each row is sampled.
const THRESHOLD: u8 = 2;
/// Maximum age of a cached copy of the counter, in time steps.
const COPY_AGE: u8 = 1;
/// Time steps between the decision to use the next bucket and the switch. It is longer than the maximum age of a copy.
const AHEAD: u8 = 2;

/// Row of the store with the state of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Counter {
    bucket: u8,
    count: u8,
    /// Time of the change for which the count was last reset.
    last_change: u8,
    /// Time from which the bucket is used. Until then, the bucket before it is used.
    next_change: u8,
}

impl Counter {
    fn bucket(self, now: u8) -> u8 {
        self.bucket - u8::from(now < self.next_change)
    }

    /// Returns whether the change of buckets is complete and no agent has reset the count.
    fn is_to_be_reset(self, now: u8) -> bool {
        now >= self.next_change && self.last_change < self.next_change
    }
}

/// Agent that writes rows or reads all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Agent {
    copy: Counter,
    copied_at: u8,
    step: Step,
    rows: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Step {
    #[default]
    Idle,
    /// A write of the row with this time to this bucket is under way.
    Writes { time: u8, bucket: u8 },
    /// The row is stored, but not yet counted.
    Counts,
    /// The agent has seen that the count reached the threshold. A write of the next bucket and its start time is under
    /// way.
    Advances { next_change: u8 },
    /// The agent has seen that the count must be reset. The reset is under way.
    Resets { change: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Happening {
    TimeGoesBy,
    Begins(u8),
    Goes(u8),
    /// A reader reads all rows, by the cached copy of this agent.
    Reads(u8),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    counter: Counter,
    agents: [Agent; 2],
    /// Rows, as pairs of time and bucket.
    rows: Vec<(u8, u8)>,
    broken: Option<&'static str>,
}

struct Footnote;

impl Model for Footnote {
    type State = State;
    type Action = Happening;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            counter: Counter::default(),
            agents: [Agent::default(); 2],
            rows: Vec::new(),
            broken: None,
        }]
    }

    fn actions(&self, state: &State, happenings: &mut Vec<Happening>) {
        if state.now < TIMES {
            happenings.push(Happening::TimeGoesBy);
        }
        for (index, agent) in (0..).zip(&state.agents) {
            match agent.step {
                Step::Idle if agent.rows < 3 => {
                    happenings.extend([Happening::Begins(index), Happening::Reads(index)]);
                }
                Step::Idle => {}
                _ => happenings.push(Happening::Goes(index)),
            }
        }
    }

    fn next_state(&self, state: &State, happening: Happening) -> Option<State> {
        let mut next = state.clone();
        match happening {
            Happening::TimeGoesBy => next.now += 1,
            Happening::Begins(agent) => next.begins(usize::from(agent)),
            Happening::Goes(agent) => next.goes(usize::from(agent)),
            Happening::Reads(agent) => next.reads(usize::from(agent)),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ADVANCED_TWICE, |_, state: &State| {
                state.broken != Some(ADVANCED_TWICE)
            }),
            Property::always(MISSED, |_, state: &State| state.broken != Some(MISSED)),
            Property::always(OUT_OF_ORDER, |_, state: &State| {
                state.broken != Some(OUT_OF_ORDER)
            }),
            Property::always(RESET_TWICE, |_, state: &State| state.broken != Some(RESET_TWICE)),
            Property::sometimes(NEXT, |_, state: &State| {
                state.rows.iter().any(|(_, bucket)| *bucket == 1)
            }),
        ]
    }
}

impl State {
    fn copies(&mut self, agent: usize) {
        let agent = &mut self.agents[agent];
        if self.now - agent.copied_at > COPY_AGE {
            agent.copy = self.counter;
            agent.copied_at = self.now;
        }
    }

    fn begins(&mut self, index: usize) {
        self.copies(index);
        let agent = &mut self.agents[index];
        if agent.copy.is_to_be_reset(self.now) {
            let change = agent.copy.next_change;
            agent.step = Step::Resets { change };
            return;
        }
        agent.rows += 1;
        let (time, bucket) = (self.now, agent.copy.bucket(self.now));
        agent.step = Step::Writes { time, bucket };
    }

    fn goes(&mut self, index: usize) {
        let agent = &mut self.agents[index];
        match agent.step {
            Step::Idle => {}
            Step::Writes { time, bucket } => {
                let is_late = |row: &(u8, u8)| row.0 < time && row.1 > bucket;
                if self.rows.iter().any(is_late) {
                    self.broken = Some(OUT_OF_ORDER);
                }
                self.rows.push((time, bucket));
                agent.step = Step::Counts;
            }
            Step::Counts => {
                self.counter.count += 1;
                agent.copy = self.counter;
                agent.copied_at = self.now;
                let is_steady = self.now >= agent.copy.next_change && !agent.copy.is_to_be_reset(self.now);
                let next_change = self.now + AHEAD;
                agent.step = if is_steady && agent.copy.count >= THRESHOLD {
                    Step::Advances { next_change }
                } else {
                    Step::Idle
                };
            }
            Step::Advances { next_change } => {
                if self.counter.next_change > self.counter.last_change {
                    self.broken = Some(ADVANCED_TWICE);
                }
                self.counter.bucket += 1;
                self.counter.next_change = next_change;
                agent.step = Step::Idle;
            }
            Step::Resets { change } => {
                if self.counter.last_change == change && self.counter.count > 0 {
                    self.broken = Some(RESET_TWICE);
                }
                self.counter.count = 0;
                self.counter.last_change = change;
                agent.copy = self.counter;
                agent.copied_at = self.now;
                agent.step = Step::Idle;
            }
        }
    }

    fn reads(&mut self, index: usize) {
        self.copies(index);
        let newest = self.agents[index].copy.bucket(self.now);
        if self.rows.iter().any(|(_, bucket)| *bucket > newest) {
            self.broken = Some(MISSED);
        }
    }
}

/// Checks that the model can reach this state, and prints the shortest path to it.
fn goes_wrong(name: &'static str) {
    let any = stateright::HasDiscoveries::AnyOf([name].into());
    let checker = Footnote.checker().finish_when(any).spawn_bfs().join();
    let path = checker
        .discovery(name)
        .unwrap_or_else(|| panic!("never seen: {name}"));
    eprintln!(
        "{name}, in {} states:\n{}",
        checker.unique_state_count(),
        told(path)
    );
}

#[test]
fn two_agents_leave_the_bucket_twice() {
    goes_wrong(ADVANCED_TWICE);
}

#[test]
fn reads_with_an_older_copy_miss_rows() {
    goes_wrong(MISSED);
}

#[test]
fn a_later_row_lands_in_an_earlier_bucket() {
    goes_wrong(OUT_OF_ORDER);
}

#[test]
fn the_counter_is_reset_twice() {
    goes_wrong(RESET_TWICE);
}

#[test]
fn rows_reach_the_next_bucket() {
    goes_wrong(NEXT);
}
