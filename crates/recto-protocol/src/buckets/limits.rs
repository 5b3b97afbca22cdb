//! How much there may be of everything, and for how long things wait.

use crate::buckets::rules::Rules;

/// Pieces of a directory that are read at once; further ones come in further windows.
pub const MAX_WINDOW_PIECES: usize = 256;
/// Slices of buckets that are read by one look at a directory; further ones are read by a further one.
pub const MAX_SLICES: usize = 32;
/// Edges of one cut.
pub const MAX_CUT_EDGES: usize = 128;
/// Buckets beside the one that is read, of each kind, that a piece has: so often it may be cut before a cut is done with.
pub const MAX_FURTHER_BUCKETS: usize = 32;
/// Bytes of an edge: of a clustering key, as the stores take them.
pub const MAX_EDGE_BYTES: usize = 65_535;
/// Of versions and of numbers of buckets: as much as a column of 64 bits with a sign holds.
pub const MAX_NUMBER: u64 = i64::MAX as u64;
/// For how long a copy of a directory is gone by while the partition is cut or about to be, and where there is none.
pub const SHORT_LIFE_MS: u64 = 2_000;
/// The same, while nothing of the kind is to be expected.
pub const LONG_LIFE_MS: u64 = 20_000;
/// For how long a process' clocks may stand still without anything being wrong.
pub const STANDSTILL_MS: u64 = 3_000;
/// When a bucket that was left is looked at once more: much later than clocks stand still.
pub const CLEARING_MS: u64 = 3_600_000;
/// In how many parts that is waited: after each it is looked whether so many buckets were left meanwhile that what is there goes sooner.
pub const MAX_CLEARING_LOOKS: u32 = 24;

/// What the protocol goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// How long a copy lives while a partition is cut, and where there is no directory.
    pub short_life_ms: u64,
    /// How long a copy lives else.
    pub long_life_ms: u64,
    /// For how long clocks may stand still.
    pub standstill_ms: u64,
    /// After how long a bucket that was left is looked at once more.
    pub clearing_ms: u64,
    /// In how many parts that is waited, [`MAX_CLEARING_LOOKS`] at most.
    pub clearing_looks: u32,
    /// The rules that are kept: all, but in tests.
    pub(crate) rules: Rules,
}

impl Default for Protocol {
    fn default() -> Self {
        Self {
            short_life_ms: SHORT_LIFE_MS,
            long_life_ms: LONG_LIFE_MS,
            standstill_ms: STANDSTILL_MS,
            clearing_ms: CLEARING_MS,
            clearing_looks: MAX_CLEARING_LOOKS,
            rules: Rules::default(),
        }
    }
}

impl Protocol {
    /// How long to wait until no copy is gone by that may live for so long: it may be held by a process whose clocks stand
    /// still.
    pub(crate) fn wait_ms(&self, longest_ms: u64) -> u64 {
        if self.rules.keeps(crate::buckets::rules::Rule::MarginForStandstill) {
            longest_ms.saturating_add(self.standstill_ms)
        } else {
            longest_ms
        }
    }
}
