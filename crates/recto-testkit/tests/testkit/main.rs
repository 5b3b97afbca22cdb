//! Tests of the test support crate: clusters of real nodes, the oracle, and random collections.
#![allow(clippy::unwrap_used)]

mod generate;
mod oracle;
mod rig;
