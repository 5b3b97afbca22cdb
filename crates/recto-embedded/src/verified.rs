//! The engine's file, whose pages are verified as they are read.
//!
//! The engine keeps a checksum of each page beside the number that leads to it, and does not look at it when
//! it reads the page. On a damaged page it then passes over rows, or panics, or writes over pages that are in
//! use; where it panics with a lock held it panics again while it unwinds, and that ends the process. So the
//! checksum is looked at here, below the engine. What a page says of others is learnt when it is read and
//! holds; what is written is remembered. A page that does not hold is not given to the engine: it gets
//! one that is of no kind, which it refuses before it has changed anything.
//!
//! Pages of rows are the exception: each row has a checksum of its own, so that one damaged row does not take
//! its neighbours with it. They are given as they are, and noted.

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

/// The most units of a file whose checksums are remembered, in five bytes each: those of 128 GiB. Pages
/// beyond are read as they are; the scrub and a check look at them.
pub const MAX_VERIFIED_PAGES: usize = 1 << 25;

/// How often a page is read before it is said to be damaged.
const READS: usize = 2;

thread_local! {
    /// How many times this thread asked the file for a page.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// How many pages this thread has asked the file for: those that the engine has in memory it does not ask for.
#[inline]
pub(crate) fn pages_asked() -> u64 {
    ASKED.get()
}

/// Damaged pages that were met, by whoever uses the store.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Opening after a crash looks at pages that may be half written.
    is_open: AtomicBool,
    /// Where they begin.
    offsets: Mutex<BTreeSet<u64>>,
}

impl Met {
    /// From now on a page that does not hold is damage.
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

    /// Where the damaged pages begin, at most [`MAX_PROBLEMS`].
    pub(crate) fn all(&self) -> Vec<u64> {
        self.offsets().iter().copied().collect()
    }
}

/// A file of the engine's, verified.
#[derive(Debug)]
pub(crate) struct Verified<B> {
    file: B,
    met: Arc<Met>,
    known: Mutex<Known>,
}

/// What is known of the units of the file: of a page's first one, how it must read.
#[derive(Debug, Default)]
struct Known {
    geometry: Option<Geometry>,
    layouts: Vec<Layout>,
    /// The low bytes of a checksum.
    sums: Vec<u32>,
    /// What the checksum is of.
    kinds: Vec<u8>,
}

/// Nothing is known.
const UNKNOWN: u8 = 0;
/// The whole page, as it was written.
const WRITTEN: u8 = 1;
/// The part that is in use, as its parent has it; the layouts follow in the order they were met.
const FIRST_LAYOUT: u8 = 2;

/// How a page must read.
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

    /// Whether a page reads as it must; what it says of others is learnt then.
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

    /// Whether it is a page of rows, each of which has a checksum.
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
        // Unknown while it is being written, and if that fails.
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
