//! Store that counts the calls that it receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use recto::store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto::store::{ReadOptions, RowsRead, Snapshot, Store, StoreError};
use recto_model::Slice;

/// Counts of the calls to a store since the last call of [`take`](Self::take).
#[derive(Debug, Default)]
pub(crate) struct Calls {
    snapshots: AtomicU32,
    slices: AtomicU32,
    others: AtomicU32,
}

impl Calls {
    /// Returns the number of snapshots, the number of reads of slices (ranges of rows), and the
    /// number of other reads. Resets the counts to zero.
    pub(crate) fn take(&self) -> (u32, u32, u32) {
        let take = |count: &AtomicU32| count.swap(0, Ordering::Relaxed);
        (take(&self.snapshots), take(&self.slices), take(&self.others))
    }
}

/// Store that counts each call and passes it on to another store.
pub(crate) struct Counting {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) calls: Arc<Calls>,
}

struct CountingSnapshot {
    inner: Arc<dyn Snapshot>,
    calls: Arc<Calls>,
}

fn count(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl StoreWrapper for Counting {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        count(&self.calls.snapshots);
        Arc::new(CountingSnapshot {
            inner: snapshot,
            calls: Arc::clone(&self.calls),
        })
    }
}

#[async_trait]
impl SnapshotWrapper for CountingSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        count(&self.calls.slices);
        self.inner.slice(slice, options).await
    }

    fn on_slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        let read = self.inner.slice_now(slice, options);
        if read.is_some() {
            count(&self.calls.slices);
        }
        read
    }

    fn on_other_read(&self) {
        count(&self.calls.others);
    }
}
