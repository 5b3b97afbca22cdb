//! Errors that prevent a server from starting, or that end it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::auth::TokenError;
use crate::config::ConfigError;

/// Error that prevents a server from starting, or that ends it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The token file cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// The certificate or its key cannot be read, or they do not match.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// Path of the file that cannot be used: the certificate or the key.
        path: PathBuf,
        /// Reason why the certificate or the key cannot be used.
        reason: String,
    },
    /// The audit log cannot be opened.
    #[error("the audit log {} cannot be opened: {source}", path.display())]
    AuditLog {
        /// Path of the audit log.
        path: PathBuf,
        /// Reason why the audit log cannot be opened.
        source: io::Error,
    },
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Configured address.
        address: SocketAddr,
        /// Reason why the server cannot listen on the address.
        source: io::Error,
    },
    /// The threads that serve connections cannot be started.
    #[error("the threads that serve connections cannot be started: {0}")]
    Threads(#[source] io::Error),
    /// The shutdown time passed before all connections and all maintenance operations had ended.
    #[error("the server stopped after {} ms, before all work had ended: \
             {}", limit.as_millis(), cut(*connections, work))]
    Unfinished {
        /// Number of connections that the server closed.
        connections: usize,
        /// Maintenance operations that the server canceled.
        work: Vec<String>,
        /// Configured shutdown time.
        limit: Duration,
    },
}

/// Lists the canceled connections and operations for the error message.
fn cut(connections: usize, work: &[String]) -> String {
    let connections = match connections {
        0 => None,
        1 => Some("1 connection".to_owned()),
        many => Some(format!("{many} connections")),
    };
    let parts: Vec<String> = connections.into_iter().chain(work.iter().cloned()).collect();
    parts.join(", ")
}

impl ServeError {
    /// Returns the most likely fix of the error, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Tokens(error) => error.hint(),
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("use --listen 127.0.0.1:0 for a free port: another program listens on this one")
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("use a port above 1023: lower ports need privileges")
            }
            Self::Unfinished { .. } => Some("use --shutdown-time-ms to give requests in flight more time"),
            _ => None,
        }
    }
}
