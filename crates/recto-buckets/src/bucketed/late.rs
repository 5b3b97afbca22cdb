//! Checks whether rows are older than the retention time of their table.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Table};
use recto_store::StoreError;

use super::BucketedStore;
use crate::place::Place;

impl BucketedStore {
    /// Returns whether a row is below the retention bound (too old to be kept), by the local clock.
    /// `clustering` has the cells of all clustering columns. The row may still be stored until its
    /// bucket is removed.
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

    /// Returns whether reads hide a row: a row that [is late](Self::is_late), or a row below the
    /// stored retention bound of its partition. The stored bound may be higher than the local clock
    /// implies, if a process with a fast clock raised it.
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
        let pieces = self.pieces().await?;
        let directory = pieces
            .directory_beside(&place, false, pieces.deadline(time))
            .await?;
        Ok(directory.floor.is_some_and(|floor| floor.hides(&key)))
    }
}
