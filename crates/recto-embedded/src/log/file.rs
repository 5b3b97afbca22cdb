//! Log files: their header, their preparation, and the folder that contains them.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use recto_store::{StoreError, StoreErrorKind};

use super::position::Id;
use crate::directory::{open_private, raise_format, sync_directory};
use crate::error::file;

/// Version of the header of a log file.
pub const LOG_FORMAT_VERSION: u32 = 1;
/// Size of a new store's first log file, in bytes. Each later file has twice the size of the one before.
pub const FIRST_LOG_BYTES: u64 = 1 << 20;
/// Default maximum size of a log file, in bytes.
pub const DEFAULT_LOG_BYTES: u64 = 16 << 20;
/// Minimum size of a log file in bytes: its header and at least one record of usual size.
pub const MIN_LOG_BYTES: u64 = 16 << 10;
/// Maximum size of a log file in bytes.
pub const MAX_LOG_BYTES: u64 = 256 << 20;
/// Number of log files of a store.
pub(super) const FILES: usize = 2;
/// Offset of the first record of a file.
pub(super) const FIRST_RECORD: u64 = 4_096;

const MAGIC: &[u8; 8] = b"rectolog";
/// Number of bytes of the header.
const HEADER_BYTES: usize = 36;
/// Number of zeros that are written at a time.
const ZEROS_BYTES: usize = 256 << 10;

/// File of the log.
pub(crate) trait LogFile: Send + Sync {
    /// Returns the size of the file in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads bytes at an offset.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes bytes at an offset, and extends the file if necessary.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Waits until all written bytes are on disk.
    fn sync(&self) -> io::Result<()>;
    /// Gives the space of the file back.
    fn clear(&self) -> io::Result<()>;
}

/// Folder that contains the log files of a store. The files have fixed names and are never renamed.
pub(crate) trait LogFolder: Send + Sync {
    /// Opens a log file. Returns `None` if it does not exist.
    fn open(&self, number: usize) -> io::Result<Option<Arc<dyn LogFile>>>;
    /// Opens a log file, and creates it if it does not exist.
    fn create(&self, number: usize) -> io::Result<Arc<dyn LogFile>>;
    /// Waits until the names of all files are on disk.
    fn sync(&self) -> Result<(), StoreError>;
    /// Stores the format version of stores with a log.
    fn raise_format(&self) -> Result<(), StoreError>;
    /// Runs work on a second thread. Returns the thread, unless the work is done already.
    fn run_beside(&self, work: Box<dyn FnOnce() + Send>) -> Option<JoinHandle<()>>;
    /// Returns the name of a log file for errors.
    fn name(&self, number: usize) -> String;
}

/// Folder of a store on disk.
#[derive(Debug)]
pub(crate) struct FolderOfStore(pub(crate) PathBuf);

impl FolderOfStore {
    /// Returns the size of the log files in bytes. Files that cannot be read do not count.
    pub(crate) fn bytes(&self) -> u64 {
        let files = (0..FILES).filter_map(|number| std::fs::metadata(self.0.join(file_name(number))).ok());
        files.map(|file| file.len()).sum()
    }

    /// Renames the log files, so that the store continues without them.
    pub(crate) fn set_aside(&self) -> Result<(), StoreError> {
        for number in 0..FILES {
            let path = self.0.join(file_name(number));
            let aside = self.0.join(format!("{}.dropped", file_name(number)));
            match std::fs::rename(path, aside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(file("cannot rename the commit log", error));
                }
                _ => {}
            }
        }
        sync_directory(&self.0)
    }
}

/// Returns the name of a log file in its folder.
fn file_name(number: usize) -> String {
    format!("log.{number}")
}

impl LogFolder for FolderOfStore {
    fn open(&self, number: usize) -> io::Result<Option<Arc<dyn LogFile>>> {
        let path = self.0.join(file_name(number));
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(Some(Arc::new(DiskFile(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // A process that may only read the store must be able to find its records.
            Err(_) => Ok(Some(Arc::new(DiskFile(File::open(path)?)))),
        }
    }

    fn create(&self, number: usize) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(DiskFile(open_private(&self.0.join(file_name(number)))?)))
    }

    fn sync(&self) -> Result<(), StoreError> {
        sync_directory(&self.0)
    }

    fn raise_format(&self) -> Result<(), StoreError> {
        raise_format(&self.0)
    }

    fn run_beside(&self, work: Box<dyn FnOnce() + Send>) -> Option<JoinHandle<()>> {
        // If no thread can be started, the store continues without a log.
        let thread = std::thread::Builder::new().name("recto-log".to_owned());
        thread.spawn(work).ok()
    }

    fn name(&self, number: usize) -> String {
        self.0.join(file_name(number)).display().to_string()
    }
}

struct DiskFile(File);

impl LogFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        crate::files::read_at(&self.0, offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        crate::files::write_at(&self.0, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }
}

/// Result of reading the header of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// Log whose records the file contains.
    Log(Id),
    /// The header has the format of a newer release.
    Newer(u32),
    /// The file was never completely prepared, or its header is damaged.
    Invalid,
}

