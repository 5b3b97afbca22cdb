//! Random histories of a queue and of its dead letters, beside a queue that is obviously right: what is received, what is said of
//! receipts, and what there is are the same at each step, on the memory store, on the embedded one, and on a real Cassandra, where
//! tables of bodies are emptied meanwhile.
//!
//! `RECTO_TEST_SCALE=20` draws twenty times as many.

mod model;
mod operation;
mod process;

use proptest::prelude::*;

use operation::{Operation, Run, operations};
use process::World;

/// Histories on each store.
const MEMORY_CASES: u32 = 300;
const EMBEDDED_CASES: u32 = 24;
const CASSANDRA_CASES: u32 = 6;
/// How many shorter ones are tried on Cassandra where one is wrong.
const MAX_SHRUNK: u32 = 50;
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

/// So many histories, or many times more.
fn config(cases: u32) -> ProptestConfig {
    let scale = std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases * scale)
    }
}

fn plays(world: World, is_ordered: bool, operations: &[Operation]) {
    let mut run = Run::begin(world, is_ordered);
    for operation in operations {
        run.does(operation);
        run.is_as_expected();
    }
    run.ends();
}

proptest! {
    #![proptest_config(config(MEMORY_CASES))]

    #[test]
    fn any_history_is_as_expected_in_memory(is_ordered: bool, operations in operations()) {
        plays(World::on_memory(), is_ordered, &operations);
    }
}

proptest! {
    #![proptest_config(config(EMBEDDED_CASES))]

    #[test]
    fn any_history_is_as_expected_on_disk(is_ordered: bool, operations in operations()) {
        plays(World::on_embedded(), is_ordered, &operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: MAX_SHRUNK, ..config(CASSANDRA_CASES) })]

    #[test]
    fn any_history_is_as_expected_on_cassandra(is_ordered: bool, operations in operations()) {
        plays(World::on_cassandra(), is_ordered, &operations);
    }
}
