//! Behavior of Recto for programs and tools, most of it on both stores. These tests wait for the shared
//! Cassandra.
// Tests may print, because the harness shows the output of a test that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod articles;
mod both_stores;
mod bucket_lists;
#[path = "../common/mod.rs"]
mod common;
mod design;
mod edge_cases;
mod lazy;
mod queues;
mod row_filter;
mod snapshot;
mod types;
mod without_async;
mod wrong_clocks;
