//! Traces of `recto serve`: their content, and the server's behavior without a collector.
//!
//! Environment variables configure traces, so each test runs the program.

mod collector;
mod exported;
mod message;
mod place;
mod unreachable;
