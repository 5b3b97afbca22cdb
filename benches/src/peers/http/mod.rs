//! Those who answer over HTTP, each a process of its own, and who asks them.

pub(crate) mod generator;
pub(crate) mod memory;
pub(crate) mod python;
pub(crate) mod server;
