//! Copies of one store into another, between both kinds of store and in both directions: rejected,
//! interrupted and resumed.

mod both_ways;
mod killed;
mod refused;
mod support;

use crate::common::Suite;

/// Suite of the tests that open stores in files, or on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 15);
