//! Tests that start Cassandra nodes or processes, and that spend most of their time waiting for
//! nodes and processes.
// Tests may print, because the test harness shows the output of a test that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod added_beside;
mod attach;
mod buckets_on_nodes;
#[path = "../common/mod.rs"]
mod common;
mod killed_writers;
mod load_node_killed;
mod node_faults;
mod nodes;
mod queues_on_nodes;
mod three_nodes;
mod tls;
mod versions;
mod workers;
