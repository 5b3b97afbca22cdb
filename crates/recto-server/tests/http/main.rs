//! A server as its clients see it: the HTTP API, and what it lets in, says of itself, and does when it ends.
// What tests print is shown when they fail.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod api;
mod serve;
