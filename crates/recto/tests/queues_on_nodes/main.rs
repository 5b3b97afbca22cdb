//! Queues on three real Cassandra nodes, beside the naive queue that deletes rows: what comes back when a node was away, and how
//! many tombstones there are.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

mod come_back;
#[path = "../common/mod.rs"]
mod common;
mod naive;
#[path = "../three_nodes/nodes.rs"]
mod nodes;
mod ring;
mod tombstones;

/// The tests of this binary that use the nodes.
const TESTS: usize = 2;
