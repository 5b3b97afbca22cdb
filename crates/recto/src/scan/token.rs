//! Encryption of the progress of a scan as a token, with which a later scan can continue.

use std::sync::Arc;

use recto_plan::cursor::QueryIdentity;
use recto_plan::scan_token::{self, ScanProgress, ScanTokenError};

use crate::error::{Error, ErrorKind, Result};
use crate::shared::Shared;

/// Encrypts and decrypts the progress of one scan, which the token identifies by its query.
pub(super) struct Seal {
    shared: Arc<Shared>,
    identity: QueryIdentity,
}

impl Seal {
    pub(super) fn new(shared: Arc<Shared>, identity: QueryIdentity) -> Self {
        Self { shared, identity }
    }

    /// Returns the name of the kind of store. Tokens contain it, because each kind has its own
    /// order of ranges.
    pub(super) fn store(&self) -> &'static str {
        self.shared.store.kind().name()
    }

    /// Encrypts the progress of the scan as a token.
    ///
    /// # Errors
    /// The keys in the progress are too large.
    pub(super) fn seal(&self, progress: &ScanProgress) -> Result<String> {
        scan_token::seal(
            &self.shared.keys.ring(),
            &self.shared.environment,
            &self.identity,
            progress,
            self.shared.keys.expires_at_seconds(),
        )
        .map_err(refused)
    }

    /// Decrypts the progress that the token `text` contains.
    ///
    /// # Errors
    /// The text is not a token of this scan.
    pub(super) async fn open(&self, text: &str) -> Result<ScanProgress> {
        let shared = &self.shared;
        shared.keys.learn(text, shared.read_options().timeout).await?;
        let (keys, environment) = (shared.keys.ring(), &shared.environment);
        scan_token::open(&keys, environment, text, &self.identity, self.store()).map_err(refused)
    }

    /// Returns the error for a token that is authentic but has unknown content. Only a defect of
    /// Recto can create such a token.
    #[cold]
    pub(super) fn unknown() -> Error {
        refused(ScanTokenError::UnknownContent)
    }
}

#[cold]
fn refused(error: ScanTokenError) -> Error {
    let kind = match error {
        ScanTokenError::TooLarge { .. } => ErrorKind::LimitExceeded,
        _ => ErrorKind::InvalidCursor,
    };
    Error::new(kind, error.to_string())
        .with_hint(error.hint())
        .with_source(error)
}
