//! Errors of access tokens and of the file that contains them.

use std::io;
use std::path::{Path, PathBuf};

/// Error of an access token, or of the file of tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file of tokens cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// Failed operation as a verb, such as `read`.
        what: &'static str,
        /// Path of the file of tokens.
        path: PathBuf,
        /// Reason why the operation failed.
        source: io::Error,
    },
    /// The content of the file is not a valid list of tokens.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// Path of the file of tokens.
        path: PathBuf,
        /// Reason why the file is invalid.
        reason: String,
    },
    /// The request to create a token is invalid.
    #[error("{message}")]
    Refused {
        /// Reason why the request is invalid.
        message: String,
        /// Advice for a valid request.
        hint: String,
    },
    /// The file has no token with the requested id.
    #[error("there is no token {id}")]
    NotFound {
        /// Id that the request names.
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

    /// Returns the most likely fix of the error, if there is one.
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
