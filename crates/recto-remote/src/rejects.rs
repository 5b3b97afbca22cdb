//! Local file for the rows that a load on the server rejected.

use std::io;
use std::path::{Path, PathBuf};

use recto::{Error, ErrorKind, Result};

/// Number of bytes of two files that are compared at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// Collector of a load's rejected rows in a temporary file, which gets its final name when all rows
/// have arrived.
#[derive(Debug)]
pub(crate) struct RejectFile {
    /// Final path of the file. Unless the user chose the path, it has no extension: the server
    /// reports the extension after the load.
    path: PathBuf,
    is_named: bool,
    received: PathBuf,
    file: Option<std::fs::File>,
}

impl RejectFile {
    /// Returns a collector for the file at the path `named`. If the user chose no path, the file is
    /// next to the loaded file `file`.
    pub(crate) fn new(named: Option<&Path>, file: &Path) -> Self {
        let path = named.map_or_else(|| with_suffix(file, ".rejects"), Path::to_owned);
        Self {
            received: with_suffix(&path, ".received"),
            is_named: named.is_some(),
            path,
            file: None,
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        use std::io::Write as _;
        let added = (|| {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(std::fs::File::create(&self.received)?),
            };
            file.write_all(bytes)
        })();
        added.map_err(|error| unwritable(&self.path, error))
    }

    /// Renames the temporary file to its final name, with the extension `ending` unless the user
    /// chose the name. Returns `None` if the load rejected no row.
    pub(crate) fn finish(self, ending: Option<&str>) -> Result<Option<PathBuf>> {
        let (Some(file), Some(ending)) = (self.file, ending) else {
            return Ok(None);
        };
        let path = if self.is_named {
            self.path
        } else {
            with_suffix(&self.path, &format!(".{ending}"))
        };
        // Accept an existing file with equal content: a repeated load rejects the same rows.
        let is_other = path.exists() && !same_content(&path, &self.received).unwrap_or(false);
        if is_other {
            let message = format!(
                "the rejected rows are in {}, because {} is another file",
                self.received.display(),
                path.display()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message)
                .with_field("rejects")
                .with_hint("move one of the files; the other rows are loaded"));
        }
        let named = file
            .sync_all()
            .and_then(|()| std::fs::rename(&self.received, &path));
        named.map_err(|error| unwritable(&path, error))?;
        Ok(Some(path))
    }
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let mut files = [std::fs::File::open(one)?, std::fs::File::open(other)?];
    loop {
        let [first, second] = &mut files;
        let (left, right) = (read_piece(first)?, read_piece(second)?);
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

fn read_piece(file: &mut std::fs::File) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut piece = Vec::new();
    file.take(PIECE_BYTES).read_to_end(&mut piece)?;
    Ok(piece)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn unwritable(path: &Path, error: io::Error) -> Error {
    let message = format!("cannot write the rejected rows to {}: {error}", path.display());
    Error::new(ErrorKind::Io, message)
        .with_hint("free space, or name another file with --rejects, then run the same command again")
        .with_source(error)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rejects_get_their_name_at_the_end_and_replace_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.csv.gz");
        let load = |text: &str| {
            let mut rejects = RejectFile::new(None, &file);
            rejects.add(text.as_bytes()).unwrap();
            rejects
        };
        assert_eq!(RejectFile::new(None, &file).finish(None).unwrap(), None);
        let path = load("a\n").finish(Some("csv")).unwrap().unwrap();
        assert_eq!(path, folder.path().join("rows.csv.gz.rejects.csv"));
        assert_eq!(load("a\n").finish(Some("csv")).unwrap().as_ref(), Some(&path));
        let error = load("b\n").finish(Some("csv")).unwrap_err();
        assert!(error.to_string().contains("another file"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n");
        let named = folder.path().join("bad");
        let mut rejects = RejectFile::new(Some(&named), &file);
        rejects.add(b"\xff").unwrap();
        assert_eq!(rejects.finish(Some("csv")).unwrap(), Some(named));
    }
}
