//! The server as its clients see it: the HTTP API, access, metrics and logs, and shutdown.
// The harness shows the output of a test that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod api;
mod serve;
