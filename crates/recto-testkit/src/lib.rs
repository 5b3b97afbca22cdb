//! Test support of Recto. Nothing outside tests depends on this crate.
//!
//! - [`rig`]: real Apache Cassandra clusters, to run and to hurt.

pub mod rig;
