//! Access tokens that a running server accepts. They follow changes of the token file.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use recto::Environment;
use tokio::sync::watch;

use super::{StoredToken, TokenError, TokenFile, TokenText};
use crate::rights::{Access, Validity};

/// Interval at which a running server checks its files for changes. The server must reject a
/// revoked token within a second, so the interval is half of that.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_millis(500);
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Reason why the server rejects an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The server has no such token.
    Unknown,
    Expired,
}

/// Access tokens that a running server accepts, read from the token file.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    environment: Environment,
    current: RwLock<Current>,
}

#[derive(Debug, Default)]
struct Current {
    by_id: Arc<HashMap<String, Arc<Entry>>>,
    stamp: Option<FileStamp>,
}

#[derive(Debug)]
struct Entry {
    stored: StoredToken,
    id: Arc<str>,
    access: Access,
    /// Validity of the token, which becomes true when it expires. It is dropped when the token is
    /// revoked or changed.
    over: watch::Sender<bool>,
}

impl Entry {
    fn is_over(&self, now_seconds: i64) -> bool {
        let expires = self.stored.expires_at_seconds;
        expires.is_some_and(|expires| expires <= now_seconds)
    }
}

/// Token of a request that the server accepted.
#[derive(Debug)]
pub(crate) struct Bearer {
    /// Public id of the token as a number, the key of the rate limit.
    pub(crate) token: u64,
    /// Public id of the token, as text.
    pub(crate) id: Arc<str>,
    pub(crate) access: Access,
}

/// Id and name of an access token that was added, removed or changed.
pub(crate) type TokenName = (String, String);

/// Changes of the token file that a reload found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TokenChanges {
    pub(crate) made: Vec<TokenName>,
    pub(crate) changed: Vec<TokenName>,
    pub(crate) revoked: Vec<TokenName>,
}

impl TokenChanges {
    fn between(before: &HashMap<String, Arc<Entry>>, after: &HashMap<String, Arc<Entry>>) -> Self {
        let name = |entry: &Arc<Entry>| (entry.stored.id.clone(), entry.stored.name.clone());
        let mut changes = Self::default();
        for (id, entry) in after {
            match before.get(id) {
                None => changes.made.push(name(entry)),
                Some(earlier) if !Arc::ptr_eq(earlier, entry) => changes.changed.push(name(entry)),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|(id, _)| !after.contains_key(*id));
        changes.revoked = gone.map(|(_, entry)| name(entry)).collect();
        for names in [&mut changes.made, &mut changes.changed, &mut changes.revoked] {
            names.sort();
        }
        changes
    }
}

/// Properties of a file that show whether its content may have changed.
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
    /// Reads a token file for a running server.
    ///
    /// # Errors
    /// The errors of [`TokenFile::read`].
    pub fn open(path: &Path, environment: Environment) -> Result<Self, TokenError> {
        let tokens = Self {
            path: path.to_owned(),
            environment,
            current: RwLock::default(),
        };
        tokens.reload()?;
        Ok(tokens)
    }

    /// Reads the token file again if it has changed, and ends the `Validity` of tokens that are no
    /// longer accepted. Returns the changes, or `None` if the file has not changed. Rejects a token
    /// that this release does not understand, and accepts the others.
    ///
    /// # Errors
    /// The errors of [`TokenFile::read`]. The server then rejects every token, because somebody may
    /// have changed the file to revoke a token.
    pub fn reload(&self) -> Result<Option<TokenChanges>, TokenError> {
        self.end_those_over();
        // Read the properties of the file before its content, so that the next reload notices a
        // change during this reload.
        let stamp = FileStamp::of(&self.path);
        if stamp.is_some() && self.current().stamp == stamp {
            return Ok(None);
        }
        let before = Arc::clone(&self.current().by_id);
        let (by_id, outcome) = match TokenFile::read(&self.path) {
            Ok(file) => {
                for strange in &file.strange {
                    let (id, reason) = (&strange.id, &strange.reason);
                    crate::log::warn!(id, reason, "a token is not understood, and not taken");
                }
                let after = entries(file, &before);
                let changes = TokenChanges::between(&before, &after);
                (after, Ok(Some(changes)))
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

    fn end_those_over(&self) {
        let now = self.now_seconds();
        let by_id = Arc::clone(&self.current().by_id);
        for entry in by_id.values().filter(|entry| entry.is_over(now)) {
            entry.over.send_replace(true);
        }
    }

    fn now_seconds(&self) -> i64 {
        self.environment.now_micros() / MICROS_PER_SECOND
    }

    fn current(&self) -> std::sync::RwLockReadGuard<'_, Current> {
        self.current
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the number of accepted tokens.
    pub fn len(&self) -> usize {
        self.current().by_id.len()
    }

    /// Returns whether the server accepts no token at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the id and the rights of an access token, or why it is rejected.
    pub(crate) fn bearer(&self, text: &str) -> Result<Bearer, Denied> {
        let token = TokenText::parse(text).ok_or(Denied::Unknown)?;
        let by_id = Arc::clone(&self.current().by_id);
        let entry = by_id.get(token.id()).ok_or(Denied::Unknown)?;
        // blake3 compares hashes in constant time, so that the time of a reply reveals nothing
        // about a hash.
        if entry.stored.hash != token.hash() {
            return Err(Denied::Unknown);
        }
        if entry.is_over(self.now_seconds()) {
            return Err(Denied::Expired);
        }
        Ok(Bearer {
            // The conversion cannot fail, because the id of a known token has only hexadecimal
            // digits.
            token: u64::from_str_radix(token.id(), 16).unwrap_or(0),
            id: Arc::clone(&entry.id),
            access: entry
                .access
                .clone()
                .while_it_holds(Validity::new(entry.over.subscribe())),
        })
    }
}

/// Converts the tokens of a file to entries. An unchanged token keeps its entry in `before`, so
/// that its requests continue.
fn entries(file: TokenFile, before: &HashMap<String, Arc<Entry>>) -> HashMap<String, Arc<Entry>> {
    let entry = |token: StoredToken| {
        let id = token.id.clone();
        let same = before.get(&id).filter(|entry| entry.stored == token);
        let entry = same.cloned().unwrap_or_else(|| {
            Arc::new(Entry {
                id: id.as_str().into(),
                access: Access::granted(token.name.as_str(), token.grants.clone()).by_token(id.as_str()),
                over: watch::Sender::new(false),
                stored: token,
            })
        });
        (id, entry)
    };
    file.tokens.into_iter().map(entry).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
