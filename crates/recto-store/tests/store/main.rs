//! Tests of the stores of this crate: in memory, with faults, and with attached stores.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod attached;
mod common;
mod faults;
mod memory;
