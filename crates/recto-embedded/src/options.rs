//! Options to open a store.

use crate::directory::Purpose;
use crate::log::{DEFAULT_CHECKPOINT_AFTER, DEFAULT_LOG_BYTES, LogSettings};

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
    /// Maximum size of each of the two files of the commit log, in bytes, from
    /// [`MIN_LOG_BYTES`](crate::MIN_LOG_BYTES) to [`MAX_LOG_BYTES`](crate::MAX_LOG_BYTES); a size outside counts
    /// as the nearest one. 0: every group of writes is a durable commit of the engine.
    pub log_bytes: u64,
    /// Number of bytes of the data file, as an upper estimate, that writes change between two checkpoints. A
    /// larger number makes checkpoints rarer and longer.
    pub checkpoint_after: u64,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            cache_bytes: DEFAULT_CACHE_BYTES,
            read_only: false,
            create: true,
            log_bytes: DEFAULT_LOG_BYTES,
            checkpoint_after: DEFAULT_CHECKPOINT_AFTER,
        }
    }
}

impl EmbeddedOptions {
    pub(crate) fn log(self) -> LogSettings {
        LogSettings {
            log_bytes: self.log_bytes,
            checkpoint_after: self.checkpoint_after,
        }
    }

    pub(crate) fn purpose(self) -> Purpose {
        match self {
            Self { read_only: true, .. } => Purpose::Read,
            Self { create: true, .. } => Purpose::Create,
            _ => Purpose::Write,
        }
    }
}
