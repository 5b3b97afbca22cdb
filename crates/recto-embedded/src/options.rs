//! How to open a store.

use crate::directory::Purpose;

/// The memory for pages that are read and written, unless [`EmbeddedOptions`] say otherwise.
pub const DEFAULT_CACHE_BYTES: usize = 256 << 20;

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddedOptions {
    /// The memory for pages that are read and written.
    pub cache_bytes: usize,
    /// Whether to open without changing anything. Several processes may then, if none writes. A
    /// store that was not closed is brought in order first, as if opened for writing once.
    pub read_only: bool,
    /// Whether a store is made where there is none. What is open read-only makes none.
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
