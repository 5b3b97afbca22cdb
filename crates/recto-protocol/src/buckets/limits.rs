//! Limits and waiting times of the protocol for buckets.

use crate::buckets::rules::Rules;

/// Maximum number of ranges that one read of a range map (which bucket holds which keys) returns. A
/// larger range map is read in several windows.
pub const MAX_WINDOW_PIECES: usize = 256;
/// Maximum number of slices (parts of buckets to read) that one lookup in a range map returns.
/// Further slices need another lookup.
pub const MAX_SLICES: usize = 32;
/// Maximum number of keys at which one split divides a bucket.
pub const MAX_CUT_EDGES: usize = 128;
/// Maximum number of adjacent ranges that one join combines.
pub const MAX_JOINED_PIECES: usize = 64;
/// Maximum number of buckets of a key range in each role except "read" (receiving writes, receiving
/// deletions, old). So a range may be split about this number of times before the first split is
/// finished.
pub const MAX_FURTHER_BUCKETS: usize = 32;
/// Maximum length of a range's start key, in bytes: the maximum of a clustering key in the stores.
pub const MAX_EDGE_BYTES: usize = 65_535;
/// Maximum version of a range map, and maximum id of a bucket: the maximum of a signed 64-bit
/// column.
pub const MAX_NUMBER: u64 = i64::MAX as u64;
/// Time for which a process may use a cached range map, in milliseconds, if the partition is being
/// split, will soon be split, or has no range map.
pub const SHORT_LIFE_MS: u64 = 2_000;
/// Time for which a process may use a cached range map, in milliseconds, if no split is expected.
pub const LONG_LIFE_MS: u64 = 20_000;
/// Time for which the clocks of a process may stop without harm, in milliseconds. Waits for the
/// expiry of cached range maps are longer by this time.
pub const STANDSTILL_MS: u64 = 3_000;
/// Time after which an old bucket (one that a split left) is deleted, in milliseconds. It is much
/// longer than the time for which clocks may stop.
pub const CLEARING_MS: u64 = 3_600_000;
/// Maximum number of parts of the wait of [`CLEARING_MS`]. After each part, the process counts the
/// old buckets. If there are many, it deletes old buckets earlier.
pub const MAX_CLEARING_LOOKS: u32 = 24;

/// Parameters of the protocol for buckets: the times that it waits, and its enabled rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// Lifetime of a cached range map while a partition is split, and if it has no range map, in
    /// milliseconds.
    pub short_life_ms: u64,
    /// Lifetime of a cached range map (which bucket holds which keys) if no split is expected, in
    /// milliseconds.
    pub long_life_ms: u64,
    /// Time for which the clocks of a process may stop without harm, in milliseconds.
    pub standstill_ms: u64,
    /// Time after which an old bucket (left by a split) is deleted, in milliseconds.
    pub clearing_ms: u64,
    /// Number of parts of the wait of `clearing_ms`, 1 to [`MAX_CLEARING_LOOKS`]. Old buckets are
    /// counted after each part.
    pub clearing_looks: u32,
    /// Enabled rules: all rules, except in tests.
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
    /// Returns the time to wait until no process uses a cached range map with this lifetime, in
    /// milliseconds. A process whose clocks stop may use a range map for longer, so `standstill_ms`
    /// is added.
    pub(crate) fn wait_ms(&self, longest_ms: u64) -> u64 {
        if self.rules.keeps(crate::buckets::rules::Rule::MarginForStandstill) {
            longest_ms.saturating_add(self.standstill_ms)
        } else {
            longest_ms
        }
    }
}
