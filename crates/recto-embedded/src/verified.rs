//! File of the engine, whose pages are verified whenever they are read.
//!
//! The engine stores the checksum of each page in the page that refers to it. It does not verify the checksum
//! when it reads the page. On a damaged page, the engine skips rows, panics, or overwrites pages that are in
//! use. If the engine panics while it holds a lock, it panics again while it unwinds, which ends the process.
//! This module therefore verifies the checksum, below the engine. When it reads a valid page, it records the
//! checksums of the pages to which that page refers. It also records the checksum of each page that is
//! written. Instead of a damaged page, the engine gets a page of an unknown kind, which it rejects before it
//! has changed anything.
//!
//! Pages of rows are an exception: a damaged one is returned as it is, and recorded. Each row has its own
//! checksum, so one damaged row does not make its neighbors unreadable.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::met_damage;
use crate::limits::MAX_PROBLEMS;
use crate::pages::{self, Child, Entries, Geometry, Header, LEAF, Layout, PAGE_BYTES};

/// Maximum number of units of a file whose checksums are recorded: the units of 128 GiB, with five bytes of
/// memory for each. Reads do not verify pages beyond this part of the file. The scrub and a check verify all
/// pages.
pub const MAX_VERIFIED_PAGES: usize = 1 << 25;

/// Number of reads of a page before it is reported as damaged.
const READS: usize = 2;

thread_local! {
    /// Number of times that this thread requested a page from the file.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of pages that this thread has requested from the file. The engine does not request pages that it
/// has in memory.
#[inline]
pub(crate) fn pages_asked() -> u64 {
    ASKED.get()
}

/// Damaged pages that were read since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// True if the store is open. While the store is being opened after a crash, pages may be written only in
    /// part, which is not damage.
    is_open: AtomicBool,
    /// Offsets of the damaged pages in the file, in bytes.
    offsets: Mutex<BTreeSet<u64>>,
}

impl Met {
    /// Starts the record: from now on, a page that is not valid counts as damage.
    pub(crate) fn begin(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    fn offsets(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, offset: u64) {
        let mut offsets = self.offsets();
        if self.is_open.load(Ordering::Relaxed) && offsets.len() < MAX_PROBLEMS {
            offsets.insert(offset);
        }
    }

    fn forget(&self, from: u64, to: u64) {
        let mut offsets = self.offsets();
        if !offsets.is_empty() {
            offsets.retain(|offset| !(from..to).contains(offset));
        }
    }

    /// Returns the offsets of the damaged pages, at most [`MAX_PROBLEMS`].
    pub(crate) fn all(&self) -> Vec<u64> {
        self.offsets().iter().copied().collect()
    }
}

/// File of the engine that verifies pages when they are read.
#[derive(Debug)]
pub(crate) struct Verified<B> {
    file: B,
    met: Arc<Met>,
    known: Mutex<Known>,
}

/// Recorded checksums of pages, by unit of the file. The checksum of a page is recorded at its first unit.
#[derive(Debug, Default)]
struct Known {
    geometry: Option<Geometry>,
    layouts: Vec<Layout>,
    /// Low four bytes of the recorded checksums, by unit (4 KiB) of the file.
    sums: Vec<u32>,
    /// Kinds of the checksums, by unit: [`UNKNOWN`], [`WRITTEN`], or [`FIRST_LAYOUT`] plus the index of a
    /// layout.
    kinds: Vec<u8>,
}

/// Kind of a recorded checksum: none is recorded.
const UNKNOWN: u8 = 0;
/// Kind of a recorded checksum: of the whole page, as it was written.
const WRITTEN: u8 = 1;
/// Kind of a recorded checksum: of the used part of the page, as its parent stores it, in the first recorded
/// layout. Each further layout has the next kind.
const FIRST_LAYOUT: u8 = 2;

/// Checksum that a page must have, and the bytes of the page that it covers.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Written(u32),
    Child(u32, Layout),
}

impl Known {
    fn expected(&self, offset: u64) -> Option<Expected> {
        let at = usize::try_from(offset / PAGE_BYTES).ok()?;
        let sum = *self.sums.get(at)?;
        match *self.kinds.get(at)? {
            UNKNOWN => None,
            WRITTEN => Some(Expected::Written(sum)),
            kind => {
                let layout = self.layouts.get(usize::from(kind - FIRST_LAYOUT))?;
                Some(Expected::Child(sum, *layout))
            }
        }
    }

