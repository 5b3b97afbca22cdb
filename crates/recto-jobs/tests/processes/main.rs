//! Processes that are killed or paused while others continue. The tests mostly wait for leases to expire.
// Tests print details, which the test harness shows only if a test fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../recto/tests/common/children.rs"]
mod children;
#[path = "../common/keyspace.rs"]
mod keyspace;
mod killed;
mod points;
