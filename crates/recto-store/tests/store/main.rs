//! The stores of this crate: the one in memory, the one with faults, and the one beside which others are attached.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod attached;
mod common;
mod faults;
mod memory;
