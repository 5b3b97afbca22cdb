//! Random histories of a queue and its dead-letter queue, compared with a simple model. After each step, the
//! received messages, the results of receipts, and the stored messages must equal those of the model. The
//! histories run on the memory store, on the embedded store, and on a real Cassandra, where body tables are
//! emptied at the same time.
//!
//! `RECTO_TEST_SCALE=20` runs twenty times as many histories.

mod model;
mod operation;
mod process;

use proptest::prelude::*;

use operation::{Operation, Run, operations};
use process::World;

/// Number of random histories on each kind of store.
const MEMORY_CASES: u32 = 300;
const EMBEDDED_CASES: u32 = 24;
const CASSANDRA_CASES: u32 = 6;
/// Maximum number of shorter histories that are tried on Cassandra to simplify a failed one.
const MAX_SHRUNK: u32 = 50;
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

/// Returns a configuration with `cases` histories, multiplied by `RECTO_TEST_SCALE`.
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
