//! Tests of lists in buckets (parts of about equal size) on real Cassandra nodes, through the
//! public crate.
//!
//! - In two tests, eight processes write to one partition, read pages of it, and split its buckets.
//!   In one of these tests, their clocks are an hour apart. In the other, processes delete each
//!   other's rows.
//! - In another test, nodes of a cluster of three are killed and paused. At the same time,
//!   processes are killed, or stand still for longer than a split takes.
//!
//! The environment variable `RECTO_TEST_SEED=…` repeats the random choice of killed processes and
//! of times. `RECTO_TEST_SCALE=20` runs the tests twenty times as long, and without pauses between
//! writes.
#![allow(dead_code)]

mod children;
mod hot;
mod lists;
mod said;
mod settled;
mod under_faults;

const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

#[test]
#[ignore = "child: started by the tests of hot and under_faults"]
fn writer_that_gets_killed() {
    crate::common::run(children::write_and_page_until_killed());
}

/// Returns the factor for the duration of a run, from the environment variable `RECTO_TEST_SCALE`.
/// Returns 1 if it is not set.
fn scale() -> u32 {
    std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap())
}
