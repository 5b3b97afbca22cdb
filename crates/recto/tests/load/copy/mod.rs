//! Tests of copies of a store, between both kinds of store and in both directions: complete,
//! rejected, interrupted and resumed.

mod both_ways;
mod killed;
mod refused;
mod support;

use crate::common::Suite;

/// Test suite of the tests that open stores in files, or on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 15);
