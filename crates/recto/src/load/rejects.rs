//! The reject file: every row that a collection rejected, with the reason.
//!
//! The file has the format of the loaded file. A corrected reject file can be loaded itself, with
//! unknown columns ignored.
//!
//! - CSV: the columns `recto_line`, `recto_collection` and `recto_reason` precede the columns of
//!   the loaded file. The row has its original separator and quotes. A row that cannot be split is
//!   written whole into the first of the loaded file's columns.
//! - NDJSON: the same three keys precede the keys of the record. If the line is not a JSON object,
//!   they precede `recto_text` with the line.
//!
//! During a load, the file has a temporary name. The checkpoint records its length. A resumed load
//! truncates the file to that length, so that the file contains no row twice.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::buffer::Origin;
use super::convert::Reason;
use super::plan::LoadPlan;
use super::records::Dialect;
use super::source::Format;
use crate::error::{Error, ErrorKind, Part, Result};

/// Size in bytes at which collected text is written to the reject file.
const PIECE_BYTES: usize = 64 << 10;

/// Estimated memory in bytes of a rejected row, and of each of its reasons, in addition to the
/// texts.
const REJECT_OVERHEAD_BYTES: usize = 128;

/// Row of the loaded file that one or more collections rejected, with the reasons.
#[derive(Debug, Clone)]
pub(super) struct Reject {
    pub(super) origin: Origin,
    /// Text of the row as it is in the loaded file.
    pub(super) content: Box<[u8]>,
    /// True if the row can be split into cells or parsed as JSON.
    pub(super) readable: bool,
    /// Indexes of the collections that rejected the row, with their reasons.
    pub(super) reasons: Vec<(usize, Reason)>,
}

impl Reject {
    /// Returns the key by which rejected rows are sorted: the position of the row in the file, then
    /// the first collection that rejected it.
    pub(super) fn place(&self) -> (Origin, Option<usize>) {
        (self.origin, self.reasons.first().map(|(target, _)| *target))
    }

    pub(super) fn byte_len(&self) -> usize {
        let reasons: usize = self
            .reasons
            .iter()
            .map(|(_, reason)| reason.text().len() + REJECT_OVERHEAD_BYTES)
            .sum();
        REJECT_OVERHEAD_BYTES + self.content.len() + reasons
    }
}

/// Reject file of one load: the file to which rejected rows are written.
#[derive(Debug)]
pub(super) struct RejectFile {
    path: PathBuf,
    partial: PathBuf,
    length: u64,
    file: Option<File>,
}

impl RejectFile {
    /// Returns the default path of the reject file for the file at `source`, in the same folder.
    pub(super) fn default_path(source: &Path, format: Format) -> PathBuf {
        with_suffix(source, &format!(".rejects.{}", format.ending()))
    }

    /// Returns the reject file at `path`. The file is created when the first row is rejected.
    pub(super) fn new(path: PathBuf) -> Self {
        let partial = with_suffix(&path, ".partial");
        Self {
            path,
            partial,
            length: 0,
            file: None,
        }
    }

    /// Rejects a path at which something exists that this load did not create: the loaded file
    /// itself, a device, a link, or another file. `made_bytes` is the length of the reject file of
    /// an earlier run of this load, if there was one. A file of that length may be replaced.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]; nothing is changed.
    pub(super) fn check_place(&self, source: &Path, made_bytes: Option<u64>) -> Result<()> {
        for path in [&self.path, &self.partial] {
            let found = match path.symlink_metadata() {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(self.error(error)),
            };
            if same_file(path, source) {
                return Err(taken(path, "the file that is loaded"));
            }
            if !found.is_file() {
                return Err(taken(path, "not a regular file"));
            }
            if path == &self.path && made_bytes != Some(found.len()) {
                return Err(taken(path, "a file that this load did not make"));
            }
        }
        Ok(())
    }

    /// Continues the reject file of an interrupted load after its first `length` bytes. Returns
    /// false if the file is missing or shorter.
    pub(super) fn resume(&mut self, length: u64) -> Result<bool> {
        if length == 0 {
            return Ok(true);
        }
        let file = match OpenOptions::new().read(true).write(true).open(&self.partial) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.error(error)),
        };
        match cut(file, length).map_err(|error| self.error(error))? {
            None => Ok(false),
            Some(file) => {
                self.length = length;
                self.file = Some(file);
                Ok(true)
            }
        }
    }

    /// Returns the final path of the reject file, if a file exists there.
    pub(super) fn finished_path(&self) -> Option<PathBuf> {
        self.path.exists().then(|| self.path.clone())
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends rejected rows in writes of bounded size, and syncs the file to disk.
    pub(super) fn append<'a>(
        &mut self,
        plan: &LoadPlan,
        rejects: impl Iterator<Item = Cow<'a, Reject>>,
    ) -> Result<()> {
        let (mut text, mut length) = (Vec::new(), self.length);
        if length == 0 {
            write_header(plan, &mut text);
        }
        let written = (|| {
            let file = self.open()?;
            for reject in rejects {
                write_reject(plan, &reject, &mut text);
                if text.len() >= PIECE_BYTES {
                    file.write_all(&text)?;
                    length += text.len() as u64;
                    text.clear();
                }
            }
            file.write_all(&text)?;
            length += text.len() as u64;
            file.sync_data()
        })();
        written.map_err(|error| self.error(error))?;
        self.length = length;
        Ok(())
    }

    fn open(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => create_private(&self.partial)?,
        };
        Ok(self.file.insert(file))
    }

    /// Renames the file to its final name and returns the name; `None` if no row was rejected.
    pub(super) fn finish(&mut self) -> Result<Option<PathBuf>> {
        let Some(file) = self.file.take() else {
            return Ok(None);
        };
        let finished = file
            .sync_all()
            .and_then(|()| std::fs::rename(&self.partial, &self.path));
        finished.map_err(|error| self.error(error))?;
        Ok(Some(self.path.clone()))
    }

    fn error(&self, error: io::Error) -> Error {
        file_error(&self.path, error)
    }
}

