//! Consistency check of the buckets of a table.

use std::sync::Arc;

use recto_model::Table;
use recto_store::StoreError;

use super::BucketedStore;
use crate::check::BucketCheck;

impl BucketedStore {
    /// Begins a check of the buckets of a table. If `position` is given, continues an interrupted check
    /// from there; another process may have made that check. If `mends` is true, repairs the faults that
    /// the check finds.
    ///
    /// # Errors
    /// - The table is not kept in buckets.
    /// - The store cannot be reached.
    /// - The position is invalid.
    pub async fn check_buckets(
        &self,
        table: &Arc<Table>,
        mends: bool,
        position: Option<&[u8]>,
    ) -> Result<BucketCheck, StoreError> {
        let bucketed = self.in_buckets(table)?;
        let engine = self.pieces().await?.clone();
        BucketCheck::new(bucketed, engine, mends, position)
    }
}
