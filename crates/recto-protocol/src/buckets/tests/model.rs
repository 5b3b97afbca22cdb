//! Configuration of the model of buckets: its processes, its faults, and the invariants that must
//! hold.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path, Property};

use super::world::{Happening, World};
use crate::buckets::rules::{Rule, Rules};
use crate::buckets::{Cut, Join, Operation, Protocol, Roles, Room, Span};

pub(crate) const B1: &str = "B1: what is acknowledged is seen";
pub(crate) const B2: &str = "B2: what is deleted stays so";
pub(crate) const B3: &str = "B3: each row is seen once";
pub(crate) const B4: &str = "B4: what is cut is still found by its bucket 0";
pub(crate) const B5: &str = "B5: a directory is never taken for damaged";
pub(crate) const B6: &str = "B6: a join makes one bucket";
const NEVER_STUCK: &str = "whatever is begun can go on";
const EDGES_REMOVED: &str = "the edges between joined ranges are removed";
pub(crate) const ALL_DONE: &str = "all done, and the row lies in another bucket";

/// Model of one row in buckets: its processes, and the number of faults of each kind.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
pub(crate) struct Config {
    /// Disabled rule of the protocol; `None`: all rules are enabled.
    pub(crate) without: Option<Rule>,
    /// True if the row exists at first.
    pub(crate) has_row: bool,
    /// For each writer, its operations on the row, in order.
    pub(crate) writers: Vec<Vec<Operation>>,
    /// True if the writers have no range map at first, and guess that the row is in bucket 0.
    pub(crate) guesses: bool,
    /// True if a page is read while the row is written.
    pub(crate) reads: bool,
    /// For each splitting process, the split that it makes; `None`: it continues a split of another
    /// process.
    pub(crate) splitters: Vec<Option<Cut>>,
    /// For each splitting process, the span in which it sees ranges; `None`, or a missing item: it
    /// sees all ranges.
    pub(crate) windows: Vec<Option<Span>>,
    /// Size limits of one conditional write of a split.
    pub(crate) room: Room,
    /// True if a process clears the newest old bucket.
    pub(crate) clears: bool,
    /// Number of requests whose outcome can be unknown.
    pub(crate) losses: u8,
    /// Number of processes that can stop in the middle of an operation.
    pub(crate) crashes: u8,
    /// Number of times that a writer can use an expired range map as if it were valid, because its
    /// clocks stopped for too long.
    pub(crate) standstills: u8,
    /// Number of times that old tombstones can be purged.
    pub(crate) purges: u8,
    /// True if requests are transactions, in a store without tombstones.
    pub(crate) transacts: bool,
    /// True if the first range map (which bucket holds which keys) has the long lifetime, because
    /// no split was expected.
    pub(crate) is_calm: bool,
    /// Start and buckets of each range at first. Empty: there is no range map yet.
    pub(crate) pieces: Vec<(&'static str, Roles)>,
    /// Id of the bucket that has the row at first.
    pub(crate) row_bucket: u64,
    /// Id of a bucket with an unknown copy of the row; `None`: there is no copy.
    pub(crate) stray: Option<u64>,
    /// True if the row was deleted in its bucket before, and the tombstone is purged.
    pub(crate) is_deleted: bool,
    /// For each splitting process, the join that it makes; `None`, or a missing item: it makes no
    /// join.
    pub(crate) joins: Vec<Option<Join>>,
    /// True if the row may stay in its bucket. Otherwise a test fails unless the row can move.
    pub(crate) row_stays: bool,
}

impl Config {
    /// Returns the span in which the splitting process with this index sees ranges; `None`: it sees
    /// all.
    pub(crate) fn window(&self, splitter: u8) -> Option<&Span> {
        self.windows.get(usize::from(splitter))?.as_ref()
    }

    /// Returns the join of the splitting process with this index; `None`: it makes no join.
    pub(crate) fn join(&self, splitter: u8) -> Option<&Join> {
        self.joins.get(usize::from(splitter))?.as_ref()
    }

    /// Returns the maximum number of new buckets; `None` if the model has splits, which may need
    /// any number.
    fn max_joined_buckets(&self) -> Option<u64> {
        let joins = self.joins.iter().flatten().count() as u64;
        let is_split = self.splitters.iter().any(Option::is_some);
        (joins > 0 && !is_split).then_some(joins)
    }