/// Creates an empty file that only its owner may read, because rejected rows are as confidential as
/// stored rows.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // A file of an earlier run keeps its mode when it is opened, so set the mode explicitly.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

/// Returns whether both paths lead to the same file.
fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one_path), Ok(other_path)) => one_path == other_path || same_inode(one, other),
        _ => false,
    }
}

#[cfg(unix)]
fn same_inode(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => one.dev() == other.dev() && one.ino() == other.ino(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn same_inode(_: &Path, _: &Path) -> bool {
    false
}

fn taken(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "the rejects cannot be written to {}, because it is {what}",
            path.display()
        ),
    )
    .with_part(Part::Rejects)
    .with_field("rejects")
    .with_hint("move the file away, or name another file with --rejects; nothing was changed")
}

/// Truncates a file to its first `length` bytes; `None` if the file is shorter.
fn cut(mut file: File, length: u64) -> io::Result<Option<File>> {
    if file.metadata()?.len() < length {
        return Ok(None);
    }
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    Ok(Some(file))
}

fn file_error(path: &Path, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("the reject file {} cannot be written: {error}", path.display()),
    )
    .with_part(Part::Rejects)
    .with_hint(
        "name another file with --rejects, or free disk space; then run the same load again to continue",
    )
    .with_source(error)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Columns of a CSV reject file that precede the columns of the loaded file.
const COLUMNS: [&str; 3] = ["recto_line", "recto_collection", "recto_reason"];

fn write_header(plan: &LoadPlan, out: &mut Vec<u8>) {
    if plan.format == Format::Csv {
        for column in COLUMNS {
            out.extend_from_slice(column.as_bytes());
            out.push(plan.dialect.delimiter);
        }
        out.extend_from_slice(&plan.header);
        out.push(b'\n');
    }
}

fn write_reject(plan: &LoadPlan, reject: &Reject, out: &mut Vec<u8>) {
    for (target, reason) in &reject.reasons {
        let collection = plan.targets[*target].name();
        match plan.format {
            Format::Csv => write_csv(reject, collection, reason.text(), plan.dialect, out),
            Format::Ndjson => write_json(reject, collection, reason.text(), out),
        }
        out.push(b'\n');
    }
}

fn write_csv(reject: &Reject, collection: &str, reason: &str, dialect: Dialect, out: &mut Vec<u8>) {
    let line = reject.origin.line.to_string();
    for cell in [line.as_str(), collection, reason] {
        out.extend_from_slice(quoted(cell, dialect).as_bytes());
        out.push(dialect.delimiter);
    }
    if reject.readable {
        out.extend_from_slice(&reject.content);
        return;
    }
    out.push(b'"');
    for byte in &reject.content {
        match dialect.escape {
            Some(escape) if *byte == b'"' || *byte == escape => out.push(escape),
            None if *byte == b'"' => out.push(b'"'),
            _ => {}
        }
        out.push(*byte);
    }
    out.push(b'"');
}

fn write_json(reject: &Reject, collection: &str, reason: &str, out: &mut Vec<u8>) {
    let text = |text: &str| Json::String(text.to_owned()).to_string();
    let line = reject.origin.line;
    let (collection, reason) = (text(collection), text(reason));
    let start =
        format!("{{\"recto_line\":{line},\"recto_collection\":{collection},\"recto_reason\":{reason}");
    out.extend_from_slice(start.as_bytes());
    let content = reject.content.trim_ascii();
    if reject.readable {
        // After the added keys, write the keys of the rejected record and its closing brace.
        let rest = content[1..].trim_ascii_start();
        if rest != b"}" {
            out.push(b',');
        }
        out.extend_from_slice(rest);
    } else {
        let content = text(&String::from_utf8_lossy(content));
        out.extend_from_slice(format!(",\"recto_text\":{content}}}").as_bytes());
    }
}

/// Returns a text as a CSV cell, in quotes if necessary.
pub(super) fn quoted(cell: &str, dialect: Dialect) -> String {
    let escape = dialect.escape.map(char::from);
    let needs_quotes = cell.contains([char::from(dialect.delimiter), '"', '\n', '\r']);
    match escape {
        Some(escape) if needs_quotes || cell.contains(escape) => {
            let escaped = cell.replace(escape, &format!("{escape}{escape}"));
            format!("\"{}\"", escaped.replace('"', &format!("{escape}\"")))
        }
        None if needs_quotes => format!("\"{}\"", cell.replace('"', "\"\"")),
        _ => cell.to_owned(),
    }
}
