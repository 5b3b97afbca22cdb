//! Reading records by their keys.

use std::sync::Arc;

use recto_model::{Cells, RowSet};
use recto_plan::SortOrder;
use recto_store::{PointRead, Snapshot};

use super::Collection;
use crate::core::CollectionCore;
use crate::error::Result;
use crate::key::{Key, key_cells};
use crate::present::{Presence, Versioned, version_of};
use crate::writes::mutation;

impl<T> Collection<T> {
    /// Returns the record with the given key, if the record exists.
    ///
    /// # Errors
    /// The key has a different number of values than the collection's key, or values of other types.
    pub async fn get(&self, key: impl Key) -> Result<Option<T>> {
        let found = self.get_versioned(key).await?;
        Ok(found.map(|found| found.record))
    }

    /// Returns the record with the given key and the record's version, if the record exists.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub async fn get_versioned(&self, key: impl Key) -> Result<Option<Versioned<T>>> {
        let core = self.now()?;
        let cells = key_cells(&core, &key)?;
        let Some((rows, sort_order)) = point_read(&core, &cells).await? else {
            return Ok(None);
        };
        let versioned = |row| {
            Ok(Versioned {
                record: (self.decode)(&core, &sort_order, row)?,
                version: version_of(&sort_order, row),
            })
        };
        rows.iter().next().map(versioned).transpose()
    }
}

/// Reads the row of the base table that stores the record with the given key. Returns `None` if the record
/// does not exist or has expired.
pub(crate) async fn point_read(
    core: &CollectionCore,
    key: &Cells,
) -> Result<Option<(RowSet, Arc<SortOrder>)>> {
    let sort_order = core.base();
    let (partition, clustering) = (mutation::partition(core, key), mutation::clustering(core, key));
    let limits = core.shared.store.limits();
    if limits.check_partition(&sort_order.table, &partition).is_err()
        || limits.check_clustering(&sort_order.table, &clustering).is_err()
    {
        // No stored record has a key that exceeds the store's limits, so nothing needs to be read.
        return Ok(None);
    }
    let read = PointRead {
        table: Arc::clone(&sort_order.table),
        partition,
        clustering,
    };
    let snapshot: Arc<dyn Snapshot> = core.shared.store.snapshot()?;
    let found = snapshot.get(&read, &core.shared.read_options()).await?;
    let Some(row) = found.rows.iter().next() else {
        return Ok(None);
    };
    if let Some(presence) = Presence::of(sort_order)
        && !presence.has(row, core.shared.environment.now_micros())?
    {
        return Ok(None);
    }
    Ok(Some((found.rows, Arc::clone(sort_order))))
}
