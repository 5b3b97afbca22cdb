//! Configuration of the model of views: its processes, its faults, and the invariants that must
//! hold.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path, Property};

use super::reader::PAGES;
use super::tiny::{Tiny, TinyRequest};
use super::world::{Happening, World};
use crate::views::building::Progress;
use crate::views::row::{Micros, Version};
use crate::views::rules::{Rule, Rules};
use crate::views::write::Answer;

/// Model of one record and its views: its processes, and the number of faults of each kind.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
pub(crate) struct Config {
    /// Disabled rules of the protocol.
    pub(crate) without: [Option<Rule>; 2],
    /// For each process, its requests, in order.
    pub(crate) scripts: Vec<Script>,
    /// Record that exists at first, with version 0 and with entries in all views of the first
    /// schema; `None`: there is no record.
    pub(crate) first: Option<super::tiny::Record>,
    pub(crate) schema: Option<Tiny>,
    /// Schema with one more view, or one view less, that replaces the first schema; `None`: the
    /// schema stays.
    pub(crate) later: Option<Tiny>,
    /// True if the later schema is recorded in the catalog at first.
    pub(crate) is_recorded: bool,
    /// True if the later schema lacks a view, which is being dropped.
    pub(crate) drops: bool,
    /// Number of requests whose outcome can be unknown.
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    /// Index of the process that may crash; `None`: any process.
    pub(crate) mortal: Option<u8>,
    /// Number of processes that can be frozen until others declare them dead, and then continue.
    pub(crate) freezes: u8,
    /// Number of processes that can end in order, after all of their requests.
    pub(crate) leaves: u8,
    pub(crate) deadlines: u8,
    /// True if the clock of a frozen process stops, so that it believes that its lease is valid.
    pub(crate) clocks_stand_still: bool,
    /// True if the last process completes the changes of dead processes.
    pub(crate) sweeps: bool,
    /// Keys of the first view that a reader reads, in order, while the record is written.
    pub(crate) reads: Vec<u8>,
    /// Keys of view entries whose ranges are split.
    pub(crate) cuts: Vec<super::store::TinyKey>,
    /// Place and version of an orphan: a view entry that exists at first, although no change wrote
    /// it.
    pub(crate) orphan: Option<(u8, Version)>,
}

/// Process of a model, with its requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) requests: Vec<TinyRequest>,
    /// Time of the process's wall clock, in microseconds.
    pub(crate) clock: Micros,
    /// True if the process has not registered at first.
    pub(crate) is_new: bool,
    /// True if the process knows the later schema at first.
    pub(crate) knows_later: bool,
}

impl Script {
    pub(crate) fn new(clock: Micros, requests: &[TinyRequest]) -> Self {
        Self {
            requests: requests.to_vec(),
            clock,
            is_new: false,
            knows_later: false,
        }
    }
}
pub(crate) const I1: &str = "I1: views are exact when intents are resolved";
pub(crate) const I2: &str = "I2: what is acknowledged is applied, and seen";
pub(crate) const I3: &str = "I3: wholly applied, once, or not at all";
pub(crate) const DROPPED: &str = "nobody waits for a write to a table that is gone";
const NEVER_STUCK: &str = "whatever is begun can go on until intents are resolved";
pub(crate) const TOLD: &str = "an outcome is unknown only to who does not wait";
pub(crate) const I4: &str = "I4: versions rise, each change upon the one before";

impl Config {
    pub(crate) fn rules(&self) -> Rules {
        Rules::without(self.without)
    }

    pub(super) fn schema_of(&self, generation: u8) -> &Tiny {
        let schema = self.schema.as_ref().expect("a model has a schema");
        if generation < 2 {
            schema
        } else {
            self.later.as_ref().unwrap_or(schema)
        }
    }

    pub(super) fn sweeper(&self) -> u8 {
        self.scripts.len() as u8 - 1
    }

    /// Explores all possible sequences of events.
    pub(crate) fn check(self) -> impl Checker<Self> {
        self.checker().spawn_bfs().join()
    }

