//! Traces of `recto serve`: what a collector gets, and what happens without one.
//!
//! Settings of traces are the process's environment, so that each test runs the program.

mod collector;
mod exported;
mod message;
mod place;
mod unreachable;
