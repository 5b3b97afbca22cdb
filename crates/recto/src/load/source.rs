//! The file: what its name says it is, and its text as a stream.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use zip::ZipArchive;
use zip::result::ZipError;

use super::pipeline::Cancelled;
use crate::error::{Error, ErrorKind, Result};

/// How much of the file is read from the operating system at once.
const READ_BYTES: usize = 256 << 10;

/// How many names of an archive's entries a message lists.
const MAX_LISTED_ENTRIES: usize = 10;

const ENDINGS: &str = "a file to load ends in .csv, .ndjson or .jsonl, or one of these with .gz or .zst after it, \
                       or is a .zip that holds one such file";

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Comma-separated values with a header row (RFC 4180).
    Csv,
    /// One JSON object a line.
    Ndjson,
}

impl Format {
    fn of_name(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }

    /// The ending of files in this format, without the dot.
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

/// What a file's name says that it is; `shown` is how errors name it.
fn packing(name: &str, shown: &str) -> Result<Packing> {
    Packing::of_name(name).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("{shown} is of no kind that can be loaded"),
        )
        .with_hint(ENDINGS)
    })
}

/// Whether a file of this name can be loaded.
///
/// # Errors
/// Its ending is none of those that can.
pub fn check_load_name(name: &str) -> Result<()> {
    packing(name, &format!("{name:?}")).map(|_| ())
}

/// Whether a file is there and can be loaded by its name; its length in bytes.
///
/// # Errors
/// It is not there, no file, or its ending is none of those that can be loaded.
pub fn check_load_file(path: &Path) -> Result<u64> {
    Ok(Source::find(path)?.bytes_total)
}

/// A file to load.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    packing: Packing,
    bytes_total: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// The file at `path`, which must be there and have an ending that says what it is.
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

    /// Its size as it lies there, compressed or not.
    pub(super) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// The hash of the whole content as it lies there, so that a file edited anywhere is another.
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

    /// Unpacks a packed file to its end, where its checksum stands: rows of one that is damaged would
    /// be stored before that is known.
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

    /// Refuses a file that was written to since it was found: what was loaded is not what it holds.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let metadata = std::fs::metadata(&self.path).map_err(|error| unreadable(&self.path, error))?;
        if metadata.len() == self.bytes_total && metadata.modified().ok() == self.modified {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            format!("{} was changed while it was loaded", self.path.display()),
        )
        .with_hint("load it again when it is complete: rows that are the same are stored once"))
    }

    /// Gives the file's format and text to `read`; `consumed` counts the bytes of the file.
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
            Packing::Zstd(format) => read(format, &mut ZstdReader::new(file)),
            Packing::Zip => self.read_zip(file, read),
        }
    }

    fn read_zip(
        &self,
        file: BufReader<Counted>,
        read: impl FnOnce(Format, &mut dyn Read) -> Result<()>,
    ) -> Result<()> {
        let mut archive = ZipArchive::new(file).map_err(|error| self.zip_error(error))?;
        let mut loadable = Vec::new();
        let mut others = Vec::new();
        for index in 0..archive.len() {
            let entry = archive
                .by_index_raw(index)
                .map_err(|error| self.zip_error(error))?;
            let name = entry.name().map_err(|error| self.zip_error(error))?.into_owned();
            // macOS keeps a shadow of each file under this name.
            if !entry.is_file() || name.starts_with("__MACOSX/") {
                continue;
            }
            match Format::of_name(&name) {
                Some(format) => loadable.push((index, format, name)),
                None => others.push(name),
            }
        }
        let refuse = |message: &str, names: &[String], hint: &str| {
            let message = format!("{} {message}: {}", self.path.display(), listed(names));
            Err(Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
        };
        match loadable.as_slice() {
            [(index, format, _)] => {
                let mut entry = archive.by_index(*index).map_err(|error| self.zip_error(error))?;
                read(*format, &mut entry)
            }
            [] => refuse("holds no .csv or .ndjson file", &others, ENDINGS),
            several => {
                let names: Vec<String> = several.iter().map(|(_, _, name)| name.clone()).collect();
                refuse(
                    "holds several files",
                    &names,
                    "unpack it and load them one by one",
                )
            }
        }
    }

    fn zip_error(&self, error: ZipError) -> Error {
        let path = self.path.display();
        match error {
            ZipError::Io(error) => self.read_error(error),
            ZipError::UnsupportedArchive(_)
            | ZipError::CompressionMethodNotSupported(_)
            | ZipError::InvalidPassword => Error::new(
                ErrorKind::InvalidArgument,
                format!("{path} is packed in a way that cannot be read here: {error}"),
            )
            .with_hint("unpack it and load what is in it")
            .with_source(error),
            error => Error::new(
                ErrorKind::Io,
                format!("{path} is not a whole zip archive: {error}"),
            )
            .with_hint("it may be truncated: copy or download it again")
            .with_source(error),
        }
    }

    /// What a failure while reading the text says of the file.
    pub(super) fn read_error(&self, error: io::Error) -> Error {
        let path = self.path.display();
        let packed = !matches!(self.packing, Packing::Plain(_));
        match error.kind() {
            // A .zip's other ways of packing are found when its entry is read.
            io::ErrorKind::Unsupported if packed => Error::new(
                ErrorKind::InvalidArgument,
                format!("{path} is packed in a way that cannot be read here: {error}"),
            )
            .with_hint("unpack it and load what is in it")
            .with_source(error),
            io::ErrorKind::UnexpectedEof if packed => Error::new(
                ErrorKind::Io,
                format!("{path} ends in the middle of what it holds: it is truncated or has other bytes at its end"),
            )
            .with_hint("copy or download it again")
            .with_source(error),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other if packed => {
                Error::new(ErrorKind::Io, format!("{path} cannot be unpacked: {error}"))
                    .with_hint("it is damaged or truncated: copy or download it again")
                    .with_source(error)
            }
            _ => unreadable(&self.path, error),
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "it holds no files".to_owned();
    }
    let shown = names[..names.len().min(MAX_LISTED_ENTRIES)].join(", ");
    match names.len().saturating_sub(MAX_LISTED_ENTRIES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
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

/// A file that counts what was read of it.
struct Counted {
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
        // Where it stands, so that what is read twice (an archive's directory) counts once.
        let position = self.file.seek(to)?;
        self.consumed.store(position, Ordering::Relaxed);
        Ok(position)
    }
}

/// The text of Zstandard frames, one after the other (RFC 8878), checksums verified.
struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdReader<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            decoder: FrameDecoder::new(),
            in_frame: false,
        }
    }

    fn begin_frame(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.source) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                if skipped < length.into() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.in_frame = false;
        match (
            self.decoder.get_checksum_from_data(),
            self.decoder.get_calculated_checksum(),
        ) {
            (Some(written), Some(found)) if written != found => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checksum of a frame does not match",
            )),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin_frame()?;
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(bytes);
            } else if self.decoder.is_finished() {
                self.end_frame()?;
            } else {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
        }
    }
}
