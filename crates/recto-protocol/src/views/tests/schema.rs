//! Models of a view that is added while records are written. Some processes know the view, some do
//! not know it yet, and some join meanwhile.

use super::model::{Config, DROPPED, I1, Script};
use super::tiny::{ADDED, BY_PLACE, Tiny, TinyRequest, move_to, record};
use super::usually;
use crate::views::rules::Rule;

/// Returns a model with processes that know the first schema, and that may read the second schema
/// at any time.
fn adding(scripts: &[&[TinyRequest]]) -> Config {
    let scripts = scripts.iter();
    Config {
        schema: Some(Tiny::new(1, &[BY_PLACE])),
        later: Some(Tiny::new(2, &[BY_PLACE, ADDED])),
        first: Some(record(1, None)),
        scripts: scripts.map(|requests| Script::new(0, requests)).collect(),
        ..Config::default()
    }
}

/// Returns the model of `adding` in which the added view is the only view. It has fewer states, so
/// tests can have more processes.
fn adding_the_first(scripts: &[&[TinyRequest]]) -> Config {
    Config {
        schema: Some(Tiny::new(1, &[])),
        later: Some(Tiny::new(2, &[ADDED])),
        ..adding(scripts)
    }
}

/// Returns the model of `adding` with one more process, which completes the changes of dead
/// processes.
fn adding_swept(scripts: &[&[TinyRequest]]) -> Config {
    let mut config = adding(scripts);
    config.scripts.push(Script::default());
    config.sweeps = true;
    config
}

#[test]
fn a_view_is_added_beside_two_writers() {
    adding(&[&[move_to(2)], &[move_to(3)]]).holds("a view is added", &["all asked and quiet", "ready"]);
}

#[test]
fn a_view_is_added_beside_a_writer_that_loses_an_answer() {
    let config = Config {
        losses: 1,
        ..adding(&[&[move_to(2), move_to(3)]])
    };
    config.holds(
        "a view is added, an answer lost",
        &["all asked and quiet", "ready"],
    );
}

#[test]
fn a_view_is_added_and_a_writer_crashes() {
    let config = Config {
        crashes: 1,
        sweeps: true,
        ..adding_the_first(&[&[move_to(2)], &[move_to(3)]])
    };
    config.holds("a view is added, a crash", &["all asked and quiet", "ready"]);
}

#[test]
fn a_view_is_added_and_a_writer_is_frozen() {
    let config = Config {
        freezes: 1,
        losses: usually(0, 1),
        ..adding_swept(&[&[move_to(2)]])
    };
    config.holds("a view is added, one frozen", &["all asked and quiet", "ready"]);
}

/// Returns a model with writers that end in order, and remove their registrations.
fn leaving() -> Config {
    Config {
        leaves: 2,
        losses: 1,
        ..adding_the_first(&[&[move_to(2)], &[move_to(3)]])
    }
}

#[test]
fn a_view_is_added_and_writers_end() {
    leaving().holds("a view is added, two end", &["all asked and quiet", "ready"]);
}

#[test]
fn without_settling_before_leaving() {
    leaving().breaks(Rule::SettledBeforeLeaving, &[I1]);
}

/// Returns a model with a process that joins while the view is added.
fn joining() -> Config {
    let mut config = adding(&[&[], &[move_to(2)]]);
    config.scripts[1].is_new = true;
    config
}

#[test]
fn a_view_is_added_and_a_writer_joins() {
    joining().holds("a view is added, one joins", &["all asked and quiet", "ready"]);
}

/// Returns a model in which a view is dropped while all processes still write it.
fn dropping(scripts: &[&[TinyRequest]]) -> Config {
    Config {
        schema: Some(Tiny::new(1, &[BY_PLACE, ADDED])),
        later: Some(Tiny::new(2, &[BY_PLACE])),
        is_recorded: true,
        drops: true,
        ..adding(scripts)
    }
}

#[test]
fn a_view_is_dropped_beside_two_writers() {
    dropping(&[&[move_to(2)], &[move_to(3)]]).holds("a view is dropped", &["all asked and quiet", "dropped"]);
}

#[test]
fn a_view_is_dropped_and_a_writer_crashes() {
    let config = Config {
        crashes: 1,
        sweeps: true,
        mortal: Some(0),
        ..dropping(&[&[move_to(2)], &[]])
    };
    config.holds("a view is dropped, a crash", &["all asked and quiet", "dropped"]);
}

#[test]
fn a_view_is_dropped_and_a_writer_is_frozen() {
    let mut config = Config {
        freezes: 1,
        sweeps: true,
        ..dropping(&[&[move_to(2)]])
    };
    config.scripts.push(Script::default());
    config.holds(
        "a view is dropped, one frozen",
        &["all asked and quiet", "dropped"],
    );
}

#[test]
fn without_a_barrier_before_dropping() {
    dropping(&[&[move_to(2)]]).breaks(Rule::Barrier, &[DROPPED]);
}

#[test]
fn without_a_barrier() {
    adding(&[&[move_to(2)]]).breaks(Rule::Barrier, &[I1]);
}

#[test]
fn without_sweeping_the_dead_first() {
    let config = Config {
        crashes: 1,
        ..adding_swept(&[&[move_to(2)]])
    };
    config.breaks(Rule::BarrierSweepsDead, &[I1]);
}

#[test]
fn without_draining_before_announcing() {
    adding(&[&[move_to(2)]]).breaks(Rule::DrainBeforeAnnouncing, &[I1]);
}

#[test]
fn without_registering_first() {
    joining().breaks(Rule::RegisterBeforeCatalog, &[I1]);
}

/// Returns a model in which only the last process knows the new view. The other processes read rows
/// that it wrote.
fn half_way(scripts: &[&[TinyRequest]]) -> Config {
    let mut config = adding_the_first(scripts);
    config.is_recorded = true;
    if let Some(last) = config.scripts.last_mut() {
        last.knows_later = true;
    }
    config
}

#[test]
fn without_leaving_newer_rows_alone() {
    half_way(&[&[move_to(2)], &[move_to(3)]]).breaks(Rule::NewerRowReloads, &[I1]);
}

#[test]
fn without_entries_by_the_rows_schema() {
    adding_the_first(&[&[move_to(2)], &[move_to(3)]]).breaks(Rule::EntriesByRowsSchema, &[I1]);
}

#[test]
fn a_sweeper_knows_the_view_and_a_writer_does_not() {
    let config = Config {
        crashes: 1,
        sweeps: true,
        mortal: Some(0),
        ..half_way(&[&[move_to(2)], &[move_to(3)], &[]])
    };
    config.holds("a view half way, a crash", &["all asked and quiet", "ready"]);
}

#[test]
fn without_the_sweepers_generation() {
    let config = Config {
        crashes: 1,
        sweeps: true,
        mortal: Some(0),
        ..half_way(&[&[move_to(2)], &[move_to(3)], &[]])
    };
    config.breaks(Rule::FenceGeneration, &[I1]);
}
