//! The server as its clients see it: the HTTP API, access, metrics and logs, and shutdown.
// What tests print is shown when they fail.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod api;
mod serve;
