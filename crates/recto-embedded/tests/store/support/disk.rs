//! Simulated disk in memory, which continues to exist when the store is closed. It can fail, be full, and
//! lose unsynced data in a power cut. The file also has a seeded random generator.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::{SystemTime, UNIX_EPOCH};

use recto_embedded::{EmbeddedOptions, EmbeddedStore, LogStorage};
use recto_model::Environment;
use recto_store::StoreError;
use redb::StorageBackend;

/// Size of the unit that a disk writes completely or not at all, in bytes.
const SECTOR_BYTES: usize = 512;
/// Environment variable with the random seed.
const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
/// Environment variable with the factor for the number of cases.
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
    )
}

pub(crate) fn scale() -> u64 {
    from_environment(SCALE_VARIABLE).unwrap_or(1)
}

/// Returns the seed of this run, and prints it. The printed seed repeats a failed run.
#[allow(clippy::print_stdout)]
pub(crate) fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let seed = from_environment(SEED_VARIABLE).unwrap_or_else(now);
    println!("{SEED_VARIABLE}={seed}");
    seed
}

/// Seeded random generator (Steele, Lea and Flood's `SplitMix64`).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Kind of failure of the disk, after the last operation that succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Writes, growing and syncing report that the disk is full.
    Full,
    /// Writes, growing and syncing fail.
    WritesFail,
    /// All operations fail, including reads.
    AllFails,
}

/// Operation whose effect is lost or torn by a power cut, because it is not synced yet.
#[derive(Debug)]
enum Pending {
    Write(usize, Vec<u8>),
    Length(usize),
}

/// Number of the data file of a disk. The two files of the commit log follow.
const DATA: usize = 0;
/// Number of files of a disk.
const FILES: usize = 3;

#[derive(Debug, Default, Clone)]
struct StoredFile {
    /// Content that reads return, including unsynced operations.
    current: Vec<u8>,
    /// Content that certainly remains after a power cut.
    synced: Vec<u8>,
    exists: bool,
    /// True if the name of the file certainly remains after a power cut.
    has_synced_name: bool,
}

#[derive(Debug)]
struct State {
    files: [StoredFile; FILES],
    /// Unsynced operations of all files in their order, each with the number of its file.
    pending: Vec<(usize, Pending)>,
    /// Number of further operations that succeed before the fault begins.
    left: u64,
    fault: Fault,
    /// Number of operations since the disk was created. The same operations count as for `left`.
    operations: u64,
    /// Number of reads of the data file by each thread.
    reads: HashMap<ThreadId, u64>,
}

