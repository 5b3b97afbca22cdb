//! Archive of Cassandra's loaded classes, which Java maps into memory instead of parsing and
//! verifying each class. It saves about a fifth of the processor time when a node starts.
//!
//! Java calls this feature class-data sharing (JEP 310). Java ignores an archive that does not
//! match its version or the jars, so an outdated archive is harmless.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::RigError;
use super::process::run;

/// Maximum time for writing the archive, which takes 7 s on an idle machine.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

/// Archive of Cassandra's classes, which may not exist yet.
#[derive(Debug)]
pub(super) struct ClassArchive {
    path: PathBuf,
}

impl ClassArchive {
    /// Returns the archive for the jars in `lib` and this version of Java, whether or not it
    /// exists.
    pub(super) fn new(lib: &Path, java_version: &str) -> Self {
        let path = lib.join(format!("classes-{java_version}.jsa"));
        Self { path }
    }

    /// Returns the option by which Java uses the archive; `None` if the archive does not exist.
    pub(super) fn option(&self) -> Option<OsString> {
        self.path
            .exists()
            .then(|| option("-XX:SharedArchiveFile=", &self.path))
    }

    /// Returns the option by which a node in `dir` records the names of its loaded classes; `None`
    /// if the archive exists.
    pub(super) fn list_option(&self, dir: &Path) -> Option<OsString> {
        (!self.path.exists()).then(|| option("-XX:DumpLoadedClassList=", &list_of(dir)))
    }

    /// Writes the archive from the recorded classes of a node in `dir`, unless the archive exists
    /// or another process is writing it. The node must answer requests, so that it has loaded its
    /// classes.
    ///
    /// `java` is a Java command with the class path of nodes. The archive is written under a
    /// temporary name, and renamed when it is complete.
    pub(super) fn write(&self, mut java: Command, dir: &Path) -> Result<(), RigError> {
        let list = list_of(dir);
        let lock_path = self.path.with_extension("lock");
        let lock = File::create(&lock_path).map_err(RigError::io("make", &lock_path))?;
        if lock.try_lock().is_err() || self.path.exists() || !list.exists() {
            return Ok(());
        }
        let partial = self.path.with_extension("partial");
        java.args(["-Xshare:dump", "-XX:+UseSerialGC"])
            .arg(option("-XX:SharedClassListFile=", &list))
            .arg(option("-XX:SharedArchiveFile=", &partial));
        run(&mut java, WRITE_TIMEOUT)?;
        fs::rename(&partial, &self.path).map_err(RigError::io("name", &self.path))
    }
}

fn list_of(dir: &Path) -> PathBuf {
    dir.join("classes.list")
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nodes_list_their_classes_until_there_is_an_archive() {
        let dir = tempfile::tempdir().unwrap();
        let archive = ClassArchive::new(dir.path(), "17.0.1");
        assert_eq!(archive.option(), None);
        assert!(archive.list_option(dir.path()).is_some());
        fs::write(dir.path().join("classes-17.0.1.jsa"), "").unwrap();
        assert!(archive.option().is_some());
        assert_eq!(archive.list_option(dir.path()), None);
    }

    #[test]
    fn nothing_is_written_without_a_list() {
        let dir = tempfile::tempdir().unwrap();
        let archive = ClassArchive::new(dir.path(), "17.0.1");
        archive.write(Command::new("false"), dir.path()).unwrap();
        assert_eq!(archive.option(), None);
    }
}
