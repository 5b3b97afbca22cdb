//! The store in files of its own: all that a store does, and that it survives kills, failing disks and damage.
// The harness shows the output of a test that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod clock;
mod conformance;
mod counts;
mod crash;
mod damage;
mod damaged_keys;
mod directory;
mod faults;
mod operations;
mod support;
