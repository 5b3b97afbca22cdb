//! Tests that compare Recto with an oracle, with Cassandra, and with the possible outcomes of
//! faults. Other tests attack cursors, or simulate the engine in virtual time.
// Tests may print, because the test harness shows the output of a test that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod cursor_attacks;
mod estimates;
mod faults_embedded;
mod property;
mod shrunk;
mod simulation;
mod vectors;
mod verified;
mod virtual_time;