    pub(crate) fn protocol(&self) -> Protocol {
        Protocol {
            rules: Rules::without([self.without, None]),
            clearing_looks: 1,
            ..Protocol::default()
        }
    }

    /// Checks that no invariant breaks, and that all work can be completed.
    pub(crate) fn holds(self, name: &str) {
        let started = Instant::now();
        let mut joins = self.joins.iter().flatten();
        let joins_several = self.clears && joins.any(|join| join.pieces.len() > 1);
        let row_stays = self.row_stays;
        let checker = self.checker().spawn_bfs().join();
        let (states, depth) = (checker.unique_state_count(), checker.max_depth());
        eprintln!("{name}: {states} states, {depth} deep, {:.1?}", started.elapsed());
        for name in [B1, B2, B3, B4, B5, B6, NEVER_STUCK] {
            if let Some(path) = checker.discovery(name) {
                panic!("{name}\n{}", told(path));
            }
        }
        assert!(
            row_stays || checker.discovery(ALL_DONE).is_some(),
            "never seen: {ALL_DONE}"
        );
        assert!(
            !joins_several || checker.discovery(EDGES_REMOVED).is_some(),
            "never seen: {EDGES_REMOVED}"
        );
    }

    /// Checks that one of the invariants breaks if the model disables `rule`. A depth-first search
    /// finds some path to a broken state after a fraction of all states.
    pub(crate) fn breaks(mut self, rule: Rule, invariants: &[&'static str]) {
        self.without = Some(rule);
        let any = HasDiscoveries::AnyOf(invariants.iter().copied().collect());
        let checker = self.checker().finish_when(any).spawn_dfs().join();
        let states = checker.unique_state_count();
        let found = invariants
            .iter()
            .find_map(|name| Some((name, checker.discovery(name)?)));
        let Some((name, path)) = found else {
            panic!("nothing breaks without {rule:?}: {states} states");
        };
        eprintln!("without {rule:?}, {name}, in {states} states:\n{}", told(path));
    }
}

/// Returns protocol parameters in which 1 ms stands for 1 s: cached range maps live for 2 s, and
/// clocks may stop for 1 s.
pub(crate) fn by_seconds(without: Option<Rule>) -> Protocol {
    Protocol {
        short_life_ms: 2,
        long_life_ms: 2,
        standstill_ms: 1,
        rules: Rules::without([without, None]),
        ..Protocol::default()
    }
}

/// Checks that a broken state was found when `rule` was disabled, and prints the path to the state.
pub(crate) fn is_broken<S, A: std::fmt::Debug>(rule: Rule, path: Option<Path<S, A>>) {
    let path = path.unwrap_or_else(|| panic!("nothing breaks without {rule:?}"));
    eprintln!("without {rule:?}:\n{}", told(path));
}

/// Returns the events on a path, one per line.
pub(crate) fn told<S, A: std::fmt::Debug>(path: Path<S, A>) -> String {
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
        world.acts(self, happenings);
    }

    fn next_state(&self, world: &World, happening: Happening) -> Option<World> {
        let mut next = world.clone();
        next.happens(self, happening);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(B1, |_, world: &World| world.broken != Some(B1)),
            Property::always(B2, |_, world: &World| world.broken != Some(B2)),
            Property::always(B3, |_, world: &World| world.broken != Some(B3)),
            Property::always(B4, |_, world: &World| world.is_listed()),
            Property::always(B5, |_, world: &World| world.broken != Some(B5)),
            Property::always(B6, |config: &Self, world: &World| {
                let most = config.max_joined_buckets();
                most.is_none_or(|most| world.new_buckets(config) <= most)
            }),
            Property::sometimes(EDGES_REMOVED, |config: &Self, world: &World| {
                world.range_count() < config.pieces.len()
            }),
            Property::always(NEVER_STUCK, |config, world: &World| {
                let mut happenings = Vec::new();
                world.acts(config, &mut happenings);
                !happenings.is_empty() || world.is_quiet()
            }),
            Property::sometimes(ALL_DONE, |config: &Self, world: &World| {
                world.is_quiet() && world.has_moved(config)
            }),
        ]
    }
}
