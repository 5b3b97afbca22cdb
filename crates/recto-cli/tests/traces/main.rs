//! Traces of `recto serve`: what a collector gets, and what happens without one.
//!
//! Settings of traces are the process's environment, so that each test runs the program.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

mod place;
#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "opentelemetry")]
mod collector;
#[cfg(feature = "opentelemetry")]
mod exported;
#[cfg(feature = "opentelemetry")]
mod message;
#[cfg(feature = "opentelemetry")]
mod unreachable;

#[cfg(not(feature = "opentelemetry"))]
mod absent;
