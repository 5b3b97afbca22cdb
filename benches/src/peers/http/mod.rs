//! Peers (compared programs) that serve pages over HTTP, each in its own process, and the load
//! generator.

pub(crate) mod generator;
pub(crate) mod memory;
pub(crate) mod python;
pub(crate) mod server;
