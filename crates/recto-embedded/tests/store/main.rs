//! Tests of the embedded store: its operations, and its behavior after kills, disk failures and damage.
// Printing is allowed, because the test harness shows the output of failed tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod blocks;
mod clock;
mod commit_log;
mod conformance;
mod crash;
mod damage;
mod damaged_keys;
mod directory;
mod faults;
mod operations;
mod support;
