//! Models that explore all possible events for one record and its view entries, with the step
//! functions of the engine. For each rule of the protocol, a test disables the rule and finds a
//! path to a broken invariant.
//!
//! `RECTO_TEST_SCALE=2`, or more, allows more faults at once. Then a model has millions of states,
//! and takes minutes.

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

/// Returns the number of faults that a model explores: `usual`, or `long` if `RECTO_TEST_SCALE` is
/// at least 2.
fn usually(usual: u8, long: u8) -> u8 {
    let scale = std::env::var("RECTO_TEST_SCALE").map_or(1, |text| text.parse().expect("a number"));
    if scale > 1 { long } else { usual }
}

/// Source texts of the models, which must have a test for each rule.
const MODELS: [&str; 7] = [
    include_str!("buckets.rs"),
    include_str!("dead.rs"),
    include_str!("lease.rs"),
    include_str!("reader.rs"),
    include_str!("record.rs"),
    include_str!("schema.rs"),
    include_str!("unique.rs"),
];

/// Checks that each rule is disabled in some test, and that the design record names exactly these
/// tests.
#[test]
fn each_rule_has_a_test_and_the_decision_names_it() {
    let rules = include_str!("../rules.rs");
    let decision = include_str!("../../../../../docs/design/views.md");
    recto_model::decisions::assert_each_rule_has_a_test(rules, 30, &MODELS, decision);
}