/// Simulated disk with a data file and the files of a commit log. Clones share their content and their
/// faults.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub(crate) fn new() -> Self {
        Self::holding(Default::default())
    }

    fn holding(files: [StoredFile; FILES]) -> Self {
        Self(Arc::new(Mutex::new(State {
            files,
            pending: Vec::new(),
            left: u64::MAX,
            fault: Fault::Full,
            operations: 0,
            reads: HashMap::new(),
        })))
    }

    /// Returns a disk that has the current content of this one, also of unsynced operations, as after the
    /// process was killed.
    pub(crate) fn copy(&self) -> Self {
        let mut files = self.lock().files.clone();
        for file in &mut files {
            file.synced.clone_from(&file.current);
            file.has_synced_name = file.exists;
        }
        Self::holding(files)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Sets the number of further operations that succeed. Later operations fail with `fault`.
    pub(crate) fn fail_after(&self, operations: u64, fault: Fault) {
        let mut state = self.lock();
        (state.left, state.fault) = (operations, fault);
    }

    /// Repairs the disk, so that all operations succeed again.
    pub(crate) fn mend(&self) {
        self.lock().left = u64::MAX;
    }

    /// Returns whether operations fail now.
    pub(crate) fn is_failing(&self) -> bool {
        self.lock().left == 0
    }

    /// Returns the current content of the data file, including unsynced operations.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().files[DATA].current.clone()
    }

    /// Changes a byte of the data file, to simulate damage.
    pub(crate) fn set(&self, at: usize, byte: u8) {
        self.lock().files[DATA].current[at] = byte;
    }

    /// Replaces the data file.
    pub(crate) fn set_data(&self, bytes: Vec<u8>) {
        let file = &mut self.lock().files[DATA];
        file.current.clone_from(&bytes);
        file.synced = bytes;
    }

    /// Returns the content of a log file, or `None` if it does not exist.
    pub(crate) fn log(&self, number: usize) -> Option<Vec<u8>> {
        let file = &self.lock().files[1 + number];
        file.exists.then(|| file.current.clone())
    }

    /// Replaces a log file. `None` removes the file.
    pub(crate) fn set_log(&self, number: usize, bytes: Option<Vec<u8>>) {
        let exists = bytes.is_some();
        let bytes = bytes.unwrap_or_default();
        self.lock().files[1 + number] = StoredFile {
            current: bytes.clone(),
            synced: bytes,
            exists,
            has_synced_name: exists,
        };
    }

    pub(crate) fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Returns the number of reads by this thread.
    pub(crate) fn reads_here(&self) -> u64 {
        let state = self.lock();
        state
            .reads
            .get(&std::thread::current().id())
            .copied()
            .unwrap_or(0)
    }

    /// Returns the number of reads by all threads.
    pub(crate) fn reads(&self) -> u64 {
        self.lock().reads.values().sum()
    }

    fn spend(&self, is_read: bool) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        if is_read && state.fault != Fault::AllFails {
            return Ok(state);
        }
        if state.left == 0 {
            let kind = match state.fault {
                Fault::Full => io::ErrorKind::StorageFull,
                Fault::WritesFail | Fault::AllFails => io::ErrorKind::Other,
            };
            return Err(io::Error::new(kind, "the disk fails, as planned"));
        }
        state.left -= 1;
        state.operations += 1;
        Ok(state)
    }

    /// Returns the disk after a power cut at this moment. Any subset of the unsynced sectors may be stored.
    pub(crate) fn cut_power(&self, random: &mut Random) -> Self {
        let state = self.lock();
        let mut files = state.files.clone();
        for file in &mut files {
            file.current.clone_from(&file.synced);
        }
        // Number of quarters (0 to 4) of the unsynced operations that the disk has probably stored.
        let quarters = random.below(5);
        for (number, pending) in &state.pending {
            let bytes = &mut files[*number].current;
            let is_there = random.below(4) < quarters;
            match pending {
                Pending::Length(length) if is_there => bytes.resize(*length, 0),
                Pending::Length(_) => {}
                Pending::Write(offset, data) => {
                    let is_torn = random.below(3) == 0;
                    for (sector, part) in data.chunks(SECTOR_BYTES).enumerate() {
                        let at = offset + sector * SECTOR_BYTES;
                        let stays = if is_torn { random.below(2) == 0 } else { is_there };
                        // If the file did not grow, it has no space for the sector.
                        if stays && at + part.len() <= bytes.len() {
                            bytes[at..at + part.len()].copy_from_slice(part);
                        }
                    }
                }
            }
        }
        for file in &mut files {
            if file.exists && !file.has_synced_name && random.below(2) == 0 {
                *file = StoredFile::default();
            }
            file.synced.clone_from(&file.current);
            file.has_synced_name = file.exists;
        }
        Self::holding(files)
    }

    fn read_file(&self, number: usize, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let mut state = self.spend(true)?;
        if number == DATA {
            *state.reads.entry(std::thread::current().id()).or_default() += 1;
        }
        let found = state.files[number].current.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_file_len(state: &mut State, number: usize, len: usize) {
        state.files[number].current.resize(len, 0);
        state.pending.push((number, Pending::Length(len)));
    }

    fn sync_file(&self, number: usize) -> io::Result<()> {
        let mut state = self.spend(false)?;
        let state = &mut *state;
        let file = &mut state.files[number];
        file.synced.clone_from(&file.current);
        state.pending.retain(|(pending, _)| *pending != number);
        Ok(())
    }

    fn write_file(&self, number: usize, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let mut state = self.spend(false)?;
        if number != DATA && state.files[number].current.len() < start + data.len() {
            Self::set_file_len(&mut state, number, start + data.len());
        }
        state.files[number].current[start..start + data.len()].copy_from_slice(data);
        state.pending.push((number, Pending::Write(start, data.to_vec())));
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.spend(true)?.files[DATA].current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_file(DATA, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_file_len(&mut *self.spend(false)?, DATA, usize::try_from(len).unwrap());
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_file(DATA)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_file(DATA, offset, data)
    }
}

impl LogStorage for Disk {
    fn len(&self, number: usize) -> io::Result<Option<u64>> {
        let state = self.spend(true)?;
        let file = &state.files[1 + number];
        Ok(file.exists.then_some(file.current.len() as u64))
    }

    fn create(&self, number: usize) -> io::Result<()> {
        self.spend(false)?.files[1 + number].exists = true;
        Ok(())
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_file(1 + number, offset, out)
    }

    fn write(&self, number: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_file(1 + number, offset, bytes)
    }

    fn sync(&self, number: usize) -> io::Result<()> {
        self.sync_file(1 + number)
    }

    fn clear(&self, number: usize) -> io::Result<()> {
        Self::set_file_len(&mut *self.spend(false)?, 1 + number, 0);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        for file in &mut self.spend(false)?.files {
            file.has_synced_name = file.exists;
        }
        Ok(())
    }
}

/// Returns options with a small cache and a small log, so that reads and writes reach the disk.
fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.cache_bytes = 64 << 10;
    options.log_bytes = 32 << 10;
    options.checkpoint_after = 512 << 10;
    options
}

/// Opens a store with a commit log.
pub(crate) fn open_on(disk: &Disk) -> Result<Arc<EmbeddedStore>, StoreError> {
    open_with(disk, options())
}

/// Opens a store that ignores the log files of the disk and has no log.
pub(crate) fn open_without_log(disk: &Disk) -> Result<Arc<EmbeddedStore>, StoreError> {
    let disk = disk.clone();
    EmbeddedStore::open_with_backend(move || disk.clone(), None, options(), Environment::system())
}

/// Opens a store whose checkpoints are rare.
pub(crate) fn open_with_long_log(disk: &Disk) -> Result<Arc<EmbeddedStore>, StoreError> {
    let mut options = options();
    options.cache_bytes = 8 << 20;
    options.log_bytes = 1 << 20;
    options.checkpoint_after = 1 << 30;
    open_with(disk, options)
}

pub(crate) fn open_with(disk: &Disk, options: EmbeddedOptions) -> Result<Arc<EmbeddedStore>, StoreError> {
    let log: Arc<dyn LogStorage> = Arc::new(disk.clone());
    let disk = disk.clone();
    EmbeddedStore::open_with_backend(move || disk.clone(), Some(log), options, Environment::system())
}
