//! Test support for Recto. Only tests depend on this crate.
//!
//! - [`oracle`]: in-memory model that answers each query in the most direct way.
//! - [`generate`]: random collections, rows and questions from a seed.
//! - [`rig`]: real Apache Cassandra clusters, for normal operation and for faults.

pub mod generate;
pub mod oracle;
pub mod rig;
