//! Tests of the store on nodes that the tests start, and of hosts that do not respond. They take
//! long.
// Printing is allowed, because the test harness shows the output of failed tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod credentials;
mod datacenters;
mod faults;
mod rights;
mod three_nodes;
mod tls;
mod unreachable;
