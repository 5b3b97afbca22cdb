//! Model of the registry of time buckets: processes whose clocks differ register a bucket and write rows to it, and
//! others remove the entry of the empty bucket.

use stateright::{Checker, Model, Property};

use super::model::{by_seconds, is_broken, told};
use super::usually;
use crate::buckets::rules::Rule;
use crate::buckets::unregistering::{
    Registration, is_registered, registration_stamp, removal_stamp, unregister_wait_ms,
};
use crate::buckets::{Clock, Micros, Protocol};

const VISIBLE: &str = "an acknowledged row is in a registered bucket";
const REMOVED: &str = "an entry is removed";
const ACKNOWLEDGED: &str = "a row is acknowledged after a removal";

/// Duration of the model, in seconds. The protocol of the model counts seconds, too.
const SECONDS: u64 = 5;

/// Errors of the writers' clocks, in microseconds. The second clock is far behind.
const CLOCK_ERRORS: [Micros; 2] = [0, -1_000_000_000];

#[derive(Debug, Clone)]
struct Registry {
    without: Option<Rule>,
    /// Entry at first, of a process whose clock was ahead of those of the writers.
    entry: Option<Registration>,
}

/// Progress of a process that registers the bucket, writes one row, and acknowledges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Writer {
    Idle,
    /// It begins to read the entry at this second.
    Asks(u64),
    /// Its entry with this timestamp is on the way to the store.
    Sends {
        asked: u64,
        stamp: Micros,
    },
    Registered(u64),
    /// Its row is on the way to the store.
    Writes(u64),
    /// Its row is stored, and not acknowledged yet.
    Wrote(u64),
    Done,
}

/// Progress of a process that removes the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Remover {
    Idle,
    /// It read the entry at this second.
    Waits(u64, Registration),
    /// It read the entry for the second time.
    Looks(Registration, Registration),
    /// Its mark is on the way to the store.
    Sends(Micros),
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    entry: Option<Registration>,
    writers: [Writer; CLOCK_ERRORS.len()],
    removers: Vec<Remover>,
    /// Greatest timestamp of a deleted entry. Its tombstone hides each entry that is not newer.
    deleted: Micros,
    has_row: bool,
    is_acknowledged: bool,
    was_removed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    Second,
    Writes(usize),
    Removes(usize),
}

fn clock(second: u64) -> Clock {
    Clock {
        boot_ms: second,
        wall_ms: second.cast_signed(),
    }
}

impl State {
    /// Stores a version of the entry. If two versions have the same timestamp, the mark of a removal wins.
    fn store(&mut self, new: Registration) {
        let wins = |old: &Registration| new.stamp > old.stamp || (new.stamp == old.stamp && new.is_removed);
        if new.stamp > self.deleted && self.entry.as_ref().is_none_or(wins) {
            self.entry = Some(new);
            self.was_removed |= new.is_removed;
        }
    }

    fn is_live(&self) -> bool {
        self.entry.is_some_and(|entry| !entry.is_removed)
    }
}

impl Registry {
    fn protocol(&self) -> Protocol {
        by_seconds(self.without)
    }

    fn writes(&self, state: &mut State, index: usize) -> Option<()> {
        let now_micros = 1_000 + state.now.cast_signed() * 10 + CLOCK_ERRORS[index];
        let lives = |asked: u64| is_registered(clock(asked), clock(state.now), self.protocol());
        state.writers[index] = match state.writers[index] {
            Writer::Idle => Writer::Asks(state.now),
            Writer::Asks(asked) => Writer::Sends {
                asked,
                stamp: registration_stamp(state.entry, now_micros, self.protocol()),
            },
            Writer::Sends { asked, stamp } => {
                state.store(Registration {
                    stamp,
                    is_removed: false,
                });
                Writer::Registered(asked)
            }
            Writer::Registered(asked) if lives(asked) => Writer::Writes(asked),
            Writer::Writes(asked) => {
                state.has_row = true;
                Writer::Wrote(asked)
            }
            // The row is only acknowledged by a living registration, as by a living range map.
            Writer::Wrote(asked) if lives(asked) => {
                state.is_acknowledged = true;
                Writer::Done
            }
            Writer::Registered(_) | Writer::Wrote(_) => Writer::Idle,
            Writer::Done => return None,
        };
        Some(())
    }

