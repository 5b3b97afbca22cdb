//! Rule for the time of a checkpoint: a durable commit of the engine, after which the records are not needed.
//!
//! A checkpoint writes all pages that the commits since the last one have changed, on the writer's thread. So
//! its duration is limited by the number of these pages. The engine does not report this number, so this
//! module estimates it, from above.

use std::time::Duration;

use super::changes::Changes;

/// Default number of changed bytes of the data file after which a checkpoint follows.
pub const DEFAULT_CHECKPOINT_AFTER: u64 = 32 << 20;
/// Time without writes after which a checkpoint follows.
pub const IDLE_BEFORE_CHECKPOINT: Duration = Duration::from_secs(1);
/// Maximum age of the oldest record at the next write. An older record is followed by a checkpoint.
pub const MAX_RECORD_AGE: Duration = Duration::from_secs(30);

/// Size of a page of the engine, in bytes.
const PAGE_BYTES: u64 = 4_096;
/// Pages that one change can make the engine write: the page of the entry and the pages that lead to it,
/// without those that are common to most changes.
const PAGES_PER_CHANGE: u64 = 3;
/// Pages that each commit adds: the engine's list of pages that the commit made free.
const PAGES_PER_COMMIT: u64 = 1;

/// Changes since the last checkpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SinceCheckpoint {
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    changed_bytes: u64,
    /// Time of the oldest record, in nanoseconds of the monotonic clock.
    oldest_nanos: Option<u64>,
}

impl SinceCheckpoint {
    /// Adds a record with `changes`.
    pub(super) fn add(&mut self, changes: &Changes, record_bytes: u64, now_nanos: u64) {
        self.records += 1;
        self.record_bytes += record_bytes;
        let pages = changes.count() * PAGES_PER_CHANGE + PAGES_PER_COMMIT;
        let long_values = changes.bytes().map_or(0, |bytes| bytes.len() as u64);
        self.changed_bytes += pages * PAGE_BYTES + long_values;
        self.oldest_nanos.get_or_insert(now_nanos);
    }

    /// Returns whether the next commit must be a checkpoint.
    pub(super) fn is_due(&self, checkpoint_after: u64, now_nanos: u64) -> bool {
        let age = |oldest: u64| Duration::from_nanos(now_nanos.saturating_sub(oldest));
        self.changed_bytes >= checkpoint_after
            || self
                .oldest_nanos
                .is_some_and(|oldest| age(oldest) >= MAX_RECORD_AGE)
    }
}
