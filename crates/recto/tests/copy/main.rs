//! One store copied into another: both kinds, both ways; refused, cut off, gone on with.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod both_ways;
mod killed;
mod refused;
mod support;

#[allow(unused_imports)]
#[path = "../common/mod.rs"]
mod common;

use std::sync::atomic::AtomicUsize;

/// The tests that open stores in files, or on Cassandra.
static TESTS: AtomicUsize = AtomicUsize::new(15);
