//! Tests of lists in buckets on real Cassandra nodes, through the public crate.
//!
//! - In two tests, eight processes write to one partition, read pages of it, and split it. Their
//!   clocks are an hour apart, or they delete each other's rows.
//! - In another test, some of three nodes are killed and frozen. At the same time, processes are
//!   killed, or stand still for longer than a split takes.
//!
//! `RECTO_TEST_SEED=…` repeats the choice of the killed processes and the times.
//! `RECTO_TEST_SCALE=20` runs twenty times as long, and at full speed.
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

/// Returns the factor by which the duration of a run is multiplied.
fn scale() -> u32 {
    std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap())
}
