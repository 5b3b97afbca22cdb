//! The store on nodes of the tests' own, and at hosts that do not answer: they wait for both.
// The harness shows the output of a test that fails.
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
