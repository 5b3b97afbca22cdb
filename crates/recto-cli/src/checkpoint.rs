//! Checkpoint file: the position of an operation, from which a later run continues.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::failure::{Exit, Failure, Result};

/// Maximum number of bytes that are read from a checkpoint file. Every token is shorter.
const MAX_BYTES: u64 = 1 << 20;

/// Checkpoint file: contains the token with which a later run continues an operation.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Token that the checkpoint file contains; `None` if the file does not exist.
    kept: Option<String>,
    /// Error of the last write; `None` if it succeeded. After an error, the file has an older
    /// token, or none.
    failed: Option<io::Error>,
}

impl Checkpoint {
    /// Opens a checkpoint file and reads its token. The file need not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is not text.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let kept = match read(path) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failure(path, "read", &error)),
        };
        let state = State {
            kept,
            ..State::default()
        };
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(state),
        })
    }

    /// Returns the token with which the operation continues; `None` to start from the beginning.
    pub(crate) fn token(&self) -> Option<String> {
        self.state().kept.clone()
    }

    /// Replaces the token in the checkpoint file atomically: readers see either the old or the new
    /// token. [`is_kept`](Self::is_kept) reports a failed write.
    pub(crate) fn keep(&self, token: &str) {
        let mut state = self.state();
        if state.kept.as_deref() == Some(token) {
            return;
        }
        state.failed = write(&self.path, token).err();
        if state.failed.is_none() {
            state.kept = Some(token.to_owned());
        }
    }

    /// Removes the checkpoint file, because the operation is complete.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failure(&self.path, "removed", &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the file has a token with which a later run can continue.
    ///
    /// # Errors
    /// The last write of the file failed.
    pub(crate) fn is_kept(&self) -> Result<bool> {
        let state = self.state();
        match &state.failed {
            Some(error) => Err(failure(&self.path, "written", error)),
            None => Ok(state.kept.is_some()),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> io::Result<String> {
    use io::Read as _;
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn write(path: &Path, token: &str) -> io::Result<()> {
    let mut written = path.as_os_str().to_owned();
    written.push(".new");
    let mut file = fs::File::create(&written)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    fs::rename(written, path)
}

fn failure(path: &Path, what: &str, error: &io::Error) -> Failure {
    let message = format!("the checkpoint {} cannot be {what}: {error}", path.display());
    Failure::new(Exit::Failed, message).with_hint("name another file with --checkpoint")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_token_until_removal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("place");
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!((checkpoint.token(), checkpoint.is_kept().unwrap()), (None, false));
        checkpoint.keep("one");
        checkpoint.keep("two");
        assert!(checkpoint.is_kept().unwrap());
        let again = Checkpoint::open(&path).unwrap();
        assert_eq!(again.token().as_deref(), Some("two"));
        again.remove().unwrap();
        again.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::open(&folder.path().join("nowhere/place")).unwrap();
        checkpoint.keep("one");
        let failure = checkpoint.is_kept().unwrap_err();
        assert!(
            format!("{failure:?}").contains("nowhere/place cannot be written"),
            "{failure:?}"
        );
        let failure = Checkpoint::open(folder.path()).unwrap_err();
        assert!(format!("{failure:?}").contains("cannot be read"), "{failure:?}");
        fs::write(folder.path().join("bytes"), [0xff]).unwrap();
        assert!(Checkpoint::open(&folder.path().join("bytes")).is_err());
    }
}
