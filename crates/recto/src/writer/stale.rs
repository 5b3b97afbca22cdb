//! Removal of stale view entries (rows whose record has changed) that pages found, so that later
//! pages do not read them.
//!
//! A removal is a write without conditions at the timestamp of the entry. It may be lost, repeated
//! or delayed without harm, and no caller waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use recto_store::{PartitionWrite, StoreErrorKind, WriteOptions, WriteOutcome};
use tokio::sync::Semaphore;

use super::common::Common;

/// Maximum number of concurrent removals of stale view entries. Later pages that read the other
/// stale entries remove them.
const MAX_AT_ONCE: usize = 8;
/// Minimum time that a removal counts as running. It limits this process to 160 removals per
/// second.
const MIN_TIME: Duration = Duration::from_millis(50);

/// State of the removal of stale view entries (rows whose record has changed).
#[derive(Debug)]
pub(super) struct StaleEntries {
    permits: Arc<Semaphore>,
    may_write: AtomicBool,
    removed: AtomicU64,
}

impl Default for StaleEntries {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            may_write: AtomicBool::new(true),
            removed: AtomicU64::new(0),
        }
    }
}

impl StaleEntries {
    /// Starts the removal of view entries, as far as the limit of concurrent removals permits.
    pub(super) fn remove(common: &Arc<Common>, removals: Vec<PartitionWrite>) {
        let this = &common.stale;
        for removal in removals {
            if common.has_ended() || !this.may_write.load(Ordering::Relaxed) {
                return;
            }
            let Ok(permit) = Arc::clone(&this.permits).try_acquire_owned() else {
                return;
            };
            let common = Arc::clone(common);
            tokio::spawn(async move {
                tokio::join!(common.stale.send(&common, removal), tokio::time::sleep(MIN_TIME));
                drop(permit);
            });
        }
    }

    /// Disables the removal of stale view entries.
    pub(super) fn stop(&self) {
        self.may_write.store(false, Ordering::Relaxed);
    }

    async fn send(&self, common: &Common, removal: PartitionWrite) {
        let options = WriteOptions {
            // A removal at the entry's own timestamp depends on no read, so the time of the last
            // read does not matter.
            looked_nanos: Some(0),
            ..common.write_options()
        };
        match common.store.write(removal, options).await {
            Ok(WriteOutcome::Done) => Common::count(&self.removed),
            Ok(WriteOutcome::Refused(error)) | Err(error) if error.kind() == StoreErrorKind::Unauthorized => {
                self.may_write.store(false, Ordering::Relaxed);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Returns the number of stale view entries that this process has removed.
    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }
}
