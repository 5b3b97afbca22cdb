//! Splits of buckets before many rows are written. On Cassandra, a split that begins when a bucket is full
//! takes longer than the writes that fill the next bucket.

use std::sync::Arc;
use std::time::Duration;

use crate::core::CollectionCore;

/// Default sampling interval: one of 16 rows is passed to the store as a sample, from which it plans splits.
pub(crate) const ROOM_EACH: u32 = 16;
/// Factor by which the sampling interval grows if the sample has too many rows.
pub(crate) const ROOM_FEWER: u32 = 4;
/// Maximum number of rows of a sample, for all collections together.
pub(crate) const MAX_ROOM_ROWS: u64 = 65_536;
/// Maximum time to wait for splits before writing begins. After this time, the rows are written to the
/// existing buckets. A split takes 20 s. If another process left a split unfinished, its completion takes
/// another 40 s first.
pub(crate) const MAX_ROOM_TIME: Duration = Duration::from_secs(180);

/// Returns whether to split buckets in advance for rows of the given collections of one store. Requires a
/// store with buckets.
pub(crate) fn makes_room(collections: &[Arc<CollectionCore>]) -> bool {
    let mut sort_orders = collections.iter().flat_map(|core| &core.sort_orders);
    let partitions = collections
        .first()
        .and_then(|core| core.shared.partitions.as_ref());
    partitions.is_some_and(|store| store.buckets().is_some())
        && sort_orders.any(|one| one.table.options().buckets.is_some())
}

/// Returns whether the row at index `row` belongs to the sample. The sample contains one of each `each`
/// consecutive rows. The position of the sampled row varies, because the content of the rows may be periodic.
pub(crate) fn is_drawn(row: u64, each: u32) -> bool {
    let each = u64::from(each);
    // The constant has the bits of the golden ratio, whose multiples are spread evenly.
    let drawn = (row / each).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    row % each == drawn % each
}
