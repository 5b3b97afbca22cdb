//! Lists that are kept in buckets, on real Cassandra nodes, through the crate: eight processes write, page and cut one partition,
//! with clocks an hour apart, or delete each other's rows; and of three nodes some are killed and frozen, while processes
//! are killed, and stand still for longer than a cut takes.
//!
//! `RECTO_TEST_SEED=…` draws again who is killed, and when; `RECTO_TEST_SCALE=20` goes on for twenty times as long, and at full
//! speed.
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

/// How many times as long a run is to be.
fn scale() -> u32 {
    std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap())
}