    /// Checks that no invariant breaks, and that each of the states `seen` can be reached.
    pub(crate) fn holds(self, name: &str, seen: &[&'static str]) {
        let started = Instant::now();
        let checker = self.check();
        let states = checker.unique_state_count();
        eprintln!(
            "{name}: {states} states, {} deep, {:.1?}",
            checker.max_depth(),
            started.elapsed()
        );
        for name in [I1, I2, I3, I4, DROPPED, NEVER_STUCK, PAGES, TOLD] {
            if let Some(path) = checker.discovery(name) {
                panic!("{name}\n{}", told(path));
            }
        }
        for name in seen {
            assert!(checker.discovery(name).is_some(), "never seen: {name}");
        }
    }

    /// Checks that one of the invariants breaks if the model disables `rule`. A depth-first search
    /// finds some path to a broken state after a fraction of all states.
    pub(crate) fn breaks(mut self, rule: Rule, invariants: &[&'static str]) {
        self.without[0] = Some(rule);
        let checker = self.checker();
        let any = HasDiscoveries::AnyOf(invariants.iter().copied().collect());
        let checker = checker.finish_when(any).spawn_dfs().join();
        let found = invariants
            .iter()
            .find_map(|name| Some((name, checker.discovery(name)?)));
        let Some((name, path)) = found else {
            panic!(
                "nothing breaks without {rule:?}: {} states",
                checker.unique_state_count()
            );
        };
        let text = told(path);
        eprintln!(
            "without {rule:?}, {name}, in {} states:\n{text}",
            checker.unique_state_count()
        );
    }
}

/// Returns the events on a path, one per line.
fn told(path: Path<World, Happening>) -> String {
    let happenings = path.into_actions().into_iter().enumerate();
    happenings
        .map(|(index, happening)| format!("{:>3}. {happening:?}\n", index + 1))
        .collect()
}

impl Model for Config {
    type State = World;
    type Action = Happening;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, happenings: &mut Vec<Happening>) {
        world.processes_act(self, happenings);
        world.requests_act(self, happenings);
        world.schema_acts(self, happenings);
        happenings.extend(world.reads_next(self).into_iter().map(Happening::Page));
        happenings.extend(world.cuts_next().map(Happening::Cut));
    }

    fn next_state(&self, world: &World, happening: Happening) -> Option<World> {
        let mut next = world.clone();
        next.happens(self, happening);
        next.tidy(self.rules());
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(I1, |config, world: &World| {
                !world.is_quiet() || world.is_exact(config)
            }),
            Property::always(I2, |config, world: &World| {
                world.broken != Some(I2)
                    && world.shows_acknowledged(config)
                    && world.keeps_acknowledged(config)
            }),
            Property::always(I3, |_, world: &World| world.broken != Some(I3)),
            Property::always(I4, |_, world: &World| world.broken != Some(I4)),
            Property::always(NEVER_STUCK, |config, world: &World| {
                let mut happenings = Vec::new();
                config.actions(world, &mut happenings);
                world.is_quiet() || !happenings.is_empty() || world.has_no_sweeper(config)
            }),
            Property::always(DROPPED, |_, world: &World| world.broken != Some(DROPPED)),
            Property::always(PAGES, |_, world: &World| world.broken != Some(PAGES)),
            Property::always(TOLD, |config, world: &World| {
                let is_unknown = world.answers.values().any(|answer| *answer == Answer::Unknown);
                !is_unknown || world.deadlines < config.deadlines
            }),
            Property::sometimes("all asked and quiet", |config, world: &World| {
                world.is_at_end(config) && world.is_quiet()
            }),
            Property::sometimes("unknown", |_, world: &World| {
                world.answers.values().any(|a| *a == Answer::Unknown)
            }),
            Property::sometimes("pending", |_, world: &World| {
                world
                    .answers
                    .values()
                    .any(|answer| matches!(answer, Answer::Pending(_)))
            }),
            Property::sometimes("refused", |_, world: &World| {
                world
                    .answers
                    .values()
                    .any(|answer| matches!(answer, Answer::Refused(_)))
            }),
            Property::sometimes("orphan removed", |_, world: &World| {
                world.store.has_removed_orphan()
            }),
            Property::sometimes("moved", |_, world: &World| world.has_moved),
            Property::sometimes("dropped", |_, world: &World| world.progress == Progress::Dropped),
            Property::sometimes("ready", |_, world: &World| world.progress == Progress::Ready),
        ]
    }
}
