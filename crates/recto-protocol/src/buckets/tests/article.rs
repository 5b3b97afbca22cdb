//! Model of a design for changing buckets that Recto does not use (article 004, footnote 5). It has
//! a stored counter of rows, a time at which all processes switch to the next bucket, and cached
//! copies of the counter. A copy is always younger than the time until the switch. Clocks are exact
//! in the model, but requests can take any time. The model shows four failures of the design.

use stateright::{Checker, Model, Property};

use super::model::told;

const ADVANCED_TWICE: &str = "a bucket is left once";
const MISSED: &str = "who reads finds all rows that were there before";
const OUT_OF_ORDER: &str = "a later row never lies in an earlier bucket";
const RESET_TWICE: &str = "what was counted is not forgotten";
const NEXT: &str = "rows go to the next bucket";

/// Number of time steps that the model explores.
const TIMES: u8 = 6;
/// Number of counted rows after which processes use the next bucket.
const THRESHOLD: u8 = 2;
/// Maximum age of a cached counter, in time steps.
const COPY_AGE: u8 = 1;
/// Time steps between the decision to use the next bucket and the switch. It is longer than a
/// counter may be cached.
const AHEAD: u8 = 2;

/// Stored row that contains the number of the present bucket and the count of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Counter {
    bucket: u8,
    count: u8,
    /// Time of the switch after which the count was last reset.
    last_change: u8,
    /// Time from which `bucket` is used. Until then, the previous bucket is used.
    next_change: u8,
}

impl Counter {
    fn bucket(self, now: u8) -> u8 {
        self.bucket - u8::from(now < self.next_change)
    }

    /// Returns whether the switch to the bucket has happened, and no agent has reset the count
    /// since.
    fn is_to_be_reset(self, now: u8) -> bool {
        now >= self.next_change && self.last_change < self.next_change
    }
}

/// Process of the model, which writes rows.
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
    /// The agent is writing a row of this time to this bucket.
    Writes { time: u8, bucket: u8 },
    /// The row is stored, and must be counted.
    Counts,
    /// The count has reached the threshold, and the agent is storing the next bucket and the time
    /// of the switch.
    Advances { next_change: u8 },
    /// The bucket was switched, and the agent is resetting the count.
    Resets { change: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Happening {
    TimeGoesBy,
    Begins(u8),
    Goes(u8),
    /// All rows are read, by the cached counter of this agent.
    Reads(u8),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    counter: Counter,
    agents: [Agent; 2],
    /// Stored rows, each as its time and its bucket.
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

/// Checks that the model can reach the state `name`, and prints the shortest path to it.
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
