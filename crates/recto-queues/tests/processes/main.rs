//! Tests of processes that are killed or paused while other processes continue. The tests mostly wait for
//! visibility timeouts to end.
// Tests print details, which the test harness shows only if a test fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../recto/tests/common/children.rs"]
mod children;
#[path = "../common/keyspace.rs"]
mod keyspace;
mod killed;
mod points;
