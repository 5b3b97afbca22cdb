//! Tests with servers, workers and clients that run concurrently. Most of the time, the tests wait
//! for the processes.
// Allow printing, because the test harness shows the output of failed tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod attaching;
mod clients;
mod compared;
#[cfg(unix)]
mod queue_work;
#[cfg(unix)]
mod queues_shared;
mod serve;
mod servers;
#[path = "../support/mod.rs"]
mod support;
#[cfg(all(unix, feature = "opentelemetry"))]
mod traces;
