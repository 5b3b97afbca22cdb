//! Tests of the server from its clients' view: HTTP API, access, metrics, logs and shutdown.
// Allow printing, because the test harness shows the output of failed tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod api;
mod serve;
