//! Tests of schemas, views and records that are changed while programs use them.
// Tests may print, because the test harness shows the output of a test that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod schema_changes;
mod update;
mod views_life;
