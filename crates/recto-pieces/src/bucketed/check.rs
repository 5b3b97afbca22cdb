//! Consistency check of the buckets of a table.

use std::sync::Arc;

use recto_model::Table;
use recto_store::StoreError;

use super::BucketedStore;
use crate::check::{BucketCheck, Engine};

impl BucketedStore {
    /// Begins a check of the buckets of a table, or continues an interrupted check from its position, which may come
    /// from another process. If `mends`, repairs the faults that it finds.
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
        let engine = match self.transacted() {
            Some(engine) => Engine::Transacted(engine.clone()),
            None => Engine::Pieces(self.pieces().await?.clone()),
        };
        BucketCheck::new(Arc::clone(&self.inner), bucketed, engine, mends, position)
    }
}
