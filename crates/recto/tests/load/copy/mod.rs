//! Tests of copies between stores of both kinds, in both directions: complete, rejected,
//! interrupted and resumed copies.

mod both_ways;
mod killed;
mod refused;
mod support;

use crate::common::Suite;

/// Test suite of the tests that use stores in files or on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 15);
