//! Numbers of the log for operators.

use std::sync::atomic::{AtomicU64, Ordering};

/// State of a store's commit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatistics {
    /// Size of the log files in bytes; 0 if the store has no log.
    pub file_bytes: u64,
    /// Number of bytes of the records since the last checkpoint.
    pub record_bytes: u64,
    /// Number of records that were written since the store was opened.
    pub records: u64,
    /// Number of checkpoints since the store was opened.
    pub checkpoints: u64,
    /// Time of the last checkpoint, in microseconds since 1970; 0 if there was none since the store was
    /// opened.
    pub last_checkpoint_micros: i64,
    /// Number of records that were applied again when the store was opened.
    pub replayed_records: u64,
    /// Number of incomplete last records that were found when the store was opened.
    pub incomplete_records: u64,
}

/// Counters behind [`LogStatistics`], which callers read while the writer changes them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(super) file_bytes: AtomicU64,
    pub(super) record_bytes: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) checkpoints: AtomicU64,
    pub(super) last_checkpoint_micros: AtomicU64,
    pub(super) replayed_records: AtomicU64,
    pub(super) incomplete_records: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> LogStatistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogStatistics {
            file_bytes: get(&self.file_bytes),
            record_bytes: get(&self.record_bytes),
            records: get(&self.records),
            checkpoints: get(&self.checkpoints),
            last_checkpoint_micros: get(&self.last_checkpoint_micros).cast_signed(),
            replayed_records: get(&self.replayed_records),
            incomplete_records: get(&self.incomplete_records),
        }
    }
}
