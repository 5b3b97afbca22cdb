//! Why something about tokens failed.

use std::io;
use std::path::{Path, PathBuf};

/// Why something about tokens failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was being done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not one of tokens.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// What was asked is not right.
    #[error("{message}")]
    Refused {
        /// What is not right.
        message: String,
        /// What to do.
        hint: String,
    },
    /// There is no such token.
    #[error("there is no token {id}")]
    NotFound {
        /// The token asked for.
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

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused { hint, .. } => Some(hint),
            Self::NotFound { .. } => Some("`recto token list` shows the tokens there are"),
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("`recto token create NAME --grant '…' --tokens FILE` makes it")
            }
            Self::File { .. } | Self::Invalid { .. } => None,
        }
    }
}
