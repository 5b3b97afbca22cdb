//! Lists that are kept in buckets, on real Cassandra nodes, through the crate: eight processes write, page and cut one partition,
//! with clocks an hour apart, or delete each other's rows; and of three nodes some are killed and frozen, while processes
//! are killed, and stand still for longer than a cut takes.
//!
//! `RECTO_TEST_SEED=…` draws again who is killed, and when; `RECTO_TEST_SCALE=20` goes on for twenty times as long, and at full
//! speed.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

mod children;
#[path = "../common/mod.rs"]
mod common;
mod hot;
mod lists;
#[path = "../queues_on_nodes/node_faults.rs"]
mod node_faults;
#[path = "../three_nodes/nodes.rs"]
mod nodes;
mod said;
mod settled;
mod under_faults;

/// The tests of this binary that use three nodes.
const TESTS: usize = 1;
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

#[test]
#[ignore = "run as a child process by a test"]
fn writer_that_gets_killed() {
    common::run(children::write_and_page_until_killed());
}

/// How many times as long a run is to be.
fn scale() -> u32 {
    std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap())
}
