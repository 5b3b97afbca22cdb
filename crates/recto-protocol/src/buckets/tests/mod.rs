//! Tests of the protocol of buckets. Models explore all possible events for one row while its range
//! is split, with the step functions of the engine. For each rule of the protocol, a test disables
//! the rule and finds events that break an invariant.
//!
//! `RECTO_TEST_SCALE=2`, or more, allows more faults at once. Then a model has millions of states,
//! and takes minutes.

#![expect(clippy::unwrap_used, clippy::float_cmp, reason = "a test says so by failing")]
#![expect(
    clippy::print_stderr,
    reason = "how much was looked at, and the ways in which things break"
)]

mod article;
mod clearing;
mod cutting;
mod directories;
mod estimating;
mod growing;
mod joining;
mod life;
mod model;
mod places;
mod rebuilding;
mod retaining;
mod samples;
mod shards;
mod sizing;
mod steps;
mod store;
mod stored;
mod unregistering;
mod world;

use crate::buckets::{Bucket, Directory, Piece, Protocol, Roles, Sampling};

const SAMPLING: Sampling = Sampling {
    unit: 240_000,
    mean: 64,
};

/// Returns a key range that begins at `start` and has only one bucket.
fn piece(start: &[u8], bucket: u64) -> Piece {
    Piece {
        start: start.to_vec(),
        roles: Roles::of(Bucket(bucket)),
        sampling: SAMPLING,
        next_sampling: None,
        figures: None,
    }
}

/// Returns a complete range map (which bucket holds which keys) with these ranges.
fn directory(next_bucket: u64, pieces: Vec<Piece>) -> Directory {
    Directory {
        version: 7,
        next_bucket: Bucket(next_bucket),
        pieces,
        ..Directory::absent(SAMPLING, Protocol::default())
    }
}

/// Returns the number of faults that a model explores: `usual`, or `long` if `RECTO_TEST_SCALE` is
/// at least 2.
fn usually(usual: u8, long: u8) -> u8 {
    let scale = std::env::var("RECTO_TEST_SCALE").map_or(1, |text| text.parse().expect("a number"));
    if scale > 1 { long } else { usual }
}

/// Source texts of the models, which must have a test for each rule.
const MODELS: [&str; 5] = [
    include_str!("cutting.rs"),
    include_str!("joining.rs"),
    include_str!("life.rs"),
    include_str!("retaining.rs"),
    include_str!("unregistering.rs"),
];

/// Checks that each rule is disabled in some test, and that the design record names exactly these
/// tests.
#[test]
fn each_rule_has_a_test_and_the_decision_names_it() {
    let rules = include_str!("../rules.rs");
    let decision = include_str!("../../../../../docs/design/buckets.md");
    recto_model::decisions::assert_each_rule_has_a_test(rules, 15, &MODELS, decision);
}
