//! Test support of Recto. Nothing outside tests depends on this crate.
//!
//! - [`oracle`]: an in-memory model that answers every query the obvious way.
//! - [`generate`]: random collections, rows and questions, from a seed.
//! - [`rig`]: real Apache Cassandra clusters, to run and to hurt.

pub mod generate;
pub mod oracle;
pub mod rig;