    fn removes(&self, state: &mut State, index: usize) -> Option<()> {
        let wait = unregister_wait_ms(self.protocol());
        state.removers[index] = match state.removers[index] {
            Remover::Idle if state.is_live() => Remover::Waits(state.now, state.entry?),
            Remover::Waits(asked, before) if state.now >= asked + wait => {
                Remover::Looks(before, state.entry?)
            }
            Remover::Looks(before, after) => {
                let is_empty = !state.has_row || !self.keeps(Rule::UnregisteredEmpty);
                match removal_stamp(before, after, self.protocol()).filter(|_| is_empty) {
                    Some(stamp) => Remover::Sends(stamp),
                    None => Remover::Done,
                }
            }
            Remover::Sends(stamp) if self.keeps(Rule::RemovedEntriesStay) => {
                state.store(Registration {
                    stamp,
                    is_removed: true,
                });
                Remover::Done
            }
            // A deleted row of the registry does not show the timestamp of its deletion.
            Remover::Sends(stamp) => {
                state.deleted = state.deleted.max(stamp);
                if state.entry.is_some_and(|entry| entry.stamp <= stamp) {
                    state.entry = None;
                    state.was_removed = true;
                }
                Remover::Done
            }
            Remover::Idle | Remover::Waits(..) | Remover::Done => return None,
        };
        Some(())
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

impl Model for Registry {
    type State = State;
    type Action = Happening;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            entry: self.entry,
            writers: [Writer::Idle; CLOCK_ERRORS.len()],
            removers: vec![Remover::Idle; usize::from(usually(1, 2))],
            deleted: Micros::MIN,
            has_row: false,
            is_acknowledged: false,
            was_removed: false,
        }]
    }

    fn actions(&self, state: &State, happenings: &mut Vec<Happening>) {
        if state.now < SECONDS {
            happenings.push(Happening::Second);
        }
        happenings.extend((0..state.writers.len()).map(Happening::Writes));
        happenings.extend((0..state.removers.len()).map(Happening::Removes));
    }

    fn next_state(&self, state: &State, happening: Happening) -> Option<State> {
        let mut next = state.clone();
        match happening {
            Happening::Second => next.now += 1,
            Happening::Writes(index) => self.writes(&mut next, index)?,
            Happening::Removes(index) => self.removes(&mut next, index)?,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(VISIBLE, |_, state: &State| {
                !state.is_acknowledged || (state.has_row && state.is_live())
            }),
            Property::sometimes(REMOVED, |_, state: &State| state.was_removed),
            Property::sometimes(ACKNOWLEDGED, |_, state: &State| {
                state.was_removed && state.is_acknowledged
            }),
        ]
    }
}

fn scenarios(without: Option<Rule>) -> [Registry; 2] {
    let live = |stamp| Registration {
        stamp,
        is_removed: false,
    };
    [None, Some(live(500_000))].map(|entry| Registry { without, entry })
}

fn breaks(rule: Rule) {
    let broken = scenarios(Some(rule)).into_iter().find_map(|registry| {
        let checker = registry.checker().spawn_bfs().join();
        checker.discovery(VISIBLE)
    });
    is_broken(rule, broken);
}

#[test]
fn an_entry_is_removed_only_while_no_process_relies_on_it() {
    for registry in scenarios(None) {
        let checker = registry.checker().spawn_bfs().join();
        eprintln!("registry: {} states", checker.unique_state_count());
        if let Some(path) = checker.discovery(VISIBLE) {
            panic!("{}", told(path));
        }
        assert!(checker.discovery(REMOVED).is_some());
        assert!(checker.discovery(ACKNOWLEDGED).is_some());
    }
}

#[test]
fn without_a_later_timestamp_of_registrations() {
    breaks(Rule::RegisteredAboveRead);
}

#[test]
fn without_the_expiry_of_registrations() {
    breaks(Rule::RegistrationExpires);
}

#[test]
fn without_the_wait_before_unregistering() {
    breaks(Rule::WaitBeforeUnregistering);
}

#[test]
fn without_the_second_look_at_the_entry() {
    breaks(Rule::UnregisteredUnchanged);
}

#[test]
fn without_the_look_at_the_bucket() {
    breaks(Rule::UnregisteredEmpty);
}

#[test]
fn without_removed_entries_that_stay() {
    breaks(Rule::RemovedEntriesStay);
}
