//! The tokens a running server takes: those of the file, as it is now.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use recto::Environment;
use tokio::sync::watch;

use super::{StoredToken, TokenError, TokenFile, TokenText};
use crate::rights::{Access, Validity};

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
    by_id: Arc<HashMap<String, Arc<Entry>>>,
    stamp: Option<FileStamp>,
}

#[derive(Debug)]
struct Entry {
    stored: StoredToken,
    id: Arc<str>,
    access: Access,
    /// Says that its time is over; dropped with the entry, when it is revoked or changed.
    over: watch::Sender<bool>,
}

impl Entry {
    fn is_over(&self, now_seconds: i64) -> bool {
        let expires = self.stored.expires_at_seconds;
        expires.is_some_and(|expires| expires <= now_seconds)
    }
}

/// A token that is taken.
#[derive(Debug)]
pub(crate) struct Bearer {
    /// Which token, as a number.
    pub(crate) token: u64,
    /// The same as people name it.
    pub(crate) id: Arc<str>,
    pub(crate) access: Access,
}

/// What is told of a token that came, went or was changed: its id and name.
pub(crate) type TokenName = (String, String);

/// What another look at the file found.
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

    /// Reads the file again if it has changed, and ends the `Validity` of tokens that are no longer
    /// taken; what changed, if the file did. A token that is not understood is not taken, and hinders no
    /// other.
    ///
    /// # Errors
    /// As [`TokenFile::read`]. Then nobody is let in: a file that does not say who may be served
    /// might have been changed to say that somebody may not.
    pub fn reload(&self) -> Result<Option<TokenChanges>, TokenError> {
        self.end_those_over();
        // Looked at before reading: what is written meanwhile is read the next time.
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
        if entry.stored.hash != token.hash() {
            return Err(Denied::Unknown);
        }
        if entry.is_over(self.now_seconds()) {
            return Err(Denied::Expired);
        }
        Ok(Bearer {
            // An id is that number in hexadecimal digits.
            token: u64::from_str_radix(token.id(), 16).unwrap_or(0),
            id: Arc::clone(&entry.id),
            access: entry
                .access
                .clone()
                .while_it_holds(Validity::new(entry.over.subscribe())),
        })
    }
}

/// The tokens of a file. One that is as it was `before` stays the same entry: what was begun with it goes
/// on.
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
