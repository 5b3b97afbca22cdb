//! Tests of the output and effect of each command, on stores in folders, on Cassandra, and through a server.
// Allow printing, because the test harness shows the output of failed tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod commit_log;
mod cursor_keys;
mod end_to_end;
mod http_store;
mod queues;
#[path = "../support/mod.rs"]
mod support;
