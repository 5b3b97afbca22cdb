//! Splits of buckets in advance, before many rows are written. On Cassandra, a split that begins when a bucket is full
//! takes longer than filling the next bucket takes.

use std::sync::Arc;
use std::time::Duration;

use crate::core::CollectionCore;

/// Default sampling interval: one of this number of rows is passed to the store as a sample.
pub(crate) const ROOM_EACH: u32 = 16;
/// Factor by which the sampling interval grows if the sample is too large.
pub(crate) const ROOM_FEWER: u32 = 4;
/// Maximum number of rows of a sample, for all collections together.
pub(crate) const MAX_ROOM_ROWS: u64 = 65_536;
/// Maximum time to wait for splits in advance. After it, writing begins with the existing buckets. A split takes 20 s.
/// If another process left a split unfinished, completing that split takes twice as long before.
pub(crate) const MAX_ROOM_TIME: Duration = Duration::from_secs(180);

/// Time at which buckets are split in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomMaking {
    /// Never, because no table is kept in buckets.
    No,
    /// For each buffer of rows, which is in memory anyway. A split is one transaction here.
    Steps,
    /// Once for all rows, because the caller waits for splits here.
    Once,
}

impl RoomMaking {
    /// Returns the mode for rows of collections of one store.
    pub(crate) fn of(collections: &[Arc<CollectionCore>]) -> Self {
        let mut sort_orders = collections.iter().flat_map(|core| &core.sort_orders);
        let are_in_buckets = sort_orders.any(|one| one.table.options().buckets.is_some());
        let store = collections.first().and_then(|core| core.shared.buckets.as_ref());
        match store.filter(|_| are_in_buckets) {
            None => Self::No,
            Some(store) if store.counts() => Self::Steps,
            Some(_) => Self::Once,
        }
    }
}

/// Returns whether the sample contains a row, by the row's number. The sample contains one of each `each` consecutive
/// rows. Its position varies, because the content of the rows may be periodic.
pub(crate) fn is_drawn(row: u64, each: u32) -> bool {
    let each = u64::from(each);
    // The constant has the bits of the golden ratio, whose multiples are spread evenly.
    let drawn = (row / each).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    row % each == drawn % each
}
