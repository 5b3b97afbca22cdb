//! Recto held to something else that knows the answers: an oracle, Cassandra itself, every altered cursor, and what may have
//! come of faults; and the engine in virtual time. Most of it takes all of a processor.
// What tests print is shown when they fail.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod cursor_attacks;
mod estimates;
mod faults_embedded;
mod property;
mod simulation;
mod vectors;
mod verified;
