//! Why a server does not serve.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::auth::TokenError;
use crate::config::ConfigError;

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// What it is told is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tokens cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// The certificate or its key cannot be read, or do not belong together.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The audit log cannot be opened.
    #[error("the audit log {} cannot be opened: {source}", path.display())]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The threads that serve connections cannot be started.
    #[error("the threads that serve connections cannot be started: {0}")]
    Threads(#[source] io::Error),
    /// When it was told to stop, the time was over before all connections and work had ended.
    #[error("cut after {} ms: {}", limit.as_millis(), cut(*connections, work))]
    Unfinished {
        /// How many were cut.
        connections: usize,
        /// What was being done with the store.
        work: Vec<String>,
        /// The time they had.
        limit: Duration,
    },
}

/// What was cut: connections, work, or both.
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
    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Tokens(error) => error.hint(),
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("another program listens there; --listen 127.0.0.1:0 takes any free port")
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("ports below 1024 are for privileged programs; take a higher one")
            }
            Self::Unfinished { .. } => Some("--shutdown-time-ms gives requests in flight more time"),
            _ => None,
        }
    }
}