    fn set(&mut self, offset: u64, sum: u32, kind: u8) {
        let at = usize::try_from(offset / PAGE_BYTES).unwrap_or(usize::MAX);
        if at >= MAX_VERIFIED_PAGES {
            return;
        }
        if at >= self.kinds.len() {
            self.sums.resize(at + 1, 0);
            self.kinds.resize(at + 1, UNKNOWN);
        }
        self.sums[at] = sum;
        self.kinds[at] = kind;
    }

    fn learn(&mut self, child: &Child) {
        let Some(checksum) = child.checksum else { return };
        let index = match self.layouts.iter().position(|known| *known == child.layout) {
            Some(index) => index,
            None if self.layouts.len() < usize::from(u8::MAX - FIRST_LAYOUT) => {
                self.layouts.push(child.layout);
                self.layouts.len() - 1
            }
            None => return,
        };
        self.set(child.offset, checksum as u32, FIRST_LAYOUT + index as u8);
    }

    fn forget(&mut self, from: u64, to: u64) {
        let unit = |offset: u64| {
            usize::try_from(offset / PAGE_BYTES)
                .unwrap_or(usize::MAX)
                .min(self.kinds.len())
        };
        let units = unit(from)..unit(to.saturating_add(PAGE_BYTES - 1));
        self.kinds[units].fill(UNKNOWN);
    }

    fn learn_header(&mut self, bytes: &[u8]) {
        if let Some(header) = Header::read(bytes) {
            self.geometry = Some(header.geometry);
            for root in &header.roots {
                self.learn(root);
            }
        }
    }
}

impl<B: StorageBackend> Verified<B> {
    pub(crate) fn new(file: B, met: Arc<Met>) -> Self {
        Self {
            file,
            met,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a page is valid. Records the checksums of other pages that a valid page contains.
    fn holds(&self, offset: u64, page: &[u8]) -> bool {
        let (expected, geometry) = {
            let known = self.known();
            (known.expected(offset), known.geometry)
        };
        match expected {
            None => true,
            Some(Expected::Written(sum)) => sum == xxh3_64(page) as u32,
            Some(Expected::Child(sum, layout)) => {
                if pages::checksum(page, layout).map(|checksum| checksum as u32) != Some(sum) {
                    return false;
                }
                if let Some(geometry) = geometry {
                    let children = pages::children(page, layout, geometry);
                    let mut known = self.known();
                    for child in &children {
                        known.learn(child);
                    }
                }
                true
            }
        }
    }

    /// Returns whether the page is a leaf of rows, each of which has its own checksum. Such a page is passed
    /// to the engine although it is damaged.
    fn is_rows(&self, offset: u64, page: &[u8]) -> bool {
        let of_rows = match self.known().expected(offset) {
            Some(Expected::Child(_, layout)) => layout.entries == Entries::Rows,
            _ => true,
        };
        of_rows && page.first() == Some(&LEAF)
    }
}

impl<B: StorageBackend> StorageBackend for Verified<B> {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        ASKED.set(ASKED.get() + 1);
        if offset < PAGE_BYTES {
            self.file.read(offset, out)?;
            if offset == 0 {
                self.known().learn_header(out);
            }
            return Ok(());
        }
        for _ in 0..READS {
            self.file.read(offset, out)?;
            if self.holds(offset, out) {
                return Ok(());
            }
        }
        self.met.add(offset);
        if !self.is_rows(offset, out) {
            met_damage(offset);
            out.fill(0);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.known().forget(len, u64::MAX - PAGE_BYTES);
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < PAGE_BYTES {
            self.file.write(offset, data)?;
            if offset == 0 {
                self.known().learn_header(data);
            }
            return Ok(());
        }
        let end = offset + data.len() as u64;
        // Forget the old checksum before the write, so that the range has no checksum while it is
        // written or if the write fails.
        self.known().forget(offset, end);
        self.file.write(offset, data)?;
        self.met.forget(offset, end);
        self.known().set(offset, xxh3_64(data) as u32, WRITTEN);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
