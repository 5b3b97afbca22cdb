//! Tests of the tools for tests: nodes, the oracle, and random collections.
#![allow(clippy::unwrap_used)]

mod generate;
mod oracle;
mod rig;
