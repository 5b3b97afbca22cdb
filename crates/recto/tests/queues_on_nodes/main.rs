//! Queues on three real Cassandra nodes, beside the naive queue that deletes rows: what comes back when a node was away, how many
//! tombstones there are, and what becomes of messages while nodes and workers die.
//!
//! `RECTO_TEST_SEED=…` draws again who is killed, and when; `RECTO_TEST_SCALE=20` has twenty times as many faults, for a long run.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

mod children;
mod come_back;
#[path = "../common/mod.rs"]
mod common;
mod drained;
mod faults;
#[path = "../../../recto-jobs/tests/common/moved_on.rs"]
mod moved_on;
mod naive;
mod node_faults;
#[path = "../three_nodes/nodes.rs"]
mod nodes;
mod ring;
mod said;
mod tombstones;

/// The tests of this binary that use the nodes.
const TESTS: usize = 3;
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

#[test]
#[ignore = "run as a child process by a test"]
fn worker_that_gets_killed() {
    common::run(children::send_and_work_until_killed());
}

/// How many times as long a run is to be.
fn scale() -> usize {
    std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap())
}
