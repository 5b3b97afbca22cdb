//! Traces of `recto serve`: what a collector gets, and what happens without one.
//!
//! Settings of traces are the process's environment, so that each test runs the program.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

mod collector;
mod exported;
mod message;
mod place;
#[path = "../support/mod.rs"]
mod support;
mod unreachable;
