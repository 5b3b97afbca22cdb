//! The store on the Cassandra that all tests share.
// What tests print is shown when they fail.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod additions;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod cql_facts;
mod keyspaces;
mod orders;
mod pieces;
