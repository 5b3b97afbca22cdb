//! Whether the buckets of a table are as they should be.

use std::sync::Arc;

use recto_model::Table;
use recto_store::StoreError;

use super::BucketedStore;
use crate::check::{BucketCheck, Engine};

impl BucketedStore {
    /// Begins to look at the buckets of a table, and to mend what is wrong if it `mends`; or goes on where another was stopped, which need
    /// not have been in this process.
    ///
    /// # Errors
    /// The table is not kept in buckets, or the store cannot be reached. The position is none.
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
