//! The tokens a running server takes: those of the file, as it is now.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use recto::Environment;

use super::{TokenError, TokenFile, TokenText};
use crate::access::Access;

/// How often a running server looks whether files it reads have changed: twice in the second within
/// which a revoked token must be refused.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_millis(500);
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Why a token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It is no token of this server.
    Unknown,
    /// It was one until its time was over.
    Expired,
}

/// The tokens a running server takes.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    environment: Environment,
    current: RwLock<Current>,
}

#[derive(Debug, Default)]
struct Current {
    by_id: Arc<HashMap<String, Entry>>,
    stamp: Option<FileStamp>,
}

#[derive(Debug)]
struct Entry {
    hash: blake3::Hash,
    expires_at_seconds: Option<i64>,
    access: Access,
}

/// A token that is taken.
#[derive(Debug)]
pub(crate) struct Bearer {
    /// Which token, as a number.
    pub(crate) token: u64,
    pub(crate) access: Access,
}

/// What of a file changes with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<std::time::SystemTime>,
    bytes: u64,
    file: u64,
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        #[cfg(unix)]
        let file = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let file = 0;
        Some(Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            file,
        })
    }
}

impl Tokens {
    /// The tokens of a file.
    ///
    /// # Errors
    /// As [`TokenFile::read`].
    pub fn open(path: &Path, environment: Environment) -> Result<Self, TokenError> {
        let tokens = Self {
            path: path.to_owned(),
            environment,
            current: RwLock::default(),
        };
        tokens.reload()?;
        Ok(tokens)
    }

    /// Reads the file again if it has changed; whether it had. A token that is not understood is not
    /// taken, and hinders no other.
    ///
    /// # Errors
    /// As [`TokenFile::read`]. Then nobody is let in: a file that does not say who may be served
    /// might have been changed to say that somebody may not.
    pub fn reload(&self) -> Result<bool, TokenError> {
        // Looked at before reading: what is written meanwhile is read the next time.
        let stamp = FileStamp::of(&self.path);
        if stamp.is_some() && self.current().stamp == stamp {
            return Ok(false);
        }
        let read = TokenFile::read(&self.path);
        let (by_id, outcome) = match read {
            Ok(file) => {
                for strange in &file.strange {
                    let (id, reason) = (&strange.id, &strange.reason);
                    tracing::warn!(id, reason, "a token is not understood, and not taken");
                }
                (entries(file), Ok(true))
            }
            Err(error) => (HashMap::new(), Err(error)),
        };
        let mut current = self
            .current
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *current = Current {
            by_id: Arc::new(by_id),
            stamp: if outcome.is_ok() { stamp } else { None },
        };
        outcome
    }

    fn current(&self) -> std::sync::RwLockReadGuard<'_, Current> {
        self.current
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.current().by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Who bears a token, and what they may do.
    pub(crate) fn bearer(&self, text: &str) -> Result<Bearer, Denied> {
        let token = TokenText::parse(text).ok_or(Denied::Unknown)?;
        let by_id = Arc::clone(&self.current().by_id);
        let entry = by_id.get(token.id()).ok_or(Denied::Unknown)?;
        // Constant time, as the hash's own comparison is.
        if entry.hash != token.hash() {
            return Err(Denied::Unknown);
        }
        let now = self.environment.now_micros() / MICROS_PER_SECOND;
        if entry.expires_at_seconds.is_some_and(|expires| expires <= now) {
            return Err(Denied::Expired);
        }
        Ok(Bearer {
            // An id is that number in hexadecimal digits.
            token: u64::from_str_radix(token.id(), 16).unwrap_or(0),
            access: entry.access.clone(),
        })
    }
}

fn entries(file: TokenFile) -> HashMap<String, Entry> {
    let entry = |token: super::StoredToken| {
        let entry = Entry {
            hash: token.hash,
            expires_at_seconds: token.expires_at_seconds,
            access: Access::granted(token.name, token.grants).by_token(token.id.as_str()),
        };
        (token.id, entry)
    };
    file.tokens.into_iter().map(entry).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
