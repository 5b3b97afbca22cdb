//! Tests of queues on three Cassandra nodes, compared with a naive queue that deletes rows. They
//! check three things:
//!
//! - messages that are delivered again after a node was down
//! - the number of tombstones (records of deletions, which reads must pass over)
//! - the delivery of messages while nodes and workers are killed
//!
//! The environment variable `RECTO_TEST_SEED=…` repeats the random choice of killed processes and
//! of times. `RECTO_TEST_SCALE=20` causes twenty times as many faults, for a long run.
#![allow(dead_code)]

mod children;
mod come_back;
mod drained;
mod faults;
#[path = "../../../../recto-queues/tests/common/moved_on.rs"]
mod moved_on;
mod naive;
mod ring;
mod said;
mod tombstones;

const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

#[test]
#[ignore = "child: started by handles_every_message_despite_dying_nodes_and_workers"]
fn worker_that_gets_killed() {
    crate::common::run(children::send_and_work_until_killed());
}

/// Returns the factor for the duration of a run, from the environment variable `RECTO_TEST_SCALE`.
/// Returns 1 if it is not set.
fn scale() -> usize {
    std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap())
}
