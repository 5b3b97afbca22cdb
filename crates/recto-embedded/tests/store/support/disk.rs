//! Simulated disk in memory, which continues to exist when the store is closed. It can fail, be full, and
//! lose unsynced data in a power cut. The file also has a seeded random generator.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::{SystemTime, UNIX_EPOCH};

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
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

#[derive(Debug)]
struct State {
    /// Content that reads return, including unsynced operations.
    current: Vec<u8>,
    /// Content that certainly remains after a power cut.
    synced: Vec<u8>,
    pending: Vec<Pending>,
    /// Number of further operations that succeed before the fault begins.
    left: u64,
    fault: Fault,
    /// Number of operations since the disk was created. The same operations count as for `left`.
    operations: u64,
    /// Number of reads by each thread.
    reads: HashMap<ThreadId, u64>,
}

/// Simulated disk. Clones share their content and their faults.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub(crate) fn new() -> Self {
        Self::holding(Vec::new())
    }

    fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State {
            current: bytes.clone(),
            synced: bytes,
            pending: Vec::new(),
            left: u64::MAX,
            fault: Fault::Full,
            operations: 0,
            reads: HashMap::new(),
        })))
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

    /// Returns the current content, including unsynced operations.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().current.clone()
    }

    /// Changes a byte of the stored content, to simulate damage.
    pub(crate) fn set(&self, at: usize, byte: u8) {
        self.lock().current[at] = byte;
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
        let mut bytes = state.synced.clone();
        // Number of quarters (0 to 4) of the unsynced operations that the disk has probably stored.
        let quarters = random.below(5);
        for pending in &state.pending {
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
        Self::holding(bytes)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.spend(true)?.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let mut state = self.spend(true)?;
        *state.reads.entry(std::thread::current().id()).or_default() += 1;
        let found = state.current.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).unwrap();
        let mut state = self.spend(false)?;
        state.current.resize(len, 0);
        state.pending.push(Pending::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.spend(false)?;
        let state = &mut *state;
        state.synced.clone_from(&state.current);
        state.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let mut state = self.spend(false)?;
        state.current[start..start + data.len()].copy_from_slice(data);
        state.pending.push(Pending::Write(start, data.to_vec()));
        Ok(())
    }
}

/// Returns options with a small cache, so that reads and writes reach the disk.
fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.cache_bytes = 64 << 10;
    options
}

pub(crate) fn open_on(disk: &Disk) -> Result<Arc<EmbeddedStore>, StoreError> {
    let disk = disk.clone();
    EmbeddedStore::open_with_backend(move || disk.clone(), options(), Environment::system())
}
