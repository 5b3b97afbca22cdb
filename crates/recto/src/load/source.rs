//! The file to load: its format by its name, and its text as a stream.

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

/// Size of a read from the operating system, in bytes.
const READ_BYTES: usize = 256 << 10;

pub(super) const ENDINGS: &str = "use a file that ends in .csv, .ndjson or .jsonl, optionally with .gz or \
    .zst after it, or a .zip with one such file";

/// Format of records.
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

    /// Returns the ending of files in this format, without the dot.
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

/// Returns the packing and format of a file by its name. Errors name the file as `shown`.
fn packing(name: &str, shown: &str) -> Result<Packing> {
    Packing::of_name(name).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("the format of {shown} is not supported"),
        )
        .with_hint(ENDINGS)
    })
}

/// Checks that a file of this name can be loaded.
///
/// # Errors
/// The ending of the name is not supported.
pub fn check_load_name(name: &str) -> Result<()> {
    packing(name, &format!("{name:?}")).map(|_| ())
}

/// Checks that a file exists and can be loaded by its name. Returns its size in bytes.
///
/// # Errors
/// The file does not exist, is not a regular file, or has an ending that is not supported.
pub fn check_load_file(path: &Path) -> Result<u64> {
    Ok(Source::find(path)?.bytes_total)
}

/// Returns the ending of the format of a file, such as `csv`, `ndjson.gz` or `zip`. The first bytes of the file
/// determine it.
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

/// Number of bytes of text that determine the format.
const DETECTED_BYTES: u64 = 4 << 10;

/// File to load.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    packing: Packing,
    bytes_total: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// Finds the file at `path`, which must exist and have a supported ending.
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

    /// Returns the size of the file in bytes, as it is stored, compressed or not.
    pub(super) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Returns the hash of the whole content as it is stored, so that any edit makes it another file.
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

    /// Unpacks a packed file to its end, where its checksum is. Otherwise rows of a damaged file would be stored before
    /// the damage is known.
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

    /// Rejects a file that was changed since it was found, because the loaded rows may differ from its content.
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

    /// Passes the format and the text of the file to `read`. `consumed` counts the bytes of the file.
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

    /// Returns the error of a failed read of the text.
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

/// File that counts the bytes that were read.
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
        // The directory of an archive is read twice. Set the count to the position, so that its
        // bytes count only once.
        let position = self.file.seek(to)?;
        self.consumed.store(position, Ordering::Relaxed);
        Ok(position)
    }
}
