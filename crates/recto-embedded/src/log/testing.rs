//! Log files on a storage of a test.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use recto_store::StoreError;

use super::file::{LogFile, LogFolder};
use crate::error::file;

/// Storage of log files, for tests of failing disks. Files are addressed by their number, 0 or 1.
pub trait LogStorage: Send + Sync {
    /// Returns the size of a file in bytes. Returns `None` if the file does not exist.
    ///
    /// # Errors
    /// The storage failed.
    fn len(&self, number: usize) -> io::Result<Option<u64>>;
    /// Creates a file, unless it exists.
    ///
    /// # Errors
    /// The storage failed.
    fn create(&self, number: usize) -> io::Result<()>;
    /// Reads bytes of a file at an offset.
    ///
    /// # Errors
    /// The storage failed.
    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes bytes of a file at an offset, and extends the file if necessary.
    ///
    /// # Errors
    /// The storage failed.
    fn write(&self, number: usize, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Waits until all written bytes of a file are on disk.
    ///
    /// # Errors
    /// The storage failed.
    fn sync(&self, number: usize) -> io::Result<()>;
    /// Sets the size of a file to 0.
    ///
    /// # Errors
    /// The storage failed.
    fn clear(&self, number: usize) -> io::Result<()>;
    /// Waits until the names of all created files are on disk.
    ///
    /// # Errors
    /// The storage failed.
    fn sync_names(&self) -> io::Result<()>;
}

/// Folder of a test. Work of the second thread is done at once, so that operations have a fixed order.
pub(crate) struct FolderOfTest(pub(crate) Arc<dyn LogStorage>);

struct FileOfTest {
    storage: Arc<dyn LogStorage>,
    number: usize,
}

impl LogFile for FileOfTest {
    fn len(&self) -> io::Result<u64> {
        self.storage.len(self.number).map(Option::unwrap_or_default)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(self.number, offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.storage.write(self.number, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync(self.number)
    }

    fn clear(&self) -> io::Result<()> {
        self.storage.clear(self.number)
    }
}

impl FolderOfTest {
    fn file(&self, number: usize) -> Arc<dyn LogFile> {
        Arc::new(FileOfTest {
            storage: Arc::clone(&self.0),
            number,
        })
    }
}

impl LogFolder for FolderOfTest {
    fn open(&self, number: usize) -> io::Result<Option<Arc<dyn LogFile>>> {
        Ok(self.0.len(number)?.map(|_| self.file(number)))
    }

    fn create(&self, number: usize) -> io::Result<Arc<dyn LogFile>> {
        self.0.create(number)?;
        Ok(self.file(number))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.0
            .sync_names()
            .map_err(|error| file("cannot sync the directory", error))
    }

    fn raise_format(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn run_beside(&self, work: Box<dyn FnOnce() + Send>) -> Option<JoinHandle<()>> {
        work();
        None
    }

    fn name(&self, number: usize) -> String {
        format!("log.{number}")
    }
}
