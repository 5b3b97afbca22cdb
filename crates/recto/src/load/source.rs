//! File to load: its name determines the format, and its text is read as a stream.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use flate2::bufread::MultiGzDecoder;

use super::pipeline::Cancelled;
use super::{zip, zstd};
use crate::error::{Error, ErrorKind, Result};

/// Number of bytes of one read from the operating system.
const READ_BYTES: usize = 256 << 10;

pub(super) const ENDINGS: &str = "use a file that ends in .csv, .ndjson or .jsonl, optionally with .gz or \
    .zst after it, or a .zip with one such file";

/// Format of the records in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Comma-separated values with a header row (RFC 4180).
    Csv,
    /// One JSON object per line.
    Ndjson,
}

impl Format {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }

    /// Returns the ending of the names of files in this format, without the dot.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Plain(Format),
    Gzip(Format),
    Zstd(Format),
    Zip,
}

impl Packing {
    fn of_name(name: &str) -> Option<Self> {
        let (stem, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "zip" => Some(Self::Zip),
            "gz" => Format::of_name(stem).map(Self::Gzip),
            "zst" => Format::of_name(stem).map(Self::Zstd),
            _ => Format::of_name(name).map(Self::Plain),
        }
    }
}

/// Returns the compression and the format that a file name implies. Error messages call the file
/// `shown`.
fn packing(name: &str, shown: &str) -> Result<Packing> {
    Packing::of_name(name).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("the format of {shown} is not supported"),
        )
        .with_hint(ENDINGS)
    })
}

/// Checks that the ending of a file name is one that can be loaded.
///
/// # Errors
/// The ending of the name is not supported.
pub fn check_load_name(name: &str) -> Result<()> {
    packing(name, &format!("{name:?}")).map(|_| ())
}

/// Checks that a file exists and that its name has an ending that can be loaded. Returns its size
/// in bytes.
///
/// # Errors
/// The file does not exist, is not a regular file, or has an ending that is not supported.
pub fn check_load_file(path: &Path) -> Result<u64> {
    Ok(Source::find(path)?.bytes_total)
}

/// Returns the name ending that fits the content of a file, such as `csv`, `ndjson.gz` or `zip`.
/// The first bytes of the file determine it.
///
/// # Errors
/// The file cannot be read or unpacked.
pub fn detect_load_ending(path: &Path) -> Result<String> {
    let unpacked = |text: &mut dyn Read| {
        let mut start = Vec::new();
        text.take(DETECTED_BYTES).read_to_end(&mut start)?;
        Ok(start)
    };
    let found = |start: &[u8]| {
        let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
        if text.trim_ascii_start().starts_with(b"{") {
            Format::Ndjson.ending()
        } else {
            Format::Csv.ending()
        }
    };
    let open = || File::open(path).map_err(|error| unreadable(path, error));
    let damaged = |error: io::Error| unreadable(path, error);
    let start = unpacked(&mut open()?).map_err(damaged)?;
    let file = BufReader::new(Counted {
        file: open()?,
        consumed: Arc::default(),
    });
    if start.starts_with(b"PK\x03\x04") {
        return Ok("zip".to_owned());
    }
    if start.starts_with(&[0x1F, 0x8B]) {
        let start = unpacked(&mut MultiGzDecoder::new(file)).map_err(damaged)?;
        return Ok(format!("{}.gz", found(&start)));
    }
    if start.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) {
        let mut text = zstd::reader(file).map_err(damaged)?;
        return Ok(format!("{}.zst", found(&unpacked(&mut text).map_err(damaged)?)));
    }
    Ok(found(&start).to_owned())
}

/// Number of bytes at the beginning of a text from which its format, CSV or NDJSON, is detected.
const DETECTED_BYTES: u64 = 4 << 10;