pub(super) fn encode_header(log: Id, number: usize) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&LOG_FORMAT_VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(number as u32).to_le_bytes());
    out[16..32].copy_from_slice(&log);
    let checksum = crc32c::crc32c(&out[..32]);
    out[32..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Reads the header at the start of a file's bytes.
pub(super) fn decode_header(bytes: &[u8], number: usize) -> Header {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Header::Invalid;
    };
    let (content, checksum) = header.split_at(32);
    if &content[..8] != MAGIC || crc32c::crc32c(content).to_le_bytes() != checksum {
        return Header::Invalid;
    }
    let field = |at: usize| content[at..].first_chunk().copied().map_or(0, u32::from_le_bytes);
    if field(8) != LOG_FORMAT_VERSION {
        return Header::Newer(field(8));
    }
    match content[16..].first_chunk() {
        Some(log) if field(12) as usize == number => Header::Log(*log),
        _ => Header::Invalid,
    }
}

/// Log file that can get records.
#[derive(Clone)]
pub(super) struct ReadyFile {
    pub(super) file: Arc<dyn LogFile>,
    pub(super) bytes: u64,
    /// True if the file and its name are certainly on disk. An earlier process may have ended before it
    /// synced them.
    pub(super) is_synced: bool,
}

/// Fills a file with zeros, writes its header, and syncs the file and its folder. The file must contain no
/// record that recovery needs.
pub(super) fn prepare(
    folder: &dyn LogFolder,
    log: Id,
    number: usize,
    bytes: u64,
) -> Result<ReadyFile, StoreError> {
    folder.raise_format()?;
    let filled = |file: Arc<dyn LogFile>| -> io::Result<ReadyFile> {
        let bytes = bytes.max(file.len()?);
        let zeros = vec![0; ZEROS_BYTES];
        let mut done = 0;
        while done < bytes {
            let count = (bytes - done).min(ZEROS_BYTES as u64);
            file.write(done, &zeros[..count as usize])?;
            done += count;
        }
        file.write(0, &encode_header(log, number))?;
        file.sync()?;
        let is_synced = true;
        Ok(ReadyFile {
            file,
            bytes,
            is_synced,
        })
    };
    let failed = |error| unprepared(folder, number, error);
    let file = folder.create(number).map_err(failed)?;
    let ready = filled(Arc::clone(&file)).map_err(|error| {
        // The data file needs the last space of the disk more than the log.
        let _ = file.clear();
        failed(error)
    })?;
    folder.sync()?;
    Ok(ready)
}

#[cold]
fn unprepared(folder: &dyn LogFolder, number: usize, error: io::Error) -> StoreError {
    file(
        &format!("cannot prepare the commit log {}", folder.name(number)),
        error,
    )
}

/// Log file with its first bytes: the header, and the header of the first record.
pub(super) struct OpenedFile {
    pub(super) file: Arc<dyn LogFile>,
    pub(super) bytes: u64,
    pub(super) start: Vec<u8>,
    name: String,
}

/// Opens a log file, and reads its first bytes. Returns `None` if the file does not exist.
pub(super) fn open_file(folder: &dyn LogFolder, number: usize) -> Result<Option<OpenedFile>, StoreError> {
    let name = folder.name(number);
    let Some(file) = folder.open(number).map_err(|error| unreadable(&name, error))? else {
        return Ok(None);
    };
    let bytes = file.len().map_err(|error| unreadable(&name, error))?;
    if bytes > MAX_LOG_BYTES {
        return Err(StoreError::new(
            StoreErrorKind::Corrupt,
            format!("the commit log {name} has {bytes} bytes"),
        )
        .with_hint("restore the store's folder from a backup"));
    }
    let mut opened = OpenedFile {
        file,
        bytes,
        start: Vec::new(),
        name,
    };
    opened.start = opened.read(FIRST_RECORD + super::record::HEADER_BYTES as u64)?;
    Ok(Some(opened))
}

impl OpenedFile {
    /// Returns all bytes of the file.
    pub(super) fn read_whole(&self) -> Result<Vec<u8>, StoreError> {
        self.read(self.bytes)
    }

    fn read(&self, bytes: u64) -> Result<Vec<u8>, StoreError> {
        let mut content = vec![0; bytes.min(self.bytes) as usize];
        let read = self.file.read(0, &mut content);
        read.map_err(|error| unreadable(&self.name, error))?;
        Ok(content)
    }
}

#[cold]
fn unreadable(name: &str, error: io::Error) -> StoreError {
    file(&format!("cannot read the commit log {name}"), error)
}
