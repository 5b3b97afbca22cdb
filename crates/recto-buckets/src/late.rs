//! Rows that are older than the retention time of a table.

use recto_model::{RowRef, Table};
use recto_protocol::buckets::Floor;
use recto_store::StoreError;

use crate::keys;
use crate::times::Keep;

/// Rows of a table that its retention time deletes at a given time.
#[derive(Debug)]
pub struct LateRows<'t> {
    table: &'t Table,
    floor: Floor,
}

impl<'t> LateRows<'t> {
    /// Returns the rows that the retention time of a table deletes at `now_micros`, in microseconds since 1970.
    /// Returns `None` if the table has no retention time.
    ///
    /// # Errors
    /// The first clustering column is not a time, or its type has no value for the retention bound.
    pub fn of(table: &'t Table, now_micros: i64) -> Result<Option<Self>, StoreError> {
        let Some(keep) = Keep::of_table(table)? else {
            return Ok(None);
        };
        let floor = keep.floor(now_micros.div_euclid(1_000))?;
        Ok(Some(Self { table, floor }))
    }

    /// Returns whether the retention time deletes the row with this clustering key.
    ///
    /// # Errors
    /// The cells are not a clustering key of the table.
    pub fn contain(&self, clustering: RowRef<'_>) -> Result<bool, StoreError> {
        Ok(self.floor.hides(&keys::key_of(self.table, clustering)?))
    }
}
