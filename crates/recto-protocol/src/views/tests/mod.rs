//! The models: all that may happen to one record, by the very step functions that the engine runs. For each rule a
//! test leaves it out and finds a way in which something breaks.
//!
//! `RECTO_TEST_SCALE=2`, or more, lets more go wrong at once: millions of states, some minutes.

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

/// How often something may go wrong: usually, and in a long run.
fn usually(usual: u8, long: u8) -> u8 {
    let scale = std::env::var("RECTO_TEST_SCALE").map_or(1, |text| text.parse().expect("a number"));
    if scale > 1 { long } else { usual }
}

/// The sources of the models.
const MODELS: [&str; 7] = [
    include_str!("buckets.rs"),
    include_str!("dead.rs"),
    include_str!("lease.rs"),
    include_str!("reader.rs"),
    include_str!("record.rs"),
    include_str!("schema.rs"),
    include_str!("unique.rs"),
];

/// Every rule is left out in some test, and every test that the decision names is there.
#[test]
fn each_rule_has_a_test_and_the_decision_names_it() {
    let rules = include_str!("../rules.rs");
    let decision = include_str!("../../../../../docs/design/views.md");
    recto_model::decisions::assert_each_rule_has_a_test(rules, 30, &MODELS, decision);
}
