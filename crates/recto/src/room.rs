//! Room in buckets for many rows that are about to be written: on Cassandra a cut that begins when a bucket is full takes longer than it takes to
//! load the next one.

use std::sync::Arc;
use std::time::Duration;

use crate::core::CollectionCore;

/// Of so many rows one is told to the store, or fewer.
pub(crate) const ROOM_EACH: u32 = 16;
/// Of how many of these one is left when there are too many.
pub(crate) const ROOM_FEWER: u32 = 4;
/// The most rows that are told, all collections together.
pub(crate) const MAX_ROOM_ROWS: u64 = 65_536;
/// How long it is waited for room; past that it is done with what there is. A cut takes 20 s, and twice that before it where one is gone on with that
/// somebody left half done.
pub(crate) const MAX_ROOM_TIME: Duration = Duration::from_secs(180);

/// When room is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomMaking {
    /// Never: nothing is kept in buckets.
    No,
    /// For some rows at a time, which are there anyway: a cut is one transaction.
    Steps,
    /// Once, for all of them, as cuts are waited for.
    Once,
}

impl RoomMaking {
    /// When it is made for rows of these collections of one store.
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

/// Whether a row is drawn by its number: one of each so many that follow each other, not always the same of them, as what stands there may take
/// turns.
pub(crate) fn is_drawn(row: u64, each: u32) -> bool {
    let each = u64::from(each);
    // The golden ratio's bits: multiples of it are spread evenly.
    let drawn = (row / each).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    row % each == drawn % each
}
