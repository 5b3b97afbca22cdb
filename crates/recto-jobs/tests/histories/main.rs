//! Random histories of a queue and of its dead letters, beside a queue that is obviously right: what is received, what is said of
//! receipts, and what there is are the same at each step, on the memory store and on the embedded one.
#![allow(clippy::unwrap_used)]

mod model;
mod operation;
mod process;

use proptest::prelude::*;

use crate::operation::{Operation, Run, operations};
use crate::process::World;

/// Histories on each store.
const MEMORY_CASES: u32 = 300;
const EMBEDDED_CASES: u32 = 24;

fn plays(world: World, is_ordered: bool, operations: &[Operation]) {
    let mut run = Run::begin(world, is_ordered);
    for operation in operations {
        run.does(operation);
        run.is_as_expected();
    }
    run.ends();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(MEMORY_CASES) })]

    #[test]
    fn any_history_is_as_expected_in_memory(is_ordered: bool, operations in operations()) {
        plays(World::on_memory(), is_ordered, &operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(EMBEDDED_CASES) })]

    #[test]
    fn any_history_is_as_expected_on_disk(is_ordered: bool, operations in operations()) {
        plays(World::on_embedded(), is_ordered, &operations);
    }
}
