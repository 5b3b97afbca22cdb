//! Tests of Recto's behavior for programs and tools, most of them on the embedded store and on
//! Cassandra. The tests wait for a shared Cassandra.
// Tests may print, because the test harness shows the output of a test that fails.
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
