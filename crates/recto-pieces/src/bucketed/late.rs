//! Whether rows are too old to be kept.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Table};
use recto_store::StoreError;

use super::BucketedStore;
use crate::place::Place;

impl BucketedStore {
    /// Whether a row is too old to be kept, by the clock here and all of its clustering columns. It may be there all the same, until its bucket goes.
    ///
    /// # Errors
    /// They are none of the table's.
    pub fn is_late(&self, table: &Arc<Table>, clustering: &Cells) -> Result<bool, StoreError> {
        let Some(bucketed) = self.bucketed(table)? else {
            return Ok(false);
        };
        let floor = bucketed.pieced.floor(self.shared.environment.now_micros())?;
        let Some(floor) = floor else { return Ok(false) };
        let key = bucketed.pieced.key(clustering.as_row())?;
        Ok(floor.hides(&key))
    }

    /// Whether it is too old for who reads now: also by the floor of its partition, which who has a clock that is ahead may have raised further.
    ///
    /// # Errors
    /// As of [`is_late`](Self::is_late). The floor cannot be read in time, or its directory is damaged.
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
