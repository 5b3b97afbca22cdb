//! One store copied into another: both kinds, both ways; refused, cut off, gone on with.

mod both_ways;
mod killed;
mod refused;
mod support;

use crate::common::Suite;

/// The tests that open stores in files, or on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 15);
