//! Tests of the engine on a real Cassandra. They cover its tables, and rows that are written,
//! patched, deleted and that expire. They cover complete splits ahead of the rows and at samples,
//! and range maps of more than one window. Several processes write, page and split one partition at
//! full speed. Processes are killed, or stop, at each step of their work.
//!
//! `RECTO_TEST_SEED=…` selects other random numbers. `RECTO_TEST_SCALE=10` runs processes ten times as long. `cost`
//! measures the cost of requests and prints it.
// The futures of the tests contain those of a store on Cassandra, and are nested deeply.
#![recursion_limit = "256"]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod calls;
#[path = "../../../recto/tests/common/children.rs"]
mod children;
mod cost;
#[path = "../../../recto-queues/tests/common/cut.rs"]
mod cut;
mod cut_off;
mod cuts;
#[path = "../simulation/history.rs"]
mod history;
mod hot;
mod joins;
#[path = "../../../recto-queues/tests/common/keyspace.rs"]
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
