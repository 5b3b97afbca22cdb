//! Options to open a store.

use crate::directory::Purpose;

/// Default size of the cache for pages of the data file, in bytes.
pub const DEFAULT_CACHE_BYTES: usize = 256 << 20;

/// Options to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddedOptions {
    /// Size of the cache for pages of the data file, in bytes.
    pub cache_bytes: usize,
    /// If true, opens the store without changing it. Several processes may read a store at the same time, if
    /// no process writes it. A store that was not closed properly is first opened once for writing, which
    /// repairs it.
    pub read_only: bool,
    /// If true, creates the store if it does not exist. Opening read-only creates no store.
    pub create: bool,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            cache_bytes: DEFAULT_CACHE_BYTES,
            read_only: false,
            create: true,
        }
    }
}

impl EmbeddedOptions {
    pub(crate) fn purpose(self) -> Purpose {
        match self {
            Self { read_only: true, .. } => Purpose::Read,
            Self { create: true, .. } => Purpose::Create,
            _ => Purpose::Write,
        }
    }
}