/// File to load, with its compression, size and time of modification.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    packing: Packing,
    bytes_total: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// Finds the file at `path`. The file must exist, and its name must have a supported ending.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let packing = packing(&name, &path.display().to_string())?;
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if !metadata.is_file() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{} is not a file", path.display()),
            )
            .with_hint(ENDINGS));
        }
        Ok(Self {
            path: path.to_owned(),
            packing,
            bytes_total: metadata.len(),
            modified: metadata.modified().ok(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file on disk in bytes, whether it is compressed or not.
    pub(super) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Returns the hash of the file's bytes on disk, so that a load recognizes any edit of the
    /// file.
    pub(super) fn content_hash(&self, cancelled: &Cancelled) -> Result<blake3::Hash> {
        let mut file = File::open(&self.path).map_err(|error| unreadable(&self.path, error))?;
        let mut hasher = blake3::Hasher::new();
        let mut bytes = vec![0; READ_BYTES];
        while !cancelled.is_set() {
            match file.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => hasher.update(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(&self.path, error)),
            };
        }
        Ok(hasher.finalize())
    }

    /// Unpacks a packed file to its end and verifies its checksum, before any row is stored.
    /// Without this check, rows of a damaged file would be stored before the damage is found.
    pub(super) fn check_whole(&self, cancelled: &Cancelled) -> Result<()> {
        if matches!(self.packing, Packing::Plain(_)) {
            return Ok(());
        }
        self.read_with(&Arc::default(), |_, text| {
            let mut bytes = vec![0; READ_BYTES];
            while !cancelled.is_set() {
                match text.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(self.read_error(error)),
                }
            }
            Ok(())
        })
    }

    /// Rejects a file that was changed since [`find`](Self::find), because the loaded rows may
    /// differ from its content.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let metadata = std::fs::metadata(&self.path).map_err(|error| unreadable(&self.path, error))?;
        if metadata.len() == self.bytes_total && metadata.modified().ok() == self.modified {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            format!("{} was changed during the load", self.path.display()),
        )
        .with_hint("load it again when it is complete: equal rows are stored once"))
    }

    /// Calls `read` with the format of the file and its unpacked text. `consumed` counts the bytes
    /// that were read from disk.
    pub(super) fn read_with(
        &self,
        consumed: &Arc<AtomicU64>,
        read: impl FnOnce(Format, &mut dyn Read) -> Result<()>,
    ) -> Result<()> {
        let file = File::open(&self.path).map_err(|error| unreadable(&self.path, error))?;
        let mut file = BufReader::with_capacity(
            READ_BYTES,
            Counted {
                file,
                consumed: Arc::clone(consumed),
            },
        );
        match self.packing {
            Packing::Plain(format) => read(format, &mut file),
            Packing::Gzip(format) => read(format, &mut MultiGzDecoder::new(file)),
            Packing::Zstd(format) => match zstd::reader(file) {
                Ok(mut text) => read(format, &mut text),
                Err(error) => Err(self.read_error(error)),
            },
            Packing::Zip => zip::read(self, file, read),
        }
    }

    /// Converts an error that occurred while the text of the file was read or unpacked.
    pub(super) fn read_error(&self, error: io::Error) -> Error {
        let path = self.path.display();
        let packed = !matches!(self.packing, Packing::Plain(_));
        match error.kind() {
            // An entry of a .zip may have an unsupported compression method, which only
            // reading the entry reveals.
            io::ErrorKind::Unsupported if packed => Error::new(
                ErrorKind::InvalidArgument,
                format!("the compression of {path} is not supported: {error}"),
            )
            .with_hint("unpack the file, and load the result")
            .with_source(error),
            io::ErrorKind::UnexpectedEof if packed => Error::new(
                ErrorKind::Io,
                format!(
                    "the data in {path} end too early: the file is truncated, or has other bytes at its end"
                ),
            )
            .with_hint("copy or download the file again")
            .with_source(error),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other if packed => {
                Error::new(ErrorKind::Io, format!("{path} cannot be unpacked: {error}"))
                    .with_hint("copy or download the file again: it is damaged or truncated")
                    .with_source(error)
            }
            _ => unreadable(&self.path, error),
        }
    }
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound {
        ErrorKind::NotFound
    } else {
        ErrorKind::Io
    };
    let message = match kind {
        ErrorKind::NotFound => format!("there is no file {}", path.display()),
        _ => format!("{} cannot be read: {error}", path.display()),
    };
    Error::new(kind, message)
        .with_hint("check the path and the permissions")
        .with_source(error)
}

/// File that counts the bytes that are read from it.
pub(super) struct Counted {
    file: File,
    consumed: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(bytes)?;
        self.consumed.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        // The directory of a .zip archive is read twice. Set the count to the position, so that the
        // bytes of the directory count only once.
        let position = self.file.seek(to)?;
        self.consumed.store(position, Ordering::Relaxed);
        Ok(position)
    }
}
