//! Errors of tokens and their file.

use std::io;
use std::path::{Path, PathBuf};

/// Error of a token or of the file of tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The attempted operation, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason of the failure.
        source: io::Error,
    },
    /// The file is not a file of tokens.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Problem of the file.
        reason: String,
    },
    /// The request is invalid.
    #[error("{message}")]
    Refused {
        /// Problem of the request.
        message: String,
        /// Advice how to correct the request.
        hint: String,
    },
    /// The file has no such token.
    #[error("there is no token {id}")]
    NotFound {
        /// Requested id of the token.
        id: String,
    },
}

impl TokenError {
    pub(crate) fn file(what: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { what, path, source }
    }

    pub(crate) fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        Self::Invalid {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// Returns advice how to correct the error.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused { hint, .. } => Some(hint),
            Self::NotFound { .. } => Some("run `recto token list` to list the tokens"),
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("create the file with `recto token create NAME --grant '…' --tokens FILE`")
            }
            Self::File { .. } | Self::Invalid { .. } => None,
        }
    }
}
