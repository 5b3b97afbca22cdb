//! Checks whether rows are below the retention bound.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Table};
use recto_store::StoreError;

use super::BucketedStore;
use crate::place::Place;

impl BucketedStore {
    /// Returns whether a row is below the retention bound, by the local clock. `clustering` has all of its clustering
    /// columns. Such a row may still be stored until its bucket is removed.
    ///
    /// # Errors
    /// The cells are not a clustering key of the table.
    pub fn is_late(&self, table: &Arc<Table>, clustering: &Cells) -> Result<bool, StoreError> {
        let Some(bucketed) = self.bucketed(table)? else {
            return Ok(false);
        };
        let floor = bucketed.pieced.floor(self.shared.environment.now_micros())?;
        let Some(floor) = floor else { return Ok(false) };
        let key = bucketed.pieced.key(clustering.as_row())?;
        Ok(floor.hides(&key))
    }

    /// Returns whether a row is hidden from reads: because it [is late](Self::is_late), or because it is below the
    /// stored retention bound of its partition. A process whose clock is ahead may have raised the stored bound
    /// further.
    ///
    /// # Errors
    /// - As for [`is_late`](Self::is_late).
    /// - The retention bound cannot be read in time, or the range map is damaged.
    pub async fn is_hidden(
        &self,
        table: &Arc<Table>,
        (partition, clustering): (Cells, &Cells),
        time: Duration,
    ) -> Result<bool, StoreError> {
        if self.is_late(table, clustering)? {
            return Ok(true);
        }
        let Some(bucketed) = self.bucketed(table)?.filter(|one| one.pieced.keep.is_some()) else {
            return Ok(false);
        };
        let place = Arc::new(Place::new(&bucketed.pieced, partition)?);
        let key = bucketed.pieced.key(clustering.as_row())?;
        if let Some(engine) = self.transacted() {
            let guard = engine.route(std::slice::from_ref(&place), time).await?;
            let is_hidden = guard.hides(&place, &key);
            guard.done();
            return Ok(is_hidden);
        }
        let pieces = self.pieces().await?;
        let directory = pieces
            .directory_beside(&place, false, pieces.deadline(time))
            .await?;
        Ok(directory.floor.is_some_and(|floor| floor.hides(&key)))
    }
}
