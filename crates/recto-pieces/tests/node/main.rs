//! The engine on a real Cassandra: its tables, rows that are written, patched, deleted and that expire, whole cuts ahead and at samples,
//! directories of more than a window, several processes that write, page and cut one partition at full speed, and processes that are killed, or
//! stand still, at each step of what they are at.
//!
//! `RECTO_TEST_SEED=…` draws others; with `RECTO_TEST_SCALE=10` processes are at it for ten times as long. What requests cost is
//! measured by `cost`, which prints it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod calls;
#[path = "../../../recto/tests/common/children.rs"]
mod children;
mod cost;
#[path = "../../../recto-jobs/tests/common/cut.rs"]
mod cut;
mod cut_off;
mod cuts;
#[path = "../simulation/history.rs"]
mod history;
mod hot;
#[path = "../../../recto-jobs/tests/common/keyspace.rs"]
mod keyspace;
mod load;
mod point;
mod process;
mod rows;

const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
const SEED_VARIABLE: &str = "RECTO_TEST_SEED";

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap())
}
