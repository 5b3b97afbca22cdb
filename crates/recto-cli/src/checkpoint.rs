//! How far work is, kept in a file for whoever goes on with it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::failure::{Exit, Failure, Result};

/// The most bytes that are read of such a file: more than any token has.
const MAX_BYTES: u64 = 1 << 20;

/// A file that says where to go on.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What the file says.
    kept: Option<String>,
    /// Why it does not say what it should.
    failed: Option<io::Error>,
}

impl Checkpoint {
    /// The file, which need not be there yet.
    ///
    /// # Errors
    /// It cannot be read, or is no text.
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

    /// Where to go on; none to begin.
    pub(crate) fn token(&self) -> Option<String> {
        self.state().kept.clone()
    }

    /// Work is so far. The file says the one or the other, whenever it is looked at.
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

    /// That the work ended, and nobody has to go on.
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

    /// Whether there is where to go on.
    ///
    /// # Errors
    /// The file could not be written.
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
    fn what_is_kept_is_read_again_until_it_is_removed() {
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
