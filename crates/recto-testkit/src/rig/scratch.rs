//! Temporary folders and keyspaces of a test process. They are removed when the process ends. If it
//! was killed, or ran only some of its tests, a later process removes them. The keyspaces are in
//! the Cassandra that all tests share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::id;

use super::{RigError, unique_keyspace};

/// Prefix of the name of the folder of one process. The process id follows.
const PREFIX: &str = "scratch-";

/// Creator and remover of the temporary folders and keyspaces of this process.
#[derive(Clone, Debug)]
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// Returns a handle for the folder that all tests share, usually `env!("CARGO_TARGET_TMPDIR")`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Creates a folder for files of this process, and returns its path.
    pub fn folder(&self) -> Result<PathBuf, RigError> {
        self.make("files")
    }

    /// Returns a name for a keyspace, which the caller creates. The name is recorded as a file, so
    /// that the keyspace is removed later.
    pub fn keyspace(&self, prefix: &str) -> Result<String, RigError> {
        let name = unique_keyspace(prefix);
        let file = self.make("keyspaces")?.join(&name);
        fs::write(&file, b"").map_err(RigError::io("write", &file))?;
        Ok(name)
    }

    /// Removes the folders and keyspaces of processes that have ended. `drop_keyspace` drops a
    /// keyspace, and must succeed even if the keyspace does not exist.
    ///
    /// # Errors
    ///
    /// Returns the first error of `drop_keyspace`. A later call removes the remaining keyspaces.
    pub async fn remove_left<E>(
        &self,
        drop_keyspace: impl AsyncFnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        self.remove(false, drop_keyspace).await
    }

    /// Removes the folders and keyspaces of this process, and of processes that have ended.
    pub async fn remove_all<E>(
        &self,
        drop_keyspace: impl AsyncFnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        self.remove(true, drop_keyspace).await
    }

    async fn remove<E>(
        &self,
        own_too: bool,
        mut drop_keyspace: impl AsyncFnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        for (name, folder) in entries(&self.dir) {
            let Some(process) = name
                .strip_prefix(PREFIX)
                .and_then(|text| text.parse::<u32>().ok())
            else {
                continue;
            };
            let stays = if process == id() {
                !own_too
            } else {
                Path::new("/proc").join(process.to_string()).exists()
            };
            if stays {
                continue;
            }
            for (keyspace, _) in entries(&folder.join("keyspaces")) {
                drop_keyspace(keyspace).await?;
            }
            // Ignore an error: another process may be removing the same folder, and a later call
            // removes the rest.
            let _ = fs::remove_dir_all(folder);
        }
        Ok(())
    }

    fn make(&self, what: &str) -> Result<PathBuf, RigError> {
        let folder = self.dir.join(format!("{PREFIX}{}", id())).join(what);
        fs::create_dir_all(&folder).map_err(RigError::io("make", &folder))?;
        Ok(folder)
    }
}

/// Returns the names and paths of the entries of a folder; empty if the folder does not exist.
fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Returns the result of a future that never waits.
    fn run<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn the_dead_are_removed_and_the_living_are_left() {
        let dir = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::new(dir.path());
        let own = scratch.keyspace("mine").expect("a keyspace");
        scratch.folder().expect("a folder");
        // No process has the first id, but one always has the id 1. The third folder does not
        // belong to a process.
        let gone = dir.path().join("scratch-4294967295");
        let alive = dir.path().join("scratch-1");
        let other = dir.path().join("scratch-of-others");
        for folder in [&gone, &alive, &other] {
            let keyspaces = folder.join("keyspaces");
            fs::create_dir_all(&keyspaces).expect("a folder");
            let name = folder
                .file_name()
                .expect("it has one")
                .to_string_lossy()
                .replace('-', "_");
            fs::write(keyspaces.join(name), b"").expect("a file");
        }
        let mut dropped = Vec::new();
        let failed = run(scratch.remove_left(async |_| Err("away")));
        assert_eq!(failed, Err("away"));
        assert!(gone.exists(), "what could not be removed is left for the next");
        run(scratch.remove_left(async |keyspace| {
            dropped.push(keyspace);
            Ok::<_, ()>(())
        }))
        .expect("it does not fail");
        assert_eq!(dropped, ["scratch_4294967295"]);
        assert!(!gone.exists() && alive.exists() && other.exists());
        dropped.clear();
        run(scratch.remove_all(async |keyspace| {
            dropped.push(keyspace);
            Ok::<_, ()>(())
        }))
        .expect("it does not fail");
        assert_eq!(dropped, [own]);
        assert!(alive.exists() && other.exists());
    }
}
