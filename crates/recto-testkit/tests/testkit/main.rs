//! What other tests build on: nodes, the oracle, and random collections.
#![allow(clippy::unwrap_used)]

mod generate;
mod oracle;
mod rig;
