//! Models of all possible events for one record. They use the same step functions as the engine. For each rule, a test
//! leaves the rule out and finds a sequence of events that breaks an invariant.
//!
//! `RECTO_TEST_SCALE=2`, or more, allows more faults at once. The models then have millions of states and take minutes.

#![expect(
    clippy::print_stderr,
    reason = "how much was looked at, and the ways in which things break"
)]

mod buckets;
mod collection;
mod dead;
mod happens;
mod lease;
mod model;
mod reader;
mod record;
mod schema;
mod store;
mod stored;
pub(crate) mod tiny;
mod unique;
mod world;

/// Returns the number of faults in a model: `usual` by default, `long` if `RECTO_TEST_SCALE` is 2 or more.
fn usually(usual: u8, long: u8) -> u8 {
    let scale = std::env::var("RECTO_TEST_SCALE").map_or(1, |text| text.parse().expect("a number"));
    if scale > 1 { long } else { usual }
}

/// Source texts of the models.
const MODELS: [&str; 7] = [
    include_str!("buckets.rs"),
    include_str!("dead.rs"),
    include_str!("lease.rs"),
    include_str!("reader.rs"),
    include_str!("record.rs"),
    include_str!("schema.rs"),
    include_str!("unique.rs"),
];

/// Checks that each rule is left out in some test, and that the design record names all of these tests and no others.
#[test]
fn each_rule_has_a_test_and_the_decision_names_it() {
    let rules = include_str!("../rules.rs");
    let decision = include_str!("../../../../../docs/design/views.md");
    recto_model::decisions::assert_each_rule_has_a_test(rules, 30, &MODELS, decision);
}
