//! Models of a process whose clock stopped, so that it writes although other processes declared it
//! dead. Even then, records must stay correct.

use super::model::{Config, I1, Script};
use super::tiny::{ADDED, BY_PLACE, Tiny, TinyRequest, move_to, record};
use crate::views::rules::Rule;

fn believing(scripts: &[&[TinyRequest]]) -> Config {
    let scripts = scripts.iter().map(|requests| Script::new(0, requests));
    Config {
        schema: Some(Tiny::new(1, &[BY_PLACE])),
        first: Some(record(1, None)),
        scripts: scripts.chain([Script::default()]).collect(),
        freezes: 1,
        clocks_stand_still: true,
        sweeps: true,
        ..Config::default()
    }
}

#[test]
fn a_dead_process_writes_on() {
    let config = Config {
        crashes: 1,
        losses: 1,
        ..believing(&[&[move_to(2)]])
    };
    config.holds("it writes on", &["all asked and quiet"]);
}

#[test]
fn a_dead_process_writes_on_while_a_view_is_added() {
    let config = Config {
        later: Some(Tiny::new(2, &[BY_PLACE, ADDED])),
        ..believing(&[&[move_to(2)]])
    };
    config.holds("it writes on, a view is added", &["all asked and quiet", "ready"]);
}

#[test]
fn without_resolving_again() {
    let config = Config {
        crashes: 1,
        ..believing(&[&[move_to(2)]])
    };
    config.breaks(Rule::DeadResolvedTwice, &[I1]);
}

#[test]
fn without_a_renewal_before_intents_go() {
    let config = Config {
        later: Some(Tiny::new(2, &[BY_PLACE, ADDED])),
        ..believing(&[&[move_to(2)]])
    };
    config.breaks(Rule::SegmentAfterRenewal, &[I1]);
}
