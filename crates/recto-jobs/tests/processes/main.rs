//! Processes that are killed, or stand still, and those who go on: much of it waits for leases to end.
// What tests print is shown when they fail.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../recto/tests/common/children.rs"]
mod children;
#[path = "../common/keyspace.rs"]
mod keyspace;
mod killed;
mod points;
