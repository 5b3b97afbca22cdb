//! Tests of loading files and copying stores, through the session that tools use.
// Tests may print, because the test harness shows the output of a test that fails.
#![allow(clippy::unwrap_used, clippy::format_push_string, clippy::print_stdout)]

mod buckets;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod copy;
mod csv;
mod files;
mod kill;
mod rejects;
mod resume;
mod rows;
mod support;
mod views;
mod views_killed;
