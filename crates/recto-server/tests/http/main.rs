//! The server from the view of its clients: the HTTP API, access, metrics and logs, and shutdown.
// Allow printing, because the test harness shows the output of failed tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod api;
mod serve;
