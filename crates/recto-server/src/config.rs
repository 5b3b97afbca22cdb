//! What a server is told.

use std::net::{Ipv4Addr, SocketAddr};

/// The port a server listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 8080;

/// What a server is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address to listen on.
    pub listen: SocketAddr,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
        }
    }
}
