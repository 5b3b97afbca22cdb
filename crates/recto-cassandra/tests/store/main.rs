//! Tests of the store on the Cassandra node that all tests share.
// Printing is allowed, because the test harness shows the output of failed tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod additions;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod cql_facts;
mod keyspaces;
mod orders;
mod pieces;
